package import WaybillJournal
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// What the committer's thread does: appends checked requests as a group, syncs once, publishes the group to the
/// projections and answers all its connections.
///
///     requests ─▶ staged in the journal, replies held ─▶ commit (write, fdatasync) ─▶ feed ─▶ replies
///                                                        └─ error: all of it kept, tried again a second later
///
/// When the disk refuses a write, the group is kept, nothing is acknowledged, and nothing more is taken: the admission
/// budget stops the readers.
package struct CommitLoop<Files: FileSystem>: ~Copyable {
    private var journal: Journal<Files>
    private let feed: JournalFeed
    private let budget: AdmissionBudget
    private let retirement: JournalRetirement
    private let clock: any SystemClock
    private let telemetry: ReceiverTelemetry

    private var group = Group()
    private var owners = Owners()
    private var skips = Skips()
    private var streams: StreamQuota
    /// Requests not taken yet, in order, from ``next`` on.
    private var requests: [CommitRequest] = []
    private var next = 0
    /// Failed commits of the current group.
    private var failureCount = 0

    package init(
        journal: consuming Journal<Files>, feed: JournalFeed, budget: AdmissionBudget, retirement: JournalRetirement,
        clock: any SystemClock, telemetry: ReceiverTelemetry, quotas: AccountQuotas = AccountQuotas()
    ) {
        self.journal = journal
        self.feed = feed
        self.budget = budget
        self.retirement = retirement
        self.clock = clock
        self.telemetry = telemetry
        self.streams = StreamQuota(countMax: quotas.streamCountMax)
    }

    /// Takes requests and makes them durable.
    ///
    /// - Returns: when to call again because the disk refused; `nil` once everything is answered.
    package mutating func step(_ requests: [CommitRequest]) -> MonotonicTime? {
        self.requests.append(contentsOf: requests)
        while self.next < self.requests.count {
            let request = self.requests[self.next]
            if case .open(_, _, let description) = request, self.group.holds(description.id) {
                // The stream's position is known only once everything staged of it is durable.
                if let retryAt = self.commit() { return retryAt }
            }
            self.take(request)
            self.next += 1
        }
        self.requests.removeAll(keepingCapacity: true)
        self.next = 0
        if let retryAt = self.commit() { return retryAt }
        self.retire()
        return nil
    }

    private mutating func take(_ request: CommitRequest) {
        self.group.hold(request.charge)
        switch request {
        case .open(let connection, let number, let description):
            let position = self.journal.position(of: description.id)
            if let owner = self.owners.owner(of: description.id), owner !== connection, owner.agent != connection.agent
            {
                let text = "agent \(owner.agent) ships this stream; stop one of the two"
                self.group.reply(to: connection, .openRefused(number, at: position, .inUse, text: text))
                return
            }
            let isSealed = self.journal.isSealed(description.id)
            if position == StreamOffset(0), !isSealed,
                !self.streams.mayBegin(connection.account, self.clock.wallTime())
            {
                let text = "this agent has begun as many streams today as it may; see limits.streams"
                self.telemetry.limited(.streams)
                self.group.reply(to: connection, .openRefused(number, at: position, .retryAfter, text: text))
                return
            }
            if isSealed { self.owners.release(description.id) } else { self.owners.set(connection, of: description.id) }
            self.group.reply(to: connection, .opened(number, at: position, isSealed: isSealed))
        case .batch(let connection, let number, let description, let header, let wire, let raw):
            guard self.isOwner(connection, of: description, number) else { return }
            guard !self.owners.hasEnded(description.id) else {
                let position = self.journal.position(of: description.id)
                let text = "the last line had no LF: only SEAL may follow"
                self.group.reply(to: connection, .refused(number, at: position, .sealed, text: text))
                return
            }
            let result = self.journal.stage(.batch(description.id, header, payload: wire), of: description)
            if result == .staged, raw.bytes.last != 0x0A { self.owners.end(description.id) }
            if result == .staged {
                self.group.add(description: description, header: header, raw: raw, from: connection.account)
                if header.offset == StreamOffset(0) { self.streams.begun(by: connection.account) }
            }
            self.group.settle(connection, number, result, end: header.end)
        case .skip(let connection, let number, let description, let offset, let byteCount, let reason):
            guard self.isOwner(connection, of: description, number) else { return }
            let result = self.journal.stage(
                .skip(description.id, offset, byteCount: byteCount, reason), of: description)
            if result == .staged {
                self.group.staged(description.id)
                if offset == StreamOffset(0) { self.streams.begun(by: connection.account) }
                if self.skips.note(connection, byteCount: byteCount) {
                    self.telemetry.skipped(description, offset, byteCount: byteCount, reason)
                }
            }
            self.group.settle(connection, number, result, end: StreamOffset(offset.rawValue + byteCount))
        case .seal(let connection, let number, let description, let length):
            guard self.isOwner(connection, of: description, number) else { return }
            switch self.journal.stage(.seal(description.id, length: length), of: description) {
            case .staged, .alreadyHeld, .alreadySealed:
                self.group.staged(description.id)
                self.group.reply(to: connection, .sealed(number))
                self.owners.sealed(description.id)
                self.streams.ended(by: connection.account)
            case .gap(let position):
                self.group.reply(
                    to: connection, .refused(number, at: position, .gap, text: "the stream ends elsewhere"))
            }
        case .closed(let connection):
            self.owners.release(connection)
            if let untold = self.skips.close(connection) {
                self.telemetry.skippedMore(agent: connection.agent, count: untold.count, byteCount: untold.byteCount)
            }
        }
    }

    private mutating func isOwner(
        _ connection: ConnectionHandle, of description: StreamDescription, _ number: StreamNumber
    ) -> Bool {
        if self.owners.owner(of: description.id) === connection { return true }
        let position = self.journal.position(of: description.id)
        self.group.reply(
            to: connection, .refused(number, at: position, .inUse, text: "another connection has opened this stream"))
        return false
    }

    /// - Returns: when to try again; `nil` once everything is committed.
    private mutating func commit() -> MonotonicTime? {
        if self.journal.hasStaged {
            let start = self.clock.monotonicTime()
            do throws(FileSystemError) {
                let time = self.clock.wallTime()
                let ranges = try self.journal.commit(at: time)
                self.budget.committed(self.group.turns(at: ranges))
                let entries = self.group.feedEntries(at: ranges, receivedAt: time)
                self.feed.publish(entries, end: self.journal.end)
                self.telemetry.groupCommitted(
                    batchCount: self.group.batches.count, lineCount: self.group.lineCount,
                    rawByteCount: self.group.rawByteCount,
                    took: self.clock.monotonicTime() - start)
            } catch {
                self.failureCount += 1
                self.telemetry.commitFailed(error, attempt: self.failureCount)
                return start + .seconds(1)
            }
        }
        if self.failureCount > 0 { self.telemetry.commitRecovered(afterAttempts: self.failureCount) }
        self.failureCount = 0
        self.budget.release(self.group.charge)
        self.group.deliver()
        return nil
    }

    private mutating func retire() {
        guard let position = self.retirement.duePosition(now: self.clock.monotonicTime()) else { return }
        let time = WallTime(
            milliseconds: self.clock.wallTime().milliseconds - self.retirement.retention.nanoseconds / 1_000_000)
        do throws(FileSystemError) {
            let count = try self.journal.retire(before: position, writtenBefore: time)
            if count > 0 { self.telemetry.segmentsRetired(count) }
        } catch {
            self.telemetry.retirementFailed(error)
        }
    }
}

