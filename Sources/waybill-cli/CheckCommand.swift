import ArgumentParser
import WaybillAgent
import WaybillConsole
import WaybillExport
import WaybillReceiver
import WaybillYAML

struct CheckCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "check",
        abstract: "Validate a configuration file; say line and remedy of every problem.",
        discussion: """
            Examples:
              waybill check /etc/waybill/waybill.yaml     with the mapping files that it names
              waybill check ga4.yaml                      a mapping, or a custom provider's file

            Exit code 0 when the file is good, 78 when it is not.
            """)

    @Argument(help: "The configuration file, or a mapping or custom provider's file by itself.")
    var file: String

    func run() throws {
        if self.isMapping { return try self.checkMapping() }
        let configuration = try ConfigurationFile.load(self.file)
        var parts: [String] = []
        if let receiver = configuration.receiver {
            parts.append("receiver on \(receiver.host):\(receiver.port) with \(receiver.exports.count) exports")
        }
        if let agent = configuration.agent { parts.append("agent with \(agent.sources.count) sources") }
        print("\(self.file): good: \(parts.joined(separator: ", "))")
    }

    /// Whether the file is no configuration file but one that it names; what cannot be read is a configuration file.
    private var isMapping: Bool {
        do throws(ConfigurationFile.Problem) {
            let root = try ConfigurationFile.compose(try ConfigurationFile.contents(of: self.file), hint: "")
            let keys = root.mapping?.compactMap { $0.key.string } ?? []
            return keys.contains("version") && !keys.contains("receiver") && !keys.contains("agent")
        } catch {
            return false
        }
    }

    private func checkMapping() throws {
        let file = MappingFile.read(self.file)
        guard file.problems.isEmpty, let mapping = file.mapping else {
            for problem in file.problems { Console.printError(problem.text(in: self.file)) }
            throw ExitCode.badConfiguration
        }
        let columns = file.custom.map { " with \($0.columns.count) columns of \($0.format.rawValue)" } ?? ""
        print("\(self.file): good: mapping of version \(mapping.version)\(columns)")
    }
}
