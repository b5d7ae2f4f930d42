internal import WaybillData
internal import WaybillExport
internal import WaybillJSON

/// What came of a plan so far: counts, and examples of what did not match.
///
/// A value without a clock or a file. Its size is bounded by the plan, the providers, and ``otherNameCountMax``.
struct PlanProgress {
    /// Why an event with an entry's name does not match it.
    struct Difference: Equatable {
        /// `data.currency`, or a provider's name.
        let subject: String
        let isProvider: Bool
        let expected: String
        /// `nil` if the event has no such member.
        let found: String?
        var reason: String?
        var detail: String?
        var field: String?
    }

    /// An event with an entry's name.
    struct Example: Equatable {
        let place: LineID
        let id: String?
        let differences: [Difference]
    }

    struct Entry {
        var count = 0
        /// How many events have the name and do not match.
        var differingCount = 0
        /// Of an expected event those that do not match, of one that must not come those that do.
        var examples: [Example] = []

        fileprivate mutating func add(_ example: Example) {
            if self.examples.count < PlanProgress.exampleCountMax { self.examples.append(example) }
        }
    }

    struct Refusal: Hashable {
        let name: String
        let provider: String
        let reason: String
    }

    struct RefusedEvents {
        var count = 0
        let detail: String?
        let field: String?
    }

    struct QuarantinedEvents {
        var count = 0
        /// The name in the first line; `nil` if it has none that can be read.
        let name: String?
        let line: String
    }

    static let exampleCountMax = 3
    static let otherNameCountMax = 200
    /// What is kept of a text in an event.
    private static let textCountMax = 200

    let plan: EventPlan
    private(set) var expected: [Entry]
    private(set) var never: [Entry]
    private(set) var refused: [Refusal: RefusedEvents] = [:]
    private(set) var quarantined: [QuarantineReason: QuarantinedEvents] = [:]
    /// Names that the plan does not have.
    private(set) var others: [String: Int] = [:]
    private(set) var uncountedOtherCount = 0
    private(set) var eventCount = 0
    /// Ranges of the journal that could not be read.
    private(set) var gaps: [JournalDamage] = []
    private let expectedByName: [String: [Int]]
    private let neverByName: [String: [Int]]

    init(_ plan: EventPlan) {
        self.plan = plan
        self.expected = Array(repeating: Entry(), count: plan.expectations.count)
        self.never = Array(repeating: Entry(), count: plan.never.count)
        self.expectedByName = Dictionary(grouping: plan.expectations.indices) { plan.expectations[$0].pattern.name }
        self.neverByName = Dictionary(grouping: plan.never.indices) { plan.never[$0].name }
    }

    /// Whether everything that must come has come.
    var hasEverything: Bool {
        // A plan that asks for nothing is never done by itself.
        plan.expectations.contains { $0.countMin > 0 }
            && zip(plan.expectations, self.expected).allSatisfy { $1.count >= $0.countMin }
    }

    /// Whether the plan is fulfilled as far as it is known now.
    var isFulfilled: Bool {
        self.gaps.isEmpty && self.never.allSatisfy { $0.count == 0 }
            && zip(plan.expectations, self.expected).allSatisfy { expectation, entry in
                entry.count >= expectation.countMin && entry.count <= expectation.countMax ?? .max
            }
    }

    // MARK: What comes

    /// Counts an event.
    ///
    /// - Parameter outcomes: makes what each provider makes of it; called for names that the plan has.
    mutating func take(_ line: borrowing ShownLine, at place: LineID, outcomes: () -> [ProviderOutcome]) {
        self.eventCount += 1
        let name = line.name
        let (expected, never) = (self.expectedByName[name] ?? [], self.neverByName[name] ?? [])
        guard !expected.isEmpty || !never.isEmpty else { return self.takeOther(name) }
        let found = outcomes()
        for outcome in found where outcome.kind == .refused {
            let refusal = Refusal(name: name, provider: outcome.provider, reason: outcome.reason ?? "")
            self.refused[refusal, default: RefusedEvents(detail: outcome.detail, field: outcome.field)].count += 1
        }
        for index in expected {
            let differences = Self.differences(self.plan.expectations[index].pattern, line, found)
            guard !differences.isEmpty else {
                self.expected[index].count += 1
                continue
            }
            self.expected[index].differingCount += 1
            self.expected[index].add(Example(place: place, id: line.text("id"), differences: differences))
        }
        for index in never where Self.differences(self.plan.never[index], line, found).isEmpty {
            self.never[index].count += 1
            self.never[index].add(Example(place: place, id: line.text("id"), differences: []))
        }
    }

    private mutating func takeOther(_ name: String) {
        let name = ShownText.cut(name)
        guard self.others[name] != nil || self.others.count < Self.otherNameCountMax else {
            return self.uncountedOtherCount += 1
        }
        self.others[name, default: 0] += 1
    }

    /// Counts a line that is not an event.
    mutating func take(_ line: QuarantinedLine) {
        let text = String(decoding: line.bytes.prefix(Self.textCountMax), as: UTF8.self)
        let name = JSONValue(line.bytes)?["name"]?.string.map { ShownText.cut($0) }
        self.quarantined[line.reason, default: QuarantinedEvents(name: name, line: text)].count += 1
    }

    mutating func take(_ gaps: [JournalDamage]) {
        self.gaps += gaps.prefix(max(0, Self.exampleCountMax - self.gaps.count))
    }

    private static func differences(
        _ pattern: EventPlan.Pattern, _ line: borrowing ShownLine, _ outcomes: [ProviderOutcome]
    ) -> [Difference] {
        var differences: [Difference] = []
        for member in pattern.members {
            let found = line.typedValue(at: member.path)
            guard !member.wanted.matches(found) else { continue }
            differences.append(
                Difference(
                    subject: member.name, isProvider: false, expected: member.wanted.text,
                    found: found.map { EventPlan.Wanted.text($0.type, $0.text) }))
        }
        for entry in pattern.providers {
            guard let outcome = outcomes.first(where: { $0.provider == entry.provider }), outcome.kind != entry.outcome
            else { continue }
            differences.append(
                Difference(
                    subject: entry.provider, isProvider: true, expected: entry.outcome.rawValue,
                    found: outcome.kind.rawValue, reason: outcome.reason, detail: outcome.detail, field: outcome.field))
        }
        return differences
    }
}

extension EventPlan.Wanted {
    /// Whether a member of an event is what is wanted; `nil` is one that the event does not have.
    func matches(_ found: (type: String, text: String)?) -> Bool {
        guard let found else { return false }
        switch self {
        case .type(let type): return type.includes(found.type)
        case .value(.integer, let text), .value(.number, let text):
            guard EventPlan.MemberType.number.includes(found.type) else { return false }
            // 10 and 10.0 are the same number; integers that a Double cannot tell apart are not.
            if let wanted = Int(text), let number = Int(found.text) { return wanted == number }
            return Double(text) == Double(found.text)
        case .value(let type, let text): return type.rawValue == found.type && text == found.text
        }
    }

    /// For people: a value as JSON has it, or its type.
    var text: String {
        switch self {
        case .type(let type): "a value of type \(type.rawValue)"
        case .value(let type, let text): Self.text(type.rawValue, text)
        }
    }

    static func text(_ type: String, _ text: String) -> String {
        type == EventPlan.MemberType.string.rawValue ? "\"\(ShownText.cut(text))\"" : ShownText.cut(text)
    }
}