/// What is staged, and the connections that wait for it.
private struct Group {
    struct Batch {
        let description: StreamDescription
        let header: BatchHeader
        let raw: SharedBytes
        let account: Account
    }

    private(set) var batches: [Batch] = []
    private(set) var lineCount = 0
    private(set) var rawByteCount = 0
    private(set) var charge = AdmissionCharge()
    private var streams: Set<StreamID> = []
    /// Every answer waits for the group, so that the answers of a connection stay in order.
    private var replies: [ObjectIdentifier: (connection: ConnectionHandle, replies: [Reply])] = [:]

    /// Whether anything of the stream is staged.
    func holds(_ id: StreamID) -> Bool {
        self.streams.contains(id)
    }

    mutating func staged(_ id: StreamID) {
        self.streams.insert(id)
    }

    /// Holds a part of the admission budget until the group is answered.
    mutating func hold(_ charge: AdmissionCharge) {
        self.charge += charge
    }

    /// What the archive has to do for the batches.
    func turns(at ranges: [Range<JournalPosition>]) -> [CommittedTurn] {
        zip(self.batches, ranges).map { batch, range in
            CommittedTurn(end: range.upperBound, charge: batch.header.turn, account: batch.account)
        }
    }

    mutating func add(
        description: StreamDescription, header: BatchHeader, raw: SharedBytes, from account: Account
    ) {
        self.batches.append(Batch(description: description, header: header, raw: raw, account: account))
        // The archive's time is held until the batch is archived.
        self.charge -= header.turn
        self.streams.insert(description.id)
        self.lineCount += header.lineCount
        self.rawByteCount += raw.count
    }

