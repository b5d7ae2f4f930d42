import CAllocations
import WaybillSystem

/// Runs a path repeatedly, and prints the cost of a round.
struct Bench {
    /// The processor time for each path.
    private let limit: Duration
    private let only: String
    private let mustHold: Bool
    /// Whether a path exceeded its allocation budget.
    private(set) var isBroken = false

    init(seconds: Double, only: String, mustHold: Bool) {
        self.limit = .seconds(seconds)
        self.only = only
        self.mustHold = mustHold
    }

    /// Measures a path.
    ///
    /// - Parameters:
    ///   - items: the number of events, batches or messages in a round.
    ///   - bytes: the number of bytes processed in a round.
    ///   - allocationsMax: the maximum number of allocations in a round once its buffers have grown.
    ///   - round: runs the path once, in the same way each time.
    mutating func measure(
        _ path: String, items: Int, bytes: Int = 0, allocationsMax: Int, round: () throws -> Void
    ) rethrows {
        guard path.hasPrefix(self.only) else { return }
        for _ in 0..<3 { try round() }
        var rounds = 0
        let clock = POSIXClock()
        let started = (wall: clock.monotonicTime(), processor: ProcessUsage.processorTime)
        var spent = Duration.zero
        let before = waybill_allocation_count()
        var asked: UInt64 = 0
        while spent < self.limit {
            // Reading the clock costs more than the shortest rounds.
            for _ in 0..<16 { try round() }
            rounds += 16
            asked = waybill_allocation_count() - before
            spent = ProcessUsage.processorTime - started.processor
        }
        let wall = clock.monotonicTime() - started.wall
        let allocations = Double(asked) / Double(rounds)
        self.report(
            path, nanoseconds: spent / rounds / items, wall: wall / rounds / items,
            megabytesPerSecond: Double(bytes * rounds) / 1e6 / Self.seconds(spent), allocations, allocationsMax)
    }

    private mutating func report(
        _ path: String, nanoseconds: Duration, wall: Duration, megabytesPerSecond: Double, _ allocations: Double,
        _ allocationsMax: Int
    ) {
        var fields = [
            "\"path\":\"\(path)\"", "\"cpu_ns_per_item\":\(Self.rounded(Self.seconds(nanoseconds) * 1e9))",
            "\"wall_ns_per_item\":\(Self.rounded(Self.seconds(wall) * 1e9))",
        ]
        if megabytesPerSecond > 0 { fields.append("\"mb_per_cpu_s\":\(Self.rounded(megabytesPerSecond))") }
        fields.append("\"allocations_per_round\":\(Self.rounded(allocations))")
        fields.append("\"allocations_max\":\(allocationsMax)")
        let isBroken = allocations > Double(allocationsMax)
        if isBroken { fields.append("\"verdict\":\"allocates too often\"") }
        print("{\(fields.joined(separator: ","))}")
        if self.mustHold, isBroken { self.isBroken = true }
    }

    private static func seconds(_ duration: Duration) -> Double {
        Double(duration.components.seconds) + Double(duration.components.attoseconds) / 1e18
    }

    private static func rounded(_ value: Double) -> String {
        value >= 1000 ? String(Int(value.rounded())) : String((value * 10).rounded() / 10)
    }
}
