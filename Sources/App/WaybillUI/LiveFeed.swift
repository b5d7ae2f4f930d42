internal import WaybillSystem
public import Waybill

/// Keeps the latest events for an overlay or another list.
///
///     let feed = LiveFeed()
///     waybill.observe(.all(feed))
public final class LiveFeed: EventObserver {
    /// The contents of a list at one moment.
    public struct Snapshot: Hashable, Sendable {
        /// Whether the list is paused, and how many events it hides.
        public enum Motion: Hashable, Sendable {
            /// New events are shown.
            case running
            /// The list is paused; this many events have arrived since.
            case paused(hiddenCount: Int)
        }

        /// The events, newest first.
        public var events: [LiveEvent] = []
        /// Whether the list is running or paused.
        public var motion = Motion.running

        /// An empty, running list.
        public init() {}
    }

    private let stream = Lock(LiveStream())
    private let changes = ChangeSignal()

    /// A feed without events.
    public init() {}

    /// Adds an event to the list.
    public func eventStored(_ event: EventView) {
        let event = LiveEvent(event)
        self.change { $0.add(event) }
    }

    /// Pauses the list; events are still recorded.
    public func pause() {
        self.change { $0.pause() }
    }

    /// Resumes the list and shows the events recorded meanwhile.
    public func resume() {
        self.change { $0.resume() }
    }

    /// Removes all events.
    public func clear() {
        self.change { $0.clear() }
    }

    /// Shows only events with this text in their name, kind or fields, ignoring case; "" shows all.
    public func setFilter(_ text: String) {
        self.change { $0.setFilter(text) }
    }

    /// The current filter text, as it was set; "" if all events are shown.
    public var filter: String {
        self.stream.withLock { $0.filter }
    }

    /// Returns the contents to show now.
    public var snapshot: Snapshot {
        self.stream.withLock { stream in
            var snapshot = Snapshot()
            snapshot.events = stream.rows
            if stream.isPaused { snapshot.motion = .paused(hiddenCount: stream.hiddenCount) }
            return snapshot
        }
    }

    /// A stream with one element at once, and one more after each set of changes.
    public func arrivals() -> AsyncStream<Void> {
        self.changes.signals()
    }

    private func change(_ body: (inout LiveStream) -> Void) {
        self.stream.withLock { body(&$0) }
        self.changes.signal()
    }
}
