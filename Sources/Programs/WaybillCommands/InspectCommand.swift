import ArgumentParser
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillReceiver
import WaybillReplay
import WaybillSystem

struct InspectCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Show what Waybill's files and folders contain, what is damaged, and what a restart would keep.",
        discussion: """
            Reads journal segments, checkpoints and registries (*.state), .sources, .ids, manifests, dead letters, spool
            segments, archive parts, and folders of them up to whole data and state directories. Files are recognized by
            their content. Nothing is written and no lock is taken: a receiver or an agent may be running.

            Examples:
              waybill inspect /var/lib/waybill                       every file on one line, and all damage
              waybill inspect /var/lib/waybill/state/archive.state   the archive's checkpoint
              waybill inspect --all --json data/journal | jq 'select(.kind == "damage")'
              waybill inspect --verify /var/lib/waybill              conservation: nothing lost, nothing twice

            --verify decompresses the journal that is still kept and looks for each of its lines, byte for byte, in the
            archive or the quarantine. It maps every archived event again, compares the result with each export, and checks
            manifests, checkpoints and .sources against their files. While a receiver is running, it verifies up to the
            last checkpoints; a part that is written or deleted meanwhile may be reported as a problem: run it again.

            Exit code 0 if everything is intact, 65 if something is damaged or inconsistent, 66 if something cannot be
            read or does not exist.
            """)

    @Argument(help: "Files and folders.")
    var paths: [String]

    @Flag(help: "Show everything, not only the first 20 items of a file and 200 files of a folder.")
    var all = false

    @Flag(help: "Print one JSON object per line.")
    var json = false

    @Flag(help: "Verify a receiver's whole data directory.")
    var verify = false

    @Option(help: "With --verify: the receiver's configuration file, for mappings, options and custom providers.")
    var config: String?

    @Option(help: "With --verify: how many problems to show.")
    var problems = 100

    func validate() throws {
        if self.paths.isEmpty { throw ValidationError("name a file or a folder") }
        if self.verify, self.paths.count != 1 { throw ValidationError("--verify takes one data directory") }
        if self.problems < 0 { throw ValidationError("--problems must be 0 or more") }
    }

    func run() throws {
        if self.verify { return try self.runVerify(self.paths[0]) }
        let printer = ItemPrinter(isJSON: self.json)
        var inspector = Inspector(files: POSIXFileSystem(), limits: self.all ? .none : .init()) { printer.show($0) }
        for path in self.paths { inspector.inspect(path) }
        if inspector.isUnreadable { throw ExitCode.noInput }
        if inspector.isDamaged { throw ExitCode.badInput }
    }

    private func runVerify(_ path: String) throws {
        let files = POSIXFileSystem()
        let status: FileStatus?
        do {
            status = try files.status(at: Path.join(path, "journal"))
        } catch {
            Console.printError("\(error)")
            throw ExitCode.noInput
        }
        guard status?.kind == .directory else {
            Console.printError("\(path) is not a receiver's data directory: it has no journal")
            throw ExitCode.noInput
        }
        let exports = try self.config.map { try ConfigurationFile.load($0).host?.exports ?? [] } ?? []
        var verifier = DataVerifier(
            data: DataDirectory(root: path, files: files), exports: exports,
            problemCountMax: self.all ? .max : self.problems)
        let report = verifier.verify()
        let owner = try? Inspector(files: files) { _ in }.owner(ofLock: Path.join(path, "state/lock"))
        ReportPrinter(isJSON: self.json, path: path).show(report, owner: owner)
        if report.problems.contains(where: { $0.code != .unreadable }) || report.problemCount > report.problems.count {
            throw ExitCode.badInput
        }
        if report.isIncomplete { throw ExitCode.noInput }
    }
}

/// Prints the items of an inspection.
private struct ItemPrinter {
    let isJSON: Bool

