internal import WaybillSystem

/// How many bytes of one kind each principal has used today (UTC), since the start.
struct DayBudget {
    private var counts: [String: UInt64] = [:]
    private var day: Int64 = 0

    /// Takes bytes from a principal's budget for the day.
    ///
    /// - Returns: whether there was enough left.
    mutating func take(_ byteCount: UInt64, of principal: Principal, max: UInt64, at time: WallTime) -> Bool {
        let today = time.milliseconds / 86_400_000
        if today != self.day {
            self.day = today
            self.counts.removeAll()
        }
        let sum = (self.counts[principal.name] ?? 0).addingReportingOverflow(byteCount)
        guard !sum.overflow, sum.partialValue <= max else { return false }
        self.counts[principal.name] = sum.partialValue
        return true
    }
}
