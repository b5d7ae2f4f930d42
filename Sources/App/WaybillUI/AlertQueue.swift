/// The text of an alert about one event or several.
public struct EventAlert: Hashable, Sendable {
    /// The event's name, or the number of events.
    public let title: String
    /// One line per field, in the event's order; for several events, one line per name, in order of arrival.
    public let message: String

    package init(title: String, message: String) {
        self.title = title
        self.message = message
    }
}

/// Decides when to show which alert: one at a time, in the order of events.
///
///     waiting ──next()──▶ offered ──presented()──▶ shown ──dismissed()──▶ gone
///                          ▲    │
///                          └────┘ next() again: it could not be presented yet
///
/// If more than ``waitingCountMax`` alerts wait, they are merged into one with the number and the names of the events;
/// events that arrive while it waits are added to it. So at most three alerts ever wait.
package struct AlertQueue: Sendable {
    /// The number of alerts that wait before they are merged.
    package static let waitingCountMax = 3

    private enum Waiting {
        /// At most ``waitingCountMax``, oldest first. Next: `.burst`.
        case alerts([Entry])
        /// Next: `.alerts`, when it is offered.
        case burst(AlertBurst)
    }

    private struct Entry {
        let alert: EventAlert
        let label: String
    }

    private enum Turn {
        /// Next: `.offered`.
        case free
        /// Next: `.shown`.
        case offered(EventAlert)
        /// Next: `.free`.
        case shown
    }

    private var waiting = Waiting.alerts([])
    private var turn = Turn.free

    package init() {}

    /// Adds an event; `label` is its name in a merged alert.
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

    /// The alert to present now: the same until it is presented; `nil` while one is shown or if none is waiting.
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

    /// Records that the offered alert is on the screen.
    package mutating func presented() {
        switch self.turn {
        case .offered: self.turn = .shown
        case .free, .shown: break
        }
    }

    /// Records that the shown alert was dismissed.
    package mutating func dismissed() {
        switch self.turn {
        case .shown: self.turn = .free
        case .free, .offered: break
        }
    }

    /// The number of alerts not offered yet; a merged one counts once.
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

/// Events that arrived faster than alerts were read, counted by name.
struct AlertBurst: Sendable {
    /// Further names are counted together.
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
