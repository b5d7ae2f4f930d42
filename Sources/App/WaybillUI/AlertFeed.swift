internal import WaybillSystem
public import Waybill

/// Turns observed events into alerts for a user interface to show.
///
///     let feed = AlertFeed()
///     waybill.observe(.only(feed, PlaylistScreen.self))
///     for await _ in feed.arrivals() {
///         while let alert = feed.next() { … }       // present it, presented(), dismissed()
///     }
public final class AlertFeed: EventObserver {
    private let queue = Lock(AlertQueue())
    private let changes = ChangeSignal()

    /// A feed without alerts.
    public init() {}

    /// Adds an alert for a stored event.
    public func eventStored(_ event: EventView) {
        let alert = EventAlert(event)
        let label = EventText.label(of: event)
        self.queue.withLock { $0.add(alert, label: label) }
        self.changes.signal()
    }

    /// The alert to present now: the same until ``presented()``; `nil` while one is shown or if none is waiting.
    public func next() -> EventAlert? {
        self.queue.withLock { $0.next() }
    }

    /// Reports that the alert from ``next()`` is on the screen.
    public func presented() {
        self.queue.withLock { $0.presented() }
    }

    /// Reports that the presented alert was dismissed; the next one may follow.
    public func dismissed() {
        self.queue.withLock { $0.dismissed() }
    }

    /// A stream with one element at once, and one more after each arrival of one or more events.
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