    mutating func settle(
        _ connection: ConnectionHandle, _ number: StreamNumber, _ result: StagingResult, end: StreamOffset
    ) {
        switch result {
        case .staged: self.reply(to: connection, .durable(number, upTo: end))
        case .alreadyHeld(let position), .alreadySealed(let position):
            self.reply(to: connection, .durable(number, upTo: position))
        case .gap(let position):
            self.reply(
                to: connection, .refused(number, at: position, .gap, text: "the stream stands at another offset"))
        }
    }

    mutating func reply(to connection: ConnectionHandle, _ reply: Reply) {
        var replies = self.replies[ObjectIdentifier(connection)]?.replies ?? []
        // Acks are cumulative: the last of a run is enough.
        if case .durable(let number, _) = reply, case .durable(number, _)? = replies.last { replies.removeLast() }
        replies.append(reply)
        self.replies[ObjectIdentifier(connection)] = (connection, replies)
    }

    func feedEntries(at ranges: [Range<JournalPosition>], receivedAt: WallTime) -> [FeedEntry] {
        zip(self.batches, ranges).map { batch, range in
            FeedEntry(
                position: range.lowerBound, end: range.upperBound, description: batch.description,
                offset: batch.header.offset, receivedAt: receivedAt, lineCount: batch.header.lineCount, raw: batch.raw,
                account: batch.account)
        }
    }

    mutating func deliver() {
        for (_, entry) in self.replies { entry.connection.deliver(entry.replies) }
        self.replies.removeAll(keepingCapacity: true)
        self.batches.removeAll(keepingCapacity: true)
        self.streams.removeAll(keepingCapacity: true)
        self.lineCount = 0
        self.rawByteCount = 0
        self.charge = AdmissionCharge()
    }
}

/// Which connection owns each stream: the last one that opened it.
private struct Owners {
    private var owners: [StreamID: ConnectionHandle] = [:]
    private var streams: [ObjectIdentifier: Set<StreamID>] = [:]
    /// Streams whose last line had no LF; only their seal can follow.
    private var ended: Set<StreamID> = []

    func hasEnded(_ id: StreamID) -> Bool {
        self.ended.contains(id)
    }

    mutating func end(_ id: StreamID) {
        self.ended.insert(id)
    }

    mutating func sealed(_ id: StreamID) {
        self.ended.remove(id)
        self.release(id)
    }

    func owner(of id: StreamID) -> ConnectionHandle? {
        self.owners[id]
    }

    mutating func set(_ connection: ConnectionHandle, of id: StreamID) {
        self.release(id)
        self.owners[id] = connection
        self.streams[ObjectIdentifier(connection), default: []].insert(id)
    }

    mutating func release(_ id: StreamID) {
        guard let connection = self.owners.removeValue(forKey: id) else { return }
        self.streams[ObjectIdentifier(connection)]?.remove(id)
    }

    mutating func release(_ connection: ConnectionHandle) {
        for id in self.streams.removeValue(forKey: ObjectIdentifier(connection)) ?? [] { self.owners[id] = nil }
    }
}

/// The bytes that each connection skipped: the first few skips are logged one by one, the rest as a sum when the
/// connection ends.
private struct Skips {
    struct Sum {
        var count = 0
        var byteCount: UInt64 = 0
    }

    private static let toldCountMax = 10

    private var told: [ObjectIdentifier: Int] = [:]
    private var untold: [ObjectIdentifier: Sum] = [:]

    /// - Returns: whether to log this skip by itself.
    mutating func note(_ connection: ConnectionHandle, byteCount: UInt64) -> Bool {
        let key = ObjectIdentifier(connection)
        let told = self.told[key, default: 0]
        guard told == Self.toldCountMax else {
            self.told[key] = told + 1
            return true
        }
        var sum = self.untold[key, default: Sum()]
        sum.count += 1
        sum.byteCount &+= byteCount
        self.untold[key] = sum
        return false
    }

    /// - Returns: the sum of the skips not logged yet; `nil` when there are none.
    mutating func close(_ connection: ConnectionHandle) -> Sum? {
        self.told[ObjectIdentifier(connection)] = nil
        return self.untold.removeValue(forKey: ObjectIdentifier(connection))
    }
}
