public import WaybillEvent
internal import WaybillSystem

/// A receiver of stored events in the app: an SDK's adapter, a log, an alert view, a test.
///
/// It is called on a separate thread, with one event at a time, in the order of sequence numbers. `track` never waits
/// for it: an observer that is ``ObserverSubscription/waitingCountMax`` events behind misses the next ones, and its
/// ``ObserverToken`` counts them.
public protocol EventObserver: Sendable {
    /// Called after an event was stored.
    func eventStored(_ event: EventView)
}

/// The stored events that an observer receives.
public struct ObserverSubscription: Sendable {
    /// The maximum number of events waiting for an observer.
    public static let waitingCountMax = 4096

    let observer: any EventObserver
    /// The types of the events; `nil` for all events.
    let types: Set<ObjectIdentifier>?

    /// Passes all events to the observer, including Waybill's own.
    public static func all(_ observer: any EventObserver) -> ObserverSubscription {
        ObserverSubscription(observer: observer, types: nil)
    }

    /// Passes events of these types to the observer, and all `user` events.
    public static func only(_ observer: any EventObserver, _ types: any Event.Type...) -> ObserverSubscription {
        ObserverSubscription(observer: observer, types: Set(types.map { ObjectIdentifier($0) }))
    }
}

/// A handle for an active observer.
public final class ObserverToken: Sendable {
    private struct State {
        var waiting: [EventView] = []
        /// The number of events queued so far.
        var takenCount = 0
        var seenCount = 0
        var missedCount: UInt64 = 0
        var isCancelled = false
        /// Whether the observer's thread is running.
        var isStarted = false
    }

    let types: Set<ObjectIdentifier>?
    private let observer: any EventObserver
    private let state = Monitor(State())

    init(_ subscription: ObserverSubscription) {
        self.types = subscription.types
        self.observer = subscription.observer
        self.state.withLock { self.start(&$0) }
    }

    /// Starts the thread; if the system refuses one, the next event tries again.
    private func start(_ state: inout State) {
        let observer = self.observer
        let monitor = self.state
        let worker = Worker.attempt(name: "waybill-observe") {
            while let events = monitor.wait({ Self.next(&$0) }), !events.isEmpty {
                for event in events { observer.eventStored(event) }
                monitor.update { $0.seenCount += events.count }
            }
        }
        state.isStarted = worker != nil
    }

    /// The waiting events; empty if no more will follow, `nil` if more may follow.
    private static func next(_ state: inout State) -> [EventView]? {
        if state.waiting.isEmpty { return state.isCancelled ? [] : nil }
        defer { state.waiting = [] }
        return state.waiting
    }

    func includes(_ type: ObjectIdentifier, _ kind: EventKind) -> Bool {
        guard let types = self.types, kind != .user else { return true }
        return types.contains(type)
    }

    func take(_ event: EventView) {
        self.state.update { state in
            if state.isCancelled { return }
            if !state.isStarted { self.start(&state) }
            if state.waiting.count < ObserverSubscription.waitingCountMax {
                state.waiting.append(event)
                state.takenCount += 1
            } else {
                state.missedCount += 1
            }
        }
    }

    /// Stops observing; events already waiting are still delivered.
    public func cancel() {
        self.state.update { $0.isCancelled = true }
    }

    /// Returns once the observer has received or missed all events stored before; never call it from the observer.
    public func drain() {
        let takenCount = self.state.withLock { $0.takenCount }
        _ = self.state.wait { $0.seenCount >= takenCount || !$0.isStarted ? true : nil }
    }

    /// The number of events missed because too many were waiting.
    public var missedCount: UInt64 {
        self.state.withLock { $0.missedCount }
    }

    var isCancelled: Bool {
        self.state.withLock { $0.isCancelled }
    }
}
