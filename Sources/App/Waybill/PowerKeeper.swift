internal import WaybillSystem

/// Makes stored events survive a power failure after an interval, on a separate thread.
///
/// A call of `track` only checks a flag, and wakes the thread at most once per interval.
final class PowerKeeper: Sendable {
    private struct State {
        var isDirty = false
        var isStopped = false
    }

    private let interval: Duration
    private let isDirty = Atomic(false)
    private let state = Monitor(State())

    init(every interval: Duration) {
        self.interval = interval
    }

    /// Starts the thread; returns `false` if the system refuses one.
    ///
    /// - Parameter synchronize: returns `false` if it must be called again.
    func start(_ synchronize: @escaping @Sendable () -> Bool) -> Bool {
        let keeper = self
        let worker = Worker.attempt(name: "waybill-power") {
            while keeper.waitUntilDue() {
                keeper.isDirty.store(false, ordering: .sequentiallyConsistent)
                if !synchronize() { keeper.dirtied() }
            }
        }
        return worker != nil
    }

    /// Records that an event was stored.
    func dirtied() {
        guard !self.isDirty.load(ordering: .sequentiallyConsistent) else { return }
        self.isDirty.store(true, ordering: .sequentiallyConsistent)
        self.state.update { $0.isDirty = true }
    }

    /// Ends the thread; returns `true` if stored events are not synchronized yet.
    func stop() -> Bool {
        self.state.update { $0.isStopped = true }
        return self.isDirty.load(ordering: .sequentiallyConsistent)
    }

    /// Sleeps until an event is stored, then for the interval; returns `false` when the thread must end.
    private func waitUntilDue() -> Bool {
        let isStopped = self.state.wait { state -> Bool? in
            if state.isStopped { return true }
            guard state.isDirty else { return nil }
            state.isDirty = false
            return false
        }
        guard isStopped == false else { return false }
        let deadline = POSIXClock().monotonicTime() + self.interval
        let ended: Bool? = self.state.wait(until: deadline) { $0.isStopped ? true : nil }
        return ended == nil
    }
}
