internal import NIOCore
package import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// What the committer's thread does: appends checked requests as a group, syncs once, publishes the group to the
/// projections and answers all its connections.
///
///     requests ─▶ staged in the journal, replies held ─▶ commit (write, fdatasync) ─▶ feed ─▶ replies
///                                                        └─ error: all of it kept, tried again 1 to 30 s later
///
/// When the disk refuses a write, the group is kept, nothing is acknowledged, and nothing more is taken: the admission
/// budget stops the readers. When the journal's files are gone (``loss``), nothing is ever answered again.
package struct CommitLoop<Files: FileSystem>: ~Copyable {
    private var journal: Journal<Files>
    private let feed: JournalFeed
    private let budget: AdmissionBudget
    private let retirement: JournalRetirement
    private let conditions: HostConditions
    private let clock: any SystemClock
    private let telemetry: ReceiverTelemetry

    private var group = CommitGroup()
    private var owners = Owners()
    private var skips = Skips()
    private var redescriptions = LogInterval()
    private var denials = LogInterval()
    private var quotas: DayQuotas
    private var delays: LineDelays
    private var changes: StreamChanges
    /// Requests not taken yet, in order.
    private var requests = CircularBuffer<CommitRequest>()
    /// Whether the next commit writes the time even if nothing is staged.
    private var isMarking = false
    /// When the journal last got a time, or was asked whether it needs one.
    private var lastMark: MonotonicTime
    private var retry = CommitRetry()
    /// How the journal's files were lost; the process must end.
    package private(set) var loss: JournalLoss?

    package init(
        journal: consuming Journal<Files>, feed: JournalFeed, budget: AdmissionBudget, retirement: JournalRetirement,
        conditions: HostConditions, clock: any SystemClock, telemetry: ReceiverTelemetry,
        quotas: AccountQuotas = AccountQuotas(), membership: FleetMembership? = nil
    ) {
        self.changes = StreamChanges(membership)
        self.journal = journal
        self.feed = feed
        self.budget = budget
        self.retirement = retirement
        self.conditions = conditions
        self.clock = clock
        self.telemetry = telemetry
        self.quotas = DayQuotas(quotas)
        self.delays = LineDelays(telemetry.lineDelays)
        telemetry.journal.streamsKnown(awake: self.journal.streams.count, resting: self.journal.restingStreamCount)
        self.lastMark = clock.monotonicTime()
    }

    /// When to call ``mark()``; `nil` if nothing ever waits for it.
    var nextMark: MonotonicTime? { self.conditions.marks.interval.map { self.lastMark + $0 } }

    /// Makes the time durable if projections wait for it; nothing came since ``nextMark`` was set.
    ///
    /// - Returns: as ``step(_:)``.
    package mutating func mark() -> MonotonicTime? {
        self.lastMark = self.clock.monotonicTime()
        guard self.loss == nil, self.conditions.marks.isWaiting, self.conditions.clock.problem(self.clock) == nil
        else { return nil }
        self.isMarking = true
        return self.commit() ? nil : self.retry.time
    }

    /// Takes requests and makes them durable.
    ///
    /// - Returns: when to call again because the disk refused; `nil` once everything is answered, or after a ``loss``.
    package mutating func step(_ requests: [CommitRequest]) -> MonotonicTime? {
        guard self.loss == nil else { return nil }
        self.requests.append(contentsOf: requests)
        while let request = self.requests.first {
            if case .open(_, _, let description, _) = request, self.group.holds(description.id) {
                // The stream's position is known only once everything staged of it is durable.
                guard self.commit() else { return self.retry.time }
            }
            self.take(request)
            self.requests.removeFirst()
        }
        guard self.commit() else { return self.retry.time }
        self.retire()
        return nil
    }

    private mutating func take(_ request: CommitRequest) {
        self.group.hold(request.charge)
        switch request {
        case .open(let connection, let number, let description, let tenancy):
            self.open(connection, number, description, tenancy)
        case .batch(let connection, let number, let description, let header, let wire, let raw):
            guard self.wake(description, number, for: connection) else { return }
            self.store(connection, number, description, header, wire: wire, raw: raw)
        case .skip(let connection, let number, let description, let range):
            guard self.wake(description, number, for: connection) else { return }
            self.skip(connection, number, description, range)
        case .seal(let connection, let number, let description, let length):
            guard self.wake(description, number, for: connection),
                self.isOwner(connection, of: description, number, denying: "SEAL")
            else { return }
            switch self.journal.stage(.seal(length: length), of: description) {
            case .staged, .alreadyHeld:
                self.staged(description.name)
                self.group.reply(to: connection, .sealed(number, at: length, self.journal.proof(of: description.name)))
                self.countBegun(description, at: length)
                if let tenant = self.owners.tenant(of: description.name) { self.quotas.ended(by: tenant.account) }
                self.owners.sealed(description.name)
                self.telemetry.sealed(description, length: length, by: connection)
            case .gap(let position), .sealed(let position):
                self.group.reply(
                    to: connection, .refused(number, at: position, .gap, text: "the stream ends elsewhere"))
            }
        case .closed(let connection):
            self.owners.release(connection)
            if let untold = self.skips.close(connection) {
                self.telemetry.skippedMore(
                    agent: connection.admitted.fullName, count: untold.count, byteCount: untold.byteCount)
            }
        }
    }

    private static var unreadableText: String { "the receiver cannot read its table of streams at rest" }
    private static var endedText: String { "the stream's end was cut off or had no LF: only SEAL may follow" }

    /// Takes a stream into memory that came to rest while a connection had it open.
    ///
    /// - Returns: whether that was possible; if not, the agent is told.
    private mutating func wake(
        _ description: StreamDescription, _ number: StreamNumber, for connection: ConnectionHandle
    ) -> Bool {
        do throws(FileSystemError) {
            _ = try self.journal.wake(description)
            return true
        } catch {
            self.group.reply(
                to: connection, .refused(number, at: StreamOffset(0), .retryAfter, text: Self.unreadableText))
            return false
        }
    }

    private mutating func open(
        _ connection: ConnectionHandle, _ number: StreamNumber, _ description: StreamDescription,
        _ tenancy: StreamTenancy
    ) {
        let name = description.name
        if let owner = self.owners.owner(of: name), owner !== connection,
            owner.admitted.fullName != tenancy.tenant.fullName
        {
            let text = "another connection ships this stream; stop one of the two"
            let position = self.journal.position(of: name)
            self.group.reply(to: connection, .openRefused(number, at: position, .inUse, text: text))
            return
        }
        do throws(FileSystemError) {
            if let sealed = try self.journal.wake(description) {
                return self.group.reply(
                    to: connection,
                    .opened(
                        number, at: sealed.durable, sealed.proof, isSealed: true,
                        isChanged: self.changes.contains(name)))
            }
            switch try self.journal.inheritance(of: description, tenancy) {
            case .none: break
            case .unproven(let position):
                let text = "this stream is from before its owner had a name; show that the file has its bytes"
                return self.group.reply(to: connection, .openRefused(number, at: position, .prove, text: text))
            case .from(let former):
                self.journal.adopt(former, as: description)
                self.staged(name)
                self.telemetry.adopted(former, as: description, by: connection)
            }
        } catch {
            return self.group.reply(
                to: connection, .openRefused(number, at: StreamOffset(0), .retryAfter, text: Self.unreadableText))
        }
        if let known = self.journal.streams[name]?.description, known != description {
            self.telemetry.redescribed(
                known, description, by: connection,
                untoldCount: self.redescriptions.admit(at: self.clock.monotonicTime()))
        }
        let isSealed = self.journal.isSealed(name)
        if self.journal.position(of: name) == StreamOffset(0), !isSealed,
            let text = self.quotas.begin(tenancy.tenant.account, self.clock.wallTime())
        {
            self.telemetry.limited(.streams)
            self.group.reply(to: connection, .openRefused(number, at: StreamOffset(0), .retryAfter, text: text))
            return
        }
        if isSealed { self.owners.release(name) } else { self.owners.set(connection, tenancy.tenant, of: name) }
        self.telemetry.opened(description, at: self.journal.position(of: name), by: connection)
        self.group.reply(
            to: connection,
            .opened(
                number, at: self.journal.position(of: name), self.journal.proof(of: name), isSealed: isSealed,
                isChanged: self.changes.contains(name)))
    }

    private mutating func staged(_ name: StreamName) {
        self.group.staged(name)
        self.changes.note(name)
    }

    private mutating func store(
        _ connection: ConnectionHandle, _ number: StreamNumber, _ description: StreamDescription,
        _ header: BatchHeader, wire: SharedBytes, raw: SharedBytes
    ) {
        let name = description.name
        guard self.isOwner(connection, of: description, number) else { return }
        let position = self.journal.position(of: name)
        guard !self.owners.hasEnded(name) else {
            self.group.reply(to: connection, .refused(number, at: position, .sealed, text: Self.endedText))
            return
        }
        let tenant = self.owners.tenant(of: name) ?? connection.admitted
        if header.offset == position,
            let text = self.quotas.store(UInt64(raw.count), of: tenant.principal, self.clock.wallTime())
        {
            self.telemetry.limited(.dayBytes)
            self.group.reply(to: connection, .refused(number, at: position, .retryAfter, text: text))
            return
        }
        let result = self.journal.stage(.batch(header, payload: wire, raw: raw), of: description)
        if result == .staged {
            if raw.bytes.last != 0x0A { self.owners.end(name) }
            self.group.add(
                description: description, header: header, raw: raw, from: tenant.account, by: connection)
            self.changes.note(name)
            self.countBegun(description, at: header.offset)
        }
        self.group.settle(connection, number, result, end: header.end)
    }

    private mutating func skip(
        _ connection: ConnectionHandle, _ number: StreamNumber, _ description: StreamDescription,
        _ range: SkippedRange
    ) {
        let name = description.name
        guard self.isOwner(connection, of: description, number, denying: "SKIP") else { return }
        let position = self.journal.position(of: name)
        guard !self.owners.hasEnded(name) || range.end <= position else {
            self.group.reply(to: connection, .refused(number, at: position, .sealed, text: Self.endedText))
            return
        }
        if range.offset == position, let principal = self.owners.tenant(of: name)?.principal,
            let text = self.quotas.skip(range, of: principal, self.clock.wallTime())
        {
            self.deny("SKIP", of: description, .retryAfter, connection)
            self.group.reply(to: connection, .refused(number, at: position, .retryAfter, text: text))
            return
        }
        let result = self.journal.stage(.skip(range), of: description)
        if result == .staged {
            self.staged(name)
            if range.reason == .tornTail { self.owners.end(name) }
            self.countBegun(description, at: range.offset)
            self.telemetry.skipped(
                description, range, by: connection, isLogged: self.skips.note(connection, byteCount: range.byteCount))
        }
        self.group.settle(connection, number, result, end: range.end)
    }

    /// Counts a stream that has got its first bytes, or was sealed without any: it is remembered as well.
    private mutating func countBegun(_ description: StreamDescription, at offset: StreamOffset) {
        guard offset == StreamOffset(0), let tenant = self.owners.tenant(of: description.name) else { return }
        self.quotas.begun(by: tenant.account)
    }

    /// - Parameter what: the message, if its refusal is recorded.
    private mutating func isOwner(
        _ connection: ConnectionHandle, of description: StreamDescription, _ number: StreamNumber,
        denying what: String? = nil
    ) -> Bool {
        if self.owners.owner(of: description.name) === connection { return true }
        let position = self.journal.position(of: description.name)
        if let what { self.deny(what, of: description, .notAllowed, connection) }
        self.group.reply(
            to: connection,
            .refused(
                number, at: position, what == nil ? .inUse : .notAllowed,
                text: "another connection has opened this stream"))
        return false
    }

    private mutating func deny(
        _ what: String, of description: StreamDescription, _ code: ErrorCode, _ connection: ConnectionHandle
    ) {
        self.telemetry.denied(
            what, of: description, code, by: connection,
            untoldCount: self.denials.admit(at: self.clock.monotonicTime()))
    }

    /// - Returns: whether everything is committed and answered; if not, ``retry`` or ``loss`` says what is next.
    private mutating func commit() -> Bool {
        let start = self.clock.monotonicTime()
        self.telemetry.journal.commits(since: start)
        defer { self.telemetry.journal.commits(since: nil) }
        do throws(FileSystemError) {
            if self.group.hasAnswers || self.isMarking,
                let loss = try self.journal.findLoss(unreadFrom: self.retirement.passedPosition)
            {
                self.loss = loss
                self.retry = CommitRetry()
                self.telemetry.journal.journalLost(loss)
                return false
            }
            if self.journal.hasStaged || self.isMarking {
                let time = self.conditions.clock.receiptTime(self.clock)
                let ranges = try self.journal.commit(at: time)
                self.conditions.clock.committed(at: time)
                self.budget.committed(self.group.turns(at: ranges))
                let entries = self.group.feedEntries(at: ranges, receivedAt: time)
                self.feed.publish(entries, end: self.journal.end, at: time)
                for batch in self.group.batches {
                    batch.connection.brought(lineCount: batch.header.lineCount, at: self.clock.wallTime())
                    self.delays.note(batch.raw.bytes, of: batch.description, at: time)
                }
                self.isMarking = false
                self.lastMark = start
                self.telemetry.journal.streamsKnown(
                    awake: self.journal.streams.count, resting: self.journal.restingStreamCount)
                self.telemetry.journal.groupCommitted(
                    batchCount: self.group.batches.count, lineCount: self.group.lineCount,
                    rawByteCount: self.group.rawByteCount, at: self.clock.wallTime(),
                    took: self.clock.monotonicTime() - start)
                self.telemetry.uploads.reached(self.journal.end)
            }
        } catch {
            self.failed(error, start)
            return false
        }
        if self.retry.failureCount > 0 {
            self.conditions.withheld = nil
            self.telemetry.journal.commitRecovered(afterAttempts: self.retry.failureCount)
            self.retry = CommitRetry()
        }
        self.budget.release(self.group.charge)
        self.group.deliver(end: UInt64(self.journal.end.rawValue))
        return true
    }

    /// Withholds all answers for a while.
    ///
    /// Agents that wait for longer than a few seconds are told why and sent away: they may have another receiver, and
    /// their operators see the cause. What they sent stays in the group.
    private mutating func failed(_ error: FileSystemError, _ start: MonotonicTime) {
        let pause = self.retry.failed(at: start)
        self.telemetry.journal.commitFailed(error, attempt: self.retry.failureCount, retryingIn: pause)
        guard let text = self.retry.text(for: error) else { return }
        self.conditions.withheld = text
        self.group.refuse(text)
        for request in self.requests { request.waiting?.refuse(text) }
    }

    private mutating func retire() {
        guard self.conditions.clock.problem(self.clock) == nil else { return }
        guard let standing = self.retirement.dueStanding(now: self.clock.monotonicTime()) else { return }
        let now = self.clock.wallTime()
        let time = WallTime(milliseconds: now.milliseconds - self.retirement.retention.nanoseconds / 1_000_000)
        do throws(FileSystemError) {
            if let passed = standing.passed {
                let count = try self.journal.retire(before: passed, writtenBefore: time)
                if count > 0 { self.telemetry.journal.segmentsRetired(count) }
            }
            let unread = self.retirement.unread
            let required = standing.required ?? JournalPosition(0)
            while let segment = try self.journal.freeUnread(before: required, beyond: unread, now: now) {
                self.telemetry.host.freed(
                    segment, unreadBy: self.retirement.names(before: segment.end),
                    in: Path.parent(of: self.journal.directory))
            }
            self.telemetry.host.journalKept(beyond: self.journal.excess(over: unread))
        } catch {
            self.telemetry.journal.retirementFailed(error)
        }
    }
}

/// The attempts to commit a group that the disk refused, and what agents are told meanwhile.
struct CommitRetry {
    /// After so many failures in a row agents are told: with pauses of 1 and 2 s, three seconds after the first.
    private static let toldFailureCount = 3

    /// Failures in a row.
    private(set) var failureCount = 0
    /// When to try again; `nil` while the disk takes what comes.
    private(set) var time: MonotonicTime?

    /// - Parameter start: when the attempt that failed began.
    /// - Returns: how long to wait from then on.
    mutating func failed(at start: MonotonicTime) -> Duration {
        self.failureCount += 1
        let pause = DiskRetry.pause(afterFailures: self.failureCount)
        self.time = start + pause
        return pause
    }

    /// Why nothing is acknowledged; `nil` as long as agents need not know.
    func text(for error: FileSystemError) -> String? {
        guard self.failureCount >= Self.toldFailureCount else { return nil }
        return error.isDiskFull
            ? "the disk of this receiver is full: it acknowledges nothing until space is freed there"
            : "the disk of this receiver refuses writes (\(error.code)): it acknowledges nothing until that is fixed"
    }
}
