internal import Logging
internal import WaybillData
internal import WaybillFleet
internal import WaybillHost
internal import WaybillProjection
internal import WaybillReceiver
internal import WaybillSystem

/// Checkpoints of a merger: when they are made, and what is deleted behind them.
///
///     merger's thread                               thread of its own
///     barrier passed by all ─▶ due? at rest?
///        capture (a look at each file) ───────────▶ upload ─▶ commit ─▶ delete what is before the older of two
///     next barrier                                  (segments of the merged journal are kept meanwhile)
///
/// A merger waits at a barrier until days that were sealed there are sealed, for a while; then the next one is as good.
final class MergeCheckpoints: Sendable {
    struct Setup: Sendable {
        let name: String
        let fleet: String
        let interval: Duration
        let pieceAge: Duration
        let root: String
        /// Of exports.
        let projections: Set<String>
        let store: any ObjectStore
        let isStopped: @Sendable () -> Bool
    }

    struct Counts: Hashable, Sendable {
        var checkpointCount = 0
        var pieceCount = 0
        var roundCount = 0
        var objectCount = 0
    }

    private struct State {
        var capture: CheckpointCapture?
        /// Whether a capture is being uploaded.
        var isBusy = false
        var isEnding = false
        var counts = Counts()
        var isForbidden = false
        var failureCount = 0

        // The merger's thread alone uses these.
        var nextLook: MonotonicTime?
        /// The erasure behind which the bucket is known to have a checkpoint.
        var coveredErasure: JournalPosition?
        var done: JournalPosition?
        var heldSince: MonotonicTime?
    }

    private let setup: Setup
    private let files: POSIXFileSystem
    private let logger: Logger
    private let clock = POSIXClock()
    private let digests = DigestMemory()
    private let state = Monitor(State())

    private static var patience: Duration { .seconds(30) }
    /// Before so many rounds, all pieces are read as quickly.
    private static var firstRoundMin: Int { 100 }
    private static var cleaningInterval: Duration { .seconds(3600) }

    init(_ setup: Setup, files: POSIXFileSystem, logger: Logger) {
        self.setup = setup
        self.files = files
        self.logger = logger
    }

    var counts: Counts { self.state.withLock { $0.counts } }

    /// Whether segments of the merged journal must stay.
    var isBusy: Bool { self.state.withLock { $0.isBusy } }

    // MARK: The merger's thread

    /// Makes a checkpoint at a barrier that all projections have passed, if one is due.
    ///
    /// - Returns: whether the merger may continue after the barrier.
    func pass(_ barrier: SealBarrier, _ merger: borrowing Merger<POSIXFileSystem>) -> Bool {
        guard self.isDue(at: barrier, merger.round, erased: merger.erasures.appliedPosition) else { return true }
        let facts = merger.facts(at: barrier)
        do throws(FileSystemError) {
            let capture = try CheckpointCapture(facts, root: self.setup.root, files: self.files) { name, entries in
                self.isAtRest(name, entries, at: barrier.position)
            }
            guard let capture else { return self.isTooLong(at: barrier) }
            self.state.update { state in
                state.capture = capture
                state.isBusy = true
                state.done = barrier.position
                state.heldSince = nil
            }
        } catch {
            self.state.withLock { $0.done = barrier.position }
            self.failed("\(error)")
        }
        return true
    }

    private func isAtRest(_ name: String, _ entries: [String: String], at position: JournalPosition) -> Bool {
        guard ProjectionRest.isAtRest(entries) else { return false }
        let projection = name == "archive.state" ? "archive" : String(name.dropFirst("export-".utf8.count).dropLast(6))
        // The state of an export that is not written any more stands where it ended.
        guard self.setup.projections.contains(projection) else { return true }
        return ProjectionRest.position(in: entries) == position
    }

    /// - Parameter erased: where the last erasure was applied. It replaces objects that older checkpoints refer to, so one
    ///   behind it is made at the next barrier.
    private func isDue(at barrier: SealBarrier, _ round: Int, erased: JournalPosition?) -> Bool {
        let now = self.clock.monotonicTime()
        let isOpen = self.state.withLock { state in
            let isTime = erased != state.coveredErasure || state.nextLook.map { now >= $0 } ?? true
            return !state.isBusy && state.done != barrier.position && isTime
        }
        guard isOpen else { return false }
        do throws(StoreError) {
            guard let newest = try CheckpointCommit.newest(in: self.setup.store) else {
                return self.setup.interval == .zero || round >= Self.firstRoundMin
            }
            // A merger that catches up makes none where there was one.
            guard newest.position < barrier.position else { return false }
            let isNeeded = erased.map { newest.position <= $0 } ?? false
            if !isNeeded { self.state.withLock { $0.coveredErasure = erased } }
            let wait = self.wait(after: newest.time)
            guard isNeeded || wait <= .zero else {
                self.state.withLock { $0.nextLook = now + wait }
                return false
            }
            return true
        } catch {
            // Without the bucket nothing could be uploaded either.
            self.state.withLock { $0.nextLook = now + .seconds(60) }
            return false
        }
    }

