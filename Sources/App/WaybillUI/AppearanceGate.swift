/// How often a view that appears repeatedly is tracked.
public enum AppearancePolicy: Hashable, Sendable {
    /// Every time it appears.
    case always
    /// Only the first time in this process.
    case once
    /// Only if this much time has passed since it was last tracked.
    case every(Duration)
}

/// Remembers when each key was last tracked, to apply a policy.
///
/// Bounded: it remembers ``keyCountMax`` keys, then forgets the one tracked longest ago, which may be tracked again. A
/// duplicate event does less harm than a missing one.
package struct AppearanceGate: Sendable {
    /// About 100 KiB with keys of 60 bytes.
    package static let keyCountMax = 1024

    package typealias Instant = ContinuousClock.Instant

    private struct Pass {
        let time: Instant
        /// Increases with every pass, because times can be equal.
        let number: UInt64
    }

    private var passes: [String: Pass] = [:]
    private var passCount: UInt64 = 0

    package init() {}

    /// Whether the policy allows an event with this key now.
    package func admits(_ key: String, _ policy: AppearancePolicy, at now: Instant) -> Bool {
        guard let pass = self.passes[key] else { return true }
        switch policy {
        case .always: return true
        case .once: return false
        case .every(let interval): return now - pass.time >= interval
        }
    }

    /// Records that an event with this key was stored; dropped events are not recorded and may be tried again.
    package mutating func passed(_ key: String, _ policy: AppearancePolicy, at now: Instant) {
        // `.always` does not need the time.
        if policy == .always { return }
        if self.passes[key] == nil, self.passes.count == Self.keyCountMax { self.forgetOldest() }
        self.passCount += 1
        self.passes[key] = Pass(time: now, number: self.passCount)
    }

    private mutating func forgetOldest() {
        guard let oldest = self.passes.min(by: { $0.value.number < $1.value.number }) else { return }
        self.passes[oldest.key] = nil
    }
}
