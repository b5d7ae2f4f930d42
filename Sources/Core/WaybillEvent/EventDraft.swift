/// An ``EventDraft`` that can be kept in a pool.
///
/// `@unchecked Sendable`: one call owns it at a time; the client's pool hands it over under its lock. The draft is not
/// a stored property, because each access to one is checked for exclusivity.
package final class EventDraftBox: @unchecked Sendable {
    @usableFromInline package let memory: UnsafeMutablePointer<EventDraft>

    package init() {
        self.memory = .allocate(capacity: 1)
        self.memory.initialize(to: EventDraft())
    }

    deinit {
        self.memory.deinitialize(count: 1)
        self.memory.deallocate()
    }

    @inlinable package var draft: EventDraft {
        @inline(__always) _read { yield self.memory.pointee }
        @inline(__always) _modify { yield &self.memory.pointee }
    }
}

/// An event before it becomes a line: encoded without a lock, in memory that the next event reuses.
///
/// Filters receive it and may change it.
public struct EventDraft: ~Copyable {
    /// The event's kind.
    public private(set) var kind = EventKind.event
    /// What the fields of an event of kind ``EventKind/user`` do to the user's traits.
    public private(set) var traitChange = TraitChange.set
    /// The event's name in reports.
    public private(set) var name = ""
    /// The event's Swift type; ``untyped`` if it has none.
    package private(set) var type = EventDraft.untyped
    /// The event's name as a JSON string.
    private(set) var encodedName = LineBuffer(capacity: 64)
    /// The members `,"screen":…,"screen_class":…,"screen_id":…`; empty for the current screen.
    private(set) var screen = LineBuffer(capacity: 64)
    /// The range of the screen's name in `screen`, including quotes.
    private(set) var screenName = 0..<0
    /// The member `,"log":…`; empty for events without a type.
    private(set) var log = LineBuffer(capacity: 32)
    package var fields = Fields()
    private(set) var overrides = Overrides()
    /// The member `,"providers":…`; empty without subscriptions.
    private(set) var providers = LineBuffer(capacity: 64)
    private(set) var visitor = VisitorMembers()
    /// When the event happened, if that was before it is tracked, in milliseconds since 1970.
    package private(set) var time: Int64?
    /// The sampling rule that decides about the event; `nil` if it is kept.
    package private(set) var sampling: Sampling?
    /// Whether a filter dropped the event.
    package private(set) var isDropped = false
    /// Whether the app used a name or kind that is reserved for Waybill's own events.
    private var isReserved = false

    /// Stands for events without a type of their own.
    private static let untyped = ObjectIdentifier(EventDraftBox.self)

    package init() {}

    /// The repairs: fields left out or truncated.
    package var repairs: FieldRepairs {
        var repairs = self.fields.repairs
        repairs += self.overrides.repairs
        return repairs
    }

    package var fieldsByteCount: Int {
        self.fields.buffer.count
    }

    /// The first values that the event's type could not store.
    package var faults: [FieldFault] {
        self.fields.faults
    }

    /// Whether the event's type could not store a value.
    package var hasFaults: Bool {
        !self.fields.faults.isEmpty
    }

    /// More fields than fit in any line.
    package var isOverflowing: Bool {
        self.fields.buffer.isOverflowing
    }

    /// Whether the event belongs to a visitor instead of the client's user.
    package var hasVisitor: Bool {
        !self.visitor.isEmpty
    }

    /// Whether the event's visitor has given consent.
    package var isAllowed: Bool { self.visitor.isAllowed }

    /// The id by which the visitor is sampled; `nil` for the client's user.
    package var personHash: UInt64? { self.visitor.hash }

    /// Whether the event can be encoded as a line.
    package var isValid: Bool {
        !self.name.isEmpty && self.visitor.isValid && !self.isReserved
    }

    /// Encodes an event of the app; runs the app's code.
    package mutating func take<E: Event>(
        _ event: E, _ rules: borrowing EventRules, _ salt: PrivacySalt?, by visitor: Visitor? = nil,
        adding body: (inout Fields) -> Void
    ) {
        self.begin(E.kind, event.name, event.screen, logVersion: E.logVersion, salt, visitor)
        event.encode(into: &self.fields)
        body(&self.fields)
        event.customize(&self.overrides)
        self.finish(ObjectIdentifier(E.self), rules)
    }

    /// Encodes an event without a type.
    package mutating func take(
        _ kind: EventKind, _ name: String, _ screen: ScreenRef?, _ rules: borrowing EventRules, _ salt: PrivacySalt?,
        by visitor: Visitor? = nil, adding body: (inout Fields) -> Void
    ) {
        self.begin(kind, name, screen, logVersion: nil, salt, visitor)
        body(&self.fields)
        self.finish(Self.untyped, rules)
    }

