internal import WaybillJournal
internal import WaybillProtocol
internal import WaybillSystem

/// What a connection hands to the committer.
enum Work: Sendable {
    case open(ConnectionPort, StreamNumber, StreamDescription)
    case batch(ConnectionPort, StreamNumber, StreamDescription, BatchHeader, wire: SharedBytes, raw: SharedBytes)
    case skip(ConnectionPort, StreamNumber, StreamDescription, StreamOffset, byteCount: UInt64, SkipReason)
    case seal(ConnectionPort, StreamNumber, StreamDescription, length: StreamOffset)
    case closed(ConnectionPort)
}

/// What the committer answers.
enum Reply: Sendable {
    case opened(StreamNumber, at: StreamOffset, isSealed: Bool)
    case durable(StreamNumber, upTo: StreamOffset)
    case sealed(StreamNumber)
    case openRefused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
    case refused(StreamNumber, at: StreamOffset, ErrorCode, text: String)
}

/// The one thread that writes the journal: takes what the connections checked, appends it as a group, syncs once,
/// publishes it to the projections and answers everybody.
///
/// Groups form by themselves: while one sync runs, the next group gathers. When the disk refuses, the group is kept,
/// nothing is acknowledged, nothing more is taken (the admission budget stops the readers), and the write is tried
/// again every second until it succeeds or the receiver stops.
final class Committer: Sendable {
    private struct Inbox {
        var works: [Work] = []
        var isClosed = false
    }

    private let inbox = Monitor(Inbox())
    private let feed: JournalFeed
    private let budget: AdmissionBudget
    private let clock: any SystemClock
    private let telemetry: ReceiverTelemetry
    private let retirement: JournalRetirement

    init(
        feed: JournalFeed, budget: AdmissionBudget, retirement: JournalRetirement, clock: any SystemClock,
        telemetry: ReceiverTelemetry
    ) {
        self.feed = feed
        self.budget = budget
        self.retirement = retirement
        self.clock = clock
        self.telemetry = telemetry
    }

    func submit(_ works: [Work]) {
        self.inbox.update { $0.works.append(contentsOf: works) }
    }

    /// Lets ``run(_:)`` return once everything submitted before is durable, or cannot be.
    func close() {
        self.inbox.update { $0.isClosed = true }
    }

    /// The thread's body.
    func run(_ journal: consuming Journal<some FileSystem>) {
        var group = Group()
        var owners = Owners()
        while true {
            let works: [Work]? = self.inbox.wait { inbox in
                if inbox.works.isEmpty { return inbox.isClosed ? [] : nil }
                defer { inbox.works = [] }
                return inbox.works
            }
            guard let works, !works.isEmpty else { return }
            for work in works {
                if case .open(_, _, let description) = work, group.holds(description.id) {
                    // Where the stream stands is known only once what is staged of it is durable.
                    guard self.commit(&group, to: &journal) else { return }
                }
                self.take(work, into: &group, owners: &owners, journal: &journal)
            }
            guard self.commit(&group, to: &journal) else { return }
            self.retire(&journal)
        }
    }

    private func take(
        _ work: Work, into group: inout Group, owners: inout Owners, journal: inout Journal<some FileSystem>
    ) {
        switch work {
        case .open(let port, let number, let description):
            let position = journal.position(of: description.id)
            if let owner = owners.owner(of: description.id), owner !== port, owner.agent != port.agent {
                let text = "agent \(owner.agent) ships this stream; stop one of the two"
                group.reply(to: port, .openRefused(number, at: position, .inUse, text: text))
                return
            }
            let isSealed = journal.isSealed(description.id)
            if isSealed { owners.release(description.id) } else { owners.set(port, of: description.id) }
            group.reply(to: port, .opened(number, at: position, isSealed: isSealed))
        case .batch(let port, let number, let description, let header, let wire, let raw):
            let byteCount = wire.count + raw.count
            guard self.isOwner(port, of: description, number, owners, &group, journal) else {
                self.budget.release(byteCount)
                return
            }
            guard !owners.hasEnded(description.id) else {
                self.budget.release(byteCount)
                let position = journal.position(of: description.id)
                let text = "the last line had no LF: only SEAL may follow"
                group.reply(to: port, .refused(number, at: position, .sealed, text: text))
                return
            }
            let result = journal.stage(.batch(description.id, header, payload: wire), of: description)
            if result == .staged, raw.bytes.last != 0x0A { owners.end(description.id) }
            if result == .staged {
                group.add(description: description, header: header, raw: raw, byteCount: byteCount)
            } else {
                self.budget.release(byteCount)
            }
            group.settle(port, number, result, end: header.end)
        case .skip(let port, let number, let description, let offset, let byteCount, let reason):
            guard self.isOwner(port, of: description, number, owners, &group, journal) else { return }
            let result = journal.stage(.skip(description.id, offset, byteCount: byteCount, reason), of: description)
            if result == .staged {
                group.staged(description.id)
                self.telemetry.skipped(description, offset, byteCount: byteCount, reason)
            }
            group.settle(port, number, result, end: StreamOffset(offset.rawValue + byteCount))
        case .seal(let port, let number, let description, let length):
            guard self.isOwner(port, of: description, number, owners, &group, journal) else { return }
            switch journal.stage(.seal(description.id, length: length), of: description) {
            case .staged, .alreadyHeld, .alreadySealed:
                group.staged(description.id)
                group.reply(to: port, .sealed(number))
                owners.sealed(description.id)
            case .gap(let position):
                group.reply(to: port, .refused(number, at: position, .gap, text: "the stream ends elsewhere"))
            }
        case .closed(let port):
            owners.release(port)
        }
    }

