package import WaybillData
internal import WaybillEvent
package import WaybillProtocol
package import WaybillSystem

package import WaybillExport

/// A deterministic reader of the journal: the archive or a provider's export, live or in a replay.
///
///     journal ──▶ ProjectionRun ──▶ ArchiveProjection ──▶ archive/…/part-00001.ndjson, quarantine/…
///                              └──▶ ExportProjection  ──▶ exports/ga4/…/part-00000.ndjson, dead/…
///
/// Life of one line: it arrives inside a batch that is durable in the journal → `EventReader` reads it once, and it is
/// parsed once for all exports on a thread (``SharedParse``) → the archive writes it byte for byte to its day, or to
/// the quarantine with the reason; an export maps it to a record of its provider's day. Output is written per batch and
/// synced only at checkpoints. After a crash, every file is cut to the last checkpoint and the journal is projected
/// again from there, which gives the same bytes.
///
/// Constraints: no allocation per line on the common path; open files bounded; a batch is the unit of work. A
/// projection's output depends on the journal and its options, never on the clock or on the timing of checkpoints; an
/// export's also on what the archive has recorded about days (``ShiftedLines``).
package protocol Projection: ~Copyable, SendableMetatype {
    /// Whether it uses ``ProjectedBatch/parse``.
    static var takesParsedLines: Bool { get }
    /// The name in `state/` and in logs.
    var name: String { get }
    /// The people whose lines it does not take; `nil` if no one was erased.
    var erased: ErasedPeople? { get }
    /// The lines that it does not read; `nil` if there are none.
    var poison: PoisonedLines? { get }
    /// Reads one line as ``project(_:)`` does, and writes nothing: it finds out whether the line ends the program.
    func rehearse(_ line: ProjectedBatch) throws(FileSystemError)
    /// Changes the lines that it does not read, for the batches from now on.
    mutating func use(_ poison: PoisonedLines)
    /// Cuts the output to the last checkpoint and returns the position from which to read the journal again.
    mutating func recover() throws(FileSystemError) -> ProjectionRecovery
    /// Moves the links among its files into `set-aside`, after a call that failed because of one.
    ///
    /// - Returns: their new paths in the data directory.
    func setLinksAside() throws(FileSystemError) -> [String]
    mutating func project(_ batch: ProjectedBatch) throws(FileSystemError)
    /// Takes a time from the journal: everything received before it was projected.
    mutating func pass(_ time: WallTime) throws(FileSystemError)
    /// Where the first batch begins of which no checkpoint has what was decided about its days; `nil` if there is none.
    var undecided: JournalPosition? { get }
    /// Whether it waits for a later time in the journal, which an idle receiver writes.
    var needsMarks: Bool { get }
    /// Makes everything projected so far durable, and records that the journal was read up to `position`.
    ///
    /// - Parameter moment: the time at which due days are sealed, or start to be sealed; `nil`: none.
    mutating func checkpoint(at position: JournalPosition, sealing moment: SealMoment?) throws(FileSystemError)
    /// When the next day is due, by the wall clock; `nil` if nothing is open.
    var nextDue: WallTime? { get }
    /// Corrects due times that are too late because the clock was ahead.
    mutating func correctDueTimes(now: WallTime)
    /// Changes the time at which its days end, in seconds after midnight of the next day; no effect if it is the same.
    mutating func useCutOff(_ secondOfDay: Int)
    /// Whether days are being sealed.
    var isSealing: Bool { get }
    /// Does a bounded part of the remaining sealing: at most a few MiB are read and compressed.
    mutating func continueSealing() throws(FileSystemError)
    /// Whether so much is being sealed that it does not wait for a pause.
    var isSealingUrgent: Bool { get }
    /// Whether further days may be sealed now.
    var mayBeginSeals: Bool { get }
    /// Deletes what the policy does not keep; call it after a checkpoint.
    mutating func retire(_ policy: RetentionPolicy, now: WallTime) throws(FileSystemError) -> RetentionReport
    /// Returns the days that were sealed since the last call.
    mutating func takeSealed() -> [SealedDay]
    /// Returns the closed files that could not be compressed since the last call: with the cause and a remedy.
    mutating func takeFailures() -> [ClosingFailure]
    /// Returns what was put into the quarantine, or refused, since the last call.
    mutating func takeQuarantined() -> QuarantineCounts
    /// Returns what happened to lines of which there is something to tell, up to the last checkpoint, since the last call.
    mutating func takeOutcomes() -> OutcomeCensus
    /// How many lines had each outcome since the start; ``recover()`` resets it to the last checkpoint.
    var tally: ProjectionTally { get }
    /// The tally as text, for logs.
    var report: String { get }
}

