package import WaybillJournal
package import WaybillProjection
package import WaybillSystem

/// One projection following the journal: from memory while it keeps up and from disk when it does not.
///
///     recover ─▶ follow ◀──▶ checkpoint        every so many bytes, every so many seconds, and at the end
///        ▲          │ the disk refuses
///        └─ 1 s ◀───┘
///
/// When the disk refuses, the projection goes back to its checkpoint and tries again every second: output that was
/// half written is cut off by that, and nothing is lost, since the journal keeps what no checkpoint has passed.
package struct ProjectionLoop<Files: FileSystem, Output: Projection & ~Copyable>: ~Copyable {
    /// What to do next.
    package enum Need: Hashable, Sendable {
        /// Call ``take(_:)`` with what the feed has behind `position`, or with `nil` at `deadline`.
        case next(after: JournalPosition, until: MonotonicTime?)
        /// Call ``recover()`` then.
        case recover(at: MonotonicTime)
        /// Everything is projected and checkpointed.
        case finished
    }

    package private(set) var need: Need

    private var projection: Output
    private var run: ProjectionRun<Files>
    private var position = JournalPosition(0)
    private var checkpoint: PendingCheckpoint
    private var failureCount = 0
    private let retirement: JournalRetirement
    private let clock: any SystemClock
    private let telemetry: ReceiverTelemetry

    package init(
        _ projection: consuming Output, journalDirectory: String, files: Files, retirement: JournalRetirement,
        configuration: ReceiverConfiguration, clock: any SystemClock, telemetry: ReceiverTelemetry
    ) {
        self.projection = projection
        self.run = ProjectionRun(journalDirectory: journalDirectory, files: files)
        self.checkpoint = PendingCheckpoint(configuration: configuration)
        self.retirement = retirement
        self.clock = clock
        self.telemetry = telemetry
        self.need = .recover(at: clock.monotonicTime())
    }

    /// Begins, or begins again, at the last checkpoint.
    package mutating func recover() {
        do throws(FileSystemError) {
            let recovery = try self.projection.recover()
            self.retirement.checkpointed(self.projection.name, at: recovery.position)
            self.telemetry.projectionStarted(self.projection.name, at: recovery.position, recovery.report)
            self.position = recovery.position
            self.checkpoint.done()
            self.need = .next(after: self.position, until: nil)
        } catch {
            self.failed(error)
        }
    }

    /// Projects what came, and checkpoints when it is time.
    package mutating func take(_ next: JournalFeed.Next?) {
        do throws(FileSystemError) {
            switch next {
            case .entry(let entry)?:
                try self.projection.project(
                    ProjectedBatch(
                        position: entry.position, description: entry.description, offset: entry.offset,
                        receivedAt: entry.receivedAt, raw: entry.raw.bytes))
                self.position = entry.end
                self.checkpoint.add(entry.raw.count, now: self.clock.monotonicTime())
            case .behind(let end)?:
                let before = self.position
                self.position = try self.run.advance(&self.projection, from: before, upTo: end)
                for damage in self.run.takeDamages() { self.telemetry.damaged(damage) }
                self.checkpoint.add(self.position.rawValue - before.rawValue, now: self.clock.monotonicTime())
            case .closed?:
                try self.commit()
                self.telemetry.projectionStopped(self.projection.name, self.projection.report)
                self.need = .finished
                return
            case nil:
                break
            }
            if self.checkpoint.isDue(now: self.clock.monotonicTime()) {
                try self.commit()
                self.checkpoint.done()
                self.failureCount = 0
            }
            self.need = .next(after: self.position, until: self.checkpoint.deadline)
        } catch {
            self.failed(error)
        }
    }

    private mutating func commit() throws(FileSystemError) {
        try self.projection.checkpoint(at: self.position)
        self.retirement.checkpointed(self.projection.name, at: self.position)
    }

    private mutating func failed(_ error: FileSystemError) {
        self.failureCount += 1
        self.telemetry.projectionFailed(self.projection.name, error, attempt: self.failureCount)
        self.need = .recover(at: self.clock.monotonicTime() + .seconds(1))
    }
}

extension ProjectionLoop where Output: ~Copyable {
    /// A thread's body: returns once the feed is closed and everything is checkpointed, or cannot be.
    mutating func run(on feed: JournalFeed) {
        while true {
            switch self.need {
            case .next(let position, let deadline): self.take(feed.next(after: position, until: deadline))
            case .recover(let at):
                if self.hasFailed, feed.waitForClose(until: at) { return }
                self.recover()
            case .finished: return
            }
        }
    }

    private var hasFailed: Bool { self.failureCount > 0 }
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
