internal import WaybillEvent
internal import WaybillSystem

/// How many folders one account may create on one day.
package struct PartitionQuotas: Hashable, Sendable {
    /// New apps; lines of further ones go to the folder `_overflow`.
    package var appCountMax = 100
    /// Days of apps, but for those around the day of receipt; lines of further ones go to `_overflow`, at that day.
    package var dayCountMax = 400

    package init() {}
}

/// The folders that each account has created on the current day.
///
/// The day is that of receipt, so what an account may create does not depend on when the archive reads its batches.
struct PartitionCreations {
    private struct Count {
        var apps = 0
        var days = 0
    }

    private static let accountCountMax = 10_000

    private let quotas: PartitionQuotas
    private var counts: [Account?: Count] = [:]
    private var day: Int64 = 0

    init(_ quotas: PartitionQuotas) {
        self.quotas = quotas
    }

    mutating func begin(receivedAt: WallTime) {
        let day = receivedAt.milliseconds / 86_400_000
        guard day != self.day || self.counts.count > Self.accountCountMax else { return }
        self.day = day
        self.counts.removeAll()
    }

    /// Counts a new app, if there is one left.
    ///
    /// - Parameter isScarce: most folders of apps are taken; who has created many gets no more.
    mutating func takeApp(_ account: Account?, isScarce: Bool) -> Bool {
        let count = self.counts[account]?.apps ?? 0
        let bound = account?.limits.appCountMax ?? self.quotas.appCountMax * Self.weight(of: account)
        guard count < (isScarce ? bound / 10 : bound) else { return false }
        self.counts[account, default: Count()].apps += 1
        return true
    }

    /// Batches that were received before a start belong to accounts that are not known: they have more together.
    private static func weight(of account: Account?) -> Int { account == nil ? 10 : 1 }

    /// Counts a day of an app, if there is one left.
    mutating func takeDay(_ account: Account?) -> Bool {
        let bound = account?.limits.dayCountMax ?? self.quotas.dayCountMax * Self.weight(of: account)
        guard self.counts[account]?.days ?? 0 < bound else { return false }
        self.counts[account, default: Count()].days += 1
        return true
    }
}