extension Projection where Self: ~Copyable {
    /// For a projection that sets nothing aside.
    package mutating func takeQuarantined() -> QuarantineCounts { QuarantineCounts() }

    /// Only exports have parts that close by age.
    package mutating func pass(_ time: WallTime) throws(FileSystemError) {}
    package var needsMarks: Bool { false }

    /// Only the archive decides.
    package var undecided: JournalPosition? { nil }

    package var erased: ErasedPeople? { nil }

    /// Only what reads lines can be ended by one.
    package var poison: PoisonedLines? { nil }
    package func rehearse(_ line: ProjectedBatch) throws(FileSystemError) {}
    package mutating func use(_ poison: PoisonedLines) {}

    /// The archive's failures are errors.
    package mutating func takeFailures() -> [ClosingFailure] { [] }

    package var isSealingUrgent: Bool { false }
    package var mayBeginSeals: Bool { !self.isSealing }

    /// Makes everything projected so far durable, and records that the journal was read up to `position`.
    package mutating func checkpoint(at position: JournalPosition) throws(FileSystemError) {
        try self.checkpoint(at: position, sealing: nil)
    }
}

/// A durable batch that is projected; `raw` is valid during the call.
package struct ProjectedBatch {
    package let position: JournalPosition
    package let description: StreamDescription
    package let offset: StreamOffset
    package let receivedAt: WallTime
    /// The count in the batch's header.
    package let lineCount: Int
    package let raw: UnsafeRawBufferPointer
    /// Who brought it; `nil` if it was read from the journal, which does not know.
    package var account: Account?
    /// Its parsed lines, if several projections share them.
    package var parse: SharedParse?

    package init(
        position: JournalPosition, description: StreamDescription, offset: StreamOffset, receivedAt: WallTime,
        lineCount: Int, raw: UnsafeRawBufferPointer
    ) {
        self.position = position
        self.description = description
        self.offset = offset
        self.receivedAt = receivedAt
        self.lineCount = lineCount
        self.raw = raw
    }
}

/// The result of recovering a projection.
package struct ProjectionRecovery: Hashable, Sendable {
    package var position = JournalPosition(0)
    /// What was cut, removed or found damaged, for logs; empty if nothing was.
    package var report = ""

    package init(position: JournalPosition = JournalPosition(0), report: String = "") {
        self.position = position
        self.report = report
    }
}

/// Feeds a projection from the journal's files.
package struct ProjectionRun<Files: FileSystem>: ~Copyable {
    private var reader: BatchReader<Files>
    /// When the last batch was received; `nil` before the first.
    package private(set) var lastReceivedAt: WallTime?

    package init(journalDirectory: String, files: Files) {
        self.reader = BatchReader(journalDirectory: journalDirectory, position: JournalPosition(0), files: files)
    }

    /// Returns the ranges of the journal that could not be read since the last call.
    package mutating func takeDamages() -> [JournalDamage] {
        self.reader.takeDamages()
    }

    /// Projects up to `batchCountMax` batches from `position` on.
    ///
    /// - Returns: where to continue; `end` if everything up to it was projected.
    package mutating func advance(
        _ projection: inout some Projection & ~Copyable, from position: JournalPosition, upTo end: JournalPosition,
        batchCountMax: Int = 64
    ) throws(FileSystemError) -> JournalPosition {
        // A reader at another position (it skipped lines at the end) starts again at a segment's head.
        self.reader.seek(to: position)
        for _ in 0..<batchCountMax {
            guard let batch = try self.reader.next(upTo: end) else {
                try projection.pass(self.reader.time)
                return end
            }
            try projection.project(batch)
            self.lastReceivedAt = batch.receivedAt
        }
        return self.reader.position
    }
}

