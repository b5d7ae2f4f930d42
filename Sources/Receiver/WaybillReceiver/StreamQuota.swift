internal import WaybillProjection
internal import WaybillSystem

/// How many streams each account has begun today: the receiver remembers each of them for good.
///
/// Those that are not sealed take up to 800 bytes on the disk when they are at rest, and are bounded by the configuration.
/// Sealed ones take 120 bytes; with them an account may begin ten times as many.
struct StreamQuota {
    private struct Count {
        var all = 0
        var unsealed = 0
    }

    private static let accountCountMax = 10_000
    private static let sealedFactor = 10

    private let countMax: Int
    private var counts: [Account: Count] = [:]
    private var day: Int64 = 0

    init(countMax: Int) {
        self.countMax = countMax
    }

    mutating func mayBegin(_ account: Account, _ now: WallTime) -> Bool {
        let today = now.milliseconds / 86_400_000
        if today != self.day {
            self.day = today
            self.counts.removeAll()
        }
        let count = self.counts[account] ?? Count()
        let max = account.limits.streamCountMax ?? self.countMax
        return count.unsealed < max && count.all < max * Self.sealedFactor
    }

    mutating func begun(by account: Account) {
        // Accounts without a name of their own that count would be free: the smallest are forgotten.
        if self.counts.count >= Self.accountCountMax, self.counts[account] == nil {
            let bound = self.countMax / 2
            self.counts = self.counts.filter { $0.value.unsealed > bound || $0.value.all > self.countMax }
        }
        self.counts[account, default: Count()].all += 1
        self.counts[account, default: Count()].unsealed += 1
    }

    mutating func ended(by account: Account) {
        if let count = self.counts[account], count.unsealed > 0 { self.counts[account]?.unsealed -= 1 }
    }
}
