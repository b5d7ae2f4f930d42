public import Waybill

/// A stored event as shown in a list of the latest events.
public struct LiveEvent: Identifiable, Hashable, Sendable {
    /// The writer's sequence number of the event.
    public let id: UInt64
    /// The event's kind.
    public let kind: EventKind
    /// The event's name, followed by the screen's name for screens.
    public let label: String
    /// The time of the event in UTC, such as "09:14:19.003".
    public let time: String
    /// One line per field, in the event's order.
    public let lines: [String]
    /// The text that a filter searches, in lower case.
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
        let time = event[member: "ts"]?.dropFirst(11).dropLast() ?? ""
        self.init(
            id: event.sequence, kind: event.kind, label: EventText.label(of: event), time: String(time),
            lines: EventText.lines(of: event))
    }
}

/// The latest events, for a list that can be paused and filtered.
///
/// Bounded: it keeps the last ``eventCountMax`` events, and as many again while it is paused.
package struct LiveStream: Sendable {
    /// About as many as a person scrolls back; 1 MiB with the longest texts.
    package static let eventCountMax = 200

    /// Oldest first.
    private var events: [LiveEvent] = []
    /// The events shown while paused.
    private var frozen: [LiveEvent]?
    /// The filter text as it was set.
    package private(set) var filter = ""
    private var sincePauseCount = 0

    package init() {}

    package mutating func add(_ event: LiveEvent) {
        // Moving 200 elements takes less time than drawing one.
        if self.events.count == Self.eventCountMax { self.events.removeFirst() }
        self.events.append(event)
        if self.frozen != nil { self.sincePauseCount += 1 }
    }

    /// Keeps showing the current events until ``resume()``; events are still recorded.
    package mutating func pause() {
        if self.frozen == nil { self.frozen = self.events }
    }

    package mutating func resume() {
        self.frozen = nil
        self.sincePauseCount = 0
    }

    /// Removes all events; a paused list stays paused.
    package mutating func clear() {
        self.events = []
        self.sincePauseCount = 0
        if self.frozen != nil { self.frozen = [] }
    }

    /// Shows only events with this text in their label, kind or lines, ignoring case; "" shows all.
    package mutating func setFilter(_ text: String) {
        self.filter = text
    }

    package var isPaused: Bool {
        self.frozen != nil
    }

    /// The number of events since ``pause()``.
    package var hiddenCount: Int {
        self.sincePauseCount
    }

    /// The events to show, newest first.
    package var rows: [LiveEvent] {
        let shown = self.frozen ?? self.events
        guard !self.filter.isEmpty else { return shown.reversed() }
        let text = self.filter.lowercased()
        return shown.filter { $0.searched.contains(text) }.reversed()
    }
}
