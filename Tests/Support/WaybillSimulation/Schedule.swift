/// Simulated time, and what happens at which instant of it: one thread, one order, nothing by chance but the seed.
final class Schedule {
    private struct Entry {
        let time: Int64
        let order: Int
        let body: () -> Void

        func isBefore(_ other: Entry) -> Bool {
            self.time < other.time || (self.time == other.time && self.order < other.order)
        }
    }

    /// Nanoseconds since the life began.
    private(set) var now: Int64 = 0
    private(set) var eventCount = 0
    private var heap: [Entry] = []
    private var order = 0

    func at(_ time: Int64, _ body: @escaping () -> Void) {
        self.order += 1
        self.heap.append(Entry(time: max(time, self.now), order: self.order, body: body))
        var child = self.heap.count - 1
        while child > 0 {
            let parent = (child - 1) / 2
            guard self.heap[child].isBefore(self.heap[parent]) else { break }
            self.heap.swapAt(child, parent)
            child = parent
        }
    }

    func after(_ delay: Int64, _ body: @escaping () -> Void) {
        self.at(self.now + delay, body)
    }

    /// Runs what is due until `end`, or until `isDone` says so.
    func run(until end: Int64, _ isDone: () -> Bool = { false }) {
        while let first = self.heap.first, first.time <= end, !isDone() {
            self.removeFirst()
            self.now = first.time
            self.eventCount += 1
            first.body()
        }
        if !isDone() { self.now = max(self.now, end) }
    }

    /// Forgets everything that was to happen, and what it holds.
    func clear() {
        self.heap = []
    }

    private func removeFirst() {
        self.heap.swapAt(0, self.heap.count - 1)
        self.heap.removeLast()
        var parent = 0
        while true {
            var least = parent
            for child in [2 * parent + 1, 2 * parent + 2]
            where child < self.heap.count && self.heap[child].isBefore(self.heap[least]) { least = child }
            guard least != parent else { return }
            self.heap.swapAt(parent, least)
            parent = least
        }
    }
}

extension Int64 {
    static func milliseconds(_ count: Int) -> Int64 { Int64(count) * 1_000_000 }
    static func seconds(_ count: Int) -> Int64 { Int64(count) * 1_000_000_000 }
}
