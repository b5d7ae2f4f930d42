internal import WaybillSystem

/// How many bytes each principal has skipped today (UTC), since the start.
struct SkipBudget {
    private var counts: [String: UInt64] = [:]
    private var day: Int64 = 0

    /// Takes the bytes from a principal's budget.
    ///
    /// - Returns: whether there was enough left.
    mutating func take(_ byteCount: UInt64, of principal: Principal, at time: WallTime) -> Bool {
        let today = time.milliseconds / 86_400_000
        if today != self.day {
            self.day = today
            self.counts.removeAll()
        }
        let sum = (self.counts[principal.name] ?? 0).addingReportingOverflow(byteCount)
        guard !sum.overflow, sum.partialValue <= principal.skippedByteCountMax else { return false }
        self.counts[principal.name] = sum.partialValue
        return true
    }
}
