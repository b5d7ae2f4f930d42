import ArgumentParser
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillReplay
import WaybillSystem

struct ReplayCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "replay",
        abstract: "Regenerate exports for a range of days from the archive or the journal.",
        discussion: """
            Examples:
              waybill replay --data /var/lib/waybill --provider ga4 --from 2026-11-01 --to 2026-11-20
              waybill replay --data /var/lib/waybill --provider ga4,mixpanel --jobs 4 --diff
              waybill replay --data /var/lib/waybill --provider csv --zone Asia/Seoul --output /tmp/again
              waybill replay --data /var/lib/waybill --provider ga4 --from 2026-11-20 --to 2026-11-20 --rollback
              waybill replay --data /var/lib/waybill --refused ga4 --config receiver.yaml

            In place (without --output), the receiver must be stopped. Each day is replaced atomically, and its previous
            files are kept in exports/.previous-<provider> until the next replacement.
            To continue an interrupted replay, run the same command again.

            --refused exports events again that a provider refused, after their mapping or options were corrected: into
            parts of their own, beside the day's other parts, of which nothing changes. waybill deliver sends these alone.
            An event that is refused again keeps its dead letter, for a later run.
            """)

    @Option(help: "A receiver's data directory.")
    var data: String

    @Option(help: "Which exports, separated by commas: \(Destination.list).")
    var provider: String?

    @Option(help: "Export the events again that these providers refused, separated by commas, in place.")
    var refused: String?

    @Option(
        name: .customLong("after-version"),
        help: "With --refused: also lines that ended the program (poison), if each of them ended a version before this."
    )
    var afterVersion: String?

    @Option(help: "A receiver's configuration file, for the export's mapping and options and for custom providers.")
    var config: String?

    @OptionGroup var selection: ReplaySelection

    @Option(help: "Write to this directory and change nothing in the data directory; the receiver may run.")
    var output: String?

    @Flag(help: "Read the lines that are still in the journal, in its order, instead of the archive; with --output.")
    var fromJournal = false

    @Option(help: "How many days to replay at the same time. (1 to 256)")
    var jobs = 1

    @Flag(help: "Leave out events that repeat the id of an earlier event.")
    var distinct = false

    @Flag(
        help: """
            Also replay events that set properties of users, each property once with its newest value, for \
            providers that apply them in the order of arrival.
            """)
    var withUsers = false

    @Flag(help: "Replace days even if events that were already sent would be counted twice when sent again.")
    var force = false

    @Flag(help: "Start over instead of continuing an interrupted replay.")
    var restart = false

    @Flag(help: "Count what would be written, but write nothing.")
    var dryRun = false

    @Flag(help: "Compare with the current exports and write nothing; print one line for each day that differs.")
    var diff = false

    @Flag(help: "Restore what the last replay in place replaced; a second rollback undoes the first.")
    var rollback = false

    @Flag(help: "Show no progress.")
    var quiet = false

    func validate() throws {
        if self.config == nil { _ = try OptionReader.replayedExports(self.providers(), config: nil) }
        try self.selection.check()
        guard (1...256).contains(self.jobs) else { throw ValidationError("--jobs must be a number from 1 to 256") }
        let modes = [("--dry-run", self.dryRun), ("--diff", self.diff), ("--rollback", self.rollback)]
        let chosen = modes.filter(\.1).map(\.0)
        guard chosen.count < 2 else { throw ValidationError("\(chosen.joined(separator: " and ")) cannot be combined") }
        if self.rollback, try self.providers().contains(",") {
            throw ValidationError("--rollback is for one provider at a time")
        }
        if self.output != nil, self.diff || self.rollback {
            throw ValidationError("\(chosen[0]) uses the exports in the data directory and excludes --output")
        }
        try self.validateRefused()
    }

    private func validateRefused() throws {
        guard self.refused != nil else {
            if self.afterVersion != nil { throw ValidationError("--after-version is for --refused") }
            return
        }
        let others = [
            ("--output", self.output != nil), ("--from-journal", self.fromJournal), ("--dry-run", self.dryRun),
            ("--diff", self.diff), ("--rollback", self.rollback), ("--distinct", self.distinct),
            ("--with-users", self.withUsers), ("--force", self.force), ("--restart", self.restart),
            ("--zone", self.selection.zone != nil),
        ].filter(\.1).map(\.0)
        if !others.isEmpty {
            throw ValidationError(
                "--refused adds events to the exports in the data directory and excludes \(others.joined(separator: ", "))"
            )
        }
        _ = try OptionReader.laterVersion(self.afterVersion)
    }

    /// The providers of the request, separated by commas.
    private func providers() throws -> String {
        switch (self.provider, self.refused) {
        case (let provider?, nil): return provider
        case (nil, let refused?): return refused
        case (nil, nil), (_?, _?):
            throw ValidationError("name the exports: with --provider, or with --refused for what they refused")
        }
    }

    func run() throws {
        StopSignals.listen()
        let request = try self.request()
        let afterVersion = try OptionReader.laterVersion(self.afterVersion)
        var bar = ProgressBar("replay \(try self.providers())", isQuiet: self.quiet)
        let observer = Replay.Observer(
            progressed: { bar.show($0.byteCount, of: $0.totalByteCount) },
            noticed: { notice in
                if !self.quiet { Console.printError(notice) }
            },
            isStopped: { StopSignals.received != 0 })
        do throws(Replay.Failure) {
            let replayer = try Replayer(
                dataDirectory: self.data, files: self.files, request: request,
                openFileCountMax: ProcessLimits.projectionFileCount(ofOpenFiles: 16_384, needed: 2_048),
                version: packageVersion, placesIn: { LoneReader.places(of: Replayer<POSIXFileSystem>.program, in: $0) })
            if self.rollback {
                for path in try replayer.rollBack() { print(path) }
                return
            }
            if self.refused != nil {
                let report = try replayer.retakeRefused(readingPoisonBefore: afterVersion, observer)
                bar.finish()
                return try self.showRetaken(report, of: request)
            }
            let report =
                if self.dryRun {
                    try replayer.preview(observer)
                } else if self.diff {
                    try replayer.compare(observer)
                } else {
                    try replayer.run(observer)
                }
            bar.finish()
            try self.show(report, of: request)
        } catch {
            bar.finish()
            Console.printError("\(error)")
            throw error.exitCode
        }
    }

    private func request() throws -> Replay.Request {
        let exports = try OptionReader.replayedExports(self.providers(), config: self.config)
        for options in exports { try self.checkMapping(options) }
        var request = Replay.Request(providers: exports.map(\.provider), now: POSIXClock().wallTime())
        if self.config != nil { for options in exports { request.options[options.provider] = options } }
        try self.selection.apply(to: &request)
        request.origin = self.fromJournal ? .journal : .archive
        request.users = self.withUsers ? .newest : .leftOut
        request.duplicates = self.distinct ? .dropped : .kept
        request.resending = self.force ? .allowed : .refused
        request.output = self.output
        request.jobCount = self.jobs
        request.isFromStart = self.restart
        return request
    }

    private func showRetaken(_ report: Replay.Report, of request: Replay.Request) throws(Replay.Failure) {
        for sentence in report.unread { Console.printError(sentence) }
        for provider in request.providers {
            guard let retaken = report.retaken[provider] else { continue }
            print(retaken.json(of: provider))
            guard retaken.damagedPaths.isEmpty else {
                throw .damagedLetters(retaken.damagedPaths, root: self.data, provider: provider.rawValue)
            }
        }
    }

    private func show(_ report: Replay.Report, of request: Replay.Request) throws(Replay.Failure) {
        for sentence in report.unread { Console.printError(sentence) }
        for difference in report.differences where !difference.isEmpty { print(difference.json) }
        for provider in request.providers {
            let counts = report.counts[provider] ?? Replay.Counts()
            print(counts.json(of: provider, isDryRun: self.dryRun))
            if counts.users > 0, !self.withUsers, !self.quiet {
                Console.printError(
                    "\(provider.rawValue): \(counts.users) events that set properties of users are left out, since "
                        + "older values would replace newer ones; --with-users replays the newest of each")
            }
        }
        guard report.damagedParts.isEmpty else { throw .damagedParts(report.damagedParts) }
        guard report.unexplainedByteCount == 0, report.strayLineCount == 0 else {
            throw .leftOut(byteCount: report.unexplainedByteCount, lineCount: report.strayLineCount)
        }
    }
}

