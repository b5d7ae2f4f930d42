package import WaybillData
internal import WaybillExport
package import WaybillProjection
package import WaybillSystem

/// Projections that follow the journal on one thread: each batch is read, inflated and parsed once for all of them.
///
///     feed ──▶ batch ──▶ parse ──▶ ga4 ──▶ mixpanel ──▶ …          those in front
///     journal ──▶ batch ──▶ parse ──▶ csv                          one that was behind, in turn with them
///
/// Each has its own position, checkpoints and failures (``ProjectionLoop``). A projection that falls behind (a disk
/// that refused, a new export) reads the journal by itself, alternating batches with those in front, until it has
/// caught up.
package struct ProjectionGroup<Files: FileSystem, Output: Projection & ~Copyable>: ~Copyable {
    /// What to do next.
    package enum Need: Hashable, Sendable {
        /// Call ``take(_:)`` with what the feed has after `position`, or with `nil` at `deadline`.
        case next(after: JournalPosition, until: MonotonicTime?)
        /// Call ``recover(dueBy:)`` at that time.
        case recover(at: MonotonicTime)
        /// All have ended.
        case finished
    }

    private final class Member {
        var loop: ProjectionLoop<Output>

        init(_ loop: consuming ProjectionLoop<Output>) {
            self.loop = loop
        }

        /// Where it continues; `nil` when it does not.
        var place: JournalPosition? {
            if case .next(let place, _) = self.loop.need { place } else { nil }
        }

        func isDue(_ now: MonotonicTime) -> Bool {
            if case .next(_, let deadline?) = self.loop.need { deadline <= now } else { false }
        }
    }

    package private(set) var need = Need.finished

    private var members: [Member] = []
    /// Readers for batches that are no longer in memory, one for those before and one for those after; the last used
    /// is first.
    private var reader: BatchReader<Files>
    private var otherReader: BatchReader<Files>
    private let parse = SharedParse()
    /// How many lines ``parse`` does not read for someone.
    private var parsePoisonCount = 0
    /// Of ``parse``; `nil` without a member.
    private var poisonGuard: PoisonGuard?
    /// The last known time of receipt of what the feed gave.
    private(set) var time = WallTime.unknown
    /// Whether the members are at different positions.
    private var isBehind = false
    private var readsRearNext = false
    /// Whether those behind wait for what the archive decides.
    private var waitsForMore = false
    private let retirement: JournalRetirement
    private let configuration: HostConfiguration
    private let settings: LiveSettings
    private let conditions: HostConditions
    private let clock: any SystemClock
    private let telemetry: HostTelemetry
    /// Whether it reads no batch before the archive has decided about its days.
    private let followsArchive: Bool
    /// Hears how far the members are, if new batches wait for them.
    private let budget: AdmissionBudget?

    package init(
        journalDirectory: String, files: Files, retirement: JournalRetirement, configuration: HostConfiguration,
        settings: LiveSettings, conditions: HostConditions, clock: any SystemClock, telemetry: HostTelemetry,
        budget: AdmissionBudget? = nil, followsArchive: Bool = false
    ) {
        self.followsArchive = followsArchive
        self.budget = budget
        self.reader = BatchReader(journalDirectory: journalDirectory, position: JournalPosition(0), files: files)
        self.otherReader = BatchReader(journalDirectory: journalDirectory, position: JournalPosition(0), files: files)
        self.retirement = retirement
        self.configuration = configuration
        self.settings = settings
        self.conditions = conditions
        self.clock = clock
        self.telemetry = telemetry
    }

    package mutating func add(_ projection: consuming Output) {
        self.parsePoisonCount = projection.poison?.lines.count ?? 0
        self.parse.use(projection.erased, projection.poison)
        if self.poisonGuard == nil {
            self.poisonGuard = PoisonGuard(
                reader: PoisonOffsets.exports, place: "\(PoisonOffsets.exports) from \(projection.name)",
                watch: self.conditions.poison, clock: self.clock, telemetry: self.telemetry)
        }
        self.members.append(
            Member(
                ProjectionLoop(
                    projection, retirement: self.retirement, configuration: self.configuration,
                    settings: self.settings, conditions: self.conditions, clock: self.clock,
                    telemetry: self.telemetry)))
        self.plan()
    }

    /// Starts or restarts, at their last checkpoints, the members whose time has come.
    package mutating func recover(dueBy time: MonotonicTime) {
        for member in self.members {
            if case .recover(let at) = member.loop.need, at <= time { member.loop.recover() }
        }
        let places = self.members.compactMap(\.place)
        if places.count == self.members.count, let rear = places.min() { self.budget?.archiveStarted(at: rear) }
        self.plan()
    }

    /// Ends the members that wait for their next attempt, at their last checkpoints.
    package mutating func giveUp() {
        for member in self.members {
            if case .recover = member.loop.need { member.loop.giveUp() }
        }
        self.plan()
    }

    /// Ends all members at their last checkpoints.
    private func abandon() {
        for member in self.members where member.loop.need != .finished {
            member.loop.giveUp()
            self.telemetry.projectionAbandoned(member.loop.name)
        }
    }

    /// Whether a member that the disk refused, or that leaves space to the journal, waits for its next attempt.
    private var hasFailed: Bool {
        self.members.contains { member in
            if case .recover = member.loop.need { member.loop.isWaiting } else { false }
        }
    }

    /// Whether everything due is projected, checkpointed and sealed.
    package var isSettled: Bool {
        !self.isBehind && self.members.allSatisfy { $0.loop.isSettled }
    }

    /// Tells those who follow the archive up to where it has decided about days.
    private func tell(_ feed: JournalFeed) {
        guard !self.followsArchive else { return }
        let positions = self.members.compactMap { $0.loop.decided }
        if positions.count == self.members.count, let decided = positions.min() { feed.decided(upTo: decided) }
        // Behind its last checkpoint.
        if self.need == .finished { feed.endDecisions() }
    }

    /// Projects what came, for the members at the position that ``need`` named.
    ///
    /// - Parameter isCaughtUp: nothing follows the position, if nothing came. `false`: the archive has not decided about
    ///   what follows, or it came just now.
    package mutating func take(_ next: JournalFeed.Next?, isCaughtUp: Bool) {
        guard case .next(let place, _) = self.need else { return }
        self.waitsForMore = false
        let start = self.clock.monotonicTime()
        defer { self.report(since: start, from: place) }
        var here: [Member] = []
        var elsewhere: [Member] = []
        for member in self.members {
            if member.place == place { here.append(member) } else { elsewhere.append(member) }
        }
        switch next {
        case .entry(let entry)?:
            var batch = ProjectedBatch(
                position: entry.position, description: entry.description, offset: entry.offset,
                receivedAt: entry.receivedAt, lineCount: entry.lineCount, raw: entry.raw.bytes)
            batch.account = entry.account
            if entry.receivedAt != .unknown { self.time = entry.receivedAt }
            self.give(batch, end: entry.end, to: here)
        case .behind(let end)?:
            self.read(from: place, upTo: end, for: here)
        case .passed(let time, let end)?:
            self.time = time
            for member in here { member.loop.pass(to: end, at: time) }
        case .closed?:
            for member in here { member.loop.close() }
        case .abandoned?:
            self.abandon()
        case nil:
            // Those in front must wait for it as well.
            self.waitsForMore = self.isBehind && !isCaughtUp
            // Between these members and those in front, the journal has no batch.
            let front = isCaughtUp ? self.members.compactMap(\.place).max() ?? place : place
            for member in here {
                guard place < front else {
                    member.loop.wake(isCaughtUp: isCaughtUp)
                    continue
                }
                member.loop.pass(to: front, at: self.time)
            }
        }
        let now = self.clock.monotonicTime()
        for member in elsewhere where member.isDue(now) { member.loop.wake(isCaughtUp: false) }
        self.plan()
    }

    /// Reports what was read, or that nothing can be for now.
    private func report(since start: MonotonicTime, from place: JournalPosition) {
        guard let budget else { return }
        let places = self.members.compactMap(\.place)
        guard places.count == self.members.count, let rear = places.min() else { return budget.archiveStopped() }
        if rear > place { budget.archived(upTo: rear, took: self.clock.monotonicTime() - start) }
    }

    private mutating func give(_ batch: ProjectedBatch, end: JournalPosition, to members: [Member]) {
        var batch = batch
        if members.count > 1, Output.takesParsedLines {
            do throws(FileSystemError) {
                guard try self.share(&batch, among: members) else {
                    for member in members { try member.loop.stop() }
                    return
                }
            } catch {
                for member in members { member.loop.failed(error) }
                return
            }
        }
        for member in members { member.loop.take(batch, end: end) }
    }

    private mutating func useForParse(_ poison: PoisonedLines?, _ erased: ErasedPeople?) {
        guard poison?.lines.count ?? 0 != self.parsePoisonCount else { return }
        self.parsePoisonCount = poison?.lines.count ?? 0
        self.parse.use(erased, poison)
    }

    /// Parses a batch for several members.
    ///
    /// - Returns: `false` if it must not be read.
    private mutating func share(_ batch: inout ProjectedBatch, among members: [Member]) throws(FileSystemError) -> Bool
    {
        guard let poisonGuard else { return true }
        // One that has just set a line aside for itself knows all lines.
        let known = members.compactMap { $0.loop.poison }.max { $0.lines.count < $1.lines.count }
        self.useForParse(known, members[0].loop.erased)
        var added: PoisonedLines?
        let advice = try poisonGuard.advice(
            on: batch, known: known,
            rehearse: { [erased = members[0].loop.erased] line in SharedParse(erased: erased).parse(line) },
            use: { added = $0 })
        if let added {
            for member in self.members { member.loop.use(added) }
            self.useForParse(added, members[0].loop.erased)
        }
        guard case .read(let phase) = advice else { return false }
        poisonGuard.enter(phase, batch)
        self.parse.parse(batch)
        poisonGuard.leave(isRead: true)
        batch.parse = self.parse
        return true
    }

    /// Projects the next batch from the journal's files.
    private mutating func read(from place: JournalPosition, upTo end: JournalPosition, for members: [Member]) {
        // A reader that must seek starts at a segment's head; if neither is at `place`, the one used longer ago seeks.
        if self.reader.position != place { swap(&self.reader, &self.otherReader) }
        do throws(FileSystemError) {
            self.reader.seek(to: place)
            if var batch = try self.reader.next(upTo: end) {
                batch.account = self.budget?.account(ofBatchEndingAt: self.reader.position)
                self.give(batch, end: self.reader.position, to: members)
            } else {
                for member in members { member.loop.pass(to: end, at: self.reader.time) }
            }
        } catch {
            for member in members { member.loop.failed(error) }
        }
        for damage in self.reader.takeDamages() {
            if damage.isGone {
                self.telemetry.missed(damage, by: members.map { $0.loop.name })
            } else {
                self.telemetry.damaged(damage)
            }
        }
    }

    /// Decides what is next: members whose attempt is due, else a position to continue at.
    private mutating func plan() {
        var recovery: MonotonicTime?
        var wake: MonotonicTime?
        var places: [JournalPosition] = []
        for member in self.members {
            switch member.loop.need {
            case .next(let place, let deadline):
                places.append(place)
                if let deadline { wake = min(wake ?? deadline, deadline) }
            case .recover(let time): recovery = min(recovery ?? time, time)
            case .finished: break
            }
        }
        let now = self.clock.monotonicTime()
        guard let front = places.max(), let rear = places.min() else {
            self.need = recovery.map { .recover(at: $0) } ?? .finished
            return
        }
        if let recovery, recovery <= now {
            self.need = .recover(at: recovery)
            return
        }
        self.isBehind = rear < front
        self.readsRearNext = self.isBehind && (self.waitsForMore || !self.readsRearNext)
        if let recovery { wake = min(wake ?? recovery, recovery) }
        let waits = !self.isBehind || self.waitsForMore
        self.need = .next(after: self.readsRearNext ? rear : front, until: waits ? wake : now)
    }
}

extension ProjectionGroup where Output: ~Copyable {
    /// The thread's body: returns once the feed is closed and everything is checkpointed, or cannot be.
    mutating func run(on feed: JournalFeed) {
        while true {
            // Also before the first wait: exports may be behind an archive that has nothing to do.
            self.tell(feed)
            switch self.need {
            case .next(let place, let deadline):
                let next = feed.next(
                    after: place, until: deadline, known: self.time, followsArchive: self.followsArchive)
                if feed.abandonment.isSet { return self.abandon() }
                self.take(next, isCaughtUp: next != nil || !feed.hasMore(after: place))
            case .recover(let at):
                if self.hasFailed, feed.waitForClose(until: at) { self.giveUp() } else { self.recover(dueBy: at) }
            case .finished: return
            }
        }
    }
}
