/// ``EventDraft`` that can wait in a pool.
///
/// `@unchecked Sendable`: one call owns it at a time; the client's pool hands it over under its lock. Its draft is not a
/// stored property, as each use of one is looked at for overlaps with others.
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

/// An event on its way to its line: encoded before any lock is taken, in memory that the next event uses again.
///
/// Filters see it and may change it.
public struct EventDraft: ~Copyable {
    /// What the event is about.
    public private(set) var kind = EventKind.event
    /// What reports count the event under.
    public private(set) var name = ""
    /// The type that the app gave the event; ``untyped`` when it gave none.
    package private(set) var type = EventDraft.untyped
    /// The event's name as a JSON string.
    private(set) var encodedName = LineBuffer(capacity: 64)
    /// The members `,"screen":…,"screen_class":…,"screen_id":…`; empty: the current screen.
    private(set) var screen = LineBuffer(capacity: 64)
    /// Where the screen's name is in `screen`, quotes included.
    private(set) var screenName = 0..<0
    /// The member `,"log":…`; empty for events without a type.
    private(set) var log = LineBuffer(capacity: 32)
    package var fields = Fields()
    private var overrides = Overrides()
    /// The members `,"providers":…,"overrides":…`.
    private(set) var routing = LineBuffer(capacity: 64)
    /// The members that say which visitor of a server did it; empty: the client's user.
    private(set) var person = LineBuffer(capacity: 64)
    /// The member that says in which session the visitor did it; empty: the client's.
    private(set) var session = LineBuffer(capacity: 64)
    /// The member `,"consent":…` of a visitor who was asked.
    private(set) var consent = LineBuffer(capacity: 64)
    /// Whether the visitor whose event it is allows it.
    package private(set) var isAllowed = true
    /// What the visitor is sampled by; `nil`: the client's user.
    package private(set) var personHash: UInt64?
    /// What decides whether the event stays; `nil`: it does.
    package private(set) var sampling: Sampling?
    /// Whether a filter wants no line of it.
    package private(set) var isDropped = false
    private var isVisitorValid = true
    /// Whether it looks like an event of Waybill's own, and is none.
    private var isReserved = false

    /// Stands for events that have no type of their own.
    private static let untyped = ObjectIdentifier(EventDraftBox.self)

    package init() {}

    /// What had to be left out or cut.
    package var repairs: FieldRepairs {
        var repairs = self.fields.repairs
        repairs += self.overrides.repairs
        return repairs
    }

    package var fieldsByteCount: Int {
        self.fields.buffer.count
    }

    /// More fields than any line holds.
    package var isOverflowing: Bool {
        self.fields.buffer.isOverflowing
    }

    /// Whether it is a visitor's, and not the client's user's.
    package var hasVisitor: Bool {
        !self.person.isEmpty
    }

    /// Whether a line can be made of it.
    package var isValid: Bool {
        !self.name.isEmpty && self.isVisitorValid && !self.isReserved
    }

    /// Takes an event of the app; runs the app's code.
    ///
    /// What `body` adds goes to every provider, those with fields of their own among them.
    package mutating func take<E: Event>(
        _ event: E, _ rules: borrowing EventRules, _ salt: PrivacySalt?, by visitor: Visitor? = nil,
        adding body: (inout Fields) -> Void
    ) {
        self.begin(E.kind, event.name, event.screen, logVersion: E.logVersion, salt, visitor)
        event.encode(into: &self.fields)
        let ownCount = self.fields.count
        body(&self.fields)
        event.customize(&self.overrides)
        self.overrides.add(self.fields, from: ownCount)
        self.finish(ObjectIdentifier(E.self), rules)
    }

    /// Takes an event that has no type.
    package mutating func take(
        _ kind: EventKind, _ name: String, _ screen: ScreenRef?, _ rules: borrowing EventRules, _ salt: PrivacySalt?,
        by visitor: Visitor? = nil, adding body: (inout Fields) -> Void
    ) {
        self.begin(kind, name, screen, logVersion: nil, salt, visitor)
        body(&self.fields)
        self.finish(Self.untyped, rules)
    }

    /// Takes an event of Waybill's own, which no rule touches.
    package mutating func take(own name: StaticString, adding body: (inout Fields) -> Void) {
        self.begin(.meta, name.description, nil, logVersion: nil, nil, nil)
        self.isReserved = false
        body(&self.fields)
        self.finish(Self.untyped, EventRules())
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
        self.kind = kind
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
        self.takeVisitor(visitor, salt)
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

    private mutating func takeVisitor(_ visitor: Visitor?, _ salt: PrivacySalt?) {
        self.person.removeAll()
        self.session.removeAll()
        self.consent.removeAll()
        self.personHash = nil
        self.isVisitorValid = true
        self.isAllowed = true
        guard let visitor else { return }
        self.isVisitorValid = visitor.isValid
        self.personHash = Sampling.hash(visitor.user ?? visitor.anonymous ?? "")
        visitor.appendPerson(to: &self.person, salt)
        visitor.appendSession(to: &self.session)
        if let consent = visitor.consent {
            self.consent.append(consent)
            self.isAllowed = consent.analytics
        }
    }

    private mutating func finish(_ type: ObjectIdentifier, _ rules: borrowing EventRules) {
        self.type = type
        if !rules.filters.isEmpty { for filter in rules.filters { filter.body(&self) } }
        self.sampling = nil
        if !rules.sampling.isEmpty, self.kind.isSampled {
            self.sampling = rules.sampling.first { $0.decides(on: type) }
        }
        self.routing.removeAll()
        ProviderSubscription.append(rules.subscriptions, for: type, self.kind, to: &self.routing)
        self.overrides.append(to: &self.routing)
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

/// What filters do.
extension EventDraft {
    /// The names of the event's fields, in their order.
    public var fieldNames: [String] {
        self.fields.names
    }

    /// The JSON text of a field, as in `"토스터"` or `39900`; `nil` when there is none.
    public func json(of field: String) -> String? {
        self.fields.json(of: field)
    }

    /// Whether the event is of this type.
    public func isOf(_ type: any Event.Type) -> Bool {
        self.type == ObjectIdentifier(type)
    }

    /// Takes a field away, wherever the event has it, in objects too.
    public mutating func remove(_ field: String) {
        self.fields.remove(field)
        self.overrides.forEachFields { $0.remove(field) }
    }

    /// Replaces the value of a field by its salted hash, wherever the event has it, in objects too.
    public mutating func hash(_ field: String) {
        self.fields.hash(field)
        self.overrides.forEachFields { $0.hash(field) }
    }

    /// Keeps the event from being stored; it is counted as filtered.
    public mutating func drop() {
        self.isDropped = true
    }
}
