/// Analytics events as values, and their encoding as one line of JSON each.
///
/// Constraints: a line is one JSON object of at most 32 768 bytes including its LF; no heap allocation per event after
/// the first few, except in the app's own code; no lock, clock, file or random number in this module.
///
///     {"v":1,"id":…,"writer":…,"seq":…,"ts":…,"up":…  ,"dt":…  ,"kind":…,"name":…,"screen":…  ,"prev":…
///     |<- written for each event ------------------>|           |<- EventDraft ------------>|
///     ,"session":…,"anon":…  ,"traits":…  ,"app":…,"os":…,"tz":…,"env":…  ,"log":…,"data":…,"providers":…,"overrides":…}
///     |<- EventContext ---->|             |<- EventContext, copied ---->| |<- EventDraft ------------------------->|
///
/// Life of an event: the app's ``Event`` writes its fields into an ``EventDraft``, without a lock because app code
/// runs; under the client's lock, ``EventContext`` assembles the line around them, with id, sequence and time as
/// arguments; the line goes to the spool. Both reuse their memory.
///
/// `Encodable` events go through an encoder of this module, which writes the same bytes and takes longer
/// (`waybill-benchmark`, `track` and `track-encodable`). Why not `JSONEncoder`: it needs Foundation, takes 7.5 µs per event,
/// and cannot skip, count or refuse a field.
///
/// - SeeAlso: `Protocol/event.schema.json`; lines in `Protocol/vectors/events/`.
package enum EventLimits {
    /// The smallest per-event limit among providers (Segment, 32 KB).
    package static let lineByteCountMax = 32 << 10
    /// Longer names are truncated.
    package static let nameByteCountMax = 255
    /// Firebase's limit for user ids; longer ones are refused, because truncation could merge two users.
    package static let userByteCountMax = 256
    /// Limits for vendor ids with their providers' names, and for registered fields: both leave room for an event's own
    /// fields.
    package static let vendorIDsByteCountMax = 1 << 10
    package static let commonFieldsByteCountMax = 8 << 10
    /// Limits for what a server knows of a visitor's device; real user agents have up to 300 bytes.
    package static let deviceTextByteCountMax = 128
    package static let userAgentByteCountMax = 512
    /// 2^53: doubles represent all integers up to here.
    package static let integerMagnitudeMax: UInt64 = 1 << 53
}

/// The kind of an event.
public enum EventKind: String, Hashable, Sendable, CaseIterable {
    /// A screen appeared.
    case screen
    /// The user did something.
    case action
    /// Anything else happened.
    case event
    /// The user or the user's traits changed.
    case user
    /// An event about Waybill itself; its name starts with `wb.`.
    case meta
}

/// How an event of kind ``EventKind/user`` changes the user's traits.
public enum TraitChange: String, Hashable, Sendable, CaseIterable {
    /// They get these values.
    case set
    /// They get these values if they have none.
    case setOnce
    /// These numbers are added to them.
    case add
}

/// The environment an app runs in; events of different environments are always kept in separate files.
public enum DeploymentEnvironment: String, Hashable, Sendable, CaseIterable {
    /// Development, on a developer's machine.
    case dev
    /// Internal tests.
    case `internal`
    /// Production, with real users.
    case prod
}

/// A screen as described in events.
public struct ScreenRef: Hashable, Sendable {
    /// The screen's name in reports.
    public var name: String
    /// The type that draws the screen.
    public var type: String?
    /// Distinguishes screens with the same name.
    public var id: String?

    /// Creates a reference to a screen.
    public init(_ name: String, type: String? = nil, id: String? = nil) {
        self.name = name
        self.type = type
        self.id = id
    }
}

/// An event type of the app.
///
///     struct MomentLiked: ActionEvent, Encodable {
///         let momentID: String
///         var name: String { "moment_like" }
///         func customize(_ overrides: inout Overrides) { overrides[.ga4].name = "select_content" }
///     }
///
/// An event's fields come from one of three places, and a type that has none of them does not compile:
///
/// - from its `Encodable` conformance: each encoded member is a field;
/// - from ``encode(into:)``, for hot paths and for private fields;
/// - from nowhere: a ``FieldlessEvent`` stores none.
public protocol Event: Sendable {
    /// The event's kind.
    static var kind: EventKind { get }
    /// The version of this event type's fields, such as "1.0".
    static var logVersion: String { get }
    /// The event's name in reports, 1 to 255 bytes of UTF-8.
    var name: String { get }
    /// The screen of the event; `nil` means the current screen.
    var screen: ScreenRef? { get }
    /// Adds the event's fields, in output order.
    ///
    /// Called once per event, on the tracking thread.
    func encode(into fields: inout Fields)
    /// Defines what single providers receive instead of the event.
    ///
    /// Called once per event, after ``encode(into:)`` and the fields that the call adds. Swift takes a misspelt method for
    /// another one: declare ``CustomizedEvent`` too, and it does not compile.
    func customize(_ overrides: inout Overrides)
}

extension Event {
    /// The default kind, ``EventKind/event``.
    public static var kind: EventKind { .event }
    /// The default version, "1.0".
    public static var logVersion: String { "1.0" }
    /// By default, the current screen.
    public var screen: ScreenRef? { nil }
    /// By default, every provider gets the event unchanged.
    public func customize(_ overrides: inout Overrides) {}
}

extension Event where Self: Encodable {
    /// Adds the members that `encode(to:)` encodes, in their order.
    ///
    /// They are stored as ``Fields`` would store them. A member "name" with the event's name is left out, because every
    /// line has that already.
    public func encode(into fields: inout Fields) { fields.encode(self, named: self.name) }
}

/// An event type that has no fields of its own.
///
///     struct HomeScreen: ScreenEvent, FieldlessEvent {}
///
/// A debug build counts (``FieldRepairs/forgotten``) and reports in a `wb.field` event that such a type has stored
/// properties besides `name` and `screen`.
public protocol FieldlessEvent: Event {}

extension FieldlessEvent {
    /// Adds no fields.
    public func encode(into fields: inout Fields) {
        #if DEBUG
            if MemoryLayout<Self>.size > 0 { fields.checkFieldless(self) }
        #endif
    }
}

/// An event type that certainly customizes what single providers receive: without ``Event/customize(_:)`` it does not
/// compile.
///
/// Any ``Event`` may declare `customize(_:)`. Only in this one is a misspelt method an error.
public protocol CustomizedEvent: Event {
    /// Defines what single providers receive instead of the event.
    func customize(_ overrides: inout Overrides)
}

extension CustomizedEvent {
    /// Not a default: it turns the missing method into an error.
    @available(*, unavailable, message: "a CustomizedEvent declares customize(_:) itself; is it misspelt?")
    public func customize(_ overrides: inout Overrides) {}
}

/// The event type of a screen that appeared; later events carry it as their screen.
public protocol ScreenEvent: Event {}

extension ScreenEvent {
    /// The kind, ``EventKind/screen``.
    public static var kind: EventKind { .screen }
    /// The default name, "screen_view".
    public var name: String { "screen_view" }
    /// By default, a screen with the name of this type.
    public var screen: ScreenRef? { ScreenRef(String(describing: Self.self)) }
}

/// The event type of an action by the user.
public protocol ActionEvent: Event {}

extension ActionEvent {
    /// The kind, ``EventKind/action``.
    public static var kind: EventKind { .action }
}
