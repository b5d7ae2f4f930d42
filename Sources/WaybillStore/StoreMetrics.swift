/// What is counted of a store's writes: `waybill_store_put_seconds` and `waybill_store_puts_total{outcome}`.
package struct StoreMetrics: Hashable, Sendable {
    /// A label's value; the set is closed.
    package enum Outcome: String, Hashable, Sendable, CaseIterable {
        case created
        /// The key had been written before, with the same content.
        case present
        /// The key had been written before, with other content.
        case foreign
        case failed
    }

    /// The upper bounds of the histogram's buckets; a last one has no bound.
    package static let bounds: [Duration] = [
        .milliseconds(10), .milliseconds(25), .milliseconds(50), .milliseconds(100), .milliseconds(250),
        .milliseconds(500), .seconds(1), .milliseconds(2500), .seconds(5), .seconds(10), .seconds(30),
    ]

    package private(set) var counts: [Outcome: Int] = [:]
    /// How many writes took at most ``bounds``' value, each with those before it; the last counts all.
    package private(set) var buckets = [Int](repeating: 0, count: StoreMetrics.bounds.count + 1)
    package private(set) var total = Duration.zero

    package init() {}

    package func count(_ outcome: Outcome) -> Int { self.counts[outcome] ?? 0 }

    /// - Parameter time: from the first attempt to the last answer.
    package mutating func add(_ outcome: Outcome, time: Duration) {
        self.counts[outcome, default: 0] += 1
        self.total += time
        for (index, bound) in Self.bounds.enumerated() where time <= bound { self.buckets[index] += 1 }
        self.buckets[Self.bounds.count] += 1
    }
}
