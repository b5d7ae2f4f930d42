/// What an event must be like: for a step of a funnel, a rule or `--where`.
///
///     Sign Up Tapped                    the event's name
///     screen=SignUp                     a view of that screen; in --where, on that screen
///     kind=user & user=*                several conditions; `*` is any value
///     data.tier!=FREE                   `!=` is anything else, also nothing
package struct EventCondition: Hashable, Sendable {
    /// One comparison.
    struct Term: Hashable, Sendable {
        let field: EventField
        let isNegated: Bool
        /// `nil`: any value.
        let value: String?
    }

    let text: String
    let terms: [Term]
    /// Whether it counts views of a screen, not everything that happens on it.
    let isView: Bool
}

/// What a field of a condition or a division is called.
struct FieldNames {
    /// The properties that are asked for so far.
    private(set) var properties: [PropertyPath] = []

    /// Members of a line that need no property.
    private static let fields: [String: EventField] = [
        "name": .name, "screen": .screen, "on": .screen, "kind": .kind, "user": .user, "anon": .install,
        "session": .session, "version": .version, "app": .version, "os_version": .systemVersion, "agent": .agent,
        "new": .isNew,
    ]
    /// Members of a line that are properties.
    private static let members: Set<String> = [
        "os", "model", "lang", "build", "screen_class", "country", "tz", "prev", "log", "sample_rate",
    ]

    static var known: [String] {
        Self.fields.keys.sorted() + Self.members.sorted() + ["data.NAME", "traits.NAME"]
    }

    /// The field of a name; `nil` if there is none.
    mutating func field(_ name: String) -> EventField? {
        if let field = Self.fields[name] { return field }
        if Self.members.contains(name) { return self.property(.member(name)) }
        for (prefix, make) in [("data.", PropertyPath.data), ("traits.", PropertyPath.trait)]
        where name.hasPrefix(prefix) && name.utf8.count > prefix.utf8.count {
            return self.property(make(String(name.dropFirst(prefix.utf8.count))))
        }
        return nil
    }

    private mutating func property(_ path: PropertyPath) -> EventField {
        if let index = self.properties.firstIndex(of: path) { return .property(index) }
        self.properties.append(path)
        return .property(self.properties.count - 1)
    }

    /// Reads a condition.
    ///
    /// - Parameters:
    ///   - option: the option that it is from.
    ///   - isStep: whether `screen=` means a view.
    mutating func condition(
        _ text: String, option: String, isStep: Bool
    ) throws(ReportFailure) -> EventCondition {
        var terms: [EventCondition.Term] = []
        var isView = false
        for part in Self.parts(text) {
            let term = try self.term(part, option: option, whole: text)
            if isStep, part.hasPrefix("screen="), !term.isNegated { isView = true }
            terms.append(term)
        }
        for term in terms where !term.isNegated && term.value != nil {
            let other = terms.first { $0.field == term.field && !$0.isNegated && $0.value != nil && $0 != term }
            let excluded = terms.contains { $0.field == term.field && $0.isNegated && $0.value == term.value }
            if other != nil || excluded {
                throw .badOption(name: option, text: text, remedy: "no event can be like that; leave one condition out")
            }
        }
        return EventCondition(text: text, terms: terms, isView: isView)
    }

    private static func parts(_ text: String) -> [String] {
        var parts: [String] = []
        var rest = Substring(text)
        while let place = rest.firstRange(of: " & ") {
            parts.append(String(rest[..<place.lowerBound]))
            rest = rest[place.upperBound...]
        }
        return parts + [String(rest)]
    }

    private mutating func term(
        _ part: String, option: String, whole: String
    ) throws(ReportFailure) -> EventCondition.Term {
        guard !part.isEmpty else {
            throw .badOption(name: option, text: whole, remedy: "write an event's name or FIELD=VALUE")
        }
        guard let place = part.firstIndex(of: "=") else {
            return EventCondition.Term(field: .name, isNegated: false, value: part)
        }
        let isNegated = part[..<place].hasSuffix("!")
        let name = String(part[..<place].dropLast(isNegated ? 1 : 0))
        let value = String(part[part.index(after: place)...])
        guard let field = self.field(name) else {
            throw .badOption(
                name: option, text: whole,
                remedy: "\"\(name)\" is not a field; the fields are \(Self.known.joined(separator: ", "))")
        }
        if field == .kind, value != "*", !["event", "screen", "action", "user", "meta"].contains(value) {
            throw .badOption(
                name: option, text: whole, remedy: "a kind is event, screen, action, user or meta")
        }
        return EventCondition.Term(field: field, isNegated: isNegated, value: value == "*" ? nil : value)
    }
}

/// A condition with its texts looked up in a table.
struct Matcher: Sendable {
    private struct Term: Sendable {
        let field: EventField
        let isNegated: Bool
        let isAny: Bool
        /// 0: no event has that text.
        let number: UInt32
        let kind: RowKind?
        let isYes: Bool
    }

    private let terms: [Term]
    private let isView: Bool

    init(_ condition: EventCondition, _ table: EventTable) {
        self.isView = condition.isView
        self.terms = condition.terms.map { term in
            Term(
                field: term.field, isNegated: term.isNegated, isAny: term.value == nil,
                number: term.value.map { table.strings.find($0) } ?? 0,
                kind: term.value.flatMap { RowKind(name: $0) },
                isYes: term.value.map { ["yes", "true", "1", "new"].contains($0) } ?? true)
        }
    }

    /// Whether an event is like that.
    func matches(_ row: EventRow, at index: Int, in table: EventTable) -> Bool {
        if self.isView, row.kind != .screen { return false }
        for term in self.terms {
            let isEqual: Bool
            switch term.field {
            case .kind: isEqual = term.isAny || row.kind == term.kind
            case .isNew:
                let isNew = row.person != 0 && table.firstDays[Int(row.person)] == row.day
                isEqual = isNew == term.isYes
            default:
                let number = table.number(of: term.field, row, at: index)
                isEqual = term.isAny ? number != 0 : number != 0 && number == term.number
            }
            if isEqual == term.isNegated { return false }
        }
        return true
    }
}

extension EventTable {
    /// The text of a field, as a number; 0 if the event has none.
    ///
    /// Kinds and whether a person is new have no text here.
    func number(of field: EventField, _ row: EventRow, at index: Int) -> UInt32 {
        switch field {
        case .name: row.name
        case .screen: row.screen
        case .user: row.user
        case .install: row.install
        case .session: row.session
        case .version: row.version
        case .systemVersion: row.systemVersion
        case .agent: row.agent
        case .property(let property): self.value(index, property)
        case .kind, .isNew: 0
        }
    }

    /// The text of a field; `nil` if the event has none.
    func text(of field: EventField, _ row: EventRow, at index: Int) -> String? {
        switch field {
        case .kind: return row.kind.name
        case .isNew:
            guard row.person != 0 else { return nil }
            return self.firstDays[Int(row.person)] == row.day ? "new" : "returning"
        default:
            let number = self.number(of: field, row, at: index)
            return number == 0 ? nil : self.strings.text(number)
        }
    }
}

extension RowKind {
    init?(name: String) {
        let all: [RowKind] = [.event, .screen, .action, .user, .meta]
        guard let kind = all.first(where: { $0.name == name }) else { return nil }
        self = kind
    }
}
