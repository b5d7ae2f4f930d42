internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// What the files of a provider look like.
package struct ProviderDescription: Hashable, Sendable {
    package let id: Destination
    /// Without the dot.
    package let fileExtension: String
    /// The first bytes of every part.
    package let header: [UInt8]
    /// What stands between two records, besides what ends each.
    package let separator: [UInt8]
    /// The last bytes of every closed part.
    package let footer: [UInt8]
    /// A part is closed at so many records.
    package let recordsPerPartMax: Int
    /// A part is closed before it would have more bytes, its header and footer included.
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

/// What a provider may know about a line besides its bytes.
struct MappingContext {
    let receivedAt: WallTime
    /// Rules that compare the event's time with `receivedAt` hold; off for replays.
    let isAgeJudged: Bool
    /// The report zone's offset from UTC at the event's time.
    let offsetSeconds: Int

    func age(of event: borrowing MappedEvent) -> Int64 {
        self.receivedAt.milliseconds - event.facts.time.milliseconds
    }
}

/// Why an event was refused, for people: `field` exceeded `limit`, or `detail` says what else is wrong.
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

/// What a provider's rules made of one event.
enum MappingOutcome {
    /// The draft holds its record.
    case written
    case refused(RefusalCause)
    /// The draft holds its record, which the provider takes from this time on.
    case held(notBefore: WallTime)
    case skipped(NotExported)
}

/// The rules of one destination: names, types, limits and text.
///
/// A value without state: what changes from event to event is in the ``Draft``. The steps common to all (subscription,
/// consent, override) were done before.
protocol Provider: Sendable {
    var description: ProviderDescription { get }
    /// How many events may share one record; above 1 the draft's head, events and tail make it.
    var eventsPerRecordMax: Int { get }
    /// The size of a record that events share.
    var recordByteCountMax: Int { get }
    /// What stands between events and at the end of a record.
    var terminator: StaticString { get }
    /// Whether events of that kind are for this provider.
    func takes(_ kind: EventKind) -> Bool
    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome
}
