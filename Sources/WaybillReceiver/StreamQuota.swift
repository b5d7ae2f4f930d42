internal import WaybillProjection
internal import WaybillSystem

/// How many streams each account has begun today and not sealed: the receiver remembers each of them.
struct StreamQuota {
    private static let accountCountMax = 10_000

    private let countMax: Int
    private var counts: [Account: Int] = [:]
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
        return self.counts[account] ?? 0 < self.countMax
    }

    mutating func begun(by account: Account) {
        // Accounts without a name of their own that count would be free: the smallest are forgotten.
        if self.counts.count >= Self.accountCountMax, self.counts[account] == nil {
            let bound = self.countMax / 2
            self.counts = self.counts.filter { $0.value > bound }
        }
        self.counts[account, default: 0] += 1
    }

    mutating func ended(by account: Account) {
        if let count = self.counts[account], count > 0 { self.counts[account] = count - 1 }
    }
}
