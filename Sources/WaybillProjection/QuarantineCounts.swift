package import WaybillProtocol

/// Which lines were put into the quarantine: whose, of which stream, and why.
package struct QuarantineKey: Hashable, Sendable {
    package let account: Account
    package let stream: StreamID
    /// The file's name in the quarantine.
    package let reason: String
}

/// How many lines were put into the quarantine since they were last taken; for people, so it has a bound and forgets.
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

    /// The counts of each account, the greatest first.
    package var byAccount: [Account: [QuarantineCount]] {
        var accounts: [Account: [QuarantineCount]] = [:]
        for (key, count) in self.counts {
            accounts[key.account, default: []].append(
                QuarantineCount(stream: key.stream, reason: key.reason, count: count))
        }
        return accounts.mapValues { counts in
            counts.sorted { ($1.count, $0.stream.text, $0.reason) < ($0.count, $1.stream.text, $1.reason) }
        }
    }
}
