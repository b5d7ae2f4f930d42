public import WaybillEvent
internal import WaybillSystem

/// Something in the app that sees events once they are stored: an SDK's adapter, a log, an alert view, a test.
///
/// It is called on a thread of its own, one event at a time, in the order of their sequence numbers. `track` never
/// waits for it: an observer that falls behind by ``ObserverSubscription/waitingCountMax`` events misses the next
/// ones, and its ``ObserverToken`` counts them.
public protocol EventObserver: Sendable {
    /// An event was stored.
    func eventStored(_ event: EventView)
}

/// Which stored events an observer sees.
public struct ObserverSubscription: Sendable {
    /// Events that may wait for an observer.
    public static let waitingCountMax = 4096

    let observer: any EventObserver
    /// `nil`: all.
    let types: Set<ObjectIdentifier>?

    /// The observer sees every event, those of Waybill's own among them.
    public static func all(_ observer: any EventObserver) -> ObserverSubscription {
        ObserverSubscription(observer: observer, types: nil)
    }

    /// The observer sees events of these types, and what is said about the user.
    public static func only(_ observer: any EventObserver, _ types: any Event.Type...) -> ObserverSubscription {
        ObserverSubscription(observer: observer, types: Set(types.map { ObjectIdentifier($0) }))
    }
}

/// An observer at work.
public final class ObserverToken: Sendable {
    private struct State {
        var waiting: [EventView] = []
        /// Of the events that were taken.
        var takenCount = 0
        var seenCount = 0
        var missedCount: UInt64 = 0
        var isCancelled = false
        /// Whether there is a thread that calls the observer.
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

    /// Starts the thread; where the system refuses one, the next event tries again.
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

    /// What waits; nothing when nothing will come, `nil` as long as something may.
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

    /// Stops observing; what waits is still delivered.
    public func cancel() {
        self.state.update { $0.isCancelled = true }
    }

    /// Returns once everything stored before is seen or missed; never call it from the observer itself.
    public func drain() {
        let takenCount = self.state.withLock { $0.takenCount }
        _ = self.state.wait { $0.seenCount >= takenCount || !$0.isStarted ? true : nil }
    }

    /// Events that came while too many were waiting.
    public var missedCount: UInt64 {
        self.state.withLock { $0.missedCount }
    }

    var isCancelled: Bool {
        self.state.withLock { $0.isCancelled }
    }
}
