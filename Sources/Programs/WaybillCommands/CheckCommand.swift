import ArgumentParser
import WaybillAgent
import WaybillExport
import WaybillMerger
import WaybillReceiver
import WaybillYAML

struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validate a configuration file; report each problem with its line and what to do.",
        discussion: """
            Examples:
              waybill check /etc/waybill/waybill.yaml     with the mapping files and certificates that it names
              waybill check --probe waybill.yaml          also tries directories, addresses and receivers
              waybill check ga4.yaml                      a mapping, or a custom provider's file

            Each finding is one line on standard error: error or warning, file, line, key, what to do.
            Exit code 0 when there is no error, 78 when there is one.
            """)

    @Flag(
        help: """
            Also write and remove a file in the data and state directories, listen on the addresses for a moment, and \
             greet the receivers in to: (as NAME~probe, shipping nothing) and connect to that of line:.
            """)
    var probe = false

    @Argument(help: "The configuration file, or a mapping or custom provider's file by itself.")
    var file: String

    func run() throws {
        if self.isMapping { return try self.checkMapping() }
        var file = ConfigurationFile.read(self.file)
        // A file with problems is not checked further.
        var fleets: [String] = []
        if file.problems.isEmpty {
            let check = ConfigurationCheck(file, probes: self.probe)
            file.problems = check.problems
            fleets = check.fleets
        }
        try self.report(file.problems)
        var parts: [String] = []
        if let receiver = file.receiver {
            parts.append("receiver on \(receiver.listen) with \(HumanText.count(receiver.exports.count, "export"))")
        }
        if let merger = file.merger {
            parts.append("merger with \(HumanText.count(merger.exports.count, "export"))")
        }
        if let agent = file.agent { parts.append("agent with \(HumanText.count(agent.sources.count, "source"))") }
        if let deliver = file.deliver {
            let count = deliver.deliveries.count
            parts.append("deliver with \(count) \(count == 1 ? "delivery" : "deliveries")")
        }
        if let store = file.store { parts.append("store \(store.url)") }
        if let ingest = file.ingest { parts.append(ingest.text) }
        parts += fleets.map { "fleet \($0)" }
        print("\(self.file): good: \(parts.joined(separator: ", "))")
    }

    private func report(_ problems: [ConfigurationFile.Problem]) throws {
        for problem in problems {
            Console.printError(problem.finding(in: self.file))
        }
        if problems.contains(where: { $0.severity == .error }) { throw ExitCode.badConfiguration }
    }

    /// Whether the file is a mapping or custom provider's file; an unreadable file is treated as a configuration file.
    private var isMapping: Bool {
        do throws(ConfigurationFile.Problem) {
            let root = try ConfigurationFile.compose(try ConfigurationFile.contents(of: self.file), hint: "")
            let keys = root.mapping?.compactMap { $0.key.string } ?? []
            return keys.contains("version") && !keys.contains("receiver") && !keys.contains("agent")
                && !keys.contains("deliver") && !keys.contains("store") && !keys.contains("ingest")
        } catch {
            return false
        }
    }

    private func checkMapping() throws {
        let file = MappingFile.read(self.file)
        try self.report(file.problems)
        guard let mapping = file.mapping else { return }
        let columns =
            file.custom.map { " with \(HumanText.count($0.columns.count, "column")) of \($0.format.rawValue)" } ?? ""
        print("\(self.file): good: mapping of version \(mapping.version)\(columns)")
    }
}
