internal import NIOCore
internal import WaybillProtocol

/// What a connection of a fleet's receiver still has to say, once the store has enough of the journal.
///
/// Of each stream it keeps two states, the one that it waits for and the newest, however many batches come meanwhile. A
/// state that becomes the one waited for goes to the end of the queue, so it may be told one advance late, never early.
struct PendingStorageReports {
    /// A stream's state.
    struct Report: Equatable {
        /// The journal's durable end when the stream stood like this.
        let end: UInt64
        let offset: StreamOffset
        /// The proof for `SEALED`; `nil`: `STORED` is owed.
        var seal: StreamProof?
    }

    private struct Entry {
        var awaited: Report
        var newest: Report?
    }

    private struct Place {
        let end: UInt64
        let number: StreamNumber
    }

    /// Each stream with an entry has one place in the queue.
    private var entries: [StreamNumber: Entry] = [:]
    private var queue = CircularBuffer<Place>(initialCapacity: 1)

    var isEmpty: Bool { self.entries.isEmpty }
    /// How many streams wait.
    var count: Int { self.entries.count }

    mutating func add(_ report: Report, of number: StreamNumber) {
        guard let entry = self.entries[number] else {
            self.entries[number] = Entry(awaited: report)
            self.queue.append(Place(end: report.end, number: number))
            return
        }
        // A stream ends once: the seal that waits is the earlier one.
        guard entry.awaited.seal == nil else { return }
        self.entries[number]?.newest = report
    }

    /// Whether something may be told when the store has the journal up to `stored`.
    func isDue(at stored: UInt64) -> Bool { self.queue.first.map { $0.end <= stored } ?? false }

    /// Removes and returns what may be told; `nil` when nothing more.
    mutating func next(at stored: UInt64) -> (number: StreamNumber, report: Report)? {
        guard let place = self.queue.first, place.end <= stored, let entry = self.entries[place.number] else {
            return nil
        }
        self.queue.removeFirst()
        guard let newest = entry.newest else {
            self.entries[place.number] = nil
            return (place.number, entry.awaited)
        }
        guard newest.end > stored else {
            self.entries[place.number] = nil
            return (place.number, newest)
        }
        self.entries[place.number] = Entry(awaited: newest)
        self.queue.append(Place(end: newest.end, number: place.number))
        return (place.number, entry.awaited)
    }
}