    /// How long until the next one is due; a last one with a time that no one has reached yet says nothing.
    private func wait(after last: WallTime) -> Duration {
        let age = Duration.milliseconds(self.now.milliseconds.saturatingSum(-last.milliseconds))
        return age < .zero - self.setup.interval ? .zero : self.setup.interval - age
    }

    private var now: WallTime { self.setup.store.earlierTime(self.clock.wallTime()) }

    private func isTooLong(at barrier: SealBarrier) -> Bool {
        let now = self.clock.monotonicTime()
        return self.state.withLock { state in
            guard let since = state.heldSince else {
                state.heldSince = now
                return false
            }
            guard now - since > Self.patience else { return false }
            state.heldSince = nil
            state.done = barrier.position
            return true
        }
    }

    // MARK: The other thread

    /// Lets ``run()`` return.
    func end() {
        self.state.update { $0.isEnding = true }
    }

    /// Uploads what is captured, and deletes what is old.
    func run() {
        var nextCleaning = self.clock.monotonicTime() + .seconds(60)
        while true {
            let (capture, isEnding) = self.next(until: nextCleaning)
            if let capture {
                self.make(capture)
                nextCleaning = self.clock.monotonicTime()
            }
            if self.clock.monotonicTime() >= nextCleaning, !self.setup.isStopped() {
                let isCutShort = self.clean()
                nextCleaning = self.clock.monotonicTime() + (isCutShort ? .seconds(5) : Self.cleaningInterval)
            }
            if isEnding, capture == nil { return }
        }
    }

    private func next(until deadline: MonotonicTime) -> (capture: CheckpointCapture?, isEnding: Bool) {
        self.state.wait(until: deadline) { state in
            guard state.capture != nil || state.isEnding else { return nil }
            return (state.capture.take(), state.isEnding)
        } ?? (nil, false)
    }

    private func make(_ capture: CheckpointCapture) {
        defer { self.state.update { $0.isBusy = false } }
        do throws(CheckpointFailure) {
            let maker = CheckpointMaker(
                capture, merger: self.setup.name, fleet: self.setup.fleet, files: self.files, store: self.setup.store,
                SeededGenerator(seed: SystemRandom.seed()), digests: self.digests, isStopped: self.setup.isStopped)
            let outcome = try maker.run(at: self.now)
            self.digests.keep(only: Set(capture.sources.map(\.path)))
            self.state.withLock { state in
                state.counts.checkpointCount += 1
                state.failureCount = 0
            }
            self.logger.info(
                "a checkpoint is in the bucket",
                metadata: [
                    "round": .number(capture.round), "files": .number(outcome.fileCount),
                    "bytes": .number(outcome.byteCount), "uploaded_bytes": .number(outcome.uploadedByteCount),
                ])
        } catch {
            switch error {
            case .late, .stopped: break
            case .store, .disk, .damaged, .changed: self.failed("\(error)")
            }
        }
        do throws(FileSystemError) {
            try CheckpointCapture.discard(root: self.setup.root, files: self.files)
        } catch {
            self.failed("\(error)")
        }
    }

    private func failed(_ cause: String) {
        let count = self.state.withLock { state in
            state.failureCount += 1
            return state.failureCount
        }
        guard RepeatedFailure.isTold(count) else { return }
        self.logger.error(
            .checkpointFailed, "no checkpoint was made; it is tried again where days may be sealed next",
            metadata: ["cause": "\(cause)", "attempt": .number(count)])
    }

    /// - Returns: whether there is more to delete.
    private func clean() -> Bool {
        let cleaner = CheckpointCleaner(fleet: self.setup.fleet, store: self.setup.store, age: self.setup.pieceAge)
        do throws(StoreError) {
            let outcome = try cleaner.run(at: self.now)
            guard outcome.pieceCount + outcome.roundCount + outcome.objectCount > 0 else { return false }
            self.state.withLock { state in
                state.counts.pieceCount += outcome.pieceCount
                state.counts.roundCount += outcome.roundCount
                state.counts.objectCount += outcome.objectCount
            }
            self.logger.info(
                "what two checkpoints cover was deleted from the bucket",
                metadata: [
                    "pieces": .number(outcome.pieceCount), "rounds": .number(outcome.roundCount),
                    "objects": .number(outcome.objectCount),
                ])
            return outcome.isCutShort
        } catch {
            guard error.kind == .forbidden else { return false }
            let isFirst = self.state.withLock { state in
                defer { state.isForbidden = true }
                return !state.isForbidden
            }
            if isFirst {
                self.logger.warning(
                    .piecesKept, "this merger may not delete what two checkpoints cover; the bucket keeps it",
                    metadata: ["cause": "\(error)"])
            }
            return false
        }
    }
}
