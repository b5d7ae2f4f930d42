package import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's changes to events before a provider's rules: selection, new names and fields.
///
///     event ── take, leave ──▶ fields: drop, rename, constant ──▶ rename ──▶ provider's rules
///                 └ skip (mapping)
///
/// Names are those of the event after its override. The mapping is compiled once and shared; applying it to an event
/// allocates nothing. An event to which no field rule applies costs one look-up of its name.
package struct OperatorMapping: Sendable {
    /// Criteria that select events; an empty list is ignored.
    package struct Selection: Hashable, Sendable {
        package var kinds: [EventKind] = []
        /// Whole names, or prefixes that end in `*`.
        package var names: [String] = []
        /// Identifiers of apps, whole or prefixes that end in `*`.
        package var apps: [String] = []
        package var environments: [DeploymentEnvironment] = []

        package init() {}
    }

    /// A change of one name to another.
    package struct Rename: Hashable, Sendable {
        package var from: String
        package var to: String

        package init(from: String, to: String) {
            self.from = from
            self.to = to
        }
    }

    /// A field that every event gets, which replaces the event's own field of that name.
    package struct Constant: Hashable, Sendable {
        package var name: String
        /// The value as compact JSON.
        package var json: String

        package init(name: String, json: String) {
            self.name = name
            self.json = json
        }
    }

    /// The changes to the fields of some events.
    package struct FieldRule: Hashable, Sendable {
        /// Names of the events, whole or prefixes that end in `*`; empty for all.
        package var names: [String] = []
        package var renames: [Rename] = []
        /// Names of fields, whole or prefixes that end in `*`.
        package var drops: [String] = []
        package var constants: [Constant] = []

        package init() {}
    }

    /// The mapping as the operator wrote it.
    package struct Rules: Hashable, Sendable {
        /// At least 1; a changed mapping has a new version.
        package var version: Int
        /// An event is taken if every list matches it.
        package var take = Selection()
        /// An event is left out if any list matches it.
        package var leave = Selection()
        package var renames: [Rename] = []
        /// Up to ``fieldRuleCountMax`` rules; for each field, the first rule that matches it decides.
        package var fields: [FieldRule] = []

        package init(version: Int) {
            self.version = version
        }
    }

    /// The set of rules that apply to an event has 64 bits.
    package static let fieldRuleCountMax = 64

    package let rules: Rules
    /// The file it was read from, for messages.
    package let path: String
    /// A checksum of the whole mapping except its version; it never changes between releases.
    package let fingerprint: String
    let compiled: CompiledMapping

    package var version: Int { self.rules.version }

    /// - Parameter columns: the text of anything else that this version covers, such as a custom provider's columns.
    package init(_ rules: Rules, path: String = "", columns: String = "") {
        precondition(rules.version >= 1, "version \(rules.version) must be at least 1")
        precondition(rules.fields.count <= Self.fieldRuleCountMax, "\(rules.fields.count) field rules are too many")
        self.rules = rules
        self.path = path
        self.fingerprint = Hexadecimal.text(
            FNV1a.hash((Self.canonicalText(rules) + columns).utf8), digitCount: 16)
        self.compiled = CompiledMapping(rules)
    }

    /// A text that depends only on the rules' meaning; additions in later versions must not change it for today's
    /// rules.
    private static func canonicalText(_ rules: Rules) -> String {
        var lines: [String] = []
        func add(_ head: String, _ words: [String]) {
            guard !words.isEmpty else { return }
            lines.append(([head] + words.map { PercentName.encode($0) }).joined(separator: " "))
        }
        for (head, selection) in [("take", rules.take), ("leave", rules.leave)] {
            add("\(head).kinds", selection.kinds.map(\.rawValue).sorted())
            add("\(head).names", selection.names.sorted())
            add("\(head).apps", selection.apps.sorted())
            add("\(head).env", selection.environments.map(\.rawValue).sorted())
        }
        for rename in rules.renames { add("rename", [rename.from, rename.to]) }
        for rule in rules.fields {
            lines.append("fields")
            add("names", rule.names.sorted())
            for rename in rule.renames { add("rename", [rename.from, rename.to]) }
            add("drop", rule.drops.sorted())
            for constant in rule.constants { add("constant", [constant.name, constant.json]) }
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

/// Words without spaces and line feeds.
private enum PercentName {
    static func encode(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "%", " ", "\n": result += "%" + Hexadecimal.text(UInt8(scalar.value), digitCount: 2)
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result
    }
}

/// A name from an operator, in the form for comparing and the form for writing.
struct GivenName: Sendable {
    let bytes: [UInt8]
    /// The body of a JSON string, without quotes.
    let body: [UInt8]
    let isEscaped: Bool

    init(_ name: String) {
        self.bytes = Array(name.utf8)
        var escaped = ByteBuilder(capacity: 64)
        self.bytes.withUnsafeBytes { JSONText.escape($0, into: &escaped) }
        self.body = Array(escaped.bytes)
        self.isEscaped = JSONText.hasEscapes(escaped.bytes)
    }
}

/// An ``OperatorMapping`` with its names compiled to tables.
final class CompiledMapping: Sendable {
    struct Selection: Sendable {
        let kinds: KindSet?
        let environments: EnvironmentSet?
        let names: NamePatterns?
        let apps: NamePatterns?

        init(_ selection: OperatorMapping.Selection) {
            self.kinds = selection.kinds.isEmpty ? nil : KindSet(selection.kinds)
            self.environments = selection.environments.isEmpty ? nil : EnvironmentSet(selection.environments)
            self.names = selection.names.isEmpty ? nil : NamePatterns(selection.names)
            self.apps = selection.apps.isEmpty ? nil : NamePatterns(selection.apps)
        }
    }

    struct FieldRule: Sendable {
        /// `nil`: all events.
        let names: NamePatterns?
        let renamed: NameTable
        let newNames: [GivenName]
        let dropped: NamePatterns
        let constants: NameTable
        let constantNames: [GivenName]
        /// Compact JSON.
        let constantValues: [[UInt8]]

        init(_ rule: OperatorMapping.FieldRule) {
            self.names = rule.names.isEmpty ? nil : NamePatterns(rule.names)
            self.renamed = NameTable(rule.renames.map(\.from))
            self.newNames = rule.renames.map { GivenName($0.to) }
            self.dropped = NamePatterns(rule.drops)
            self.constants = NameTable(rule.constants.map(\.name))
            self.constantNames = rule.constants.map { GivenName($0.name) }
            self.constantValues = rule.constants.map { Self.value($0.json) }
        }

        /// A number that binary64 cannot hold is text, as it is in events.
        private static func value(_ json: String) -> [UInt8] {
            let bytes = Array(json.utf8)
            guard let first = bytes.first, first == UInt8(ascii: "-") || 0x30...0x39 ~= first,
                bytes.withUnsafeBytes({ JSONFaults.isTooLarge($0) })
            else { return bytes }
            return [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
        }
    }

    let take: Selection
    let leave: Selection
    let renamed: NameTable
    let newNames: [GivenName]
    let fields: [FieldRule]

    init(_ rules: OperatorMapping.Rules) {
        self.take = Selection(rules.take)
        self.leave = Selection(rules.leave)
        self.renamed = NameTable(rules.renames.map(\.from))
        self.newNames = rules.renames.map { GivenName($0.to) }
        self.fields = rules.fields.map { FieldRule($0) }
    }
}
