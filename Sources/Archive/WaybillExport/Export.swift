package import WaybillEvent

/// Defines what an event is and what each provider gets from it.
///
/// Constraints, in numbers:
/// - ``EventReader`` sees every line before it is archived: one scan, no allocation, goal 1 GB/s per core;
/// - ``Exporter`` sees every line once more for each provider: one parse, one write, no allocation on the common path,
///   goal 250 MB/s of raw lines per core; non-ASCII text that must be cut may cost a `String`;
/// - a provider is one file with its limits, its reasons to refuse and how its parts are sent; ``ProviderRegistry`` lists
///   all.
///
/// The module is pure: no file, no clock, no socket. The time at which a line was received is an argument, and the
/// output goes to an ``ExportSink``. The same lines and options give the same bytes.
///
/// The life of one line for one provider (`Protocol/` and the provider pages have the rules):
///
///     select → override → operator's mapping → provider's rules → write
///        └ skip                                   └ refuse, hold, fix
///
/// A *fix* changes a value so that the provider accepts it, and is counted; a *refusal* goes to the dead letters with
/// the whole event; a *hold* is tried again later; a *skip* was requested. Every line has exactly one outcome: lines in
/// = exported + refused + held + skipped.
///
/// Providers write text, not values: an intermediate value would lose member order, digits of numbers, and time.

/// A set of environments.
package struct EnvironmentSet: Hashable, Sendable {
    private var bits: UInt8 = 0

    package init(_ environments: some Sequence<DeploymentEnvironment>) {
        for environment in environments { self.bits |= Self.bit(environment) }
    }

    package static let all = EnvironmentSet(DeploymentEnvironment.allCases)

    @inline(__always)
    package func contains(_ environment: DeploymentEnvironment) -> Bool {
        self.bits & Self.bit(environment) != 0
    }

    /// In the order of their declaration.
    package var environments: [DeploymentEnvironment] {
        DeploymentEnvironment.allCases.filter(self.contains)
    }

    @inline(__always)
    private static func bit(_ environment: DeploymentEnvironment) -> UInt8 {
        switch environment {
        case .dev: 1
        case .internal: 2
        case .prod: 4
        }
    }
}

/// A set of event kinds.
package struct KindSet: Hashable, Sendable {
    private var bits: UInt8 = 0

    package init(_ kinds: some Sequence<EventKind>) {
        for kind in kinds { self.bits |= Self.bit(kind) }
    }

    @inline(__always)
    package func contains(_ kind: EventKind) -> Bool {
        self.bits & Self.bit(kind) != 0
    }

    /// In the order of their declaration.
    package var kinds: [EventKind] {
        EventKind.allCases.filter(self.contains)
    }

    @inline(__always)
    private static func bit(_ kind: EventKind) -> UInt8 {
        switch kind {
        case .screen: 1
        case .action: 2
        case .event: 4
        case .user: 8
        case .meta: 16
        }
    }
}

/// How a value was changed so that the provider accepts it.
package enum FixCode: String, Hashable, Sendable, CaseIterable {
    case truncateValue = "trunc_value"
    case truncateName = "trunc_name"
    case rename
    /// Two fields have the same name for the provider; the first one is kept.
    case collide
    case dropNull = "drop_null"
    /// A field that exceeds a count or size limit; the last fields are dropped first.
    case dropField = "drop_field"
    /// A value whose type the provider does not accept, written as another type.
    case coerce
    /// A quote in front of text that a spreadsheet would evaluate.
    case `guard`
    /// Half a character, `\\ud83d` without its other half, which becomes U+FFFD.
    case badText = "bad_text"
    /// An item above the number that a list may have, or one that the provider would not accept.
    case dropItem = "drop_item"
    /// An event's name that is a command or reserved, which gets the prefix `x_`.
    case reservedName = "reserved_name"

    var index: Int {
        switch self {
        case .truncateValue: 0
        case .truncateName: 1
        case .rename: 2
        case .collide: 3
        case .dropNull: 4
        case .dropField: 5
        case .coerce: 6
        case .guard: 7
        case .badText: 8
        case .dropItem: 9
        case .reservedName: 10
        }
    }
}

/// How often each fix was made.
package struct FixCounts: Hashable, Sendable {
    private var counts = SIMD16<UInt32>()

    package init() {}

    package subscript(code: FixCode) -> Int {
        Int(self.counts[code.index])
    }

    package var total: Int {
        Int(self.counts.wrappedSum())
    }

    @inline(__always)
    mutating func count(_ code: FixCode) {
        self.counts[code.index] &+= 1
    }

    package mutating func add(_ other: FixCounts) {
        self.counts &+= other.counts
    }
}

/// Why an event is not intended for a provider.
package enum NotExported: String, Hashable, Sendable, CaseIterable {
    /// Its `providers` does not name this one.
    case notSubscribed = "not-subscribed"
    /// Its `overrides` exclude it.
    case override
    /// The provider does not accept events of this kind.
    case kind
    /// It sets no property, and the provider accepts nothing else from it.
    case nothing
    /// The export does not include its environment.
    case environment
    /// The operator's mapping excludes it.
    case mapping

    var index: Int {
        switch self {
        case .notSubscribed: 0
        case .override: 1
        case .kind: 2
        case .nothing: 3
        case .environment: 4
        case .mapping: 5
        }
    }
}

/// How many events were not intended for a provider, by reason.
package struct SkipCounts: Hashable, Sendable {
    private var counts = SIMD8<Int>()

    package init() {}

    package subscript(reason: NotExported) -> Int {
        self.counts[reason.index]
    }

    package var total: Int {
        self.counts.wrappedSum()
    }

    package mutating func count(_ reason: NotExported) {
        self.add(1, reason)
    }

    mutating func add(_ count: Int, _ reason: NotExported) {
        self.counts[reason.index] &+= count
    }
}

/// Why an event cannot become a valid record; a provider's reasons stand in its file.
package struct RefusalReason: RawRepresentable, Hashable, Sendable {
    /// Its name in dead letters and metrics: a provider's begins with the name that events subscribe to, and a dot.
    package let rawValue: String
    /// What an operator can do about it, for logs.
    package let remedy: String

    package init(_ rawValue: String, remedy: String) {
        self.rawValue = rawValue
        self.remedy = remedy
    }

    /// The reason of that name of the standard registry.
    package init?(rawValue: String) {
        guard let reason = Self.byName[rawValue] else { return nil }
        self = reason
    }

    private static let byName = Dictionary(uniqueKeysWithValues: Self.allCases.map { ($0.rawValue, $0) })

    /// The person did not consent; the event's content is not written anywhere.
    package static let consent = RefusalReason("consent", remedy: "these people did not consent to analytics")
    /// The line is not the JSON object that `EventReader` accepted.
    package static let unreadable = RefusalReason(
        "unreadable", remedy: "correct what writes lines with numbers or text that no JSON reader takes")
    /// Reading the line ended the program twice: it is not read.
    package static let poison = RefusalReason("poison", remedy: Remedy.reportPoison)

    /// Those that every provider has.
    package static let common: [RefusalReason] = [.consent, .unreadable, .poison]

    package static func == (first: RefusalReason, second: RefusalReason) -> Bool {
        first.rawValue == second.rawValue
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(self.rawValue)
    }
}

extension RefusalReason: CaseIterable {
    /// Those of the standard registry.
    package static let allCases = ProviderRegistry.standard.refusals
}
