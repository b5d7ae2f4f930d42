internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// What each principal may have stored and skipped today, and how many streams each account may begin.
///
/// A method that takes something returns why it may not; `nil` if it may.
struct DayQuotas {
    private var stored = DayBudget()
    private var skipped = DayBudget()
    private var streams: StreamQuota

    init(_ quotas: AccountQuotas) {
        self.streams = StreamQuota(countMax: quotas.streamCountMax)
    }

    mutating func store(_ byteCount: UInt64, of principal: Principal, _ now: WallTime) -> String? {
        guard let max = principal.quotas.dayByteCountMax,
            !self.stored.take(byteCount, of: principal, max: max, at: now)
        else { return nil }
        return "the receiver has stored \(max) bytes for this principal today; see agents: quotas.day_mib"
    }

    mutating func skip(_ range: SkippedRange, of principal: Principal, _ now: WallTime) -> String? {
        let max = principal.skippedByteCountMax
        // What the fleet has is not given up.
        guard !range.reason.isOfFleet, !self.skipped.take(range.countedByteCount, of: principal, max: max, at: now)
        else { return nil }
        return "this principal has skipped \(max) bytes today; see agents: skip_mib"
    }

    /// Counts nothing: ``begun(by:)`` does, once the stream has its first bytes.
    mutating func begin(_ account: Account, _ now: WallTime) -> String? {
        self.streams.mayBegin(account, now)
            ? nil : "this agent has begun as many streams today as it may; see limits.streams"
    }

    mutating func begun(by account: Account) {
        self.streams.begun(by: account)
    }

    mutating func ended(by account: Account) {
        self.streams.ended(by: account)
    }
}

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
