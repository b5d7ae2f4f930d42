internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// One projection that follows the journal batch by batch; a ``ProjectionGroup`` reads the batches.
///
///     recover ─▶ follow ◀──▶ checkpoint        every so many bytes, every so many seconds, and at the end
///        ▲        │ │ ▲ └──▶ seal, in steps     when days are over, by a clock that can be trusted; checked every minute
///        └ 1-30 s ┘ │ │      the disk refuses: back to the checkpoint
///                   ▼ │
///                   hold     too little space is left for the journal: it waits where it is
///
/// A day is sealed once its cut-off has passed and everything received before it is projected: the last batch came
/// after it, or nothing is waiting. Sealing runs in steps during pauses, or twice a second when there are none.
///
/// Settings that a reload changed (``LiveSettings``) are read together with the clock, every minute.
///
/// When the disk refuses, the projection goes back to its checkpoint and tries again after a pause. That cuts off
/// half-written output, and nothing is lost, since the journal keeps what no checkpoint has passed. While there is less
/// space than the journal needs (``DiskReserve``), the projection holds: it makes a checkpoint, cuts nothing, continues
/// with sealing and retention, which free space, and continues where it stands.
struct ProjectionLoop<Output: Projection & ~Copyable>: ~Copyable {
    /// What to do next.
    enum Need: Hashable, Sendable {
        /// Give it what follows `position`, or wake it at `deadline` when nothing does.
        case next(after: JournalPosition, until: MonotonicTime?)
        /// Call ``recover()`` at that time: after a failure, or when there may be space again.
        case recover(at: MonotonicTime)
        /// Everything is projected and checkpointed, or the projection has given up.
        case finished
    }

    private(set) var need: Need

    private var projection: Output
    private var position = JournalPosition(0)
    private var checkpoint: PendingCheckpoint
    private var failureCount = 0
    /// Attempts to continue since it holds; 0 when it does not.
    private var holdCount = 0
    private var sealing: SealTimer
    private var outcomes = OutcomeLog()
    private let settings: LiveSettings
    private var retention: RetentionPolicy
    private let retirement: JournalRetirement
    private let conditions: HostConditions
    private let poisonGuard: PoisonGuard
    /// Whether a batch ended the program, and must not be read again.
    private var isStopped = false
    private let clock: any SystemClock
    private let telemetry: HostTelemetry

    init(
        _ projection: consuming Output, retirement: JournalRetirement, configuration: HostConfiguration,
        settings: LiveSettings, conditions: HostConditions, clock: any SystemClock, telemetry: HostTelemetry
    ) {
        self.checkpoint = PendingCheckpoint(configuration: configuration)
        self.settings = settings
        self.retention = settings.retention
        self.sealing = SealTimer(clock: SealClock(patience: configuration.sealPatience), trust: conditions.clock)
        self.conditions = conditions
        self.poisonGuard = PoisonGuard(
            reader: projection.name, watch: conditions.poison, clock: clock, telemetry: telemetry)
        self.retirement = retirement
        self.clock = clock
        self.telemetry = telemetry
        self.need = .recover(at: clock.monotonicTime())
        self.projection = projection
    }

    /// Starts or restarts at the last checkpoint, or continues after a hold.
    mutating func recover() {
        guard self.holdCount == 0 else { return self.resume() }
        self.isStopped = false
        do throws(FileSystemError) {
            if let poison = try self.conditions.poison.settledLines() { self.projection.use(poison) }
            let recovery = try self.projection.recover()
            self.retirement.checkpointed(self.projection.name, at: recovery.position)
            self.telemetry.projectionStarted(self.projection.name, at: recovery.position, recovery.report)
            self.position = recovery.position
            self.checkpoint.done()
            self.wait()
        } catch {
            self.failed(error)
        }
    }

    var name: String { self.projection.name }

