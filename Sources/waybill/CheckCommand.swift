import ArgumentParser
import WaybillAgent
import WaybillReceiver

struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validate a configuration file; say line and remedy of every problem.",
        discussion: """
            Example:
              waybill check /etc/waybill/waybill.yaml

            Exit code 0 when the file is good, 78 when it is not.
            """)

    @Argument(help: "The configuration file.")
    var file: String

    func run() throws {
        let configuration = try ConfigurationFile.load(self.file)
        var parts: [String] = []
        if let receiver = configuration.receiver {
            parts.append("receiver on \(receiver.host):\(receiver.port) with \(receiver.exports.count) exports")
        }
        if let agent = configuration.agent { parts.append("agent with \(agent.sources.count) sources") }
        print("\(self.file): good: \(parts.joined(separator: ", "))")
    }
}
