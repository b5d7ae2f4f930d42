internal import Logging
internal import WaybillData
internal import WaybillExport
internal import WaybillFleet
internal import WaybillHost
internal import WaybillProjection
internal import WaybillReceiver
internal import WaybillReplay
internal import WaybillSystem

extension MergeService {
    /// Applies every erasure of the fleet to a directory that begins behind them, as one that is made from a checkpoint, so
    /// that no one comes back with what arrives later.
    func completeRecord(
        of merger: inout Merger<POSIXFileSystem>, in data: DataDirectory<POSIXFileSystem>
    ) throws(MergeFailure) {
        guard merger.erasures.count > 0 else { return }
        let key = try MergeFailure.onDisk(ErasureLog.recordedKey(in: data))
        if key == nil { try merger.repeatErasures() }
    }
}

/// Gives erasures the files of a merger's projections, each at its position of the merged journal.
///
///     handed out up to the erasure ─▶ all checkpoints are there ─▶ nothing is sealed, closed or delivered halfway
///       ─▶ projections stop ─▶ Eraser ─▶ state: applied ─▶ projections start again
///
/// While something stands in the way, merging continues and projecting does not: the merged journal grows, pieces are
/// taken as ever, and what the erasure finds stays what the log has before it. A kill at any step leaves the erasure pending
/// in the merger's state, with projections that do not pass it.
///
/// A running delivery sees `state/erasure.waits`, finishes the parts that it has begun, and releases its lock.
final class ErasureTurns: Sendable {
    typealias Start = @Sendable () throws(ProjectionHost.Failure) -> [Worker]

    private struct State {
        var workers: [Worker] = []
        var isRunning = false
        /// Since when the next erasure cannot be applied.
        var waitingSince: MonotonicTime?
        var nextNotice: MonotonicTime?
        /// When the erasure itself finds out again whether what stands in its way concerns it.
        var nextTrial: MonotonicTime?
    }

    let data: DataDirectory<POSIXFileSystem>
    private let feed: JournalFeed
    let retirement: JournalRetirement
    let logger: Logger
    private let start: Start
    private let state = Lock(State())
    /// Held while a sealed day's files are read for the bucket, and while an erasure exchanges files.
    let exchange = Lock(())

    private static let noticeDelay = Duration.seconds(30)
    private static let noticeInterval = Duration.seconds(600)

    init(
        _ data: DataDirectory<POSIXFileSystem>, _ feed: JournalFeed, _ retirement: JournalRetirement, _ logger: Logger,
        start: @escaping Start
    ) throws(ProjectionHost.Failure) {
        self.data = data
        self.feed = feed
        self.retirement = retirement
        self.logger = logger
        self.start = start
        try self.resume()
    }

    /// The threads of the projections that run now.
    var workers: [Worker] { self.state.withLock { $0.workers } }

    private func resume() throws(ProjectionHost.Failure) {
        guard !self.state.withLock({ $0.isRunning }) else { return }
        self.feed.reopen()
        let workers = try self.start()
        self.state.withLock { state in
            state.workers = workers
            state.isRunning = true
        }
    }

    func stop() {
        let workers = self.state.withLock { state in
            defer { state.workers = [] }
            state.isRunning = false
            return state.workers
        }
        self.feed.close()
        for worker in workers { worker.join() }
    }

    // MARK: A turn

    /// Applies the first pending erasure and those of the same round, if the projections are there.
    ///
    /// - Returns: what was erased, one report for each; empty: something stands in the way.
    func apply(
        _ merger: inout Merger<POSIXFileSystem>, now: MonotonicTime
    ) throws(MergeFailure) -> [Eraser<POSIXFileSystem>.Report] {
        guard let first = merger.erasures.pending.first else { return [] }
        try self.restart()
        self.feed.extend(to: first.position)
        guard let passed = self.retirement.passedPosition, passed >= first.position else { return [] }
        let request = try merger.request(of: first)
        if let failure = try MergeFailure.onDisk(self.eraser(request).obstacle()) {
            try self.announce(true)
            guard self.isTrialDue(failure, now) else { return [] }
        }
        try self.announce(true)
        self.stop()
        var reports: [Eraser<POSIXFileSystem>.Report] = []
        while let erasure = merger.erasures.pending.first, erasure.round == first.round {
            let request = try merger.request(of: erasure)
            guard let report = try self.erase(request, erasure, now) else { break }
            try merger.erased(erasure)
            reports.append(report)
        }
        try self.restart()
        guard !reports.isEmpty else { return [] }
        self.state.withLock { ($0.waitingSince, $0.nextNotice, $0.nextTrial) = (nil, nil, nil) }
        if merger.erasures.pending.isEmpty { try self.announce(false) }
        return reports
    }