    /// Whether the disk refused last time, or has too little space, or a batch must not be read.
    var isWaiting: Bool { self.failureCount > 0 || self.holdCount > 0 || self.isStopped }

    /// The people whose lines it does not take.
    var erased: ErasedPeople? { self.projection.erased }

    /// The lines that it does not read.
    var poison: PoisonedLines? { self.projection.poison }

    mutating func use(_ poison: PoisonedLines) {
        self.projection.use(poison)
    }

    /// Projects the batch after ``position``, and moves ``position`` to `end`.
    mutating func take(_ batch: ProjectedBatch, end: JournalPosition) {
        guard self.conditions.reserve.hasRoom(for: self.projection.name) else { return self.hold() }
        self.attempt { (loop) throws(FileSystemError) in
            guard try loop.project(batch) else { return try loop.stop() }
            loop.telemetry.quarantined(loop.projection.takeQuarantined())
            loop.position = end
            loop.sealing.lastReceivedAt = batch.receivedAt
            loop.checkpoint.add(batch.raw.count, now: loop.clock.monotonicTime())
            if loop.projection.undecided != nil { loop.checkpoint.hasten(now: loop.clock.monotonicTime()) }
            try loop.rest(isCaughtUp: false)
        }
    }

    /// Up to where a checkpoint has what was decided: while it does not work, that is all of the last one; `nil` before
    /// its first start.
    var decided: JournalPosition? {
        guard case .next(let position, _) = self.need else { return self.retirement.position(of: self.name) }
        return self.projection.undecided ?? position
    }

