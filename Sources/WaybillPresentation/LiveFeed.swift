internal import Synchronization
public import Waybill

/// Keeps the latest events for an overlay, or for any other list.
///
///     let feed = LiveFeed()
///     waybill.observe(.all(feed))
public final class LiveFeed: EventObserver {
    /// What a list shows at one time.
    public struct Snapshot: Hashable, Sendable {
        /// Whether the list stands still, and what it hides.
        public enum Motion: Hashable, Sendable {
            /// New events are shown.
            case running
            /// So many events came since it was paused.
            case paused(hiddenCount: Int)
        }

        /// The events, newest first.
        public var events: [LiveEvent] = []
        /// Whether new events are shown.
        public var motion = Motion.running

        /// Nothing, running.
        public init() {}
    }

    private let stream = Mutex(LiveStream())
    private let changes = ChangeSignal()

    /// A feed without events.
    public init() {}

    /// Adds an event to the list.
    public func eventStored(_ event: EventView) {
        let event = LiveEvent(event)
        self.change { $0.add(event) }
    }

    /// Stops the list; events are still taken.
    public func pause() {
        self.change { $0.pause() }
    }

    /// Shows what came meanwhile.
    public func resume() {
        self.change { $0.resume() }
    }

    /// Forgets all events.
    public func clear() {
        self.change { $0.clear() }
    }

    /// Shows only events with this text in their name, kind or fields, in either case; "" shows all.
    public func setFilter(_ text: String) {
        self.change { $0.setFilter(text) }
    }

    /// The text that shown events have, as it was set; "" when all are shown.
    public var filter: String {
        self.stream.withLock { $0.filter }
    }

    /// What is to be shown now.
    public var snapshot: Snapshot {
        self.stream.withLock { stream in
            var snapshot = Snapshot()
            snapshot.events = stream.rows
            if stream.isPaused { snapshot.motion = .paused(hiddenCount: stream.hiddenCount) }
            return snapshot
        }
    }

    /// Has an element at once, and after one or more changes.
    public func arrivals() -> AsyncStream<Void> {
        self.changes.signals()
    }

    private func change(_ body: (inout LiveStream) -> Void) {
        self.stream.withLock { body(&$0) }
        self.changes.signal()
    }
}
