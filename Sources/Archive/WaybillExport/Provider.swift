internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

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

    init(
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
struct MappingContext {
    let receivedAt: WallTime
    /// Whether rules that compare the event's time with `receivedAt` apply; off for replays.
    let isAgeJudged: Bool
    /// The report zone's offset from UTC at the event's time.
    let offsetSeconds: Int

    func age(of event: borrowing MappedEvent) -> Int64 {
        self.receivedAt.milliseconds - event.facts.time.milliseconds
    }
}

/// Why an event was refused, for people: `field` exceeded `limit`, or `detail` describes another problem.
struct RefusalCause {
    let reason: RefusalReason
    let detail: StaticString
    let field: String?
    let limit: Int?

    init(_ reason: RefusalReason, _ detail: StaticString, field: String? = nil, limit: Int? = nil) {
        self.reason = reason
        self.detail = detail
        self.field = field
        self.limit = limit
    }
}

/// The result of a provider's rules for one event.
enum MappingOutcome {
    /// The draft has its record.
    case written
    case refused(RefusalCause)
    /// The draft has its record, which the provider accepts from this time on.
    case held(notBefore: WallTime)
    case skipped(NotExported)
}

/// The rules of one destination: names, types, limits and text.
///
/// A stateless value: everything that changes from event to event is in the ``Draft``. The steps common to all
/// providers (subscription, consent, override) are already done.
protocol Provider: Sendable {
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
    /// The event's user, if the provider makes a person of the id.
    func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice?
}

extension Provider {
    func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? { event.text(.user) }
    var isJSON: Bool { true }
}
