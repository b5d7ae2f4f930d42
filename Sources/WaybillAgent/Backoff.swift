internal import WaybillSystem

/// Waiting times between attempts: full jitter, so that a thousand agents do not come back together.
///
/// - SeeAlso: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
struct Backoff: Sendable {
    private static let firstMilliseconds = 500
    private static let lastMilliseconds = 60_000

    private var attempt = 0
    private var generator: SeededGenerator

    init(seed: UInt64) {
        self.generator = SeededGenerator(seed: seed)
    }

    /// How long to wait before the next attempt.
    mutating func next() -> Duration {
        let bound = min(Self.lastMilliseconds, Self.firstMilliseconds << min(self.attempt, 10))
        self.attempt += 1
        return .milliseconds(Int.random(in: 10...bound, using: &self.generator))
    }

    mutating func reset() {
        self.attempt = 0
    }
}
