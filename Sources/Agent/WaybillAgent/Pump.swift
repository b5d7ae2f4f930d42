internal import WaybillProtocol
package import WaybillSystem
package import WaybillTail

/// The agent's one deciding thread: files → batches → connection, and answers → registry.
///
///     inotify, scan ─▶ Tail.nextReady ─▶ OPEN … AT ─▶ Tail.nextBatch ─▶ AgentLink (zlib) ─▶ BATCH ─▶ ACK ─▶ registry
///
/// Life of one line: a hint or a scan finds its file → one large `pread` brings it into a batch buffer with its
/// neighbours → the link compresses it from there, frames it and sends it in order with the messages → the receiver's
/// ACK advances the registry. The pump reads only what the window and the buffers have room for, so memory does not
/// depend on the backlog.
///
/// Budget per batch (256 KiB): one `pread` of it, two small ones, one hop to the link.
///
/// It has no socket and never waits: connections and hints about files come through seams, and its driver calls
/// ``step(_:)`` when something happened or ``restingTime()`` has passed.
package struct Pump<Files: FileSystem, Hints: ChangeHints & ~Copyable>: ~Copyable {
    /// What a step leaves.
    enum Leftover {
        /// More work, which is done at once.
        case work
        /// What waits for a receiver, an answer or a buffer.
        case waiting
        /// Nothing: what can be read was sent.
        case nothing
    }

    var configuration: AgentConfiguration
    let files: Files
    let clock: any SystemClock
    let telemetry: AgentTelemetry

    var tail: Tail<Files>
    var hints: Hints
    var connection: AgentConnection
    var streams = StreamNumbers()
    var room: BatchRoom
    var choice: ReceiverChoice
    var acceptance: Acceptance
    var standings = FileStandings()
    var liveness: Liveness
    var schedule: ScanSchedule
    var goal: RunGoal
    var tally: RunTally
    var claims: SpoolClaims<Files>
    var formatPace = FormatNoticeLimit()
    var leftover = Leftover.waiting

    package init(
        configuration: AgentConfiguration, files: Files, tail: consuming Tail<Files>, hints: consuming Hints,
        buffers: any BatchBuffers, clock: any SystemClock, telemetry: AgentTelemetry, seed: UInt64,
        connect: @escaping LinkOpener
    ) {
        self.configuration = configuration
        self.files = files
        self.tail = tail
        self.hints = hints
        self.clock = clock
        self.telemetry = telemetry
        self.room = BatchRoom(buffers)
        self.claims = SpoolClaims(
            configuration.sources.compactMap(\.spool), countMax: configuration.claimCountMax, on: files)
        let wall = clock.wallTime()
        let now = clock.monotonicTime()
        self.tally = RunTally(countsLines: configuration.run.countsLines, at: TailTime(monotonic: now, wall: wall))
        self.connection = AgentConnection(
            instance: Hexadecimal.text(seed, digitCount: 16), at: now, open: connect)
        self.choice = ReceiverChoice(seed: seed)
        self.liveness = Liveness(at: now)
        self.schedule = ScanSchedule(now)
        self.goal = RunGoal(configuration.run.mode)
        self.acceptance = Acceptance(at: now)
    }

    var now: TailTime {
        TailTime(monotonic: self.clock.monotonicTime(), wall: self.clock.wallTime())
    }

    /// Does the work that is due now.
    ///
    /// - Returns: how the run ended; `nil` while it continues.
    package mutating func step(_ events: [(generation: Int, event: LinkEvent)]) -> AgentOutcome? {
        self.take(events)
        if self.goal.isParting {
            let isParted = self.goal.isParted(isConnected: self.connection.isOpen, at: self.clock.monotonicTime())
            return isParted ? self.finish(.drained(self.tally.summary)) : nil
        }
        self.look()
        if let failure = self.goal.failure { return self.finish(.failed(failure)) }
        if self.needsNoReceiver { return self.finish(.drained(self.tally.summary)) }
        self.renewIfDue()
        self.connectIfDue()
        self.ship()
        self.reportProgress()
        self.keepAlive()
        guard let outcome = self.outcome() else { return nil }
        return self.beginFarewell(outcome) ? nil : self.finish(outcome)
    }

    /// What to wait on in addition to the network; `nil` while hints are gathering, or when there are none.
    var hintFile: FileID? {
        self.schedule.isGathering ? nil : self.hints.file
    }

    /// Whether the pump only waits a few milliseconds for more lines: no event needs to end that sooner.
    var isGathering: Bool {
        self.schedule.isGathering && self.leftover == .nothing && !self.goal.isStopping && !self.goal.isParting
    }

    /// Notes that files changed; the hints are read later, when more may have gathered.
    package mutating func filesChanged() {
        self.schedule.filesChanged(at: self.clock.monotonicTime(), linger: self.configuration.linger)
    }

    // MARK: Files

    /// Takes hints that have lingered, scans when a scan is due, and writes the registry.
    mutating func look() {
        let now = self.now
        self.hints.refreshMounts(now.monotonic)
        self.tellMounts(now.monotonic)
        if self.schedule.takeHints(now.monotonic) {
            self.take(self.hints.read(), now)
            self.goal.foundMore()
        }
        if self.schedule.isDue(.watches, now.monotonic) { self.checkWatches(now) }
        self.passClaims(now)
        if self.schedule.isDue(.everything, now.monotonic) {
            self.scan(now)
        } else if self.tail.hasFreshFiles, self.schedule.isDue(.freshFiles, now.monotonic) {
            self.checkFreshFiles(now)
        }
        while let stream = self.streams.takeDue(now.monotonic) { self.tail.readingPostponed(stream) }
        if self.tail.isCheckpointDue(now) { self.checkpoint(now) }
        self.tellMounts(now.monotonic)
        self.takeNotices()
    }

    mutating func takeNotices() {
        for notice in self.tail.takeNotices() {
            if case .recognized(let path, let format) = notice {
                guard let count = self.formatPace.admit(format, self.clock.monotonicTime()) else { continue }
                self.telemetry.recognized(path, format, untoldCount: count)
            } else {
                self.telemetry.noticed(notice, loss: self.tail.notices.loss)
                if case .unreadable(let path, let error) = notice { self.standings.failed("\(error)", path) }
            }
            self.tally.noticed(notice)
        }
    }

    /// Whether everything left of a stream arrived after the round began.
    ///
    /// False until the receiver's position is known, because the receiver may hold less than the registry says.
    func isForNextRound(_ stream: StreamKey) -> Bool {
        guard self.goal.isBounded, case .open = self.streams.state(of: stream) else { return false }
        let position = self.tail.position(of: stream)
        return self.goal.isForNextRound(stream, from: position.cursor, to: position.byteCount)
    }

    /// Logs every source that is probably misconfigured; each scan looks for it again.
    func checkSources() {
        let found = Set(self.tail.streams.map { self.tail.position(of: $0).source })
        for (index, source) in self.configuration.sources.enumerated() where !self.isHanging(source) {
            switch source.files {
            case .spool(let pattern) where GlobPattern.hasWildcard(pattern):
                if !found.contains(index) { self.telemetry.nothingMatches([pattern]) }
            case .spool(let directory):
                do throws(FileSystemError) {
                    let status = try self.files.status(at: directory)
                    if status?.kind != .directory { self.telemetry.spoolUnusable(directory, isThere: status != nil) }
                } catch {
                    self.telemetry.noticed(.unreadable(path: directory, error))
                }
            case .files(let patterns):
                if !found.contains(index) { self.telemetry.nothingMatches(patterns) }
            }
        }
    }

    mutating func checkpoint(_ now: TailTime) {
        do throws(FileSystemError) {
            try self.tail.checkpoint(now)
        } catch {
            // The receiver knows each stream's position; the registry only saves some work at a start.
            self.telemetry.registryFailed(error)
        }
    }

    // MARK: Batches

    /// The limit that both sides allow.
    var batchByteCountMax: Int {
        min(self.configuration.batchByteCountMax, self.connection.session.limits?.rawByteCountMax ?? .max)
    }

    /// Ships while there are lines and room for them.
    mutating func ship() {
        self.leftover = .waiting
        guard self.connection.isReady, !self.choice.isRenewing(self.clock.monotonicTime()) else { return }
        guard !self.acceptance.isPaused(at: self.clock.monotonicTime()) else { return }
        // Answers are taken in between, so that a long backlog does not delay the registry.
        for _ in 0..<16 {
            guard self.connection.isReady, self.connection.session.admits(rawByteCount: self.batchByteCountMax),
                self.streams.openingCount < StreamNumbers.openingCountMax, let buffer = self.room.next()
            else { return }
            guard let stream = self.tail.nextReady() else {
                if self.streams.openingCount == 0, !self.streams.hasWaiting { self.leftover = .nothing }
                return self.makeRoomForStreams()
            }
            switch self.streams.state(of: stream) {
            case .closed where self.mustWait(stream): continue
            case .closed where self.streams.hasNumber(stream) || self.connection.session.hasRoomForStream:
                self.open(stream)
            case .closed:
                self.streams.wait(stream)
                let byteCount = self.tail.position(of: stream).byteCount
                self.standings.grew(stream, to: byteCount, at: self.clock.monotonicTime())
            case .opening, .refused, .waiting: continue  // It becomes ready again with its position.
            case .open where self.isForNextRound(stream): continue
            case .open(let number): self.shipNext(of: stream, number, buffer)
            }
        }
        self.leftover = .work
    }

    /// Reconnects when streams that never end keep others from being opened; a new connection frees the numbers.
    mutating func makeRoomForStreams() {
        guard self.streams.hasWaiting, self.connection.session.isSettled, self.streams.nextRetry == nil else { return }
        self.disconnect("the receiver grants no more streams on a connection, and others have lines to send", .broken)
    }

    mutating func reportProgress() {
        guard let progress = self.configuration.run.progress else { return }
        self.tally.tell(progress, at: self.clock.monotonicTime()) {
            self.tail.streams.reduce(0) { rest, stream in
                let position = self.tail.position(of: stream)
                return rest + max(0, position.byteCount - position.cursor)
            }
        }
    }

    mutating func open(_ stream: StreamKey) {
        let source = self.configuration.sources[self.tail.position(of: stream).source]
        let format: StreamFormat =
            switch source.files {
            case .spool: .waybill
            case .files: .ndjson
            }
        // Before the id: a file that was rewritten gets another one.
        guard let claim = self.streams.claim(of: stream) ?? self.tail.storedClaim(stream, self.now),
            self.tail.contains(stream)
        else { return }
        let description = StreamDescription(
            id: self.tail.id(of: stream), source: Self.shortened(self.tail.position(of: stream).path),
            environment: source.environment,
            bundle: source.bundle, format: format, timeMember: source.timeMember, nameMember: source.nameMember,
            userMember: source.userMember, anonymousMember: source.anonymousMember)
        let number = self.streams.open(stream)
        self.perform(self.connection.session.open(number, description, claim))
    }

    /// The end of a path, short enough for a message with every character escaped.
    static func shortened(_ path: String) -> String {
        path.utf16.count <= 256 ? path : "…" + (String(path.utf16.suffix(255)) ?? "")
    }

    mutating func shipNext(of stream: StreamKey, _ number: StreamNumber, _ buffer: BatchBuffer) {
        let read = self.tail.nextBatch(
            for: stream, byteCountMax: self.batchByteCountMax, into: buffer.bytes, self.now)
        switch read {
        case .batch(let offset, let rawByteCount, let lineCount, _):
            let header = BatchHeader(
                stream: number, offset: StreamOffset(UInt64(offset)), rawByteCount: rawByteCount,
                lineCount: lineCount, wireByteCount: 0, checksum: 0)
            self.shipBatch(of: stream, header, buffer)
        case .skip(let range):
            self.tally.skipped(range)
            self.perform(self.connection.session.skip(number, range))
        case .sealed(let length):
            self.perform(self.connection.session.seal(number, length: StreamOffset(UInt64(length))))
        case .unpositioned, .nothing:
            break
        }
    }

    mutating func shipBatch(of stream: StreamKey, _ header: BatchHeader, _ buffer: BatchBuffer) {
        self.room.sent()
        let now = self.clock.monotonicTime()
        self.connection.send(RawBatch(id: self.tail.id(of: stream), header: header, buffer: buffer))
        let isAlone = self.connection.session.inFlightByteCount <= header.rawByteCount
        self.liveness.sentBatch(isAlone: isAlone, at: now)
        self.standings.grew(stream, to: self.tail.position(of: stream).byteCount, at: now)
        self.tally.sent(stream, header, streamCount: self.tail.shippedStreamCount)
    }

    /// Grows with everything that takes memory only for a while: files found, streams opened.
    package var turnoverCount: Int { self.tail.fileCount + self.streams.openedCount }

    /// Whether nothing is on its way: no answer, and no change of the registry.
    package var isAtRest: Bool {
        self.leftover != .work && !self.connection.isInFlight && self.streams.openingCount == 0
            && !self.tail.hasUnwrittenChanges
    }

    /// How long to wait for the network or a file before the next step.
    package func restingTime() -> Duration {
        if self.leftover == .work { return .zero }
        let now = self.clock.monotonicTime()
        let end = self.goal.nextLook(unreadySince: self.acceptance.unreadySince)
        if self.goal.isParting, let end { return max(.zero, end - now) }
        var wake = self.schedule.next(
            now, hasFreshFiles: self.tail.hasFreshFiles, hasWaitingSpools: !self.claims.waiting.isEmpty)
        if let retry = self.streams.nextRetry { wake = min(wake, retry) }
        if let end { wake = min(wake, end) }
        if let pauseEnd = self.acceptance.pausedUntil { wake = min(wake, pauseEnd) }
        if let renewal = self.choice.nextRenewal(now) { wake = min(wake, renewal) }
        if self.tail.hasUnwrittenChanges { wake = min(wake, now + self.configuration.tailLimits.checkpointInterval) }
        switch self.connection.phase {
        case .disconnected(let retryAt): wake = min(wake, retryAt)
        case .connecting, .ready: wake = min(wake, self.liveness.nextStep(isInFlight: self.connection.isInFlight))
        }
        return max(.zero, wake - now)
    }
}
