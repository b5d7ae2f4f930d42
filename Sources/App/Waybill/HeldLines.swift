internal import WaybillEvent
internal import WaybillSystem

/// Encoded lines in memory that are not written yet, at most the newest 256 KiB.
///
/// Lines have the sequence numbers that apply if all lines before them are stored; if older ones were dropped, the
/// lines are renumbered before they are written.
struct HeldLines: ~Copyable {
    private struct Line {
        /// The position of the number in the line.
        var number: Range<Int>
        let kind: EventKind
        let type: ObjectIdentifier
    }

    private static let byteCountMax = 256 << 10
    /// The number of gathered bytes that are written together.
    private static let gatheredByteCountMax = 64 << 10

    private var bytes: [UInt8] = []
    private var lines: [Line] = []
    /// One entry per line.
    private var byteCounts: [Int] = []
    /// The sequence number of the first line.
    private var firstSequence: UInt64 = 0
    /// How long lines are gathered in memory; `nil` if they are written at once.
    let gathering: Duration?
    private var gatheringSince: MonotonicTime?
    /// How often a disk accepted everything again after failed writes.
    private(set) var recoveryCount: UInt64 = 0

    init(gathering: Duration?) {
        self.gathering = gathering
    }

    var count: Int { self.lines.count }
    var isEmpty: Bool { self.lines.isEmpty }

    /// Adds a line; returns the number of old lines dropped to make room.
    ///
    /// - Parameter sequence: the line's sequence number, one more than that of the last held line.
    mutating func append(
        _ line: UnsafeBufferPointer<UInt8>, number: Range<Int>, _ sequence: UInt64, _ draft: borrowing EventDraft
    ) -> Int {
        if self.lines.isEmpty { self.firstSequence = sequence }
        self.lines.append(Line(number: number, kind: draft.kind, type: draft.type))
        self.byteCounts.append(line.count)
        self.bytes.append(contentsOf: line)
        guard self.bytes.count > Self.byteCountMax else { return 0 }
        // A quarter is dropped at once, so that the rest is not moved for each line.
        var lostCount = 0
        var lostByteCount = 0
        while self.bytes.count - lostByteCount > Self.byteCountMax / 4 * 3 {
            lostByteCount += self.byteCounts[lostCount]
            lostCount += 1
        }
        self.dropFirst(lostCount, byteCount: lostByteCount)
        return lostCount
    }

    /// Whether lines were gathered for long enough, or are enough, to be written; called after each line.
    mutating func isDue(at now: MonotonicTime) -> Bool {
        guard let gathering else { return false }
        let since = self.gatheringSince ?? now
        self.gatheringSince = since
        return self.bytes.count >= Self.gatheredByteCountMax || now - since >= gathering
    }

    /// Removes all lines; returns how many there were.
    mutating func removeAll() -> Int {
        defer {
            self.lines = []
            self.byteCounts = []
            self.bytes = []
        }
        return self.lines.count
    }

    /// Renumbers the lines, starting with `sequence`.
    private mutating func renumber(from sequence: UInt64) {
        guard sequence != self.firstSequence else { return }
        self.firstSequence = sequence
        var renumbered: [UInt8] = []
        renumbered.reserveCapacity(self.bytes.count)
        var start = 0
        for index in self.lines.indices {
            let line = self.lines[index]
            let digits = Array(String(sequence + UInt64(index)).utf8)
            renumbered += self.bytes[start..<start + line.number.lowerBound]
            renumbered += digits
            renumbered += self.bytes[start + line.number.upperBound..<start + self.byteCounts[index]]
            start += self.byteCounts[index]
            self.byteCounts[index] += digits.count - line.number.count
            self.lines[index] = Line(
                number: line.number.lowerBound..<line.number.lowerBound + digits.count, kind: line.kind,
                type: line.type)
        }
        self.bytes = renumbered
    }

    /// Passes the lines to a writer, and removes those it stored; returns the error if not all could be written.
    ///
    /// - Parameters:
    ///   - sequence: the number that the first line gets.
    ///   - store: receives the lines and the byte count of each; returns how many it stored.
    ///   - stored: called with each stored line and its number.
    mutating func release(
        from sequence: UInt64,
        _ store: (UnsafeRawBufferPointer, UnsafeBufferPointer<Int>) -> (storedCount: Int, failure: FileSystemError?),
        stored: (_ line: ArraySlice<UInt8>, _ sequence: UInt64, EventKind, ObjectIdentifier) -> Void
    ) -> FileSystemError? {
        self.renumber(from: sequence)
        let (storedCount, failure) = self.bytes.withUnsafeBytes { lines in
            self.byteCounts.withUnsafeBufferPointer { store(lines, $0) }
        }
        var start = 0
        for index in 0..<storedCount {
            let line = self.lines[index]
            let end = start + self.byteCounts[index]
            stored(self.bytes[start..<end], self.firstSequence + UInt64(index), line.kind, line.type)
            start = end
        }
        self.dropFirst(storedCount, byteCount: start)
        self.gatheringSince = nil
        if failure == nil, self.gathering == nil { self.recoveryCount += 1 }
        return failure
    }

    private mutating func dropFirst(_ count: Int, byteCount: Int) {
        self.lines.removeFirst(count)
        self.byteCounts.removeFirst(count)
        self.bytes.removeFirst(byteCount)
        self.firstSequence += UInt64(count)
    }
}
