package import WaybillEvent
internal import WaybillJSON
package import WaybillSystem

/// One of ``ParsedLines``, valid for as long as they are.
package struct ParsedLine {
    /// Without its line feed.
    package let bytes: UnsafeRawBufferPointer
    /// Where it begins in the batch.
    package let offset: Int
    /// Where it begins in its stream.
    package let streamOffset: UInt64
    /// The id that was made for it.
    package let madeID: UniqueID?
    package let reading: EventReading
    /// Who does not read it (``PoisonOffsets``); `nil`: everyone does.
    package let poison: Set<String>?
    /// The parsed event.
    let parsed: ParsedEvent

    /// Whether no export reads it, and each has it as a dead letter.
    package var isRefusedUnread: Bool {
        guard self.reading == .quarantine(.poison), let poison else { return false }
        return !poison.contains(PoisonOffsets.archive)
    }
}

/// Lines of one batch, each read and parsed once for all exports that share them.
///
/// Its capacity is bounded: once it is full, each export parses the lines after ``end`` itself. Its contents point into
/// the batch's bytes.
package struct ParsedLines: ~Copyable {
    private struct Line {
        let range: Range<Int>
        let reading: EventReading
        /// Where its entries end; they begin at the previous line's end.
        let entryEnd: Int
        let mayHaveFaults: Bool
        let poison: Set<String>?
    }

    /// A typical line has about 70 entries.
    private static var lineCountMax: Int { 8192 }
    private static var entryCountMax: Int { 65_536 }

    private var event = MappedEvent()
    private var lines: [Line] = []
    private var entries: [JSONEntry] = []
    private var slots: [UInt32] = []
    private var madeIDs: [UniqueID?] = []
    /// Where the batch begins in its stream.
    private var base: UInt64 = 0
    /// Where the first line that is not included begins.
    package private(set) var end = 0
    /// The earliest and the latest time of an event; `nil` without one.
    package private(set) var times: ClosedRange<WallTime>?

    package init() {}

    /// Removes all lines and continues with the line that begins at `start`.
    ///
    /// - Parameter offset: where the batch begins in its stream.
    package mutating func removeAll(from start: Int = 0, at offset: UInt64 = 0) {
        self.base = offset
        self.madeIDs.removeAll(keepingCapacity: true)
        self.lines.removeAll(keepingCapacity: true)
        self.entries.removeAll(keepingCapacity: self.entries.capacity <= 2 * Self.entryCountMax)
        self.slots.removeAll(keepingCapacity: true)
        self.times = nil
        self.end = start
    }

    /// Adds the line that begins at ``end`` in `raw`.
    ///
    /// - Parameter range: without its line feed.
    /// - Returns: `false` if there is no room for it; one line always fits, however long.
    package mutating func add(
        _ range: Range<Int>, of raw: UnsafeRawBufferPointer, _ reader: EventReader
    ) -> Bool {
        guard self.lines.count < Self.lineCountMax, self.entries.count < Self.entryCountMax else { return false }
        let offset = self.base + UInt64(range.lowerBound)
        let poison = reader.poison.readers(at: offset)
        let isUnread = poison.map { $0.contains(PoisonOffsets.archive) || $0.contains(PoisonOffsets.exports) } ?? false
        let reading =
            isUnread
            ? .quarantine(.poison)
            : self.event.load(UnsafeRawBufferPointer(rebasing: raw[range]), reader, at: offset)
        let parsed = self.event.parsed
        if case .event(let facts) = reading {
            let isFull = self.entries.count + parsed.entries.count > Self.entryCountMax
            if isFull, !self.lines.isEmpty { return false }
            self.entries.append(contentsOf: parsed.entries)
            let times = self.times ?? facts.time...facts.time
            self.times = min(times.lowerBound, facts.time)...max(times.upperBound, facts.time)
        }
        self.madeIDs.append(isUnread ? nil : self.event.madeID)
        self.slots.append(contentsOf: UnsafeBufferPointer(start: parsed.slots, count: EventField.allCases.count))
        self.lines.append(
            Line(
                range: range, reading: reading, entryEnd: self.entries.count, mayHaveFaults: parsed.mayHaveFaults,
                poison: poison))
        self.end = range.upperBound + 1
        return true
    }

    /// Calls `body` for each line.
    ///
    /// - Parameter raw: the batch from which they were parsed.
    package func forEach(in raw: UnsafeRawBufferPointer, _ body: (ParsedLine) -> Void) {
        self.entries.withUnsafeBufferPointer { entries in
            self.slots.withUnsafeBufferPointer { slots in
                guard var slot = slots.baseAddress else { return }
                var start = 0
                for (line, madeID) in zip(self.lines, self.madeIDs) {
                    body(
                        ParsedLine(
                            bytes: UnsafeRawBufferPointer(rebasing: raw[line.range]), offset: line.range.lowerBound,
                            streamOffset: self.base + UInt64(line.range.lowerBound), madeID: madeID,
                            reading: line.reading, poison: line.poison,
                            parsed: ParsedEvent(
                                entries: UnsafeBufferPointer(rebasing: entries[start..<line.entryEnd]), slots: slot,
                                mayHaveFaults: line.mayHaveFaults)))
                    start = line.entryEnd
                    slot += EventField.allCases.count
                }
            }
        }
    }
}
