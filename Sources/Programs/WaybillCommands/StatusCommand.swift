import ArgumentParser
import WaybillHost
import WaybillJSON
import WaybillLive
import WaybillSystem

struct StatusCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Show how receivers, agents, deliveries, mergers and doors are doing.",
        discussion: """
            Examples:
              waybill status
              waybill status 127.0.0.1:4391 127.0.0.1:4393
              waybill status /run/waybill/agent.sock --json
              waybill status collector.example.com:4391 --token-file status.token

            It asks the address of a program's metrics, or its socket (status_socket), and prints what it says: an agent's
            files, a receiver's agents, projections and disk, the deliveries of a service, a merger's chains, a door's keys. Those with a
            problem come first.

            Exit codes: 0 all is well, 1 something is degraded, 2 one is down: it does not answer, or acknowledges nothing.
            """)

    @OptionGroup var options: StatusOptions

    @Flag(help: "Print each answer as it is, one JSON object a line.")
    var json = false

    @Option(help: "Rows of each table; 0 for all.")
    var rows = 20

    func validate() throws {
        guard self.rows >= 0 else { throw ValidationError("--rows is 0 or more") }
    }

    func run() throws {
        let (places, areGuessed) = self.options.places()
        var answers = StatusQuery.answers(of: places, token: try self.options.token())
        if areGuessed {
            let found = answers.filter { $0.document != nil }
            guard !found.isEmpty else {
                Console.printError(
                    "no receiver and no agent answers at \(places.map(\.description).joined(separator: " or ")); name "
                        + "the address of its metrics, or its socket")
                throw ExitCode(.down)
            }
            answers = found
        }
        if self.json {
            for answer in answers { Console.write(Self.json(answer) + "\n", to: 1) }
        } else {
            self.show(answers)
        }
        switch answers.map(\.health).max() ?? .down {
        case .ok: break
        case .degraded: throw ExitCode(.unfulfilled)
        case .down: throw ExitCode(.down)
        }
    }

    private static func json(_ answer: StatusAnswer) -> String {
        if case .success(let bytes) = answer.result, answer.document != nil {
            let text = String(decoding: bytes, as: UTF8.self)
            return String(text.prefix { $0 != "\n" })
        }
        return JSONWriter.text { json in
            json.member("place", answer.place.description)
            json.member("health", Health.down.rawValue)
            json.member("error", answer.failure)
        }
    }

    private func show(_ answers: [StatusAnswer]) {
        var view = StatusView()
        if self.rows > 0 { view.rowCountMax = self.rows }
        view.width = Terminal.size(of: 1)?.columns
        for (index, answer) in answers.enumerated() {
            if index > 0 { Console.write("\n", to: 1) }
            let lines =
                answer.document.map { view.lines(of: $0, at: answer.place.description) }
                ?? view.lines(ofFailure: answer.failure, at: answer.place.description)
            lines.print()
        }
    }
}
