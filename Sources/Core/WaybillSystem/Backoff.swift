/// How long to wait after consecutive failures: a random time up to a bound that doubles with each ("full jitter"), so
/// that a thousand agents do not reconnect together.
///
/// - SeeAlso: "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package struct Backoff: Sendable {
    private let shortest: Duration
    private let longest: Duration
    private var failureCount = 0
    private var generator: SeededGenerator

    private static let waitMillisecondsMin: Int64 = 10

    /// - Parameters:
    ///   - shortest: the bound of the first wait.
    ///   - longest: the limit of every later bound.
    package init(from shortest: Duration, to longest: Duration, _ generator: SeededGenerator) {
        self.shortest = shortest
        self.longest = longest
        self.generator = generator
    }

    /// How long to wait after one more failure.
    ///
    /// - Parameter limit: what this wait's bound does not exceed, whatever the longest is.
    package mutating func fail(noLongerThan limit: Duration? = nil) -> Duration {
        // 2^10 times the shortest wait exceeds every longest wait in use.
        let doubled = min(self.longest, self.shortest * (1 << min(self.failureCount, 10)))
        let bound = min(doubled, limit ?? doubled).nanoseconds / 1_000_000
        self.failureCount += 1
        return .milliseconds(Int64.random(in: min(Self.waitMillisecondsMin, bound)...bound, using: &self.generator))
    }

    /// How long to wait after a failure that time alone does not fix.
    package mutating func failForLong() -> Duration {
        self.failureCount = max(self.failureCount, 10)
        return self.fail()
    }

    package mutating func succeed() {
        self.failureCount = 0
    }
}
