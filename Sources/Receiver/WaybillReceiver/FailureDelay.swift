package import WaybillSystem

/// Slows attempts to be let in that fail, by address: the answer to each is later than to the one before it.
///
/// Only answers to failed attempts wait, so agents with the right credentials are let in at once from any address.
package struct FailureDelay {
    private struct Entry {
        var count: Int
        var last: MonotonicTime
    }

    /// An operator who corrects a token is answered at once.
    private static let freeCount = 3
    private static let delayMin = Duration.milliseconds(250)
    private static let delayMax = Duration.seconds(5)
    /// How long an address is remembered after its last failure.
    private static let memory = Duration.seconds(60)
    private static let addressCountMax = 10_000

    private var entries: [String: Entry] = [:]

    package init() {}

    /// - Returns: how long the answer waits.
    package mutating func failed(from address: String, at now: MonotonicTime) -> Duration {
        if self.entries[address] == nil, self.entries.count >= Self.addressCountMax {
            self.entries = self.entries.filter { now - $0.value.last < Self.memory }
            // More addresses fail than are remembered: all begin again.
            if self.entries.count >= Self.addressCountMax { self.entries.removeAll() }
        }
        var entry = self.entries[address] ?? Entry(count: 0, last: now)
        if now - entry.last >= Self.memory { entry.count = 0 }
        entry.count += 1
        entry.last = now
        self.entries[address] = entry
        guard entry.count > Self.freeCount else { return .zero }
        return min(Self.delayMin * (1 << min(entry.count - Self.freeCount - 1, 10)), Self.delayMax)
    }
}
