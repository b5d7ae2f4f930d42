internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// How a run ends, and what it did so far.
extension Pump where Hints: ~Copyable {
    mutating func outcome() -> AgentOutcome? {
        guard self.goal.mayEnd else { return nil }
        let now = self.clock.monotonicTime()
        var rest = RunGoal.Rest(
            acknowledgedAt: self.liveness.acknowledgedAt, unreadySince: self.acceptance.unreadySince)
        rest.isReady = self.connection.isReady
        rest.isSettled = self.isSettled(now)
        rest.hasShippedAll = self.leftover == .nothing
        rest.nextRetry = self.streams.nextRetry
        rest.isAnswered = rest.nextRetry != nil && self.connection.session.isSettled
        rest.awaitsStorage = rest.isReady && !self.connection.isInFlight && self.awaitsStorage
        switch self.goal.end(rest, at: now) {
        case .drained: return .drained(self.tally.summary)
        case .stopped: return .stopped(self.tally.summary)
        case .unreachable: return .unreachable(self.acceptance.reason, self.tally.summary)
        case .unstored:
            return .unreachable("the fleet has not stored everything that was sent", self.tally.summary)
        case nil: return nil
        }
    }

    /// Says `BYE` at the end of a run that reports the fate of its lines, and waits for the answer.
    ///
    /// - Returns: whether to wait.
    mutating func beginFarewell(_ outcome: AgentOutcome) -> Bool {
        guard case .drained = outcome, self.connection.isReady, self.tally.summary.batchCount > 0,
            self.goal.beginFarewell(at: self.clock.monotonicTime())
        else { return false }
        self.send(.bye)
        return true
    }

    /// Whether nothing is left to ship, a scan has looked for more, and everything sent is acknowledged.
    ///
    /// Called by runs that may end: it requests one more scan.
    private mutating func isSettled(_ now: MonotonicTime) -> Bool {
        // A run that is told to stop does not wait for what is decided in seconds.
        let isDeciding = !self.goal.isStopping && self.tail.isDeciding(now)
        guard self.connection.isReady, self.isAnswered, self.streams.nextRetry == nil, !self.streams.hasWaiting,
            !isDeciding
        else {
            self.goal.isBusy()
            return false
        }
        guard !self.hasReadyStream() else {
            self.goal.foundMore()
            return false
        }
        // Spools wait for their turn.
        guard !self.claims.hasUnserved else { return false }
        let awaitsStorage = self.awaitsStorage
        switch self.goal.settle(awaitsStorage: awaitsStorage, at: now) {
        case .settled: return true
        case .lookAgain: self.schedule.repeatSoon()
        case .wait: break
        }
        return false
    }

    /// Whether a stream can be read now.
    private mutating func hasReadyStream() -> Bool {
        var hanging: [StreamKey] = []
        defer { for stream in hanging { self.tail.readingPostponed(stream) } }
        while let stream = self.tail.nextReady() {
            if self.isForNextRound(stream) { continue }
            if self.isHanging(stream) {
                hanging.append(stream)
                continue
            }
            self.tail.readingPostponed(stream)
            return true
        }
        return false
    }

    /// Whether everything sent is answered.
    private var isAnswered: Bool {
        self.sealsLate ? self.connection.session.isSettledButForSeals : self.connection.session.isSettled
    }

    var standing: AgentStanding {
        var standing = AgentStanding()
        standing.summary = self.tally.summary(
            self.tail.notices, self.tail.successionCounts, wireByteCount: self.room.wireByteCount)
        self.acceptance.describe(&standing)
        standing.isStalled = self.isStalled
        standing.refusals = self.tail.notices.refusals
        standing.formats = self.tail.notices.formats
        standing.kept = self.tail.kept
        standing.disputedStreamCount = self.standings.disputedCount
        standing.inFlightByteCount = self.connection.session.inFlightByteCount
        let now = self.now
        let alone = self.acceptance.alone(at: now.monotonic)
        standing.hanging = self.waits(now.monotonic)
        standing.lookLag = self.schedule.lag(now.monotonic, hasFreshFiles: self.tail.hasFreshFiles)
        for stream in self.tail.streams {
            let position = self.tail.position(of: stream)
            standing.streamCount += 1
            guard position.byteCount > position.acked else { continue }
            standing.pendingByteCount = standing.pendingByteCount.saturatingSum(position.byteCount - position.acked)
            // Half a line may wait for ever.
            let isUnfinished = position.isDrained && position.cursor <= position.acked
            guard !isUnfinished else { continue }
            standing.oldestUnacked = max(
                standing.oldestUnacked, self.standings.lag(of: stream, position, alone: alone, now))
        }
        return standing
    }

    mutating func finish(_ outcome: AgentOutcome) -> AgentOutcome {
        self.checkpoint(self.now)
        self.takeNotices()
        if self.connection.isReady, !self.goal.isParting { self.send(.bye) }
        self.connection.close()
        self.tally.end(
            self.tail.notices, self.tail.successionCounts, wireByteCount: self.room.wireByteCount,
            disputedStreamCount: self.standings.disputedCount, failure: self.acceptance.failure,
            at: self.clock.monotonicTime())
        // A round that needed no receiver has just seen that nothing is left.
        let mayHaveLeft = self.connection.hasBegun
        for stream in self.tail.streams {
            self.tally.leaves(self.tail.position(of: stream), mayHaveLines: mayHaveLeft, on: self.files)
        }
        switch outcome {
        case .drained: return .drained(self.tally.summary)
        case .stopped: return .stopped(self.tally.summary)
        case .unreachable(let reason, _): return .unreachable(reason, self.tally.summary)
        case .failed, .unsecurable, .unmeasurable, .misnamed: return outcome
        }
    }
}