    private func eraser(_ request: ErasureRequest) -> Eraser<POSIXFileSystem> {
        let kind = ErasedPeople.Kind(request.kind)
        let person: ErasedPeople.Person
        let known: String?
        switch request.person {
        case .id(let id):
            person = ErasedPeople.Person(id: Array(id.utf8), kind, key: request.key)
            known = id
        case .digest(let digest, let mark):
            person = ErasedPeople.Person(digest: digest, mark: mark)
            known = nil
        }
        return Eraser(
            ofFleet: FleetErasure(person: person, key: request.key), kind, id: known, dataDirectory: self.data.root,
            files: self.data.files)
    }

    /// - Returns: `nil` if something stands in the way.
    private func erase(
        _ request: ErasureRequest, _ erasure: PendingErasure, _ now: MonotonicTime
    ) throws(MergeFailure) -> Eraser<POSIXFileSystem>.Report? {
        var eraser = self.eraser(request)
        do throws(Eraser<POSIXFileSystem>.Failure) {
            let report = try self.exchange.withLock { (_) throws(Eraser<POSIXFileSystem>.Failure) in
                try eraser.run(now: erasure.time)
            }
            self.logger.info(
                "a person was erased",
                metadata: [
                    "erasure": .number(erasure.number), "lines": .number(report.lineCount),
                    "records": .number(report.recordCount), "days": .number(report.days.count),
                    "without_id": .number(report.withoutIDCount), "shared_ids": .number(report.sharedIDCount),
                ])
            return report
        } catch {
            switch error {
            case .disk(let error): throw .disk(error)
            case .otherKey: throw .erasureKey
            case .data, .noArchive, .underWay, .delivering, .deliveryRuns, .merger:
                _ = self.isTrialDue(error, now)
                return nil
            }
        }
    }

    func restart() throws(MergeFailure) {
        do throws(ProjectionHost.Failure) {
            try self.resume()
        } catch {
            guard case .disk(let error) = error else {
                preconditionFailure("projections that ran do not start: \(error)")
            }
            throw .disk(error)
        }
    }

    // MARK: Waiting

    /// Remembers that something stands in the way, and says so after a while.
    ///
    /// - Returns: whether the erasure is to find out for itself: a part whose delivery is not finished may have no record
    ///   of the person.
    private func isTrialDue(_ failure: Eraser<POSIXFileSystem>.Failure, _ now: MonotonicTime) -> Bool {
        let (isFirst, isTold, isDue) = self.state.withLock { state in
            let isFirst = state.waitingSince == nil
            let since = state.waitingSince ?? now
            state.waitingSince = since
            let isTold = now >= state.nextNotice ?? (since + Self.noticeDelay)
            if isTold { state.nextNotice = now + Self.noticeInterval }
            var isDue = now >= state.nextTrial ?? (since + Self.noticeInterval)
            if isDue { state.nextTrial = now + Self.noticeInterval }
            if case .delivering = failure {} else { isDue = false }
            return (isFirst, isTold, isDue)
        }
        if isFirst { self.logger.info("an erasure waits", metadata: ["cause": "\(failure)"]) }
        if isTold {
            self.logger.error(
                .erasureWaits, "an erasure waits, and archive and exports stand still until it is done",
                metadata: ["cause": "\(failure)"])
        }
        return isDue
    }

    /// Tells deliveries that they must release their files, or that they need not any more.
    ///
    /// Nothing needs to be durable: a start says it again, or takes it back.
    func announce(_ isWaiting: Bool) throws(MergeFailure) {
        let path = DeliveryPause.path(in: self.data)
        try MergeFailure.withDisk { () throws(FileSystemError) in
            let isThere = try self.data.files.status(ofEntry: path) != nil
            guard isThere != isWaiting else { return }
            if isWaiting {
                self.data.files.close(try self.data.files.open(path, .append))
            } else {
                try self.data.files.unlink(path)
            }
        }
    }
}
