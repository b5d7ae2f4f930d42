/// What happened to an event or a line that was not simply taken as it is, with the reason.
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

/// How many times there was each outcome.
package struct OutcomeCounts: Hashable, Sendable {
    /// Apart from the others, because some providers skip most events.
    private var skips = SkipCounts()
    private var counts: [Outcome: Int] = [:]

    package init() {}

    package subscript(outcome: Outcome) -> Int {
        if case .skipped(let reason) = outcome { return self.skips[reason] }
        return self.counts[outcome] ?? 0
    }

    package mutating func add(_ count: Int, _ outcome: Outcome) {
        if case .skipped(let reason) = outcome { return self.skips.add(count, reason) }
        self.counts[outcome, default: 0] += count
    }

    package mutating func add(_ fixes: FixCounts) {
        guard fixes.total > 0 else { return }
        for code in FixCode.allCases where fixes[code] > 0 { self.add(fixes[code], .fixed(code)) }
    }

    package mutating func add(_ other: OutcomeCounts) {
        for reason in NotExported.allCases { self.skips.add(other.skips[reason], reason) }
        self.counts.merge(other.counts, uniquingKeysWith: +)
    }

    /// Those that there were, in the order of ``Outcome/allCases``; then a registered provider's own reasons.
    package var outcomes: [(outcome: Outcome, count: Int)] {
        let known = Outcome.allCases.filter { self[$0] > 0 }
        let others = Set(self.counts.keys).subtracting(Outcome.allCases).sorted { $0.reason < $1.reason }
        return (known + others).map { ($0, self[$0]) }
    }
}