    /// Projects a batch, unless it ends the program.
    ///
    /// - Returns: whether it is projected.
    private mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) -> Bool {
        var added: PoisonedLines?
        let advice = try self.poisonGuard.advice(
            on: batch, known: self.projection.poison,
            rehearse: { (line) throws(FileSystemError) in try self.projection.rehearse(line) }, use: { added = $0 })
        var batch = batch
        if let added {
            self.projection.use(added)
            // It was parsed when no one knew of the line.
            batch.parse = nil
        }
        guard case .read(let phase) = advice else { return false }
        self.poisonGuard.enter(phase, batch)
        do throws(FileSystemError) {
            try self.projection.project(batch)
        } catch {
            self.poisonGuard.leave(isRead: false)
            throw error
        }
        self.poisonGuard.leave(isRead: true)
        return true
    }

    /// Stands still before a batch that must not be read, and looks again after a while whether its line was set aside.
    mutating func stop() throws(FileSystemError) {
        try self.commit()
        self.checkpoint.done()
        self.isStopped = true
        self.need = .recover(at: self.clock.monotonicTime() + .seconds(60))
    }

    /// Continues at `end`: there is no batch before it.
    ///
    /// - Parameter time: the last one in the journal before `end`.
    mutating func pass(to end: JournalPosition, at time: WallTime) {
        self.attempt { (loop) throws(FileSystemError) in
            try loop.projection.pass(time)
            loop.checkpoint.add(end.rawValue - loop.position.rawValue, now: loop.clock.monotonicTime())
            loop.position = end
            try loop.rest(isCaughtUp: false)
        }
    }

    /// Does the work that is due without a batch.
    ///
    /// - Parameter isCaughtUp: everything received so far is projected.
    mutating func wake(isCaughtUp: Bool) {
        self.attempt { (loop) throws(FileSystemError) in
            try loop.rest(isCaughtUp: isCaughtUp)
            if isCaughtUp, loop.checkpoint.deadline == nil { loop.telemetry.settled(loop.projection.name) }
        }
    }

    /// How many steps of sealing a stop waits for, at most.
    private static var lastStepCountMax: Int { 16 }

    /// Ends with a checkpoint.
    mutating func close() {
        self.attempt { (loop) throws(FileSystemError) in
            try loop.commit()
            // Closed parts are usually small, and can be sent once they are compressed.
            var stepCount = 0
            while loop.projection.isSealing, loop.conditions.finishesSeals || stepCount < Self.lastStepCountMax {
                try loop.projection.continueSealing()
                stepCount += 1
            }
            loop.report()
            loop.telemetry.happened(loop.outcomes.finish(), in: loop.projection.name)
            loop.telemetry.projectionStopped(loop.projection.name, loop.projection.report)
            loop.need = .finished
        }
    }

    /// Ends at the last checkpoint.
    mutating func giveUp() {
        self.need = .finished
    }

    private mutating func attempt(_ step: (inout Self) throws(FileSystemError) -> Void) {
        do throws(FileSystemError) {
            try step(&self)
        } catch {
            self.failed(error)
        }
    }

    /// Checkpoints and seals what is due.
    private mutating func rest(isCaughtUp: Bool) throws(FileSystemError) {
        let moment = self.sealMoment(isCaughtUp: isCaughtUp)
        if moment != nil || self.checkpoint.isDue(now: self.clock.monotonicTime()) {
            try self.commit(sealing: moment)
            self.checkpoint.done()
            self.failureCount = 0
        }
        self.telemetry.happened(self.outcomes.take(self.clock.monotonicTime()), in: self.projection.name)
        try self.sealOn(isIdle: isCaughtUp)
        try self.retire()
        self.wait()
    }

    private mutating func commit(sealing moment: SealMoment? = nil) throws(FileSystemError) {
        try self.projection.checkpoint(at: self.position, sealing: moment)
        let received = self.sealing.lastReceivedAt
        self.telemetry.projectionCheckpointed(
            self.projection.name, at: self.position, self.projection.tally,
            receivedAt: received > .unknown ? received : nil)
        self.retirement.checkpointed(self.projection.name, at: self.position)
        if moment != nil { self.conditions.barriers?.passed(self.position, by: self.projection.name) }
        self.outcomes.add(self.projection.takeOutcomes())
    }

    /// Whether everything due is projected, checkpointed and sealed.
    var isSettled: Bool {
        guard case .next = self.need else { return false }
        return self.checkpoint.deadline == nil && !self.projection.isSealing
    }

    // MARK: Sealing

    private mutating func wait() {
        self.telemetry.reached(self.position, by: self.projection.name)
        self.conditions.marks.set(self.projection.needsMarks, for: self.projection.name)
        var deadline = self.checkpoint.deadline
        let wake: MonotonicTime?
        if self.projection.isSealing {
            wake = max(self.clock.monotonicTime(), self.sealing.nextAttempt)
        } else {
            wake = self.sealing.nextLook
        }
        // No one wakes a projection that already stands where a barrier is set.
        let barrierLook = self.conditions.barriers.map { _ in self.clock.monotonicTime() + .milliseconds(500) }
        for wake in [wake, barrierLook, self.outcomes.deadline] {
            if let wake { deadline = min(deadline ?? wake, wake) }
        }
        self.need = .next(after: self.position, until: deadline)
    }

    /// Permission to seal, when it is time to check and something is due.
    private mutating func sealMoment(isCaughtUp: Bool) -> SealMoment? {
        if let barriers = self.conditions.barriers { return self.moment(at: barriers) }
        guard self.projection.mayBeginSeals, self.sealing.isLookDue(self.clock) else { return nil }
        self.applySettings()
        guard let now = self.sealing.look(self.clock), let nextDue = self.projection.nextDue else { return nil }
        self.projection.correctDueTimes(now: now)
        // What is being committed when the day ends still belongs to that day.
        var through = WallTime(milliseconds: now.milliseconds - SealTimer.graceMilliseconds)
        if !isCaughtUp { through = min(through, self.sealing.lastReceivedAt) }
        return nextDue <= through ? SealMoment(now: now, through: through) : nil
    }

    /// Permission to seal at a barrier of the merged journal.
    private mutating func moment(at barriers: SealBarriers) -> SealMoment? {
        // Retention looks at the clock; what is sealed does not depend on it.
        if self.sealing.isLookDue(self.clock) {
            self.applySettings()
            _ = self.sealing.look(self.clock)
        }
        return self.projection.mayBeginSeals
            ? barriers.moment(at: self.position, for: self.projection.name) : nil
    }

    /// Applies what a reload changed.
    private mutating func applySettings() {
        self.projection.useCutOff(self.settings.cutOffSecond(of: self.projection.name))
        guard self.settings.retention != self.retention else { return }
        self.retention = self.settings.retention
        self.sealing.retireSoon()
    }

    /// Continues sealing in a pause, or when there was none for a while.
    private mutating func sealOn(isIdle: Bool) throws(FileSystemError) {
        let isUrgent = isIdle || self.projection.isSealingUrgent
        guard self.projection.isSealing, self.sealing.isStepDue(self.clock.monotonicTime(), isIdle: isUrgent) else {
            return self.report()
        }
        do throws(FileSystemError) {
            try self.projection.continueSealing()
        } catch {
            // A file that cannot be sealed must not hold up checkpoints, nor keep what frees the disk.
            self.sealing.failed(self.clock.monotonicTime())
            try self.deleteDue()
            throw error
        }
        self.report()
    }

    private mutating func report() {
        for day in self.projection.takeSealed() {
            self.sealing.hasSealed = true
            self.telemetry.sealed(self.projection.name, day)
        }
        self.telemetry.closingFailed(self.projection.name, self.projection.takeFailures())
    }

    private mutating func retire() throws(FileSystemError) {
        guard !self.projection.isSealing else { return }
        try self.deleteDue()
    }

    /// Deletes what is due: after days were sealed, and every hour; every minute when disk space must be kept free.
    private mutating func deleteDue() throws(FileSystemError) {
        guard !self.retention.keepsAll, self.checkpoint.deadline == nil,
            let now = self.sealing.retireTime(
                self.clock.monotonicTime(),
                every: self.retention.freeByteCountMin == nil ? .seconds(3600) : .seconds(60))
        else { return }
        let report = try self.projection.retire(self.settings.retention, now: now)
        for deletion in report.deletions { self.telemetry.deleted(self.projection.name, deletion) }
        self.telemetry.kept(self.projection.name, report.kept)
    }

    /// Someone put a link among the files; the next attempt creates what it stood for.
    private func setLinksAside() {
        do throws(FileSystemError) {
            let paths = try self.projection.setLinksAside()
            self.telemetry.linksSetAside(self.projection.name, paths)
        } catch {
            self.telemetry.linksNotSetAside(self.projection.name, error)
        }
    }

    /// Goes back to the checkpoint after a pause: the disk has refused something that the projection needs.
    mutating func failed(_ error: FileSystemError) {
        guard !error.isStop else {
            self.telemetry.projectionAbandoned(self.projection.name)
            return self.giveUp()
        }
        self.failureCount += 1
        self.endHold()
        let pause = DiskRetry.pause(afterFailures: self.failureCount)
        self.telemetry.projectionFailed(
            self.projection.name, error, attempt: self.failureCount, retryingIn: pause)
        if error.errno == Errno.link { self.setLinksAside() }
        self.need = .recover(at: self.clock.monotonicTime() + pause)
    }

    // MARK: Space

    /// Waits where it stands until there is more space than the journal needs.
    private mutating func hold() {
        self.attempt { (loop) throws(FileSystemError) in
            try loop.commit()
            loop.checkpoint.done()
            loop.wait()
        }
        self.stay()
    }

    /// Continues if there is space; else does what frees some.
    private mutating func resume() {
        if self.conditions.reserve.hasRoom(for: self.projection.name) {
            self.endHold()
            return self.wait()
        }
        self.attempt { (loop) throws(FileSystemError) in try loop.rest(isCaughtUp: false) }
        self.stay()
    }

    /// Plans the next attempt of a hold, unless the disk has just refused.
    private mutating func stay() {
        guard case .next = self.need else { return }
        self.holdCount += 1
        if self.holdCount == 1 { self.telemetry.projectionHeld(self.projection.name) }
        let pause = self.projection.isSealing ? .milliseconds(500) : DiskRetry.pause(afterFailures: self.holdCount)
        self.need = .recover(at: self.clock.monotonicTime() + pause)
    }

    private mutating func endHold() {
        guard self.holdCount > 0 else { return }
        self.holdCount = 0
        self.telemetry.projectionResumed(self.projection.name)
    }
}

