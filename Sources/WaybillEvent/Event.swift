/// Analytics events as values, and the one line of JSON that each becomes.
///
/// Constraints: a line is one JSON object of at most 32 768 bytes with its LF; an event costs no heap allocation
/// after the first few, apart from what the app's own code allocates; no lock, clock, file or random number here.
///
///     {"v":1,"id":…,"writer":…,"seq":…,"ts":…,"up":…  ,"dt":…  ,"kind":…,"name":…,"screen":…  ,"prev":…
///     |<- written for each event ------------------>|           |<- EventDraft ------------>|
///     ,"session":…,"anon":…  ,"traits":…  ,"app":…,"os":…,"tz":…,"env":…  ,"log":…,"data":…,"providers":…,"overrides":…}
///     |<- EventContext ---->|             |<- EventContext, copied ---->| |<- EventDraft ------------------------->|
///
/// One event's life: the app's ``Event`` writes its fields into an ``EventDraft`` (no lock held: app code runs
/// here); under the client's lock ``EventContext`` assembles the line around them, where id, sequence and time come
/// in as arguments; the line goes to the spool. Both reuse their memory.
///
/// Why not `Codable`: 7.5 µs an event against 0.6 µs, and it cannot skip, count or refuse a field.
///
/// - SeeAlso: `Protocol/event.schema.json`; lines in `Protocol/vectors/events/`.
package enum EventLimits {
    /// The smallest per-event limit among providers (Segment, 32 KB).
    package static let lineByteCountMax = 32 << 10
    /// Longer names are cut.
    package static let nameByteCountMax = 255
    /// Firebase's limit for user ids; cutting one could make two users one, so longer ones are refused.
    package static let userByteCountMax = 256
    /// Ids of vendors' SDKs and the providers' names, and fields registered for every event: both leave room for an event's own.
    package static let vendorIDsByteCountMax = 1 << 10
    package static let commonFieldsByteCountMax = 8 << 10
    /// 2^53: up to here doubles hold every integer.
    package static let integerMagnitudeMax: UInt64 = 1 << 53
}

/// What an event is about.
public enum EventKind: String, Hashable, Sendable, CaseIterable {
    /// A screen appeared.
    case screen
    /// The user did something.
    case action
    /// Anything else happened.
    case event
    /// Who the user is changed.
    case user
    /// Waybill speaks about itself; names start with `wb.`.
    case meta
}

/// Where the app runs, kept apart from the first byte to the last file.
public enum DeploymentEnvironment: String, Hashable, Sendable, CaseIterable {
    /// A developer's machine.
    case dev
    /// Testers.
    case `internal`
    /// Users.
    case prod
}

/// A screen, as events name it.
public struct ScreenRef: Hashable, Sendable {
    /// What reports show.
    public var name: String
    /// The type that draws it.
    public var type: String?
    /// What tells two screens of one name apart.
    public var id: String?

    /// A screen of this name.
    public init(_ name: String, type: String? = nil, id: String? = nil) {
        self.name = name
        self.type = type
        self.id = id
    }
}

/// Something that happened, worth counting.
///
///     struct MomentLiked: ActionEvent {
///         let momentID: String
///         var name: String { "moment_like" }
///         func encode(into fields: inout Fields) { fields.put("momentID", self.momentID) }
///         func customize(_ overrides: inout Overrides) { overrides[.ga4].name = "select_content" }
///     }
public protocol Event: Sendable {
    /// What the event is about.
    static var kind: EventKind { get }
    /// Version of this event type's fields, as in "1.0".
    static var logVersion: String { get }
    /// What reports count it under, 1 to 255 bytes.
    var name: String { get }
    /// Where it happened; `nil`: on the current screen.
    var screen: ScreenRef? { get }
    /// Puts the event's fields, in the order they shall have. Called once per event, on the tracking thread.
    func encode(into fields: inout Fields)
    /// Says what one provider shall get instead. Called once per event, after ``encode(into:)``.
    func customize(_ overrides: inout Overrides)
}

extension Event {
    /// ``EventKind/event``.
    public static var kind: EventKind { .event }
    /// "1.0".
    public static var logVersion: String { "1.0" }
    /// The current screen.
    public var screen: ScreenRef? { nil }
    /// Puts nothing.
    public func encode(into fields: inout Fields) {}
    /// Every provider gets the event as it is.
    public func customize(_ overrides: inout Overrides) {}
}

/// A screen that appeared; the following events happen on it.
public protocol ScreenEvent: Event {}

extension ScreenEvent {
    /// ``EventKind/screen``.
    public static var kind: EventKind { .screen }
    /// "screen_view".
    public var name: String { "screen_view" }
    /// The screen named as the type is.
    public var screen: ScreenRef? { ScreenRef(String(describing: Self.self)) }
}

/// Something the user did.
public protocol ActionEvent: Event {}

extension ActionEvent {
    /// ``EventKind/action``.
    public static var kind: EventKind { .action }
}
