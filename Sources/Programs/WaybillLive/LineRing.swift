package import WaybillData
internal import WaybillSystem

/// The newest events, up to a number of rows and of bytes.
///
/// Each event has an ordinal, one more than the one before it, for as long as the process runs.
package struct LineRing {
    package struct Limits: Sendable {
        package var rowCount = 20_000
        package var byteCount = 16 << 20

        package init() {}
    }

    private let limits: Limits
    /// Oldest first; those before ``first`` were removed.
    private var batches: [(batch: LiveBatch, ordinal: Int)] = []
    private var first = 0
    private(set) var byteCount = 0
    /// The ordinal of the oldest event that is kept.
    package private(set) var start = 0
    /// The ordinal of the next event.
    package private(set) var end = 0
    /// Every event after this place is here.
    package private(set) var floor: LineID

    package init(from position: JournalPosition, limits: Limits = Limits()) {
        self.floor = LineID(batch: position, line: 0)
        self.limits = limits
    }

    package var count: Int { self.end - self.start }

    package var oldest: LiveRow? { self.count > 0 ? self[self.start] : nil }
    package var newest: LiveRow? { self.count > 0 ? self[self.end - 1] : nil }

    package mutating func append(_ batch: LiveBatch) {
        guard !batch.spans.isEmpty else { return }
        self.batches.append((batch, self.end))
        self.end += batch.spans.count
        self.byteCount += batch.bytes.count
        var start = max(self.start, self.end - self.limits.rowCount)
        var first = self.first
        // The newest batch stays, however long it is.
        while self.batches.count - first > 1 {
            let (oldest, ordinal) = self.batches[first]
            let next = ordinal + oldest.spans.count
            guard self.byteCount > self.limits.byteCount || next <= start else { break }
            self.byteCount -= oldest.bytes.count
            start = max(start, next)
            first += 1
        }
        if start > self.start { self.floor = self[start - 1].id }
        self.start = start
        self.first = first
        if self.first > 64, self.first * 2 > self.batches.count {
            self.batches.removeFirst(self.first)
            self.first = 0
        }
    }

    /// Forgets all events; later ones come from `position` on.
    package mutating func removeAll(from position: JournalPosition) {
        self.batches = []
        self.first = 0
        self.byteCount = 0
        self.start = self.end
        self.floor = LineID(batch: position, line: 0)
    }

    /// The event with an ordinal that is kept.
    package subscript(ordinal: Int) -> LiveRow {
        precondition((self.start..<self.end).contains(ordinal), "event \(ordinal) of \(self.start)..<\(self.end)")
        let next = self.batches[self.first...].partitionIndex { $0.ordinal <= ordinal }
        let (batch, start) = self.batches[next - 1]
        return LiveRow(batch: batch, index: ordinal - start)
    }

    /// The ordinal of the first kept event after a place, ``end`` if none is.
    package func ordinal(after id: LineID) -> Int {
        (self.start..<self.end).partitionIndex { self[$0].id <= id }
    }

    /// The event at a place.
    package func row(at id: LineID) -> LiveRow? {
        let next = self.ordinal(after: id)
        guard next > self.start, self[next - 1].id == id else { return nil }
        return self[next - 1]
    }
}
