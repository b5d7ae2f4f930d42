/// How often a view that appears again and again is tracked.
public enum AppearancePolicy: Hashable, Sendable {
    /// Each time it appears.
    case always
    /// The first time in the life of the process.
    case once
    /// When so much time has passed since it was last tracked.
    case every(Duration)
}

/// Remembers what was tracked when, so that a policy can be kept.
///
/// Bounded: it knows ``keyCountMax`` keys; then it forgets the one tracked longest ago, which may be tracked again.
/// An event twice is the lesser harm: one too few cannot be brought back.
package struct AppearanceGate: Sendable {
    /// About 100 KiB with keys of 60 bytes.
    package static let keyCountMax = 1024

    package typealias Instant = ContinuousClock.Instant

    private struct Pass {
        let time: Instant
        /// Rises with every pass: times can be equal.
        let number: UInt64
    }

    private var passes: [String: Pass] = [:]
    private var passCount: UInt64 = 0

    package init() {}

    /// Whether the policy lets an event of this key pass now.
    package func admits(_ key: String, _ policy: AppearancePolicy, at now: Instant) -> Bool {
        guard let pass = self.passes[key] else { return true }
        switch policy {
        case .always: return true
        case .once: return false
        case .every(let interval): return now - pass.time >= interval
        }
    }

    /// An event of this key was stored; one that was dropped is not told, and may try again.
    package mutating func passed(_ key: String, _ policy: AppearancePolicy, at now: Instant) {
        // Nobody asks when it was.
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
