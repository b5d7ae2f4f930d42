internal import Synchronization
internal import WaybillSystem

/// Makes stored events survive a power cut some time after they were stored, on a thread of its own.
///
/// A call of `track` costs one look at a flag, and wakes the thread once in an interval at most.
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

    /// Returns `false` when the system refuses a thread.
    ///
    /// - Parameter synchronize: `false` when it has to be tried again.
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

    /// An event was stored.
    func dirtied() {
        guard !self.isDirty.load(ordering: .sequentiallyConsistent) else { return }
        self.isDirty.store(true, ordering: .sequentiallyConsistent)
        self.state.update { $0.isDirty = true }
    }

    /// Ends the thread; `true` when something was stored that it did not come to.
    func stop() -> Bool {
        self.state.update { $0.isStopped = true }
        return self.isDirty.load(ordering: .sequentiallyConsistent)
    }

    /// Sleeps until something was stored, and then for the interval; `false` when it is to end.
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
