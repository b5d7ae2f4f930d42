internal import WaybillEvent
package import WaybillJournal
package import WaybillProtocol
package import WaybillSystem

package import WaybillExport

/// Deterministic readers of the journal: the archive and each provider's export, live or in a replay.
///
///     journal ──▶ ProjectionRun ──▶ ArchiveProjection ──▶ archive/…/part-00001.ndjson, quarantine/…
///                              └──▶ ExportProjection  ──▶ exports/ga4/…/part-00000.ndjson, dead/…
///
/// Life of one line: it arrives inside a batch that is durable in the journal → `EventReader` judges it once, and
/// parses it once for all exports that a thread feeds (``SharedParse``) →
/// the archive takes it byte for byte into its day, or the quarantine does with the reason; an export maps it to a
/// record of its provider's day. Output is written per batch, synced at checkpoints alone. A crash cuts every file
/// to the last checkpoint and projects the journal again from there, which gives the same bytes.
///
/// Constraints: no allocation per line on the common path; open files bounded; a batch is the unit of work. What a
/// projection writes depends on the journal and its options, never on the clock or on how batches met checkpoints.
package protocol Projection: ~Copyable, SendableMetatype {
    /// Whether ``ProjectedBatch/parse`` spares it work.
    static var takesParsedLines: Bool { get }
    /// The name in `state/` and in logs.
    var name: String { get }
    /// Cuts the output back to the last checkpoint and returns where the journal must be read again from.
    mutating func recover() throws(FileSystemError) -> ProjectionRecovery
    mutating func project(_ batch: ProjectedBatch) throws(FileSystemError)
    /// Makes everything projected so far durable, and remembers that the journal was read up to `position`.
    ///
    /// - Parameter moment: seals, or begins to seal, the days that are due then; `nil`: none.
    mutating func checkpoint(at position: JournalPosition, sealing moment: SealMoment?) throws(FileSystemError)
    /// When the next day falls due, by the wall clock; `nil` when nothing is open.
    var nextDue: WallTime? { get }
    /// Puts right what a clock that was ahead has put off.
    mutating func correctDueTimes(now: WallTime)
    /// Lets its days end at another time, in seconds after midnight of the next day; nothing changes for the same.
    mutating func useCutOff(_ secondOfDay: Int)
    /// Whether days are being sealed.
    var isSealing: Bool { get }
    /// Does a bounded piece of what is left of sealing: at most a few MiB are read and compressed.
    mutating func continueSealing() throws(FileSystemError)
    /// Deletes the sealed days that the policy lets go, none that has something open; call it behind a checkpoint.
    mutating func retire(_ policy: RetentionPolicy, now: WallTime) throws(FileSystemError) -> [DeletedDay]
    /// The days that were sealed since the last call.
    mutating func takeSealed() -> [SealedDay]
    /// What became of the lines since the start; ``recover()`` takes it back to the last checkpoint.
    var tally: ProjectionTally { get }
    /// The same in words, for logs.
    var report: String { get }
}

extension Projection where Self: ~Copyable {
    /// Makes everything projected so far durable, and remembers that the journal was read up to `position`.
    package mutating func checkpoint(at position: JournalPosition) throws(FileSystemError) {
        try self.checkpoint(at: position, sealing: nil)
    }
}

/// A durable batch on its way through a projection; `raw` is valid during the call.
package struct ProjectedBatch {
    package let position: JournalPosition
    package let description: StreamDescription
    package let offset: StreamOffset
    package let receivedAt: WallTime
    /// As the batch's header says.
    package let lineCount: Int
    package let raw: UnsafeRawBufferPointer
    /// Its lines, parsed, where several projections share them.
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

/// What starting a projection found.
package struct ProjectionRecovery: Hashable, Sendable {
    package var position = JournalPosition(0)
    /// What was cut, removed or found damaged, for logs; empty when all was well.
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

    /// Ranges of the journal that could not be read, since the last call.
    package mutating func takeDamages() -> [JournalDamage] {
        self.reader.takeDamages()
    }

    /// Projects up to `batchCountMax` batches from `position` on.
    ///
    /// - Returns: where to go on; `end` when everything up to it was projected.
    package mutating func advance(
        _ projection: inout some Projection & ~Copyable, from position: JournalPosition, upTo end: JournalPosition,
        batchCountMax: Int = 64
    ) throws(FileSystemError) -> JournalPosition {
        // A reader that stands elsewhere (it stepped over lines at the end) begins again at a segment's head.
        self.reader.seek(to: position)
        for _ in 0..<batchCountMax {
            guard let batch = try self.reader.next(upTo: end) else { return end }
            try projection.project(batch)
            self.lastReceivedAt = batch.receivedAt
        }
        return self.reader.position
    }
}

extension StreamDescription {
    /// How the stream's lines are to be read.
    package var sourceDescription: SourceDescription {
        SourceDescription(
            env: DeploymentEnvironment(rawValue: self.environment) ?? .dev, bundle: self.bundle,
            isForeign: self.format == .ndjson, timeMember: self.timeMember, nameMember: self.nameMember)
    }
}

/// The readers of the streams that were met last; made once for each, not once for each batch.
///
/// A stream that is described anew is another one here: its lines are read as the new description says.
struct EventReaders {
    private var readers: [StreamDescription: EventReader] = [:]

    private static var countMax: Int { 4096 }

    mutating func reader(for description: StreamDescription) -> EventReader {
        if let reader = self.readers[description] { return reader }
        if self.readers.count >= Self.countMax { self.readers.removeAll() }
        let reader = EventReader(source: description.sourceDescription)
        self.readers[description] = reader
        return reader
    }
}

/// The lines of one batch after another, parsed once for all that take them.
package final class SharedParse {
    private var readers = EventReaders()
    package private(set) var lines = ParsedLines()

    package init() {}

    /// Parses a batch, whose bytes must stay for as long as its lines are used; forgets the one before.
    package func parse(_ batch: ProjectedBatch) {
        self.parse(batch.raw, from: 0, self.readers.reader(for: batch.description), receivedAt: batch.receivedAt)
    }

    /// Parses as many lines as there is room for, at least one, from `start` on; forgets those before.
    package func parse(
        _ raw: UnsafeRawBufferPointer, from start: Int, _ reader: EventReader, receivedAt: WallTime
    ) {
        self.lines.removeAll(from: start)
        while self.lines.end < raw.count {
            let start = self.lines.end
            let end = raw.firstNewline(from: start) ?? raw.count
            guard self.lines.add(start..<end, of: raw, reader, receivedAt: receivedAt) else { return }
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
