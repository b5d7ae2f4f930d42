/// What happened to an event or a line that was not simply taken as it is, with the reason; a closed set.
package enum Outcome: Hashable, Sendable, CaseIterable {
    case skipped(NotExported)
    case fixed(FixCode)
    /// The provider does not accept it yet.
    case held
    case refused(RefusalReason)
    case quarantined(QuarantineReason)

    package static let allCases: [Outcome] =
        NotExported.allCases.map(Outcome.skipped) + FixCode.allCases.map(Outcome.fixed) + [.held]
        + RefusalReason.allCases.map(Outcome.refused) + QuarantineReason.allCases.map(Outcome.quarantined)

    private static let refusalStart = NotExported.allCases.count + FixCode.allCases.count + 1
    private static let refusalIndexes = Self.indexes(of: RefusalReason.allCases, from: Self.refusalStart)
    private static let quarantineIndexes = Self.indexes(
        of: QuarantineReason.allCases, from: Self.refusalStart + RefusalReason.allCases.count)

    private static func indexes<Reason: Hashable>(of reasons: [Reason], from start: Int) -> [Reason: Int] {
        Dictionary(uniqueKeysWithValues: reasons.enumerated().map { ($1, start + $0) })
    }

    /// Its place in ``allCases``.
    var index: Int {
        let index: Int? =
            switch self {
            case .skipped(let reason): reason.index
            case .fixed(let code): NotExported.allCases.count + code.index
            case .held: Self.refusalStart - 1
            case .refused(let reason): Self.refusalIndexes[reason]
            case .quarantined(let reason): Self.quarantineIndexes[reason]
            }
        guard let index else { preconditionFailure("every reason has an index") }
        return index
    }

    /// In logs: what was done.
    package var verb: String {
        switch self {
        case .skipped: "skipped"
        case .fixed: "changed"
        case .held: "holds"
        case .refused: "refused"
        case .quarantined: "quarantined"
        }
    }

    /// The reason, as in metrics and files.
    package var reason: String {
        switch self {
        case .skipped(let reason): reason.rawValue
        case .fixed(let code): code.rawValue
        case .held: "not-yet"
        case .refused(let reason): reason.rawValue
        case .quarantined(let reason): reason.rawValue
        }
    }

    /// Whether someone asked for it, or nothing of importance is lost by it: no operator need look at it at once.
    package var isUsual: Bool {
        switch self {
        case .skipped, .fixed, .refused(.consent), .quarantined(.erased): true
        case .held, .refused, .quarantined: false
        }
    }
}

extension RefusalReason {
    /// Whether a provider refuses events for this reason.
    package func isPossible(for provider: Destination) -> Bool {
        let parts = self.rawValue.split(separator: ".")
        guard parts.count == 2 else { return true }
        if case .custom = provider { return parts[0] == "custom" }
        return parts[0] == provider.subscriptionName
    }
}

/// How many times there was each outcome.
package struct OutcomeCounts: Hashable, Sendable {
    /// By ``Outcome/index``; empty until something is counted.
    private var counts: [Int] = []

    package init() {}

    package subscript(outcome: Outcome) -> Int {
        self.counts.isEmpty ? 0 : self.counts[outcome.index]
    }

    package mutating func add(_ count: Int, _ outcome: Outcome) {
        if self.counts.isEmpty { self.counts = [Int](repeating: 0, count: Outcome.allCases.count) }
        self.counts[outcome.index] += count
    }

    package mutating func add(_ fixes: FixCounts) {
        guard fixes.total > 0 else { return }
        for code in FixCode.allCases where fixes[code] > 0 { self.add(fixes[code], .fixed(code)) }
    }

    package mutating func add(_ other: OutcomeCounts) {
        guard !self.counts.isEmpty else { return self = other }
        for index in other.counts.indices { self.counts[index] += other.counts[index] }
    }

    /// Those that there were.
    package var outcomes: [(outcome: Outcome, count: Int)] {
        zip(Outcome.allCases, self.counts).filter { $1 > 0 }.map { ($0, $1) }
    }
}