    /// Encodes a change of a user's traits.
    package mutating func take(
        _ change: TraitChange, _ rules: borrowing EventRules, _ salt: PrivacySalt?, by visitor: Visitor? = nil,
        adding body: (inout Fields) -> Void
    ) {
        self.begin(.user, "set_user", nil, logVersion: nil, salt, visitor)
        self.traitChange = change
        body(&self.fields)
        self.finish(Self.untyped, rules)
    }

    /// Encodes one of Waybill's own events, to which no rule applies.
    package mutating func take(own name: StaticString, adding body: (inout Fields) -> Void) {
        self.begin(.meta, name.description, nil, logVersion: nil, nil, nil)
        self.isReserved = false
        body(&self.fields)
        self.finish(Self.untyped, EventRules())
    }

    /// Sets the time at which the event happened; it is as old as now at least.
    package mutating func happened(at milliseconds: Int64) {
        self.time = milliseconds
    }

    /// Puts the fields of `earlier` before these, except those with the same names.
    package mutating func inherit(_ earlier: borrowing EventDraft) {
        var fields = Fields()
        fields.salt = self.fields.salt
        fields.repairs = self.fields.repairs
        fields.add(earlier.fields, without: self.fields)
        fields.add(self.fields, from: 0)
        self.fields = fields
    }

    private mutating func begin(
        _ kind: EventKind, _ name: String, _ screen: ScreenRef?, logVersion: String?, _ salt: PrivacySalt?,
        _ visitor: Visitor?
    ) {
        self.fields.removeAll()
        self.fields.salt = salt
        self.overrides.removeAll()
        self.overrides.salt = salt
        self.encodedName.removeAll()
        self.screen.removeAll()
        self.log.removeAll()
        self.isDropped = false
        self.time = nil
        self.kind = kind
        self.traitChange = .set
        self.name = name
        self.encodedName.appendString(name, byteCountMax: EventLimits.nameByteCountMax)
        self.isReserved = kind == .meta || self.encodedName.starts(with: "\"wb.")
        if name.utf8.count > EventLimits.nameByteCountMax { self.fields.repairs.cutName += 1 }
        if let screen {
            self.takeScreen(screen)
        } else if kind == .screen {
            self.takeScreen(ScreenRef(name))
        }
        if let logVersion {
            self.log.append(",\"log\":")
            self.log.appendString(logVersion)
        }
        self.fields.repairs.cutUserAgent += self.visitor.take(visitor, salt)
    }

    private mutating func takeScreen(_ screen: ScreenRef) {
        self.screen.append(",\"screen\":")
        let start = self.screen.count
        self.screen.appendString(screen.name)
        self.screenName = start..<self.screen.count
        if let type = screen.type {
            self.screen.append(",\"screen_class\":")
            self.screen.appendString(type)
        }
        if let id = screen.id {
            self.screen.append(",\"screen_id\":")
            self.screen.appendString(id)
        }
    }

    private mutating func finish(_ type: ObjectIdentifier, _ rules: borrowing EventRules) {
        self.type = type
        if !rules.filters.isEmpty { for filter in rules.filters { filter.body(&self) } }
        self.sampling = nil
        if !rules.sampling.isEmpty, self.kind.isSampled {
            self.sampling = rules.sampling.first { $0.decides(on: type) }
        }
        self.providers.removeAll()
        ProviderSubscription.append(rules.subscriptions, for: type, self.kind, to: &self.providers)
    }
}

extension EventKind {
    fileprivate var isSampled: Bool {
        switch self {
        case .screen, .action, .event: true
        case .user, .meta: false
        }
    }
}

/// The interface for filters.
extension EventDraft {
    /// The names of the event's fields, in order.
    public var fieldNames: [String] {
        self.fields.names
    }

    /// The JSON text of a field, such as `"토스터"` or `39900`; `nil` if there is none.
    public func json(of field: String) -> String? {
        self.fields.json(of: field)
    }

    /// Whether the event has this type.
    public func isOf(_ type: any Event.Type) -> Bool {
        self.type == ObjectIdentifier(type)
    }

    /// Removes a field everywhere in the event, including in nested objects.
    public mutating func remove(_ field: String) {
        self.fields.remove(field)
        self.overrides.remove(field)
    }

    /// Replaces a field's value with its salted hash everywhere in the event, including in nested objects.
    ///
    /// A number that is added to a trait is removed instead: a hash cannot be added.
    public mutating func hash(_ field: String) {
        if self.kind == .user, self.traitChange == .add { return self.remove(field) }
        self.fields.hash(field)
        self.overrides.hash(field)
    }

    /// Drops the event; it is counted as filtered.
    public mutating func drop() {
        self.isDropped = true
    }
}
