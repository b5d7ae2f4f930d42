internal import WaybillSystem

/// How often something took how long.
///
/// Any thread may add to it, once per batch or commit, not per line.
package final class DurationHistogram: Sendable {
    private struct State {
        /// One count for each bound, and one for what took longer.
        var counts: [Int]
        var sum = Duration.zero
    }

    /// The greatest duration of each bucket in milliseconds, with the text of its seconds.
    package struct Bounds: Sendable {
        fileprivate let values: [(milliseconds: Double, seconds: String)]

        /// For what a disk does: half a millisecond to a minute.
        package static let disk = Bounds(values: [
            (0.5, "0.0005"), (1, "0.001"), (2.5, "0.0025"), (5, "0.005"), (10, "0.01"), (25, "0.025"), (50, "0.05"),
            (100, "0.1"), (250, "0.25"), (500, "0.5"), (1000, "1"), (2500, "2.5"), (5000, "5"), (10_000, "10"),
            (30_000, "30"), (60_000, "60"),
        ])
        /// For what waits for networks and people: ten milliseconds to a week.
        package static let delivery = Bounds(values: [
            (10, "0.01"), (50, "0.05"), (100, "0.1"), (250, "0.25"), (500, "0.5"), (1000, "1"), (2500, "2.5"),
            (5000, "5"), (10_000, "10"), (30_000, "30"), (60_000, "60"), (300_000, "300"), (1_800_000, "1800"),
            (7_200_000, "7200"), (21_600_000, "21600"), (86_400_000, "86400"), (604_800_000, "604800"),
        ])
    }

    fileprivate let bounds: Bounds
    private let state: Lock<State>

    package init(_ bounds: Bounds = .disk) {
        self.bounds = bounds
        self.state = Lock(State(counts: [Int](repeating: 0, count: bounds.values.count + 1)))
    }

    package func add(_ duration: Duration) {
        let milliseconds = duration / .milliseconds(1)
        let bucket = self.bounds.values.firstIndex { milliseconds <= $0.milliseconds } ?? self.bounds.values.count
        self.state.withLock { state in
            state.counts[bucket] += 1
            state.sum += duration
        }
    }

    /// The counts of the buckets, and the sum of the durations, of one moment.
    fileprivate var standing: (counts: [Int], sum: Duration) {
        self.state.withLock { ($0.counts, $0.sum) }
    }
}

extension MetricsPage {
    /// Adds a histogram of seconds; each bucket includes those before it.
    package mutating func add(_ metric: Metric, _ histogram: DurationHistogram) {
        let (counts, sum) = histogram.standing
        self.add(metric) { family in
            var total = 0
            for (count, bound) in zip(counts, histogram.bounds.values.map(\.seconds) + ["+Inf"]) {
                total += count
                family.add("\(total)", [("le", bound)], suffix: "_bucket")
            }
            family.add("\(sum / .seconds(1))", suffix: "_sum")
            family.add("\(total)", suffix: "_count")
        }
    }
}
