internal import Synchronization
public import Waybill

/// Turns observed events into alerts, for whatever shows them.
///
///     let feed = AlertFeed()
///     waybill.observe(.only(feed, PlaylistScreen.self))
///     for await _ in feed.arrivals() {
///         while let alert = feed.next() { … }       // present it, presented(), dismissed()
///     }
public final class AlertFeed: EventObserver {
    private let queue = Mutex(AlertQueue())
    private let changes = ChangeSignal()

    /// A feed without alerts.
    public init() {}

    /// Adds an alert for an event.
    public func eventStored(_ event: EventView) {
        let alert = EventAlert(event)
        let label = EventText.label(of: event)
        self.queue.withLock { $0.add(alert, label: label) }
        self.changes.signal()
    }

    /// The alert to present now: the same until ``presented()``; `nil` while one is shown, or none waits.
    public func next() -> EventAlert? {
        self.queue.withLock { $0.next() }
    }

    /// Says that the alert from ``next()`` is on the screen.
    public func presented() {
        self.queue.withLock { $0.presented() }
    }

    /// Says that the alert that was presented is gone, and the next may come.
    public func dismissed() {
        self.queue.withLock { $0.dismissed() }
    }

    /// Has an element at once, and after one or more events came.
    public func arrivals() -> AsyncStream<Void> {
        self.changes.signals()
    }
}

extension EventAlert {
    /// An alert for one event.
    package init(_ event: EventView) {
        self.init(title: event.name, message: EventText.lines(of: event).joined(separator: "\n"))
    }
}
