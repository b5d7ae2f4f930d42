import ArgumentParser
import WaybillAgent
import WaybillExport
import WaybillProjection
import WaybillReceiver
import WaybillSystem
import WaybillTail
import Yams

/// The configuration file of receiver and agent.
///
///     receiver:                              agent:
///       data: /var/lib/waybill                 state: /var/lib/waybill-agent
///       listen: 0.0.0.0:4390                   to: [collect.example.com:4390]
///       archive: {zone: UTC, cut_off: "04:00"} sources:
///       exports:                                 - {spool: /var/spool/shop}
///         - {provider: ga4, zone: Asia/Seoul}    - {files: ["/var/log/nginx/*.json"], env: prod, bundle: com.example.web}
///
/// Every problem is found in one pass and said with its line, its key and what to do; unknown keys are problems.
struct ConfigurationFile {
    /// Something that is wrong.
    struct Problem: Hashable, CustomStringConvertible {
        let line: Int
        let key: String
        let text: String

        var description: String {
            "line \(self.line): \(self.key): \(self.text)"
        }
    }

    var receiver: ReceiverConfiguration?
    var agent: AgentConfiguration?
    var problems: [Problem] = []

    /// Reads a file; prints what is wrong and ends with exit code 78 when something is.
    static func load(_ path: String) throws -> ConfigurationFile {
        let file = try self.read(path)
        guard file.problems.isEmpty else {
            for problem in file.problems { Console.printError("\(path): \(problem)") }
            throw ExitCode.badConfiguration
        }
        return file
    }

    /// Reads a file and says what is wrong in ``problems``.
    static func read(_ path: String) throws -> ConfigurationFile {
        do throws(FileSystemError) {
            guard let bytes = try POSIXFileSystem().contents(of: path, byteCountMax: 1 << 20) else {
                Console.printError("\(path): there is no such file; correct the path")
                throw FileSystemError("open", path: path, errno: SystemErrorText.noEntry)
            }
            return ConfigurationFile(yaml: String(decoding: bytes, as: UTF8.self))
        } catch {
            if error.errno != SystemErrorText.noEntry { Console.printError("\(error)") }
            throw ExitCode.badConfiguration
        }
    }

    init(yaml: String) {
        let root: Node?
        do {
            root = try Yams.compose(yaml: yaml)
        } catch let error as YamlError {
            self.problems = [Self.problem(of: error)]
            return
        } catch {
            self.problems = [Problem(line: 1, key: "file", text: "\(error)")]
            return
        }
        guard let root, root.mapping != nil else {
            self.problems = [
                Problem(line: 1, key: "file", text: "holds nothing; give it a section receiver: or agent:")
            ]
            return
        }
        var section = ConfigurationSection(root, path: "")
        if var receiver = section.section("receiver") {
            self.receiver = Self.receiver(&receiver)
            section.take(&receiver)
        }
        if var agent = section.section("agent") {
            self.agent = Self.agent(&agent)
            section.take(&agent)
        }
        section.finish()
        self.problems = section.problems.sorted { $0.line < $1.line }
    }

    private static func problem(of error: YamlError) -> Problem {
        let line: Int
        switch error {
        case .scanner(_, _, let mark, _), .parser(_, _, let mark, _), .composer(_, _, let mark, _): line = mark.line
        default: line = 1
        }
        let text = "\(error)".split(separator: "\n").first.map(String.init) ?? "cannot be read"
        return Problem(line: line, key: "file", text: "is no YAML: \(text); mind indentation and quotes")
    }

    // MARK: Sections

    private static func receiver(_ section: inout ConfigurationSection) -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: section.requiredText("data"))
        if let address = section.address("listen") {
            configuration.host = address.host
            configuration.port = address.port
        }
        if let name = section.text("name") { configuration.name = name }
        if var archive = section.section("archive") {
            configuration.archiveZone = archive.zone("zone")
            configuration.archiveCutOffSecond = archive.cutOff("cut_off")
            section.take(&archive)
        }
        if var memory = section.section("memory") {
            if let size = memory.integer("admission_mib", in: 4...4096) {
                configuration.admissionByteCount = size << 20
            }
            if let size = memory.integer("feed_mib", in: 1...4096) { configuration.feedByteCount = size << 20 }
            section.take(&memory)
        }
        if var journal = section.section("journal") {
            if let hours = journal.integer("retention_hours", in: 0...8760) {
                configuration.journalRetention = .seconds(hours * 3600)
            }
            section.take(&journal)
        }
        if var retention = section.section("retention") {
            configuration.retention.dayCountMax = retention.integer("days", in: 1...36_500)
            configuration.retention.byteCountMax = retention.integer("gib", in: 1...1_000_000).map { $0 << 30 }
            configuration.retention.freeByteCountMin = retention.integer("free_gib", in: 1...1_000_000).map { $0 << 30 }
            section.take(&retention)
        }
        if let count = section.integer("connections", in: 1...1_000_000) { configuration.connectionCountMax = count }
        var providers: Set<ProviderID> = []
        section.each("exports") { export in
            guard let provider = export.provider("provider") else { return }
            if !providers.insert(provider).inserted { export.complain("provider", "is named twice; remove one") }
            var options = ExportOptions(provider: provider, zone: export.zone("zone"))
            options.cutOffSecond = export.cutOff("cut_off")
            configuration.exports.append(options)
        }
        section.finish()
        return configuration
    }

    private static func agent(_ section: inout ConfigurationSection) -> AgentConfiguration {
        var configuration = AgentConfiguration(
            name: section.agentName("name") ?? DefaultAgentName.value, stateDirectory: section.requiredText("state"),
            receivers: section.addresses("to"), sources: [])
        if let level = section.integer("compression", in: 0...9) { configuration.compressionLevel = level }
        if let size = section.integer("batch_kib", in: 4...2048) { configuration.batchByteCountMax = size << 10 }
        if let count = section.integer("batch_lines", in: 1...1_000_000) {
            configuration.tailLimits.batchLineCountMax = count
        }
        if let linger = section.integer("linger_ms", in: 0...60_000) { configuration.linger = .milliseconds(linger) }
        if let seconds = section.integer("drain_seconds", in: 0...3600) {
            configuration.drainPatience = .seconds(seconds)
        }
        section.require("sources", "is missing: spool: DIR or files: [PATTERN]")
        section.each("sources") { source in
            let patterns = source.texts("files")
            let directory = source.text("spool")
            let environment = source.environment("env")
            let bundle = source.text("bundle")
            switch (directory, patterns.isEmpty) {
            case (let directory?, true):
                configuration.sources.append(
                    AgentSource(
                        files: .spool(directory: directory), environment: (environment ?? .prod).rawValue,
                        bundle: bundle ?? "unknown"))
            case (nil, false):
                if environment == nil { source.complain("env", "is missing: dev, internal or prod") }
                if bundle == nil { source.complain("bundle", "is missing: the app's name, e.g. com.example.web") }
                configuration.sources.append(
                    AgentSource(
                        files: .files(patterns: patterns), environment: (environment ?? .prod).rawValue,
                        bundle: bundle ?? "unknown", timeMember: source.text("time"), nameMember: source.text("name")))
            default:
                source.complain("spool", "a source has either spool: DIR or files: [PATTERN]")
            }
        }
        section.finish()
        return configuration
    }
}
