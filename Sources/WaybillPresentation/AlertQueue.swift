/// What an alert says about an event, or about several.
public struct EventAlert: Hashable, Sendable {
    /// The event's name, or how many events there were.
    public let title: String
    /// One line for each field, in the event's order; for several events, one for each name, in the order they came.
    public let message: String

    package init(title: String, message: String) {
        self.title = title
        self.message = message
    }
}

/// Decides which alert is shown when: one at a time, in the order of their events.
///
///     waiting ──next()──▶ offered ──presented()──▶ shown ──dismissed()──▶ gone
///                          ▲    │
///                          └────┘ next() again: it could not be presented yet
///
/// More than ``waitingCountMax`` that wait become one, which says how many events there were and names them; those
/// that come while it waits are counted in it. So at most three alerts wait, whatever comes.
package struct AlertQueue: Sendable {
    /// Alerts that wait by themselves.
    package static let waitingCountMax = 3

    private enum Waiting {
        /// At most ``waitingCountMax``, oldest first. Leaves to `.burst`.
        case alerts([Entry])
        /// Leaves to `.alerts` when it is offered.
        case burst(AlertBurst)
    }

    private struct Entry {
        let alert: EventAlert
        let label: String
    }

    private enum Turn {
        /// Leaves to `.offered`.
        case free
        /// Leaves to `.shown`.
        case offered(EventAlert)
        /// Leaves to `.free`.
        case shown
    }

    private var waiting = Waiting.alerts([])
    private var turn = Turn.free

    package init() {}

    /// An event came: `label` is what a burst calls it.
    package mutating func add(_ alert: EventAlert, label: String) {
        switch self.waiting {
        case .alerts(let entries) where entries.count < Self.waitingCountMax:
            self.waiting = .alerts(entries + [Entry(alert: alert, label: label)])
        case .alerts(let entries):
            var burst = AlertBurst()
            for entry in entries { burst.add(entry.label) }
            burst.add(label)
            self.waiting = .burst(burst)
        case .burst(var burst):
            burst.add(label)
            self.waiting = .burst(burst)
        }
    }

    /// The alert to present now: the same until it was; `nil` while one is shown, or none waits.
    package mutating func next() -> EventAlert? {
        switch self.turn {
        case .free:
            guard let alert = self.takeFirst() else { return nil }
            self.turn = .offered(alert)
            return alert
        case .offered(let alert):
            return alert
        case .shown:
            return nil
        }
    }

    /// The alert that was offered is on the screen.
    package mutating func presented() {
        switch self.turn {
        case .offered: self.turn = .shown
        case .free, .shown: break
        }
    }

    /// The alert that was shown is gone.
    package mutating func dismissed() {
        switch self.turn {
        case .shown: self.turn = .free
        case .free, .offered: break
        }
    }

    /// Alerts that were not offered yet; a burst is one.
    package var waitingCount: Int {
        switch self.waiting {
        case .alerts(let entries): entries.count
        case .burst: 1
        }
    }

    private mutating func takeFirst() -> EventAlert? {
        switch self.waiting {
        case .alerts(var entries):
            guard !entries.isEmpty else { return nil }
            let first = entries.removeFirst()
            self.waiting = .alerts(entries)
            return first.alert
        case .burst(let burst):
            self.waiting = .alerts([])
            return burst.alert
        }
    }
}

/// Events that came faster than alerts are read, by their names.
struct AlertBurst: Sendable {
    /// Names beyond these are counted together.
    static let nameCountMax = 12

    private struct Name {
        let label: String
        var count: Int
    }

    private var names: [Name] = []
    private var otherCount = 0
    private var count = 0

    mutating func add(_ label: String) {
        self.count += 1
        if let index = self.names.firstIndex(where: { $0.label == label }) {
            self.names[index].count += 1
        } else if self.names.count < Self.nameCountMax {
            self.names.append(Name(label: label, count: 1))
        } else {
            self.otherCount += 1
        }
    }

    var alert: EventAlert {
        var lines = self.names.map { $0.count == 1 ? $0.label : "\($0.label) × \($0.count)" }
        if self.otherCount > 0 { lines.append("and \(self.otherCount) others") }
        return EventAlert(title: "\(self.count) events", message: lines.joined(separator: "\n"))
    }
}