/// When to check whether days are over, and when to continue sealing them.
private struct SealTimer {
    static var graceMilliseconds: Int64 { 60_000 }

    private var clock: SealClock
    private let trust: ClockTrust
    /// When the last projected batch was received.
    var lastReceivedAt = WallTime(milliseconds: .min)
    /// Whether a day was sealed since days were last deleted.
    var hasSealed = false
    /// The time at the last look; `nil` when the clock was not trusted.
    private var now: WallTime?
    private var nextRetirement = MonotonicTime(nanoseconds: 0)
    private(set) var nextLook = MonotonicTime(nanoseconds: 0)
    private var lastStep = MonotonicTime(nanoseconds: 0)
    private(set) var nextAttempt = MonotonicTime(nanoseconds: 0)

    init(clock: SealClock, trust: ClockTrust) {
        self.clock = clock
        self.trust = trust
    }

    /// Whether a minute has passed since the last ``look(_:)``, or some seconds while the clock is doubted.
    func isLookDue(_ system: any SystemClock) -> Bool {
        self.nextLook <= system.monotonicTime()
    }

    /// Makes days be deleted at the next opportunity, because the policy has changed.
    mutating func retireSoon() {
        self.nextRetirement = MonotonicTime(nanoseconds: 0)
    }

    /// Reads the clocks.
    ///
    /// - Returns: the time, when it can be trusted.
    mutating func look(_ system: any SystemClock) -> WallTime? {
        let now = system.monotonicTime()
        let isTrusted = self.trust.isTrusted(system)
        self.nextLook = now + .seconds(isTrusted ? 60 : 5)
        let time = self.clock.read(system.wallTime(), now)
        self.now = isTrusted ? time : nil
        return self.now
    }

