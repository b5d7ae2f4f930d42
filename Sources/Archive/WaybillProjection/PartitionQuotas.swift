internal import WaybillData
internal import WaybillEvent
internal import WaybillProtocol
internal import WaybillSystem

/// How many folders one account may create on one day, and how many days one principal may write to.
package struct PartitionQuotas: Hashable, Sendable {
    /// New apps; lines of further ones go to the folder `_overflow`.
    package var appCountMax = 100
    /// Days of apps, but for those around the day of receipt, that one principal may write to on a day of receipt; lines
    /// of further ones are shifted to the day of receipt, in `_overflow`.
    package var dayCountMax = 400
    /// In place of ``dayCountMax``, by the principal's name.
    package var dayCountMaxOfPrincipals: [String: Int] = [:]

    package init() {}
}

/// The apps that each account has created on the current day of receipt.
struct PartitionCreations {
    private static let accountCountMax = 10_000

    private let quotas: PartitionQuotas
    private var appCounts: [Account?: Int] = [:]
    private var day: Int64 = 0

    init(_ quotas: PartitionQuotas) {
        self.quotas = quotas
    }

    mutating func begin(receivedAt: WallTime) {
        let day = receivedAt.milliseconds / 86_400_000
        guard day != self.day || self.appCounts.count > Self.accountCountMax else { return }
        self.day = day
        self.appCounts.removeAll()
    }

    /// Counts a new app, if there is one left.
    ///
    /// - Parameter isScarce: most folders of apps are taken; who has created many gets no more.
    mutating func takeApp(_ account: Account?, isScarce: Bool) -> Bool {
        let count = self.appCounts[account] ?? 0
        let bound = account?.limits.appCountMax ?? self.quotas.appCountMax * Self.weight(of: account)
        guard count < (isScarce ? bound / 10 : bound) else { return false }
        self.appCounts[account, default: 0] += 1
        return true
    }

    /// Batches that were received before a start belong to accounts that are not known: they have more together.
    private static func weight(of account: Account?) -> Int { account == nil ? 10 : 1 }
}

/// The days of apps that each principal writes to on the current day of receipt, in UTC, but for those around it.
///
///     granted:shop/prod/com.example.shop/2026-08-01 = 20777        an entry of `archive.state`; the day of receipt
///
/// The archive decides and records it with its checkpoint: what was granted stays granted on that day of receipt,
/// whatever a start finds configured, and the lines of other days are `SHIFTED` in `.sources`. So it is decided once for
/// exports, replays and other readers, by the journal and the quotas at that time alone.
struct GrantedDays {
    struct Grant: Hashable {
        let principal: String
        /// The environment, the app as in its folder, and the day.
        let folder: String
    }

    static let keyPrefix = "granted:"
    /// What is older was not received late: the clock of the newest one was wrong.
    private static let lateDayCountMax: Int64 = 7

    private let quotas: PartitionQuotas
    private var day: Int64 = 0
    private var grants: [String: Set<String>] = [:]
    /// What the next checkpoint records.
    private var changes: [String: String?] = [:]
    /// Where the first batch begins of which no checkpoint has what was decided; `nil` if there is none.
    private(set) var undecided: JournalPosition?

    /// Continues with the entries of a checkpoint.
    init(_ quotas: PartitionQuotas, _ entries: [String: String] = [:]) {
        self.quotas = quotas
        for (key, value) in entries where key.hasPrefix(Self.keyPrefix) {
            guard let grant = Self.grant(key), let day = Int64(value) else { continue }
            self.day = day
            self.grants[grant.principal, default: []].insert(grant.folder)
        }
    }

    /// Whether a principal may write to a day that is not around the day of receipt; the first lines of a new one count.
    mutating func take(_ folder: String, for batch: ProjectedBatch) -> Bool {
        let principal = batch.description.owner.principalName
        self.begin(batch.receivedAt.milliseconds / 86_400_000)
        if self.grants[principal]?.contains(folder) ?? false { return true }
        if self.undecided == nil { self.undecided = batch.position }
        guard self.grants[principal]?.count ?? 0 < self.bound(of: principal, batch.account) else { return false }
        self.grants[principal, default: []].insert(folder)
        self.changes[Self.key(Grant(principal: principal, folder: folder))] = .some(String(self.day))
        return true
    }

    private func bound(of principal: String, _ account: Account?) -> Int {
        if let account, account.principal == principal { return account.limits.dayCountMax ?? self.quotas.dayCountMax }
        return self.quotas.dayCountMaxOfPrincipals[principal] ?? self.quotas.dayCountMax
    }

    /// Batches of a fleet's receivers come in no order of their days: those of earlier ones count with the newest.
    private mutating func begin(_ day: Int64) {
        guard !(self.day - Self.lateDayCountMax...self.day).contains(day) else { return }
        for (principal, folders) in self.grants {
            for folder in folders {
                self.changes.updateValue(nil, forKey: Self.key(Grant(principal: principal, folder: folder)))
            }
        }
        self.day = day
        self.grants = [:]
    }

    /// The entries that a checkpoint changes; ``committed()`` follows.
    var entries: [String: String?] { self.changes }

    mutating func committed() {
        self.changes = [:]
        self.undecided = nil
    }

    private static func key(_ grant: Grant) -> String {
        "\(Self.keyPrefix)\(PercentText.encode(grant.principal))/\(grant.folder)"
    }

    private static func grant(_ key: String) -> Grant? {
        let text = key.dropFirst(Self.keyPrefix.utf8.count)
        guard let slash = text.firstIndex(of: "/"), let principal = PercentText.decode(text[..<slash]) else {
            return nil
        }
        return Grant(principal: principal, folder: String(text[text.index(after: slash)...]))
    }
}
