package import WaybillArchive
package import WaybillEvent
package import WaybillExport
package import WaybillProjection
package import WaybillSystem

/// Makes exports for a range of days again, from what was kept, with the code of the live export.
///
///     archive parts + their .sources ─▶ ReplayedLines: judged once, filtered ─▶ one exporter for each provider
///         ─▶ exports/.replay-<provider>/.unit-prod-2026-11-20/… ─▶ exports/.replay-<provider>/env=prod/date=2026-11-20
///         ─▶ all of them exchanged with exports/<provider>/…, or already where --output wants them
///
/// Life of one line: found in a run of its archive file → judged and mapped exactly as it was when it arrived, since
/// the run says which stream brought it and when → a record of its day in the report's zone.
///
/// The work is divided by environment and day of the reports: one worker makes such a *unit* for all providers, from the
/// parts that may hold its lines, in the order of their paths. So the same archive gives the same bytes with any number
/// of workers, and whichever providers are made in one pass. A unit that is whole gets its name by one rename, and a
/// line in `state/replay.state`; a replay that was interrupted goes on with the others, and begins again when the
/// request is another or the archive has grown.
///
/// Constraints: memory for each worker is one read of 1 MiB (or one run), the open records, and the runs of one part;
/// besides, bounded tables for `distinct` and for user properties (``LineSurvey``).
///
/// A live export must not write to a day that is being exchanged, so a replay in place wants the data directory for
/// itself; with an output directory it reads what the archive's last checkpoint stands for and needs no lock.
package enum Replay {
    /// Where lines come from.
    package enum Origin: String, Hashable, Sendable {
        case archive
        /// What the journal still keeps, in its order; one pass of one worker, which begins again when interrupted.
        case journal
    }

    /// What becomes of events that set properties of users, for providers that apply them in the order of arrival.
    package enum UserEvents: String, Hashable, Sendable {
        case leftOut = "left-out"
        /// Each property of each user once, from the newest line that has it.
        case newest
    }

    /// What becomes of events whose id another line had before.
    package enum Duplicates: String, Hashable, Sendable {
        case kept
        case dropped
    }

    /// Whether what was sent already may be sent again.
    package enum Resending: Hashable, Sendable {
        case refused
        case allowed
    }

    /// What is made again.
    package struct Request: Sendable {
        package var providers: [Destination]
        /// What the receiver's configuration says of the exports; defaults for those that are missing.
        package var options: [Destination: ExportOptions] = [:]
        /// The reports' zone; `nil`: what ``options`` say, else each live export's, UTC where there is none.
        package var zone: TimeZoneRules?
        package var range = ExportRange()
        /// All when empty.
        package var apps: Set<String> = []
        package var names: Set<String> = []
        package var kinds: Set<EventKind> = []
        package var origin = Origin.archive
        package var users = UserEvents.leftOut
        package var duplicates = Duplicates.kept
        package var resending = Resending.refused
        /// Where to write instead of the data directory's exports.
        package var output: String?
        /// Units that are made at the same time.
        package var jobCount = 1
        /// Begins again although a replay of the same kind was interrupted.
        package var isFromStart = false

        /// When the replay was asked for: the age of events that were sent is judged by it.
        package var now: WallTime

        package init(providers: [Destination], now: WallTime) {
            self.providers = providers
            self.now = now
        }

        /// Whether it takes whole days.
        package var takesWholeDays: Bool {
            self.apps.isEmpty && self.names.isEmpty && self.kinds.isEmpty
        }
    }

    /// How far a replay is.
    package struct Progress: Hashable, Sendable {
        /// Bytes of the archive that were read or need no reading, and how many there are to read, each as often as
        /// its units want it.
        package var byteCount = 0
        package var totalByteCount = 0
        package var unitCount = 0
        package var totalUnitCount = 0
    }

    /// Who watches a replay; called on the caller's thread.
    package struct Observer {
        package var progressed: (Progress) -> Void
        /// Something that the operator should know, as a sentence.
        package var noticed: (String) -> Void
        /// Asked from any thread: whether to stop as soon as possible, in a state that can be gone on from.
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

    /// What became of the lines of the range for one provider.
    package struct Counts: Hashable, Sendable {
        package var lines = 0
        package var bytes = 0
        package var events = ExportCounts()
        /// Left out, since another line had the id before.
        package var duplicates = 0
        /// Of the skipped: events that set properties of users, left out or of older values.
        package var users = 0
        /// Partitions with anything in them.
        package var partitions = 0
        package var records = 0
        /// Of parts and their ids.
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

    /// What a replay did.
    package struct Report: Hashable, Sendable {
        package var counts: [Destination: Counts] = [:]
        /// Bytes of the archive whose origin its `.sources` do not tell any more; they were not replayed.
        package var unexplainedByteCount = 0
        /// Lines that are no events, or of another environment than their folder; they were not replayed.
        package var strayLineCount = 0
        /// Units that an interrupted replay had made already.
        package var resumedUnitCount = 0
        /// What differs from the present generation, where that was asked for.
        package var differences: [PartitionDifference] = []
    }

    /// Why a replay cannot be done, or was not finished.
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
        case tooMany(what: String, limit: Int)
        case tooManyToCompare(String, limit: Int)
        case noPrevious(String)
        /// An export was written with other options than those that are known here.
        case otherOptions(String)
        case grown([String])
        case sentBefore([SentBefore])
        /// All else was done.
        case leftOut(byteCount: Int, lineCount: Int)

        package var description: String {
            switch self {
            case .data(.locked(let path, let owner)):
                "\(path) is in use by process \(owner); stop that receiver, or write elsewhere with --output DIR"
            case .data(let error): error.description
            case .zone(let error): error.description
            case .disk(let error): "the replay's files cannot be used: \(error)"
            case .outputInUse(let path):
                "\(path) is a receiver's data directory; name a directory of its own with --output"
            case .outputBusy(let path): "another replay writes to \(path); wait for it, or name another directory"
            case .noArchive(let path): "\(path) holds no archive; name a receiver's data directory with --data"
            case .partOfDay:
                "--app, --name and --kind choose some events of a day, and in place a day is exchanged, and "
                    + "compared, as a whole; write them elsewhere with --output DIR"
            case .journalInPlace:
                "the journal may hold a part of a day only, and in place a day is exchanged as a whole; "
                    + "write elsewhere with --output DIR"
            case .interrupted(let done, let total):
                "interrupted with \(done) of \(total) partitions made; the same command goes on with the others"
            case .tooMany(let what, let limit):
                "the range holds more than \(limit) \(what), which is all that are kept in memory; "
                    + "replay fewer days at once"
            case .tooManyToCompare(let partition, let limit):
                "\(partition) holds more than \(limit) events, which is all that are compared in memory; make it "
                    + "elsewhere with --output DIR and compare the files"
            case .noPrevious(let provider):
                "exports/.previous-\(provider) holds no days of the range to go back to"
            case .otherOptions(let provider):
                "\(provider) was written with other options; name the receiver's configuration file with --config"
            case .grown(let paths):
                "\(paths.joined(separator: ", ")) got events since the exchange, which the previous generation does "
                    + "not have; nothing was changed; make these days again with waybill replay instead"
            case .sentBefore(let counts):
                counts.map(\.description).joined(separator: "; ")
                    + "; the partitions are made and not exchanged; --force exchanges them all the same"
            case .leftOut(let byteCount, let lineCount):
                "left out: \(byteCount) bytes whose origin damaged .sources files or a damaged journal do not tell, and "
                    + "\(lineCount) lines that are no events of their folder; waybill inspect --verify names the damage"
            }
        }
    }

    /// Runs disk calls; what they throw is the replay's failure.
    static func onDisk<Result>(_ body: () throws(FileSystemError) -> Result) throws(Failure) -> Result {
        do throws(FileSystemError) {
            return try body()
        } catch {
            throw .disk(error)
        }
    }
}

extension Destination {
    /// Whether the provider applies what events say of users in the order in which it gets them, not by their time: an
    /// older line behind a newer one would bring old values back.
    var appliesUsersInOrder: Bool {
        switch self {
        case .ga4, .mixpanelProfiles, .amplitude, .segment, .posthog: true
        // Their files are replaced as a whole, go to a warehouse with their times, or take no such events.
        case .mixpanel, .snowplow, .flurry, .csv, .syslog, .journald, .custom: false
        }
    }
}
