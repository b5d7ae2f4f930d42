public import Waybill

/// A stored event, as a list of the latest ones shows it.
public struct LiveEvent: Identifiable, Hashable, Sendable {
    /// The writer's number of the event.
    public let id: UInt64
    /// What the event is about.
    public let kind: EventKind
    /// The event's name, and for screens which one.
    public let label: String
    /// When it happened, UTC, as in "09:14:19.003".
    public let time: String
    /// One line for each field, in the event's order.
    public let lines: [String]
    /// What a filter looks into, in lower case.
    let searched: String

    package init(id: UInt64, kind: EventKind, label: String, time: String, lines: [String]) {
        self.id = id
        self.kind = kind
        self.label = label
        self.time = time
        self.lines = lines
        self.searched = ([label, kind.rawValue] + lines).joined(separator: "\n").lowercased()
    }

    package init(_ event: EventView) {
        // "2025-03-01T09:14:19.003Z"
        let time = event["ts"]?.dropFirst(11).dropLast() ?? ""
        self.init(
            id: event.sequence, kind: event.kind, label: EventText.label(of: event), time: String(time),
            lines: EventText.lines(of: event))
    }
}

/// The latest events, for a list that can be stopped and searched.
///
/// Bounded: the last ``eventCountMax`` events, and as many again while it is paused.
package struct LiveStream: Sendable {
    /// About as many as a person scrolls back; 1 MiB at the longest texts.
    package static let eventCountMax = 200

    /// Oldest first.
    private var events: [LiveEvent] = []
    /// What is shown while it is paused.
    private var frozen: [LiveEvent]?
    /// As it was set.
    package private(set) var filter = ""
    private var sincePauseCount = 0

    package init() {}

    package mutating func add(_ event: LiveEvent) {
        // 200 elements move in less time than the list takes to draw one.
        if self.events.count == Self.eventCountMax { self.events.removeFirst() }
        self.events.append(event)
        if self.frozen != nil { self.sincePauseCount += 1 }
    }

    /// Shows what there is now until ``resume()``; events are still taken.
    package mutating func pause() {
        if self.frozen == nil { self.frozen = self.events }
    }

    package mutating func resume() {
        self.frozen = nil
        self.sincePauseCount = 0
    }

    /// Forgets all events; what is paused stays paused.
    package mutating func clear() {
        self.events = []
        self.sincePauseCount = 0
        if self.frozen != nil { self.frozen = [] }
    }

    /// Shows only events that have this text in their label, kind or lines, in either case; "" shows all.
    package mutating func setFilter(_ text: String) {
        self.filter = text
    }

    package var isPaused: Bool {
        self.frozen != nil
    }

    /// Events that came since ``pause()``.
    package var hiddenCount: Int {
        self.sincePauseCount
    }

    /// What is to be shown, newest first.
    package var rows: [LiveEvent] {
        let shown = self.frozen ?? self.events
        guard !self.filter.isEmpty else { return shown.reversed() }
        let text = self.filter.lowercased()
        return shown.filter { $0.searched.contains(text) }.reversed()
    }
}
