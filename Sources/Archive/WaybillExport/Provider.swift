package import WaybillEvent
internal import WaybillJSON
package import WaybillSystem

/// The format of a provider's files.
package struct ProviderDescription: Hashable, Sendable {
    package let id: Destination
    /// Without the dot.
    package let fileExtension: String
    /// The first bytes of every part.
    package let header: [UInt8]
    /// The bytes between two records, in addition to each record's terminator.
    package let separator: [UInt8]
    /// The last bytes of every closed part.
    package let footer: [UInt8]
    /// The number of records at which a part is closed.
    package let recordsPerPartMax: Int
    /// A part is closed before it exceeds this size, including its header and footer.
    package let partByteCountMax: Int

    package init(
        id: Destination, fileExtension: String, header: [UInt8] = [], separator: [UInt8] = [], footer: [UInt8] = [],
        recordsPerPartMax: Int, partByteCountMax: Int
    ) {
        self.id = id
        self.fileExtension = fileExtension
        self.header = header
        self.separator = separator
        self.footer = footer
        self.recordsPerPartMax = recordsPerPartMax
        self.partByteCountMax = partByteCountMax
    }
}

/// The facts about a line, besides its bytes, that a provider may use.
package struct MappingContext {
    package let receivedAt: WallTime
    /// Whether rules that compare the event's time with `receivedAt` apply; off for replays.
    package let isAgeJudged: Bool
    /// The report zone's offset from UTC at the event's time.
    package let offsetSeconds: Int

    func age(of event: borrowing MappedEvent) -> Int64 {
        self.receivedAt.milliseconds - event.facts.time.milliseconds
    }
}

/// Why an event was refused, for people: `field` exceeded `limit`, or `detail` describes another problem.
package struct RefusalCause {
    let reason: RefusalReason
    let detail: StaticString
    let field: String?
    let limit: Int?

    package init(_ reason: RefusalReason, _ detail: StaticString, field: String? = nil, limit: Int? = nil) {
        self.reason = reason
        self.detail = detail
        self.field = field
        self.limit = limit
    }
}

/// The result of a provider's rules for one event.
package enum MappingOutcome {
    /// The draft has its record.
    case written
    case refused(RefusalCause)
    /// The draft has its record, which the provider accepts from this time on.
    case held(notBefore: WallTime)
    case skipped(NotExported)
}

/// One destination: its facts, which do not depend on an export's options, and its rules: names, types, limits and text.
///
/// A stateless value: everything that changes from event to event is in the ``Draft``. The steps common to all
/// providers (subscription, consent, override) are already done.
package protocol Provider: Sendable {
    // Facts. Only `name` has no usual value.

    /// Its name in paths, metrics and events.
    static var name: String { get }
    /// Its name in an event's `providers` and `overrides`; `nil`: its name.
    static var subscriptionName: String? { get }
    /// Its own reasons to refuse events.
    static var refusals: [RefusalReason] { get }
    /// How its parts are sent; `nil`: they are taken from `exports/`.
    static var delivery: DeliveryFacts? { get }
    /// Why nothing can be sent to it, if it once could.
    static var whyNotDelivered: String? { get }
    /// How it recognizes an event that it already has.
    static var sendKey: SendKey { get }
    /// Whether it applies user properties in the order of arrival, not by event time: an older line after a newer one
    /// would restore old values. Not so where files are replaced as a whole, go to a warehouse with event times, or
    /// contain no such events.
    static var appliesUsersInOrder: Bool { get }
    /// Whether drafts of schemas stand next to its closed parts.
    static var hasSchemas: Bool { get }
    /// The age at which it would change an event's time without an error; `nil` if it never does.
    static var eventAgeMillisecondsMax: Int64? { get }
    /// The time of a record's oldest event, since 1970; `nil` if none can be read.
    static func oldestMilliseconds(of record: [UInt8]) -> Int64?
    /// The keys of the section `options` of its exports.
    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key]
    /// Adds the options that differ from their defaults to the text of a fingerprint.
    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions)
    /// The event's user, if the provider makes a person of the id.
    static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice?

    // Rules.

    init(_ options: ExportOptions)
    var description: ProviderDescription { get }
    /// How many events may share one record; if more than 1, it consists of the draft's head, events and tail.
    var eventsPerRecordMax: Int { get }
    /// The maximum size of a record that events share.
    var recordByteCountMax: Int { get }
    /// The bytes between events and at the end of a record.
    var terminator: StaticString { get }
    /// Whether its records are JSON, of which a reader may refuse what ``JSONFaults`` finds.
    var isJSON: Bool { get }
    /// Whether this provider accepts events of that kind.
    func takes(_ kind: EventKind) -> Bool
    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome
}

extension Provider {
    package static var subscriptionName: String? { nil }
    package static var refusals: [RefusalReason] { [] }
    package static var delivery: DeliveryFacts? { nil }
    package static var whyNotDelivered: String? { nil }
    package static var sendKey: SendKey { .harmless }
    package static var appliesUsersInOrder: Bool { false }
    package static var hasSchemas: Bool { false }
    package static var eventAgeMillisecondsMax: Int64? { nil }
    package static func oldestMilliseconds(of record: [UInt8]) -> Int64? { nil }
    package static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] { [] }
    package static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {}
    package static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? {
        event.text(.user)
    }

    package var eventsPerRecordMax: Int { 1 }
    package var terminator: StaticString { "\n" }
    package var isJSON: Bool { true }
}

/// How a provider recognizes an event that it already has; providers.md, 0.5 "Identity, time, replays".
package enum SendKey: Sendable {
    /// It does not.
    case none
    /// By these members of a record, for this many days; `nil` if no limit is documented.
    case members([[StaticString]], dayCount: Int?)
    /// Files are replaced as a whole, or duplicates are removed at the destination.
    case harmless
}

/// An operator's options for one or more providers, each at its default when made.
package protocol ProviderOptions: Sendable {
    init()
}

/// What makes the keys of a configuration file from a provider's options: their names, types, ranges and help.
package protocol ProviderOptionKeys {
    associatedtype Key

    func flag(_ name: String, _ path: WritableKeyPath<ExportOptions, Bool>, _ help: String) -> Key
    /// One of the raw values.
    func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ name: String, _ path: WritableKeyPath<ExportOptions, Choice>, _ help: String
    ) -> Key
    func integer(
        _ name: String, _ range: ClosedRange<Int>, _ path: WritableKeyPath<ExportOptions, Int>, _ help: String
    ) -> Key
    /// A number of bytes of the range, or 0 for no limit.
    func byteCount(
        _ name: String, _ range: ClosedRange<Int>, _ path: WritableKeyPath<ExportOptions, Int>, _ help: String
    ) -> Key
    func text(_ name: String, _ path: WritableKeyPath<ExportOptions, String>, _ help: String) -> Key
    /// - Parameter rule: completes "must be …".
    func text(
        _ name: String, rule: String, isValid: @escaping (String) -> Bool,
        _ path: WritableKeyPath<ExportOptions, String>, _ help: String
    ) -> Key
    /// - Parameter fallback: what a missing value means.
    func text(
        _ name: String, rule: String, isValid: @escaping (String) -> Bool,
        optional path: WritableKeyPath<ExportOptions, String?>, default fallback: String, example: String,
        _ help: String
    ) -> Key
}
