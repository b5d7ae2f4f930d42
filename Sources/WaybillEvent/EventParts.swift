/// ``EventParts`` that can wait in a pool.
///
/// `@unchecked Sendable`: one call owns it at a time; the client's pool hands it over under its `Mutex`.
package final class EventPartsBox: @unchecked Sendable {
    package var parts = EventParts()

    package init() {}
}

/// What one event brings to its line, encoded before any lock is taken, in memory that the next event uses again.
package struct EventParts: ~Copyable {
    package private(set) var kind = EventKind.event
    package private(set) var hasName = false
    /// The type that the app gave the event; ``untyped`` when it gave none.
    package private(set) var type = EventParts.untyped
    /// The event's name as a JSON string.
    private(set) var name = LineBuffer(capacity: 64)
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

    /// Stands for events that have no type of their own.
    private static let untyped = ObjectIdentifier(EventPartsBox.self)

    package init() {}

    /// What had to be left out or cut.
    package var repairs: FieldRepairs {
        var repairs = self.fields.repairs
        repairs += self.overrides.repairs
        return repairs
    }

    /// More fields than any line holds.
    package var isOverflowing: Bool {
        self.fields.buffer.isOverflowing
    }

    /// Takes an event of the app; runs the app's code.
    package mutating func take<E: Event>(
        _ event: E, _ subscriptions: [Subscription], adding body: (inout Fields) -> Void
    ) {
        self.begin(E.kind, event.name, event.screen, logVersion: E.logVersion)
        event.encode(into: &self.fields)
        body(&self.fields)
        event.customize(&self.overrides)
        self.route(ObjectIdentifier(E.self), subscriptions)
    }

    /// Takes an event that has no type.
    package mutating func take(
        _ kind: EventKind, _ name: String, _ screen: ScreenRef?, _ subscriptions: [Subscription],
        adding body: (inout Fields) -> Void
    ) {
        self.begin(kind, name, screen, logVersion: nil)
        body(&self.fields)
        self.route(Self.untyped, subscriptions)
    }

    private mutating func begin(_ kind: EventKind, _ name: String, _ screen: ScreenRef?, logVersion: String?) {
        self.fields.removeAll()
        self.overrides.removeAll()
        self.name.removeAll()
        self.screen.removeAll()
        self.log.removeAll()
        self.kind = kind
        self.hasName = !name.isEmpty
        self.name.appendString(name, byteCountMax: EventLimits.nameByteCountMax)
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

    private mutating func route(_ type: ObjectIdentifier, _ subscriptions: [Subscription]) {
        self.type = type
        self.routing.removeAll()
        Subscription.append(subscriptions, for: type, self.kind, to: &self.routing)
        self.overrides.append(to: &self.routing)
    }
}
