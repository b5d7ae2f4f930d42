package import WaybillData
package import WaybillExport
package import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// A line that is not an event, with the reason.
package struct QuarantinedLine: Sendable {
    package let id: LineID
    package let reason: QuarantineReason
    package let receivedAt: WallTime
    package let path: String
    /// As it was shipped, at most its first bytes.
    let bytes: [UInt8]
    let byteCount: Int
    let reader: EventReader
}

/// What one batch of the journal holds.
package struct FollowedBatch: Sendable {
    package let batch: LiveBatch
    package let quarantined: [QuarantinedLine]
    /// All lines.
    package let lineCount: Int
}

/// Reads the journal from a position on, batch by batch, while it is being written.
///
/// It is driven from outside: it reads up to where it is told that the journal is durable, and no byte more.
package struct Follower<Files: FileSystem>: ~Copyable {
    /// What is kept of a line that is not an event.
    private static var quarantinedByteCountMax: Int { 2048 }

    private var reader: BatchReader<Files>
    private var readers: EventReaders
    /// What keeps the program alive; `nil`: whatever is read, it has read it before.
    private let lone: LoneReader<Files>?

    /// Follows a journal.
    ///
    /// - Parameters:
    ///   - erased: the people whose lines are left out.
    ///   - poison: the lines that are not read.
    ///   - lone: reads lines that ended the program each alone.
    package init(
        journal directory: String, from position: JournalPosition, files: Files, erased: ErasedPeople? = nil,
        poison: PoisonedLines? = nil, lone: LoneReader<Files>? = nil
    ) {
        self.readers = EventReaders(erased: erased, poison: poison)
        self.lone = lone
        self.reader = BatchReader(journalDirectory: directory, position: position, files: files)
    }

    /// Everything before it was read.
    package var position: JournalPosition { self.reader.position }

    /// The ranges that could not be read since the last call: retention deleted them, or they are damaged.
    package mutating func takeGaps() -> [JournalDamage] {
        self.reader.takeDamages()
    }

    /// The next batch that ends at or before `end`; `nil` when there is none yet.
    package mutating func next(upTo end: JournalPosition) throws(FileSystemError) -> FollowedBatch? {
        try self.reader.next(upTo: end).map { self.followed($0, 0..<$0.raw.count, from: 0) }
    }

    /// Takes the next batch that ends at or before `end`: as a whole, or each line of it alone after it ended the program.
    ///
    /// - Returns: `false` when there is none yet.
    package mutating func next(
        upTo end: JournalPosition, _ take: (FollowedBatch) -> Void
    ) throws(FileSystemError) -> Bool {
        guard let batch = try self.reader.next(upTo: end) else { return false }
        guard let lone else {
            take(self.followed(batch, 0..<batch.raw.count, from: 0))
            return true
        }
        var readers = self.readers
        var number = 0
        lone.read(
            batch.raw, of: batch.description.name, from: batch.offset.rawValue, at: batch.position.rawValue,
            use: { readers.use($0) }
        ) { lines, offset in
            let start = Int(offset - batch.offset.rawValue)
            let followed = Self.followed(batch, start..<(start + lines.count), from: number, &readers)
            number += followed.lineCount
            take(followed)
        }
        self.readers = readers
        return true
    }

    private mutating func followed(
        _ batch: ProjectedBatch, _ lines: Range<Int>, from firstNumber: Int
    ) -> FollowedBatch {
        Self.followed(batch, lines, from: firstNumber, &self.readers)
    }

    /// - Parameters:
    ///   - lines: adjacent ones of the batch.
    ///   - firstNumber: how many lines of the batch are before them.
    private static func followed(
        _ batch: ProjectedBatch, _ lines: Range<Int>, from firstNumber: Int, _ readers: inout EventReaders
    ) -> FollowedBatch {
        let raw = UnsafeRawBufferPointer(rebasing: batch.raw[lines])
        let start = batch.offset.rawValue + UInt64(lines.lowerBound)
        let reader = readers.reader(for: batch.description)
        var spans: [LiveBatch.Span] = []
        var quarantined: [QuarantinedLine] = []
        var number = firstNumber
        raw.forEachLine { range in
            number += 1
            // A line feed alone is counted nowhere.
            guard !range.isEmpty else { return }
            let line = UnsafeRawBufferPointer(rebasing: raw[range])
            // Of any reader: a page reads a line in more ways than an archive.
            let isPoison = reader.poison.readers(at: start + UInt64(range.lowerBound)) != nil
            switch isPoison ? .quarantine(.poison) : reader.read(line) {
            case .event(let facts):
                spans.append(
                    LiveBatch.Span(
                        start: UInt32(range.lowerBound), end: UInt32(range.upperBound), line: UInt32(number),
                        time: facts.time))
            case .quarantine(.erased): break
            case .quarantine(let reason):
                quarantined.append(
                    QuarantinedLine(
                        id: LineID(batch: batch.position, line: number), reason: reason, receivedAt: batch.receivedAt,
                        path: batch.description.source,
                        bytes: isPoison ? [] : Array(line.prefix(Self.quarantinedByteCountMax)),
                        byteCount: line.count, reader: reader))
            }
        }
        let live = LiveBatch(
            position: batch.position, reader: reader, path: batch.description.source, receivedAt: batch.receivedAt,
            offset: start, spans: spans, bytes: spans.isEmpty ? [] : Array(raw))
        return FollowedBatch(batch: live, quarantined: quarantined, lineCount: number - firstNumber)
    }
}
