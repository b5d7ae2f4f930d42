import ArgumentParser
import WaybillAgent
import WaybillConsole
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillReceiver
import WaybillSystem
import WaybillTail
import WaybillYAML

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
    struct Problem: Error, Hashable, CustomStringConvertible {
        /// Another file than the one that was read first.
        var file: String?
        let line: Int
        let key: String
        let text: String

        var description: String {
            "line \(self.line): \(self.key): \(self.text)"
        }

        func inFile(_ path: String) -> Problem {
            var problem = self
            problem.file = path
            return problem
        }

        /// With the name of its file, `path` for the one that was read first.
        func text(in path: String) -> String {
            "\(self.file ?? path): \(self)"
        }
    }

    var receiver: ReceiverConfiguration?
    var agent: AgentConfiguration?
    var problems: [Problem] = []

    /// Reads a file; prints what is wrong and ends with exit code 78 when something is.
    static func load(_ path: String) throws -> ConfigurationFile {
        let file = self.read(path)
        guard file.problems.isEmpty else {
            for problem in file.problems { Console.printError(problem.text(in: path)) }
            throw ExitCode.badConfiguration
        }
        return file
    }

    /// Reads a file and the files it names, and says what is wrong in ``problems``.
    static func read(_ path: String) -> ConfigurationFile {
        do throws(Problem) {
            return ConfigurationFile(yaml: try self.contents(of: path), directory: Path.parent(of: path))
        } catch {
            return ConfigurationFile(problem: error)
        }
    }

    /// The text of a file of at most 1 MiB.
    static func contents(of path: String) throws(Problem) -> String {
        let bytes: [UInt8]?
        do throws(FileSystemError) {
            bytes = try POSIXFileSystem().contents(of: path, byteCountMax: 1 << 20)
        } catch {
            throw Problem(file: path, line: 1, key: "file", text: "cannot be read: \(error)")
        }
        guard let bytes else {
            throw Problem(file: path, line: 1, key: "file", text: "there is no such file; correct the path")
        }
        guard let text = String(validating: bytes, as: UTF8.self) else {
            throw Problem(file: path, line: 1, key: "file", text: "is no UTF-8; save it as UTF-8")
        }
        return text
    }

    /// The mapping that a file's text is.
    ///
    /// - Parameter hint: what to do about a text that is none.
    static func compose(_ yaml: String, hint: String) throws(Problem) -> YAMLNode {
        let root: YAMLNode?
        do throws(YAMLError) {
            root = try YAMLNode.document(yaml)
        } catch {
            throw Self.problem(of: error)
        }
        guard let root, root.mapping != nil else { throw Problem(line: 1, key: "file", text: hint) }
        return root
    }

    private init(problem: Problem) {
        self.problems = [problem]
    }

    /// - Parameter directory: where the files are that `yaml` names.
    init(yaml: String, directory: String) {
        let root: YAMLNode
        do throws(Problem) {
            root = try Self.compose(yaml, hint: "holds nothing; give it a section receiver: or agent:")
        } catch {
            self.problems = [error]
            return
        }
        var section = ConfigurationSection(root, path: "")
        if var receiver = section.section("receiver") {
            self.receiver = Self.receiver(&receiver, directory: directory)
            section.take(&receiver)
        }
        if var agent = section.section("agent") {
            self.agent = Self.agent(&agent, directory: directory)
            section.take(&agent)
        }
        section.finish()
        self.problems = section.problems.sorted { ($0.file ?? "", $0.line) < ($1.file ?? "", $1.line) }
    }

    private static func problem(of error: YAMLError) -> Problem {
        if let key = error.duplicateKey {
            return Problem(line: error.line, key: key, text: "is given twice in one section; remove one")
        }
        return Problem(
            line: error.line, key: "file", text: "is no YAML: \(error.description); mind indentation and quotes")
    }

    // MARK: Sections

    private static func receiver(
        _ section: inout ConfigurationSection, directory: String
    ) -> ReceiverConfiguration {
        var configuration = ReceiverConfiguration(dataDirectory: section.requiredText("data"))
        if let address = section.address("listen") {
            configuration.host = address.host
            configuration.port = address.port
        }
        configuration.metrics = section.address("metrics")
        configuration.tls = Self.receiverTLS(&section, directory: directory)
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
        configuration.exports = Self.exports(&section, directory: directory)
        section.finish()
        return configuration
    }

    private static func agent(_ section: inout ConfigurationSection, directory: String) -> AgentConfiguration {
        var configuration = AgentConfiguration(
            name: section.agentName("name") ?? DefaultAgentName.value, stateDirectory: section.requiredText("state"),
            receivers: section.addresses("to"), sources: [])
        configuration.metrics = section.address("metrics")
        configuration.tls = Self.agentTLS(&section, directory: directory)
        if let level = section.integer("compression", in: 0...9) { configuration.compressionLevel = level }
        if let count = section.integer("compression_threads", in: 1...64) {
            configuration.compressionThreadCount = count
        }
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