/// Which events are replayed, and by which zone's days.
struct ReplaySelection: ParsableArguments {
    @Option(help: "The first day, in the report's zone.")
    var from: CalendarDay?

    @Option(help: "The last day, in the report's zone.")
    var to: CalendarDay?

    @Option(help: "Only these environments: dev, internal, prod; may be given several times.")
    var env: [DeploymentEnvironment] = []

    @Option(help: "Only events of this bundle; may be given several times; with --output.")
    var bundle: [String] = []

    @Option(help: "Only events of this name; may be given several times; with --output.")
    var name: [String] = []

    @Option(help: "Only these kinds: screen, action, event, user, meta; may be given several times; with --output.")
    var kind: [EventKind] = []

    @Option(help: "The reports' zone. (default: each live export's, else UTC)")
    var zone: String?

    func check() throws {
        if let from, let to, to < from { throw ValidationError("--to is before --from") }
    }

    func apply(to request: inout Replay.Request) throws {
        request.zone = try self.zone.map(OptionReader.zone)
        request.range = ExportRange(from: self.from, to: self.to, environments: Set(self.env))
        request.bundles = Set(self.bundle)
        request.names = Set(self.name)
        request.kinds = Set(self.kind)
    }
}

extension OptionReader {
    /// The exports of a list of one provider or more.
    fileprivate static func replayedExports(_ list: String, config: String?) throws -> [ExportOptions] {
        let exports = try list.split(separator: ",").map { try self.export(String($0), config: config) }
        guard !exports.isEmpty, Set(exports.map(\.provider)).count == exports.count else {
            throw ValidationError("--provider must name each provider once")
        }
        return exports
    }
}