extension StreamDescription {
    /// How to read the stream's lines.
    package var sourceDescription: SourceDescription {
        SourceDescription(
            env: DeploymentEnvironment(rawValue: self.environment) ?? .dev, bundle: self.bundle,
            isForeign: self.format == .ndjson, timeMember: self.timeMember, nameMember: self.nameMember,
            userMember: self.userMember, anonymousMember: self.anonymousMember,
            stream: LineStream(principal: self.owner.principal, id: self.id.text),
            patterns: LinePatterns(environments: self.owner.environments, bundles: self.owner.bundles))
    }
}

/// The readers of recent streams, made once per stream instead of once per batch.
///
/// A stream with a new description counts as another stream: its lines are read with the new description.
package struct EventReaders {
    private var readers: [StreamDescription: EventReader] = [:]
    /// The people whose lines are not read.
    package let erased: ErasedPeople?
    /// The lines that are not read.
    package private(set) var poison: PoisonedLines?

    private static var countMax: Int { 4096 }

    package init(erased: ErasedPeople? = nil, poison: PoisonedLines? = nil) {
        self.erased = erased
        self.poison = poison
    }

    /// Changes the lines that are not read, from now on.
    package mutating func use(_ poison: PoisonedLines?) {
        self.poison = poison
        self.readers.removeAll()
    }

    package mutating func reader(for description: StreamDescription) -> EventReader {
        if let reader = self.readers[description] { return reader }
        if self.readers.count >= Self.countMax { self.readers.removeAll() }
        let reader = EventReader(
            source: description.sourceDescription, erased: self.erased,
            poison: self.poison?.readers(of: description.name) ?? .none)
        self.readers[description] = reader
        return reader
    }
}

/// The lines of the current batch, parsed once for all readers.
package final class SharedParse {
    private var readers: EventReaders
    package private(set) var lines = ParsedLines()

    package init(erased: ErasedPeople? = nil) {
        self.readers = EventReaders(erased: erased)
    }

    /// Changes the people whose lines are not read, and the lines that are not, for the batches from now on.
    package func use(_ erased: ErasedPeople?, _ poison: PoisonedLines?) {
        self.readers = EventReaders(erased: erased, poison: poison)
    }

    /// Parses a batch, whose bytes must remain valid while its lines are used; replaces the previous batch.
    package func parse(_ batch: ProjectedBatch) {
        self.parse(batch.raw, from: 0, self.readers.reader(for: batch.description), at: batch.offset.rawValue)
    }

    /// Parses as many lines as fit, at least one, from `start` on; replaces the previous lines.
    ///
    /// - Parameter offset: where `raw` begins in its stream.
    package func parse(_ raw: UnsafeRawBufferPointer, from start: Int, _ reader: EventReader, at offset: UInt64) {
        self.lines.removeAll(from: start, at: offset)
        while self.lines.end < raw.count {
            let start = self.lines.end
            let end = raw.firstNewline(from: start) ?? raw.count
            guard self.lines.add(start..<end, of: raw, reader) else { return }
        }
    }
}

extension UnsafeRawBufferPointer {
    /// Calls `body` for each line from `start` on, without its LF; the last may lack one.
    @inline(__always)
    package func forEachLine<Failure: Error>(
        from start: Int = 0, _ body: (_ line: Range<Int>) throws(Failure) -> Void
    ) throws(Failure) {
        var position = start
        while position < self.count {
            let end = self.firstNewline(from: position) ?? self.count
            try body(position..<end)
            position = end + 1
        }
    }
}
