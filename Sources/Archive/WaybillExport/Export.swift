package import WaybillEvent

/// Defines what an event is and what each provider gets from it.
///
/// Constraints, in numbers:
/// - ``EventReader`` sees every line before it is archived: one scan, no allocation, goal 1 GB/s per core;
/// - ``Exporter`` sees every line once more for each provider: one parse, one write, no allocation on the common path,
///   goal 250 MB/s of raw lines per core; non-ASCII text that must be cut may cost a `String`;
/// - limits of providers are in one table, ``Limits``, with the day they were last checked.
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

/// A destination that this version supports.
package enum Destination: Hashable, Sendable {
    case ga4
    case mixpanel
    /// Mixpanel's user profiles, which go to a different endpoint than its events.
    case mixpanelProfiles
    case amplitude
    case segment
    case posthog
    case snowplow
    /// Shut down in 2024; an archive in the format of its raw-data download.
    case flurry
    case csv
    case syslog
    case journald
    /// A destination that an operator names and describes by its columns.
    case custom(String)

    /// The built-in provider of that name.
    package init(named name: String) throws(UnknownProvider) {
        guard let provider = Self.allCases.first(where: { $0.rawValue == name }) else {
            throw UnknownProvider(name: name)
        }
        self = provider
    }

    /// The provider with an operator's name: a letter a to z, then up to 31 of a to z, 0 to 9 and `-`.
    ///
    /// - Returns: `nil` for any other name, and for names with another meaning in `exports/` and `state/`.
    package init?(customName name: String) {
        let bytes = Array(name.utf8)
        guard 1...32 ~= bytes.count, 0x61...0x7A ~= bytes[0],
            bytes.allSatisfy({ 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "-") }),
            name != "archive", name != "custom", !Self.allCases.contains(where: { $0.rawValue == name })
        else { return nil }
        self = .custom(name)
    }

    /// The provider, built-in or custom, that one of our paths or state files names.
    package init?(recordedName name: String) {
        guard let provider = Self.allCases.first(where: { $0.rawValue == name }) else {
            self.init(customName: name)
            return
        }
        self = provider
    }

    /// Whether `waybill deliver` sends its parts.
    package var isDelivered: Bool {
        switch self {
        case .ga4, .mixpanel, .mixpanelProfiles, .amplitude, .segment, .posthog, .snowplow: true
        case .flurry, .csv, .syslog, .journald, .custom: false
        }
    }

    /// Its name in paths, metrics and events.
    package var rawValue: String {
        switch self {
        case .ga4: "ga4"
        case .mixpanel: "mixpanel"
        case .mixpanelProfiles: "mixpanel-profiles"
        case .amplitude: "amplitude"
        case .segment: "segment"
        case .posthog: "posthog"
        case .snowplow: "snowplow"
        case .flurry: "flurry"
        case .csv: "csv"
        case .syslog: "syslog"
        case .journald: "journald"
        case .custom(let name): name
        }
    }

    /// Its name in an event's `providers` and `overrides`.
    var subscriptionName: String {
        self == .mixpanelProfiles ? "mixpanel" : self.rawValue
    }

    /// All names, for help and errors.
    package static var list: String {
        Self.allCases.map(\.rawValue).joined(separator: ", ")
    }
}

extension Destination: CaseIterable {
    /// The built-in ones.
    package static let allCases: [Destination] = [
        .ga4, .mixpanel, .mixpanelProfiles, .amplitude, .segment, .posthog, .snowplow, .flurry, .csv, .syslog,
        .journald,
    ]
}

/// A provider name that this version does not know.
package struct UnknownProvider: Error, Hashable, Sendable, CustomStringConvertible {
    package let name: String

    package var description: String {
        "there is no provider \"\(self.name)\"; choose one of: \(Destination.list)"
    }
}

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
        self.counts[reason.index] &+= 1
    }
}

/// Why an event cannot become a valid record.
package enum RefusalReason: String, Hashable, Sendable, CaseIterable {
    /// The person did not consent; the event's content is not written anywhere.
    case consent
    /// The line is not the JSON object that `EventReader` accepted.
    case unreadable
    /// Reading the line ended the program twice: it is not read.
    case poison
    case ga4NoAppInstanceID = "ga4.no_app_instance_id"
    case ga4BadUserID = "ga4.bad_user_id"
    case ga4TooOld = "ga4.too_old"
    case ga4TooLarge = "ga4.too_large"
    case mixpanelNoInsertID = "mixpanel.no_insert_id"
    case mixpanelBadInsertID = "mixpanel.bad_insert_id"
    case mixpanelBadID = "mixpanel.bad_id"
    case mixpanelFuture = "mixpanel.future"
    case mixpanelTooLarge = "mixpanel.too_large"
    case amplitudeNoInsertID = "amplitude.no_insert_id"
    case amplitudeBadID = "amplitude.bad_id"
    case amplitudeTooLarge = "amplitude.too_large"
    case segmentNoMessageID = "segment.no_message_id"
    case segmentNoUser = "segment.no_user"
    case segmentTooLarge = "segment.too_large"
    case posthogNoUUID = "posthog.no_uuid"
    case posthogBadID = "posthog.bad_id"
    case posthogFuture = "posthog.future"
    case posthogTooLarge = "posthog.too_large"
    case snowplowNoEventID = "snowplow.no_event_id"
    case snowplowBadID = "snowplow.bad_id"
    case snowplowTooLarge = "snowplow.too_large"
    case customMissing = "custom.missing"
    case customTooLarge = "custom.too_large"
}