    func show(_ item: InspectItem) {
        Console.write((self.isJSON ? Self.json(item) : Self.text(item)) + "\n", to: 1)
    }

    private static func json(_ item: InspectItem) -> String {
        JSONWriter.text { json in
            json.member("kind", item.kind)
            for field in item.fields {
                json.key(text: field.name)
                switch field.value {
                case .text(let text): json.string(text)
                case .number(let number): json.integer(Int64(number))
                }
            }
        }
    }

    private static func text(_ item: InspectItem) -> String {
        switch item.kind {
        case "file", "directory":
            let rest = item.fields.dropFirst().map { Self.field($0) }.joined(separator: "  ")
            return "\(item.fields.first.map { Self.value($0.value) } ?? ""):  \(rest)"
        case "damage", "unreadable", "note":
            return "  \(item.kind.uppercased())  " + item.fields.map { Self.field($0) }.joined(separator: "  ")
        case "more":
            return "  … and \(item.fields.map { "\(Self.value($0.value)) \($0.name)" }.joined()) more; --all shows them"
        default:
            let fields = item.fields.map { field in
                let text = Self.value(field.value)
                let width = if case .number = field.value { 10 } else { 0 }
                return "\(field.name) " + String(repeating: " ", count: max(0, width - text.count)) + text
            }
            return "  " + item.kind + String(repeating: " ", count: max(1, 7 - item.kind.count))
                + fields.joined(separator: "  ")
        }
    }

    private static func field(_ field: InspectItem.Field) -> String {
        "\(field.name) \(self.value(field.value))"
    }

    private static func value(_ value: InspectItem.Value) -> String {
        switch value {
        case .number(let number): String(number)
        case .text(let text): printable(text)
        }
    }

    /// Control characters in inspected content must not reach a terminal.
    private static func printable(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { $0.value < 0x20 || (0x7F..<0xA0).contains($0.value) ? "?" : $0 }))
    }
}

/// Prints the result of a verification.
private struct ReportPrinter {
    let isJSON: Bool
    let path: String

    func show(_ report: VerifyReport, owner: Int??) {
        if self.isJSON { return self.showJSON(report) }
        var text = "\(self.path)\n"
        if let owner, let owner { text += "  in use by process \(owner): verified up to the last checkpoints\n" }
        let width = report.totals.map(\.name.count).max() ?? 0
        for total in report.totals {
            let count = String(total.count)
            text += "  \(total.name)\(String(repeating: " ", count: width - total.name.count))"
            text += String(repeating: " ", count: max(1, 16 - count.count)) + count + "\n"
        }
        for note in report.notes { text += "  note: \(note)\n" }
        for problem in report.problems { text += "\(problem.line)\n" }
        if report.problemCount > report.problems.count {
            text += "… and \(report.problemCount - report.problems.count) more problems; --all shows them\n"
        }
        text += report.isWhole ? "whole\n" : "\(report.problemCount) problems\n"
        Console.write(text, to: 1)
    }

    private func showJSON(_ report: VerifyReport) {
        for total in report.totals {
            self.show { json in
                json.member("kind", "total")
                json.member("name", total.name)
                json.member("count", total.count)
            }
        }
        for note in report.notes {
            self.show { json in
                json.member("kind", "note")
                json.member("text", note)
            }
        }
        for problem in report.problems {
            self.show { json in
                json.member("kind", "problem")
                json.member("code", problem.code.rawValue)
                json.member("path", problem.path)
                json.member("offset", problem.offset)
                json.member("bytes", problem.byteCount)
                json.member("text", problem.text)
                json.member("means", problem.repair.meaning)
                json.member("repair", problem.repair.step)
            }
        }
        self.show { json in
            json.member("kind", "result")
            json.member("whole", report.isWhole)
            json.member("problems", report.problemCount)
        }
    }

    private func show(_ body: (inout JSONWriter) -> Void) {
        Console.write(JSONWriter.text(body) + "\n", to: 1)
    }
}