    private func isOwner(
        _ port: ConnectionPort, of description: StreamDescription, _ number: StreamNumber, _ owners: Owners,
        _ group: inout Group, _ journal: borrowing Journal<some FileSystem>
    ) -> Bool {
        if owners.owner(of: description.id) === port { return true }
        let position = journal.position(of: description.id)
        group.reply(
            to: port, .refused(number, at: position, .inUse, text: "another connection has opened this stream"))
        return false
    }

    /// - Returns: `false` when the receiver stops before the disk takes the group.
    private func commit(_ group: inout Group, to journal: inout Journal<some FileSystem>) -> Bool {
        var attempt = 0
        while journal.hasStaged {
            let start = self.clock.monotonicTime()
            do throws(FileSystemError) {
                let time = self.clock.wallTime()
                let ranges = try journal.commit(at: time)
                let entries = group.feedEntries(at: ranges, receivedAt: time)
                self.feed.publish(entries, end: journal.end)
                self.telemetry.groupCommitted(
                    batchCount: group.batches.count, rawByteCount: group.rawByteCount,
                    took: self.clock.monotonicTime() - start)
            } catch {
                attempt += 1
                self.telemetry.commitFailed(error, attempt: attempt)
                let isStopping = self.inbox.wait(until: start + .seconds(1)) { $0.isClosed ? true : nil }
                if isStopping == true { return false }
            }
        }
        if attempt > 0 { self.telemetry.commitRecovered(afterAttempts: attempt) }
        self.budget.release(group.budgetByteCount)
        group.deliver()
        return true
    }

    private func retire(_ journal: inout Journal<some FileSystem>) {
        guard let position = self.retirement.duePosition(now: self.clock.monotonicTime()) else { return }
        let time = WallTime(
            milliseconds: self.clock.wallTime().milliseconds - self.retirement.retention.nanoseconds / 1_000_000)
        do throws(FileSystemError) {
            let count = try journal.retire(before: position, writtenBefore: time)
            if count > 0 { self.telemetry.segmentsRetired(count) }
        } catch {
            self.telemetry.retirementFailed(error)
        }
    }
}

/// What is staged and who waits for it.
private struct Group {
    struct Batch {
        let description: StreamDescription
        let header: BatchHeader
        let raw: SharedBytes
    }

    private(set) var batches: [Batch] = []
    private(set) var rawByteCount = 0
    private(set) var budgetByteCount = 0
    private var streams: Set<StreamID> = []
    /// Every answer waits for the group, so that none overtakes another of its connection.
    private var replies: [ObjectIdentifier: (port: ConnectionPort, replies: [Reply])] = [:]

    /// Whether anything of the stream is staged.
    func holds(_ id: StreamID) -> Bool {
        self.streams.contains(id)
    }

    mutating func staged(_ id: StreamID) {
        self.streams.insert(id)
    }

    mutating func add(description: StreamDescription, header: BatchHeader, raw: SharedBytes, byteCount: Int) {
        self.batches.append(Batch(description: description, header: header, raw: raw))
        self.streams.insert(description.id)
        self.rawByteCount += raw.count
        self.budgetByteCount += byteCount
    }

    mutating func settle(_ port: ConnectionPort, _ number: StreamNumber, _ result: StagingResult, end: StreamOffset) {
        switch result {
        case .staged: self.reply(to: port, .durable(number, upTo: end))
        case .alreadyHeld(let position), .alreadySealed(let position):
            self.reply(to: port, .durable(number, upTo: position))
        case .gap(let position):
            self.reply(to: port, .refused(number, at: position, .gap, text: "the stream stands at another offset"))
        }
    }

    mutating func reply(to port: ConnectionPort, _ reply: Reply) {
        var replies = self.replies[ObjectIdentifier(port)]?.replies ?? []
        // Acks are cumulative: the last of a run says it all.
        if case .durable(let number, _) = reply, case .durable(number, _)? = replies.last { replies.removeLast() }
        replies.append(reply)
        self.replies[ObjectIdentifier(port)] = (port, replies)
    }

    func feedEntries(at ranges: [Range<JournalPosition>], receivedAt: WallTime) -> [FeedEntry] {
        zip(self.batches, ranges).map { batch, range in
            FeedEntry(
                position: range.lowerBound, end: range.upperBound, description: batch.description,
                offset: batch.header.offset, receivedAt: receivedAt, raw: batch.raw)
        }
    }

    mutating func deliver() {
        for (_, entry) in self.replies { entry.port.deliver(entry.replies) }
        self.replies.removeAll(keepingCapacity: true)
        self.batches.removeAll(keepingCapacity: true)
        self.streams.removeAll(keepingCapacity: true)
        self.rawByteCount = 0
        self.budgetByteCount = 0
    }
}

/// Which connection ships which stream: the last that opened it.
private struct Owners {
    private var owners: [StreamID: ConnectionPort] = [:]
    private var streams: [ObjectIdentifier: Set<StreamID>] = [:]
    /// Streams whose last line had no LF; nothing can follow it but their seal.
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

    func owner(of id: StreamID) -> ConnectionPort? {
        self.owners[id]
    }

    mutating func set(_ port: ConnectionPort, of id: StreamID) {
        self.release(id)
        self.owners[id] = port
        self.streams[ObjectIdentifier(port), default: []].insert(id)
    }

    mutating func release(_ id: StreamID) {
        guard let port = self.owners.removeValue(forKey: id) else { return }
        self.streams[ObjectIdentifier(port)]?.remove(id)
    }

    mutating func release(_ port: ConnectionPort) {
        for id in self.streams.removeValue(forKey: ObjectIdentifier(port)) ?? [] { self.owners[id] = nil }
    }
}
