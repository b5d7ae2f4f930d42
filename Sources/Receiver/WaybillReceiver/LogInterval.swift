internal import WaybillSystem

/// Bounds the log lines of one cause: one a second, each with how many occurrences were not logged before it.
struct LogInterval {
    private var next: MonotonicTime?
    private var untoldCount = 0

    /// - Returns: how many occurrences were left out since the last line; `nil` to leave this one out too.
    mutating func admit(at now: MonotonicTime) -> Int? {
        if let next = self.next, now < next {
            self.untoldCount += 1
            return nil
        }
        defer { self.untoldCount = 0 }
        self.next = now + .seconds(1)
        return self.untoldCount
    }
}
