import ArgumentParser
import WaybillExport
import WaybillJSON
import WaybillReplay
import WaybillSystem

struct RequeueCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "requeue",
        abstract: "Write lines that were set aside into a file for an agent, each once.",
        discussion: """
            Examples:
              waybill requeue --data /var/lib/waybill --output /var/spool/again --quarantine --reason no-env
              waybill agent --state … --to … --glob '/var/spool/again/requeue-*.ndjson' --env prod --bundle com.example.web
              waybill requeue --data /var/lib/waybill --output /var/spool/again --dead ga4

            Originals are kept. Each line is written only once, even after a crash; the receiver may be running. An
            event that a provider refused is in the archive: waybill replay regenerates its day without an agent. A
            requeued event is sent to that provider alone, and later replays see its id twice (--distinct).
            """)

    @Option(help: "A receiver's data directory.")
    var data: String

    @Option(help: "The directory for the files, requeue-00000.ndjson and so on; created if missing.")
    var output: String

    @Flag(help: "Lines of the quarantine.")
    var quarantine = false

    @Option(help: "Events that this provider refused: \(Destination.list).")
    var dead: String?

    @Option(help: "Only with this reason; may be given several times.")
    var reason: [String] = []

    @Option(
        name: .customLong("after-version"),
        help: "Take lines that ended the program (poison), too, if all of them ended a version before this one.")
    var afterVersion: String?

    func validate() throws {
        _ = try self.selection()
        if try self.poison() == .kept, self.reason.contains(QuarantineReason.poison.rawValue) {
            throw ValidationError(
                "lines that ended the program may end it again; name the version that reads them with --after-version")
        }
    }

    private func poison() throws -> Requeue<POSIXFileSystem>.Poison {
        guard let version = try OptionReader.laterVersion(self.afterVersion) else { return .kept }
        return .takenAfter(version: version)
    }

    func run() throws {
        let selection = try self.selection()
        let poison = try self.poison()
        do throws(Requeue<POSIXFileSystem>.Failure) {
            let files = POSIXFileSystem(.data, dataDirectory: self.data)
            let requeue = Requeue(dataDirectory: self.data, output: self.output, poison: poison, files: files)
            let report = try requeue.run(selection)
            print(report.json)
            try self.complain(of: report)
        } catch {
            Console.printError("\(error)")
            switch error {
            case .disk: throw ExitCode.files
            case .busy: throw ExitCode.inUse
            case .noDataDirectory, .tooMany, .unpublished, .damaged, .poisonOfVersion: throw ExitCode.badInput
            }
        }
    }

    private func complain(of report: Requeue<POSIXFileSystem>.Report) throws(Requeue<POSIXFileSystem>.Failure) {
        if report.unarchivedCount > 0 {
            Console.printError(
                "\(report.unarchivedCount) refused events are not archived yet; run it again when the receiver has "
                    + "caught up")
        }
        guard !report.damagedPaths.isEmpty else { return }
        throw .damaged(report.damagedPaths, dataDirectory: self.data, provider: self.dead ?? "")
    }

    private func selection() throws -> Requeue<POSIXFileSystem>.Selection {
        switch (self.quarantine, self.dead) {
        case (true, nil):
            return .quarantine(Set(try self.reason.map { try Self.reason($0, QuarantineReason.self) }))
        case (false, let provider?):
            let reasons = try self.reason.map { try Self.reason($0, RefusalReason.self) }
            return .dead(try OptionReader.provider(provider), Set(reasons))
        case (false, nil), (true, _?):
            throw ValidationError("choose what to requeue: --quarantine, or --dead PROVIDER")
        }
    }

    private static func reason<Reason: RawRepresentable & CaseIterable>(
        _ name: String, _ type: Reason.Type
    ) throws -> Reason where Reason.RawValue == String {
        guard let reason = Reason(rawValue: name) else {
            let known = Reason.allCases.map(\.rawValue).joined(separator: ", ")
            throw ValidationError("unknown reason \"\(name)\"; choose one of: \(known)")
        }
        return reason
    }
}

extension Requeue.Report {
    /// One line of JSON.
    fileprivate var json: String {
        JSONWriter.text { json in
            json.member("lines", self.lineCount)
            json.member("bytes", self.byteCount)
            json.member("known", self.knownCount)
            json.member("without_event", self.withoutEventCount)
            json.member("gone", self.goneCount)
            json.member("not_archived", self.unarchivedCount)
            if self.erasedCount > 0 { json.member("erased", self.erasedCount) }
            json.member("damaged_files", self.damagedPaths.count)
            json.member("files", array: self.paths) { $0.string($1) }
        }
    }
}
