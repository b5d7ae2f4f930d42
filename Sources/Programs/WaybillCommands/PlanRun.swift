import WaybillData
import WaybillExport
import WaybillLive
import WaybillSystem

/// Follows a plan on a thread of its own, until everything has come, the time is over, or it is stopped.
final class PlanRun: Sendable {
    private struct State {
        var isStopped = false
        var worker: Worker?
        var result: Result<PlanAnswer, FileSystemError>?
    }

    private let plan: EventPlan
    private let seconds: Int?
    private let data: DataDirectory<POSIXFileSystem>
    private let exports: [ExportOptions]
    /// Where a kept journal ends before the receiver starts: what is older does not count.
    private let oldEnd: JournalPosition?
    private let state = Lock(State())

    /// - Parameter seconds: how long to wait, from ``start(receiver:done:)`` on; `nil` for ever.
    init(
        _ plan: EventPlan, seconds: Int?, data: DataDirectory<POSIXFileSystem>, exports: [ExportOptions]
    ) throws(FileSystemError) {
        self.plan = plan
        self.seconds = seconds
        self.data = data
        self.exports = exports
        var tip = JournalTip(journal: data.journal, files: data.files)
        self.oldEnd = try tip.find()
    }

    /// Begins to follow.
    ///
    /// - Parameters:
    ///   - receiver: where it serves its status.
    ///   - done: called once when there is an answer.
    func start(receiver: NetworkAddress, done: @escaping @Sendable () -> Void) {
        let worker = Worker(name: "waybill-plan") {
            let result: Result<PlanAnswer, FileSystemError>
            do throws(FileSystemError) {
                result = .success(try self.follow(receiver))
            } catch {
                result = .failure(error)
            }
            self.state.withLock { $0.result = result }
            done()
        }
        self.state.withLock { $0.worker = worker }
    }

    /// Returns when there is an answer, if it was started.
    func stop() {
        let worker = self.state.withLock { state in
            state.isStopped = true
            return state.worker
        }
        worker?.join()
    }

    /// The answer; after ``stop()``.
    func answer() throws(FileSystemError) -> PlanAnswer {
        guard let result = self.state.withLock({ $0.result }) else {
            // It was stopped before it began.
            return try self.watch(from: JournalPosition(0)).answer(.stopped)
        }
        return try result.get()
    }

    private var isStopped: Bool { self.state.withLock { $0.isStopped } }

    private func watch(from position: JournalPosition) throws(FileSystemError) -> PlanWatch<POSIXFileSystem> {
        try PlanWatch(data: self.data, exports: self.exports, plan: self.plan, from: position)
    }

    private func follow(_ receiver: NetworkAddress) throws(FileSystemError) -> PlanAnswer {
        let clock = POSIXClock()
        let deadline = self.seconds.map { clock.monotonicTime() + .seconds($0) }
        let first = try JournalTip.segments(of: self.data.journal, files: self.data.files)?.lowerBound
        var watch = try self.watch(from: self.oldEnd ?? first ?? JournalPosition(0))
        let durable = DurableEnd(of: self.data, receiver: receiver)
        var end = try durable.now()
        var settled: MonotonicTime?
        while true {
            try watch.advance(upTo: end)
            let now = clock.monotonicTime()
            if watch.hasEverything, settled == nil { settled = now + (self.plan.canBreak ? self.plan.settle : .zero) }
            if let settled, settled <= now { return watch.answer(.everything) }
            let isLate = deadline.map { $0 <= now } ?? false
            if isLate || self.isStopped {
                // What was acknowledged by now counts.
                try watch.advance(upTo: max(end, try durable.now()))
                return watch.answer(self.isStopped ? .stopped : .time)
            }
            let next = [deadline, settled].compactMap(\.self).min()
            end = max(
                end,
                try durable.next(after: end) {
                    self.isStopped || next.map { $0 <= clock.monotonicTime() } ?? false
                })
        }
    }
}
