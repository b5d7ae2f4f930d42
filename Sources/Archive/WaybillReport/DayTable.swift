/// The lines of one day's folder as rows of numbers: each id once, in order.
///
/// A row is made when its line is read, and never again; a report only adds up rows.
struct DayTable: Sendable {
    var rows: [EventRow] = []
    /// For each row, one text for each of the request's ``PropertyPath``s.
    var values: [UInt32] = []
    var strings = StringTable()
    /// What the lines' fields are, if the request asks for the catalogue of names.
    var catalogue: [CatalogueKey: CatalogueEntry] = [:]
    /// Lines that repeat the id of another.
    var repeatCount = 0
    /// Lines that are not events.
    var strayLineCount = 0
    /// Bytes whose origin is not in the `.sources` next to them, although there are some.
    var unexplainedByteCount = 0
}

/// What a report needs to know of one line; texts are numbers of a ``StringTable``.
struct EventRow: Sendable {
    /// Milliseconds since 1970.
    var time: Int64
    /// -1: none.
    var sequence: Int64 = -1
    /// When the receiver had it, in milliseconds since 1970; 0: unknown.
    var received: Int64 = 0
    /// How long ``dwellScreen`` was on, in milliseconds; -1: this line says nothing about that.
    var dwell: Int64 = -1
    var dwellScreen: UInt32 = 0
    var writer: UInt32 = 0
    var name: UInt32 = 0
    var screen: UInt32 = 0
    var session: UInt32 = 0
    var user: UInt32 = 0
    var install: UInt32 = 0
    /// The app's.
    var version: UInt32 = 0
    var systemVersion: UInt32 = 0
    /// The agent that shipped it.
    var agent: UInt32 = 0
    /// The calendar day in the report's zone, in days since 1970.
    var day: Int32 = 0
    /// A number of a ``People``; 0: no one.
    var person: UInt32 = 0
    var kind = RowKind.event
    /// Whether it came after its day's cut-off.
    var isLate = false
    var isForeign = false

    /// Whether it makes its person active.
    var isActive: Bool { self.person != 0 && self.kind != .meta }
}

/// The kinds of lines; a kind of a later version counts as an event.
enum RowKind: UInt8, Sendable {
    case event, screen, action, user, meta
}

/// One field of one event's name, with one type, in one version of the app.
struct CatalogueKey: Hashable, Sendable {
    var name: UInt32
    var kind: RowKind
    /// 0: the event itself.
    var property: UInt32
    var type: ValueType
    var version: UInt32
}

struct CatalogueEntry: Sendable {
    var count = 0
    var first = Int64.max
    var last = Int64.min

    mutating func add(_ other: CatalogueEntry) {
        self.count += other.count
        self.first = min(self.first, other.first)
        self.last = max(self.last, other.last)
    }
}

/// The type of a field's value.
enum ValueType: UInt8, Sendable, CaseIterable {
    case none, string, integer, number, boolean, array, object

    var name: String {
        switch self {
        case .none: ""
        case .string: "string"
        case .integer: "integer"
        case .number: "number"
        case .boolean: "boolean"
        case .array: "array"
        case .object: "object"
        }
    }
}
