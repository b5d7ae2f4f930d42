package import WaybillData
package import WaybillEvent
package import WaybillExport
package import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Regenerates exports for a range of days from stored lines, with the code of the live export.
///
///     archive parts + their .sources ─▶ ReplayedLines: validated once, filtered ─▶ one exporter for each provider
///         ─▶ exports/.replay-<provider>/.unit-prod-2026-11-20/… ─▶ exports/.replay-<provider>/env=prod/date=2026-11-20
///         ─▶ all of them exchanged with exports/<provider>/…, or already below the --output directory
///
/// Life of one line: found in a run of its archive file → validated and mapped exactly as when it arrived, because the
/// run records its stream and time → a record of its day in the report's zone.
///
/// The work is divided by environment and report day: one worker makes such a *unit* for all providers from the parts
/// that may contain its lines, in the order of their paths. So the same archive gives the same bytes with any number of
/// workers, and with any set of providers in one pass. A complete unit gets its name by one rename, and a line in
/// `state/replay.state`. An interrupted replay continues with the remaining units; it starts over if the request
/// differs or the archive has grown.
///
/// Constraints: memory for each worker is one read of 1 MiB (or one run), the open records, and the runs of one part;
/// in addition, there are bounded tables for `distinct` and for user properties (``LineSurvey``).
///
/// A live export must not write to a day that is being exchanged, so a replay in place needs exclusive use of the data
/// directory. With an output directory, it reads up to the archive's last checkpoint and needs no lock.
package enum Replay {
    /// Where lines come from.
    package enum Origin: String, Hashable, Sendable {
        case archive
        /// The lines that are still in the journal, in its order; one pass of one worker, which starts over if
        /// interrupted.
        case journal
    }

    /// What to do with events that set properties of users, for providers that apply them in the order of arrival.
    package enum UserEvents: String, Hashable, Sendable {
        case leftOut = "left-out"
        /// Each property of each user once, from the newest line that sets it.
        case newest
    }

    /// What to do with events that repeat the id of an earlier line.
    package enum Duplicates: String, Hashable, Sendable {
        case kept
        case dropped
    }

    /// Whether events that were already sent may be sent again.
    package enum Resending: Hashable, Sendable {
        case refused
        case allowed
    }

    /// What to replay.
    package struct Request: Sendable {
        package var providers: [Destination]
        /// The exports' options in the receiver's configuration; defaults for those that are missing.
        package var options: [Destination: ExportOptions] = [:]
        /// The reports' zone; `nil` for the zone in ``options``, else each live export's zone, else UTC.
        package var zone: TimeZoneRules?
        package var range = ExportRange()
        /// All when empty.
        package var bundles: Set<String> = []
        package var names: Set<String> = []
        package var kinds: Set<EventKind> = []
        package var origin = Origin.archive
        package var users = UserEvents.leftOut
        package var duplicates = Duplicates.kept
        package var resending = Resending.refused
        /// Where to write instead of the data directory's exports.
        package var output: String?
        /// How many units are made at the same time.
        package var jobCount = 1
        /// Starts over even if an identical replay was interrupted.
        package var isFromStart = false

        /// The time of the request, from which the age of sent events is computed.
        package var now: WallTime

        package init(providers: [Destination], now: WallTime) {
            self.providers = providers
            self.now = now
        }

        /// Whether the request selects whole days.
        package var takesWholeDays: Bool {
            self.bundles.isEmpty && self.names.isEmpty && self.kinds.isEmpty
        }
    }

    /// The progress of a replay.
    package struct Progress: Hashable, Sendable {
        /// Bytes of the archive that were read or need no reading, and the total to read, each counted once for every
        /// unit that needs them.
        package var byteCount = 0
        package var totalByteCount = 0
        package var unitCount = 0
        package var totalUnitCount = 0
    }

    /// Observes a replay; called on the caller's thread.
    package struct Observer {
        package var progressed: (Progress) -> Void
        /// Takes a sentence that the operator should see.
        package var noticed: (String) -> Void
        /// Called on any thread: whether to stop as soon as possible, in a state that can be resumed.
        package var isStopped: @Sendable () -> Bool

        package init(
            progressed: @escaping (Progress) -> Void = { _ in }, noticed: @escaping (String) -> Void = { _ in },
            isStopped: @escaping @Sendable () -> Bool = { false }
        ) {
            self.progressed = progressed
            self.noticed = noticed
            self.isStopped = isStopped
        }
    }

    /// Counts of the range's lines by outcome, for one provider.
    package struct Counts: Hashable, Sendable {
        package var lines = 0
        package var bytes = 0
        package var events = ExportCounts()
        /// Left out because an earlier line had the same id.
        package var duplicates = 0
        /// Skipped events that set properties of users: left out, or with older values.
        package var users = 0
        /// Partitions that are not empty.
        package var partitions = 0
        package var records = 0
        /// Bytes of parts and their ids.
        package var outputBytes = 0

        package init() {}

        package mutating func add(_ other: Counts) {
            self.lines += other.lines
            self.bytes += other.bytes
            self.events.exported += other.events.exported
            self.events.refused += other.events.refused
            self.events.held += other.events.held
            self.events.skipped += other.events.skipped
            self.duplicates += other.duplicates
            self.users += other.users
            self.partitions += other.partitions
            self.records += other.records
            self.outputBytes += other.outputBytes
        }
    }

    /// The results for an export's refused events that were taken again.
    package struct Retaken: Hashable, Sendable {
        /// Dead letters whose events no earlier run exported.
        package var letters = 0
        package var exported = 0
        package var held = 0
        /// Still refused.
        package var refused = 0
        /// Events that the export has no use for any more: erased people's, or left out by a mapping.
        package var leftOut = 0
        /// Events that the archive does not have.
        package var gone = 0
        /// Dead letters whose events an earlier run exported.
        package var takenBefore = 0
        /// The new parts, as paths without extension below the data directory.
        package var parts: [String] = []
        /// Damaged files of dead letters, whose rest was left out.
        package var damagedPaths: [String] = []
    }

    /// The result of a replay.
    package struct Report: Hashable, Sendable {
        package var counts: [Destination: Counts] = [:]
        /// Bytes of the archive whose origin is no longer in its `.sources`; they were not replayed.
        package var unexplainedByteCount = 0
        /// Lines that are not events, or whose environment is not that of their folder; they were not replayed.
        package var strayLineCount = 0
        /// The results for refused events, if they were requested.
        package var retaken: [Destination: Retaken] = [:]
        /// Units that an interrupted replay had already made.
        package var resumedUnitCount = 0
        /// Parts of the replaced generation that were sent and cannot be read: it is unknown which of their events the new
        /// one repeats.
        package var damagedParts: [String] = []
        /// Differences from the current generation, if requested.
        package var differences: [PartitionDifference] = []
        /// Sentences about lines that ended the program: each line that it left out is a dead letter of the new generation.
        package var unread: [String] = []
    }

    /// Why a replay failed or did not finish.
    package enum Failure: Error, CustomStringConvertible {
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case zone(TimeZoneError)
        case noArchive(String)
        case outputInUse(String)
        case outputBusy(String)
        case partOfDay
        case journalInPlace
        case interrupted(done: Int, of: Int)
        /// Other lines are left out from now on than were planned, as told.
        case leavesOut([PoisonedLine], told: [String])
        /// A line ended the replay twice, and the replay may not leave it out by itself.
        case endsReplay(PoisonedLine, root: String, isMerger: Bool)
        case tooMany(what: String, limit: Int)
        case tooManyToCompare(String, limit: Int)
        case noPrevious(String)
        /// An export was written with options that differ from those known here.
        case otherOptions(String)
        case grown([String])
        case sentBefore([SentBefore])
        /// Everything else was sealed.
        case damagedDays([String])
        /// Everything was replayed.
        case damagedParts([String])
        /// Refused events are asked for of an export that was never written.
        case notExported(String)
        /// A line ended this version, or a later one than the named.
        case poisonOfVersion(String)
        /// Everything else was taken.
        case damagedLetters([String], root: String, provider: String)
        /// Everything else was replayed.
        case leftOut(byteCount: Int, lineCount: Int)

        package var description: String {
            switch self {
            case .data(.locked(let path, let owner)):
                "\(path) is in use by process \(owner); stop that receiver, or write elsewhere with --output DIR"
            case .data(let error): error.description
            case .zone(let error): error.description
            case .disk(let error): "the replay's files cannot be used: \(error)"
            case .outputInUse(let path):
                "\(path) is a receiver's data directory; name a separate directory with --output"
            case .outputBusy(let path): "another replay writes to \(path); wait for it, or name another directory"
            case .noArchive(let path): "\(path) has no archive; name a receiver's data directory with --data"
            case .partOfDay:
                "--bundle, --name and --kind select some events of a day, but in place a day is replaced and "
                    + "compared as a whole; write them elsewhere with --output DIR"
            case .journalInPlace:
                "the journal may contain only part of a day, but in place a day is replaced as a whole; "
                    + "write elsewhere with --output DIR"
            case .interrupted(let done, let total):
                "interrupted with \(done) of \(total) partitions made; run the same command again to continue"
            case .leavesOut(_, let told): told.joined(separator: "; ")
            case .endsReplay(let line, let root, let isMerger):
                "the line at \(line.offset) of stream \(line.stream) ended the replay twice (signal \(line.signal)); to have "
                    + "no export read it, run waybill set-aside \(isMerger ? "--store STORE" : "--data \(root)")"
                    + (line.stream.principal.isEmpty ? "" : " --principal \(line.stream.principal)")
                    + " --stream \(line.stream.id) --offset \(line.offset) --reader exports, and the replay again"
            case .tooMany(let what, let limit):
                "the range has more than \(limit) \(what), the limit for memory; "
                    + "replay fewer days at once"
            case .tooManyToCompare(let partition, let limit):
                "\(partition) has more than \(limit) events, the limit for a comparison in memory; write it "
                    + "elsewhere with --output DIR and compare the files"
            case .noPrevious(let provider):
                "exports/.previous-\(provider) has no days of the range to restore"
            case .otherOptions(let provider):
                "\(provider) was written with other options; name the receiver's configuration file with --config"
            case .grown(let paths):
                "\(paths.joined(separator: ", ")) got events since the exchange, which the previous generation does "
                    + "not have; nothing was changed; regenerate these days with waybill replay instead"
            case .sentBefore(let counts):
                counts.map(\.description).joined(separator: "; ")
                    + "; the new partitions are written but not in use; --force puts them in place anyway"
            case .damagedDays(let paths):
                "\(paths.joined(separator: ", ")) has parts that could not be closed; waybill replay makes them again"
            case .damagedParts(let paths):
                "\(paths.joined(separator: ", ")) were sent to the provider and are damaged: the replay replaced them "
                    + "without a check whether it repeats their events; waybill deliver asks for --force before it sends "
                    + "such a day again"
            case .notExported(let provider): "nothing was exported for \(provider) here, so nothing was refused"
            case .poisonOfVersion(let version): ProgramVersion.mayEndAgain(version)
            case .damagedLetters(let paths, let root, let provider):
                "\(paths.joined(separator: ", ")) cannot be read to the end, and what is left of it was not taken; waybill "
                    + "replay --data \(root) --provider \(provider) --from DAY --to DAY makes the day again"
            case .leftOut(let byteCount, let lineCount):
                "left out: \(byteCount) bytes whose origin is lost in damaged .sources files or a damaged journal, and "
                    + "\(lineCount) lines that are not events of their folder; waybill inspect --verify names the damage"
            }
        }
    }

    /// Runs disk calls and converts their errors to the replay's failure.
    static func onDisk<Result>(_ body: () throws(FileSystemError) -> Result) throws(Failure) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            throw .disk(error)
        }
    }
}
