internal import WaybillIngest
internal import WaybillSystem

/// The one thread that writes: takes all requests that wait, stores them with one sync, and answers them.
///
///     event loops ─▶ add ─▶ [ request, request, … ] ─▶ DoorStore.store ─▶ answers, each on its event loop
///
/// While a group is synced the next one gathers; so the more wait, the more a sync is shared by. Old days of the quarantine are
/// deleted one at a time, while no request waits.
final class DoorCommitter: Sendable {
    struct Waiting: Sendable {
        let request: DoorRequest
        let answer: @Sendable (DoorOutcome) -> Void
    }

    private struct State {
        var waiting: [Waiting] = []
        /// What a reload left; `nil`: nothing new.
        var configuration: DoorConfiguration?
        var isStopping = false
        /// When the thread took its last group; `nil`: it waits.
        var since: MonotonicTime?
    }

    private let state = Monitor(State())
    /// A group that is not done after so long means that the disk does not answer.
    private static let patience = Duration.seconds(30)
    /// How often it is looked for an old day of the quarantine, and how long requests may keep one there.
    private static let retirementInterval = Duration.seconds(5)

    /// Hands a request to the thread.
    ///
    /// - Returns: `false` once it stops.
    func add(_ waiting: Waiting) -> Bool {
        self.state.update { state in
            guard !state.isStopping else { return false }
            state.waiting.append(waiting)
            return true
        }
    }

    /// Writers of other keys than its own are closed, so that the agent can delete their last segments.
    func use(_ configuration: DoorConfiguration) {
        self.state.update { $0.configuration = configuration }
    }

    /// What waits is stored, and then the thread ends.
    func stop() {
        self.state.update { $0.isStopping = true }
    }

    /// Whether the thread still works.
    var isAlive: Bool {
        self.state.withLock { state in
            state.since.map { POSIXClock().monotonicTime() - $0 < Self.patience } ?? true
        }
    }

    private enum Turn {
        case work([Waiting], DoorConfiguration?)
        case end
    }

    private func tryDisk(
        _ store: borrowing DoorStore<POSIXFileSystem>, _ telemetry: DoorTelemetry, _ clock: POSIXClock
    ) {
        self.state.withLock { $0.since = clock.monotonicTime() }
        if store.takesBytes() { telemetry.recovered() }
        self.state.withLock { $0.since = nil }
    }

    /// The thread's body.
    func run(_ store: consuming DoorStore<POSIXFileSystem>, _ telemetry: DoorTelemetry, _ manager: ServiceManager) {
        var store = store
        let clock = POSIXClock()
        var retirement = clock.monotonicTime()
        while true {
            retirement = self.retire(in: &store, telemetry, due: retirement)
            let turn = self.state.wait(until: retirement) { state -> Turn? in
                if state.waiting.isEmpty, state.configuration == nil { return state.isStopping ? .end : nil }
                defer { (state.waiting, state.configuration) = ([], nil) }
                state.since = clock.monotonicTime()
                return .work(state.waiting, state.configuration)
            }
            manager.tell(.alive)
            guard let turn else {
                // A proxy that asks whether the door is ready sends nothing until it is.
                if !telemetry.isStoring { self.tryDisk(store, telemetry, clock) }
                store.turn(clock.monotonicTime())
                telemetry.known(reach: store.reach)
                continue
            }
            guard case .work(let group, let configuration) = turn else { return }
            if !group.isEmpty {
                let start = clock.monotonicTime()
                let outcomes = store.store(group.map(\.request), now: start, wall: clock.wallTime())
                telemetry.committed(
                    outcomes, took: clock.monotonicTime() - start, reach: store.reach, droppedCount: store.droppedCount)
                for (waiting, outcome) in zip(group, outcomes) { waiting.answer(outcome) }
            }
            // After the group, which may be of former sources.
            if let configuration {
                store.closeWriters(except: configuration.keys.map(\.source))
                store.keepQuarantine(dayCountMax: configuration.quarantineDayCountMax, since: configuration.programDate)
            }
            self.state.withLock { $0.since = nil }
        }
    }

    /// Deletes an old day of the quarantine if it is time to look for one; requests that wait come first, but not for ever.
    ///
    /// - Returns: when it is time again.
    private func retire(
        in store: inout DoorStore<POSIXFileSystem>, _ telemetry: DoorTelemetry, due: MonotonicTime
    ) -> MonotonicTime {
        let clock = POSIXClock()
        let now = clock.monotonicTime()
        guard now >= due else { return due }
        let isFree = self.state.withLock { state -> Bool in
            guard state.waiting.isEmpty || now - due >= Self.retirementInterval else { return false }
            state.since = now
            return true
        }
        guard isFree else { return due }
        defer { self.state.withLock { $0.since = nil } }
        let retirement = store.retireQuarantine(clock.wallTime())
        telemetry.retired(retirement)
        switch retirement {
        case .deleted: return clock.monotonicTime()
        case .done, .failed, .clockDoubted: return now + Self.retirementInterval
        }
    }
}
