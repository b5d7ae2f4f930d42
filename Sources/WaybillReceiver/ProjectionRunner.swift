internal import Synchronization
internal import WaybillJournal
internal import WaybillProjection
internal import WaybillSystem

/// How far each projection has come for good, so that the journal can let go of what is behind them all.
final class JournalRetirement: Sendable {
    private struct State {
        var positions: [String: JournalPosition] = [:]
        var lastAsked: MonotonicTime?
    }

    let retention: Duration
    private let names: Set<String>
    private let state = Mutex(State())

    /// Prepares for these projections: nothing is let go before each of them has said where it stands.
    init(names: Set<String>, retention: Duration) {
        self.names = names
        self.retention = retention
    }

    func checkpointed(_ name: String, at position: JournalPosition) {
        self.state.withLock { $0.positions[name] = position }
    }

    /// What every projection is past; `nil` when one has not recovered yet, or when this was asked for less than ten
    /// seconds ago.
    func duePosition(now: MonotonicTime) -> JournalPosition? {
        self.state.withLock { state in
            if let last = state.lastAsked, now - last < .seconds(10) { return nil }
            state.lastAsked = now
            guard Set(state.positions.keys) == self.names else { return nil }
            return state.positions.values.min()
        }
    }
}

/// One projection's thread: follows the journal from memory while it keeps up and from disk when it does not.
///
/// When the disk refuses, the projection goes back to its checkpoint and tries again every second: output that was
/// half written is cut off by that, and nothing is lost, since the journal keeps what no checkpoint has passed.
struct ProjectionRunner: Sendable {
    let journalDirectory: String
    let feed: JournalFeed
    let retirement: JournalRetirement
    let configuration: ReceiverConfiguration
    let clock: any SystemClock
    let telemetry: ReceiverTelemetry

    /// The thread's body: returns once the feed is closed and everything is checkpointed.
    func run(_ projection: consuming some Projection & ~Copyable) {
        var attempt = 0
        while true {
            do throws(FileSystemError) {
                let recovery = try projection.recover()
                self.retirement.checkpointed(projection.name, at: recovery.position)
                self.telemetry.projectionStarted(projection.name, at: recovery.position, recovery.report)
                try self.follow(&projection, from: recovery.position) { attempt = 0 }
                self.telemetry.projectionStopped(projection.name, projection.report)
                return
            } catch {
                attempt += 1
                self.telemetry.projectionFailed(projection.name, error, attempt: attempt)
                if self.feed.waitForClose(until: self.clock.monotonicTime() + .seconds(1)) { return }
            }
        }
    }

    private func follow(
        _ projection: inout some Projection & ~Copyable, from start: JournalPosition, progressed: () -> Void
    ) throws(FileSystemError) {
        var run = ProjectionRun(journalDirectory: self.journalDirectory, files: POSIXFileSystem())
        var position = start
        var checkpoint = PendingCheckpoint(configuration: self.configuration)
        while true {
            let before = position
            switch self.feed.next(after: position, until: checkpoint.deadline) {
            case .entry(let entry)?:
                try projection.project(
                    ProjectedBatch(
                        position: entry.position, description: entry.description, offset: entry.offset,
                        receivedAt: entry.receivedAt, raw: entry.raw.bytes))
                position = entry.end
                checkpoint.add(entry.raw.count, now: self.clock.monotonicTime())
            case .behind(let end)?:
                position = try run.advance(&projection, from: position, upTo: end)
                for damage in run.takeDamages() { self.telemetry.damaged(damage) }
                checkpoint.add(position.rawValue - before.rawValue, now: self.clock.monotonicTime())
            case .closed?:
                try self.commit(&projection, at: position)
                return
            case nil:
                break
            }
            if checkpoint.isDue(now: self.clock.monotonicTime()) {
                try self.commit(&projection, at: position)
                checkpoint.done()
                progressed()
            }
        }
    }

    private func commit(
        _ projection: inout some Projection & ~Copyable, at position: JournalPosition
    ) throws(FileSystemError) {
        try projection.checkpoint(at: position)
        self.retirement.checkpointed(projection.name, at: position)
    }
}

/// When a projection owes its next checkpoint.
private struct PendingCheckpoint {
    private let byteCountMax: Int
    private let interval: Duration
    private var byteCount = 0
    private(set) var deadline: MonotonicTime?

    init(configuration: ReceiverConfiguration) {
        self.byteCountMax = configuration.checkpointByteCount
        self.interval = configuration.checkpointInterval
    }

    mutating func add(_ byteCount: Int, now: MonotonicTime) {
        self.byteCount += byteCount
        if self.deadline == nil { self.deadline = now + self.interval }
    }

    func isDue(now: MonotonicTime) -> Bool {
        guard let deadline else { return false }
        return self.byteCount >= self.byteCountMax || deadline <= now
    }

    mutating func done() {
        self.byteCount = 0
        self.deadline = nil
    }
}
