package import WaybillProtocol

/// Which lines were put into the quarantine, or refused by an export: whose, of which stream, and why.
package struct QuarantineKey: Hashable, Sendable {
    package let account: Account
    package let stream: StreamID
    /// `nil` for the quarantine.
    package var export: String?
    /// The file's name in the quarantine, or why the export refused them.
    package let reason: String
}

/// How many lines were put into the quarantine, or refused, since they were last taken; for people, so it has a bound and forgets.
package struct QuarantineCounts: Sendable {
    private static let keyCountMax = 4096

    private var counts: [QuarantineKey: Int] = [:]

    package init() {}

    package mutating func add(_ count: Int, for key: QuarantineKey) {
        guard self.counts.count < Self.keyCountMax || self.counts[key] != nil else { return }
        self.counts[key, default: 0] += count
    }

    package mutating func add(_ other: QuarantineCounts) {
        for (key, count) in other.counts { self.add(count, for: key) }
    }

    package var isEmpty: Bool { self.counts.isEmpty }

    /// Returns and forgets the counts of one account, the greatest first.
    package mutating func take(of account: Account) -> [QuarantineCount] {
        let counts = self.byAccount[account] ?? []
        for key in self.counts.keys.filter({ $0.account == account }) { self.counts[key] = nil }
        return counts
    }

    /// The counts of each account, the greatest first.
    package var byAccount: [Account: [QuarantineCount]] {
        var accounts: [Account: [QuarantineCount]] = [:]
        for (key, count) in self.counts {
            accounts[key.account, default: []].append(
                QuarantineCount(stream: key.stream, export: key.export, reason: key.reason, count: count))
        }
        return accounts.mapValues { counts in
            counts.sorted { ($1.count, $0.stream.text, $0.reason) < ($0.count, $1.stream.text, $1.reason) }
        }
    }
}