extension OptionReader {
    /// The version of `--after-version`, which this program is not before.
    static func laterVersion(_ text: String?) throws -> ProgramVersion? {
        guard let text else { return nil }
        guard let version = ProgramVersion(text) else {
            throw ValidationError("\"\(text)\" is not a version; it is three numbers, like \(packageVersion)")
        }
        guard let own = ProgramVersion(packageVersion), version <= own else {
            throw ValidationError("this is version \(packageVersion), which is before \(text); upgrade first")
        }
        return version
    }
}

extension ReplayCommand {
    private var files: POSIXFileSystem { POSIXFileSystem(.data, dataDirectory: self.data) }

    /// Checks that the mapping does not conflict with the live export's.
    private func checkMapping(_ options: ExportOptions) throws {
        let name = options.provider.rawValue
        let history: ExportHistory
        do throws(FileSystemError) {
            history = try ExportHistory(
                ofExport: name, in: DataDirectory(root: self.data, files: self.files))
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
        if self.config == nil, history.hasMapping {
            throw ValidationError("\(name) was written with a mapping; name its configuration file with --config")
        }
        if let conflict = history.conflict(with: options) {
            Console.printError(conflict)
            throw ExitCode.badConfiguration
        }
    }
}

extension Replay.Failure {
    var exitCode: ExitCode {
        switch self {
        case .data(.locked), .outputBusy: .inUse
        case .zone, .otherOptions: .badConfiguration
        case .partOfDay, .journalInPlace: .validationFailure
        case .noArchive, .notExported, .poisonOfVersion, .damagedLetters, .outputInUse, .tooMany, .tooManyToCompare,
            .noPrevious, .grown, .sentBefore, .damagedDays,
            .damagedParts, .leftOut, .leavesOut, .endsReplay:
            .badInput
        case .data(.unusable), .disk: .files
        case .interrupted: .interrupted
        }
    }
}

extension Replay.Counts {
    /// One line of JSON.
    fileprivate func json(of provider: Destination, isDryRun: Bool) -> String {
        JSONWriter.text { json in
            json.member("provider", provider.rawValue)
            json.member("lines", self.lines)
            json.member("bytes", self.bytes)
            json.member("exported", self.events.exported)
            json.member("refused", self.events.refused)
            json.member("held", self.events.held)
            json.member("skipped", self.events.skipped)
            json.member("dup", self.duplicates)
            json.member("partitions", self.partitions)
            if isDryRun {
                json.member("records", self.records)
                json.member("output_bytes", self.outputBytes)
            }
        }
    }
}

extension Replay.Retaken {
    /// One line of JSON.
    fileprivate func json(of provider: Destination) -> String {
        JSONWriter.text { json in
            json.member("provider", provider.rawValue)
            json.member("letters", self.letters)
            json.member("exported", self.exported)
            json.member("held", self.held)
            json.member("refused", self.refused)
            json.member("left_out", self.leftOut)
            json.member("gone", self.gone)
            json.member("taken_before", self.takenBefore)
            json.member("damaged_files", self.damagedPaths.count)
            json.member("parts", array: self.parts) { $0.string($1) }
        }
    }
}

extension PartitionDifference {
    /// One line of JSON.
    fileprivate var json: String {
        JSONWriter.text { json in
            json.member("partition", self.path)
            json.member("added", self.added)
            json.member("removed", self.removed)
            json.member("changed", self.changed)
            json.member("same", self.same)
            json.member("fates", self.fates)
            json.member("fix") { json in
                for (name, counts) in self.fixes.sorted(by: { $0.key < $1.key }) {
                    json.key(text: name)
                    json.beginArray()
                    for count in counts { json.integer(Int64(count)) }
                    json.endArray()
                }
            }
            json.member("mappings", array: self.presentMappings.sorted()) { $0.integer(Int64($1)) }
            json.member("mapping", self.mapping)
        }
    }
}
