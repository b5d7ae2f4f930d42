internal import WaybillSystem

/// Lets one line a second through for each cause and address, after a few at once, and counts the others.
struct LogLimiter<Cause: Hashable> {
    private struct Key: Hashable {
        let cause: Cause
        /// `nil`: all addresses past ``keyCountMax``.
        let address: String?
    }

    private struct Bucket {
        /// Lines that may be written at once.
        var lineCount: Double
        var refilledAt: MonotonicTime
        var suppressedCount = 0
    }

    private static var burst: Double { 5 }
    private static var keyCountMax: Int { 1024 }

    private var buckets: [Key: Bucket] = [:]

    /// Whether to write a line now.
    ///
    /// - Returns: how many lines like it were left out since the last one; `nil` to leave this one out too.
    mutating func take(_ cause: Cause, _ address: String, _ now: MonotonicTime) -> Int? {
        var key = Key(cause: cause, address: address)
        if self.buckets[key] == nil, self.buckets.count >= Self.keyCountMax {
            self.forget(now)
            if self.buckets.count >= Self.keyCountMax { key = Key(cause: cause, address: nil) }
        }
        var bucket = self.buckets[key] ?? Bucket(lineCount: Self.burst, refilledAt: now)
        let passed = Double((now - bucket.refilledAt).nanoseconds) / 1e9
        bucket.lineCount = min(Self.burst, bucket.lineCount + max(0, passed))
        bucket.refilledAt = now
        defer { self.buckets[key] = bucket }
        guard bucket.lineCount >= 1 else {
            bucket.suppressedCount += 1
            return nil
        }
        bucket.lineCount -= 1
        defer { bucket.suppressedCount = 0 }
        return bucket.suppressedCount
    }

    /// Forgets who has been quiet for long enough.
    private mutating func forget(_ now: MonotonicTime) {
        self.buckets = self.buckets.filter {
            $0.value.suppressedCount > 0 || now - $0.value.refilledAt < .seconds(Int(Self.burst))
        }
    }

    /// What was left out and not told yet, by cause.
    mutating func takeSuppressed() -> [Cause: Int] {
        var counts: [Cause: Int] = [:]
        for (key, bucket) in self.buckets where bucket.suppressedCount > 0 {
            counts[key.cause, default: 0] += bucket.suppressedCount
        }
        self.buckets.removeAll()
        return counts
    }
}
