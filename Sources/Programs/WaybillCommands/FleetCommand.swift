import ArgumentParser
import WaybillFleet
import WaybillHost
import WaybillLive
import WaybillMerger
import WaybillReceiver
import WaybillSystem

/// `waybill fleet`: how a fleet is doing, from its bucket and from what its programs say.
struct FleetCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fleet",
        abstract: "Show how a fleet is doing: what each receiver has uploaded, what is merged, and what is missing.",
        discussion: """
            Examples:
              waybill fleet --config /etc/waybill/merge.yaml
              waybill fleet --store s3://example-events/waybill --status a.example.com:4391 m1.example.com:4395 \\
                --token-file status.token

            The bucket shows the chains of receivers, how far they are merged, and who merges. What only programs know is
            asked for: of a merger the missing bytes, of a receiver what the bucket lacks. Without --status the sockets of
            services on this machine are asked, and with --config the state of a merger there is read.

            Exit codes: 0 all is well, 1 something is degraded, 2 the fleet is down: the bucket is not reached, no receiver
            was heard of for half an hour, or pieces have waited for so long; or a program that was asked is down.
            """)

    @OptionGroup var bucket: BucketOptions

    @Option(
        parsing: .upToNextOption,
        help: "Receivers and mergers to ask: the addresses of their metrics (HOST:PORT), or paths of their sockets.")
    var status: [ListeningPlace] = []

    @Option(help: "A file with the token that a program on another machine asks for (status_token_file).")
    var tokenFile: String?

    @Flag(help: "Print one line of JSON.")
    var json = false

    @Option(help: "Rows of each table; 0 for all.")
    var rows = 50

    /// Requests under way at once.
    private static let workerCount = 8

    func validate() throws {
        guard self.rows >= 0 else { throw ValidationError("--rows is 0 or more") }
    }

    func run() throws {
        try NetworkClient.own.require()
        let location = try self.bucket.location()
        var report = FleetReport(store: location.text, time: POSIXClock().wallTime())
        try self.ask(&report)
        let open = try NetworkClient.open(location, .brief(connectionCount: Self.workerCount))
        defer { open.close() }
        do throws(StoreError) {
            report.survey = try FleetSurvey(
                of: open.store, known: report.positions, now: report.time, runner: Self.run)
        } catch {
            report.storeFailure = "\(error)"
        }
        if self.json {
            Console.write(report.json + "\n", to: 1)
        } else {
            report.lines(width: Terminal.size(of: 1)?.columns, rowCountMax: self.rows == 0 ? .max : self.rows).print()
        }
        switch report.health {
        case .ok: break
        case .degraded: throw ExitCode(.unfulfilled)
        case .down: throw ExitCode(.down)
        }
    }

    /// Asks programs, and reads the state of a merger on this host.
    private func ask(_ report: inout FleetReport) throws {
        let places = self.status.isEmpty ? StatusOptions.sockets(of: ["merge", "receiver"]) : self.status
        if !places.isEmpty {
            report.answers = StatusQuery.answers(of: places, token: try OptionReader.statusToken(self.tokenFile))
        }
        guard let config = self.bucket.config else { return }
        let file = try ConfigurationFile.load(config)
        guard let data = file.merger?.dataDirectory ?? file.receiver?.dataDirectory else { return }
        do throws(FileSystemError) {
            report.local = try FleetSurvey.localState(in: data, files: POSIXFileSystem())
        } catch {
            report.notes.append("\(data) cannot be read: \(error)")
        }
    }

    /// Runs `body` for each number on a few threads.
    private static func run(_ count: Int, _ body: @escaping @Sendable (Int) -> Void) {
        let next = Atomic(0)
        let workers = (0..<min(count, Self.workerCount)).map { number in
            Worker(name: "fleet-\(number)") {
                while true {
                    let index = next.add(1, ordering: .relaxed) - 1
                    guard index < count else { return }
                    body(index)
                }
            }
        }
        for worker in workers { worker.join() }
    }
}