    /// The current time, at most a minute old, when it is time to delete days; else `nil`.
    mutating func retireTime(_ monotonic: MonotonicTime, every interval: Duration) -> WallTime? {
        guard let now, monotonic < self.nextLook, self.hasSealed || self.nextRetirement <= monotonic else { return nil }
        self.hasSealed = false
        self.nextRetirement = monotonic + interval
        return now
    }

    /// A step failed: try the next one a minute later.
    mutating func failed(_ now: MonotonicTime) {
        self.nextAttempt = now + .seconds(60)
    }

    mutating func isStepDue(_ now: MonotonicTime, isIdle: Bool) -> Bool {
        guard self.nextAttempt <= now, isIdle || self.lastStep + .milliseconds(500) <= now else { return false }
        self.lastStep = now
        return true
    }
}

/// When a projection's next checkpoint is due.
private struct PendingCheckpoint {
    private let byteCountMax: Int
    private let interval: Duration
    private var byteCount = 0
    private(set) var deadline: MonotonicTime?

    init(configuration: HostConfiguration) {
        self.byteCountMax = configuration.checkpointByteCount
        self.interval = configuration.checkpointInterval
    }

    mutating func add(_ byteCount: Int, now: MonotonicTime) {
        self.byteCount += byteCount
        if self.deadline == nil { self.deadline = now + self.interval }
    }

    /// Exports wait for this one.
    mutating func hasten(now: MonotonicTime) {
        let soon = now + .milliseconds(100)
        self.deadline = min(self.deadline ?? soon, soon)
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
