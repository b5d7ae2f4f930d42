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
    private enum Phase: Equatable {
        case disconnected(retryAt: MonotonicTime)
        case connecting
        case ready
    }

    private let configuration: AgentConfiguration
    private let files: Files
    private let connect: Connect
    private let clock: any SystemClock
    private let telemetry: AgentTelemetry
    private let instance: String

    private var tail: Tail<Files>
    private var hints: Hints
    private var session = SenderSession()
    private var streams = StreamNumbers()
    private let buffers: any BatchBuffers
    /// A buffer that was taken and does not hold a batch yet.
    private var buffer: BatchBuffer?
    private var received: [UInt8] = []

    private var link: (any AgentLink)?
    private var generation = 0
    private var phase: Phase
    private var backoff: Backoff
    private var receiverIndex = 0
    /// The limit that both sides allow.
    private var batchByteCountMax: Int
    /// The name of the receiver that last accepted this agent.
    private var receiver: String?
    /// The last failure since a receiver accepted this agent.
    private var lastFailure: String?
    private var lastReceived: MonotonicTime
    private var lastSent: MonotonicTime
    private var pausedUntil: MonotonicTime?
    private var lingerUntil: MonotonicTime?
    private var nextScan: MonotonicTime
    private var scanTook = Duration.zero
    private var retries: [(at: MonotonicTime, stream: StreamKey)] = []
    private var stopDeadline: MonotonicTime?
    private let started: MonotonicTime
    /// Since when no receiver has accepted this agent; `nil` while one has.
    private var unreadySince: MonotonicTime?
    private var summary = AgentSummary()
    private var lines: LineLedger
    private var claims: SpoolClaims<Files>
    /// How long each stream was when the round began; `nil` when the run has no such bound.
    private var roundEnds: [StreamKey: Int]?
    /// Whether the scan requested when everything seemed settled has found nothing more.
    private var hasSettledScan = false
    private var isSettlingScanAsked = false
    private var lastScan: MonotonicTime
    private var hasCheckedSources = false
    private var isPolling = false
    private var lastProgress: MonotonicTime
    /// When a receiver last acknowledged something.
    private var lastAdvance: MonotonicTime
    /// The error that ends the run.
    private var failure: FileSystemError?
    /// Whether the last step left more work to do at once.
    private var hasMore = false
    /// Whether the last step left nothing that waits for an answer or a buffer.
    private var hasShippedAll = false
    private var openingCount = 0

    /// Begins a connection in the background; its events come back as ``LinkEvent`` with `generation`.
    package typealias Connect = (_ address: NetworkAddress, _ generation: Int) -> any AgentLink

    package init(
        configuration: AgentConfiguration, files: Files, tail: consuming Tail<Files>, hints: consuming Hints,
        buffers: any BatchBuffers, clock: any SystemClock, telemetry: AgentTelemetry, seed: UInt64,
        connect: @escaping Connect
    ) {
        self.configuration = configuration
        self.files = files
        self.tail = tail
        self.hints = hints
        self.connect = connect
        self.clock = clock
        self.telemetry = telemetry
        self.instance = Hexadecimal.text(seed, digitCount: 16)
        self.batchByteCountMax = configuration.batchByteCountMax
        self.buffers = buffers
        self.lines = LineLedger(isKept: configuration.countsLines)
        self.claims = SpoolClaims(configuration.sources.compactMap(\.spool), on: files)
        let now = clock.monotonicTime()
        self.phase = .disconnected(retryAt: now)
        self.backoff = Backoff(from: .milliseconds(500), to: .seconds(60), SeededGenerator(seed: seed))
        self.lastReceived = now
        self.lastSent = now
        self.lastProgress = now
        self.lastAdvance = now
        self.nextScan = now
        self.lastScan = now
        self.started = now
        self.unreadySince = now
    }

    private var now: TailTime {
        TailTime(monotonic: self.clock.monotonicTime(), wall: self.clock.wallTime())
    }

    /// Does the work that is due now.
    ///
    /// - Returns: how the run ended; `nil` while it continues.
    package mutating func step(_ events: [(generation: Int, event: LinkEvent)]) -> AgentOutcome? {
        self.take(events)
        self.look()
        if let failure { return self.finish(.failed(failure)) }
        if self.needsNoReceiver { return self.finish(.drained(self.summary)) }
        self.connectIfDue()
        self.ship()
        self.reportProgress()
        self.keepAlive()
        return self.outcome().map { self.finish($0) }
    }

    /// What to wait on in addition to the network; `nil` while hints are gathering, or when there are none.
    var hintFile: FileID? {
        self.lingerUntil == nil ? self.hints.file : nil
    }

    /// Whether the pump only waits a few milliseconds for more lines: no event needs to end that sooner.
    var isGathering: Bool { self.lingerUntil != nil && self.hasShippedAll && self.stopDeadline == nil }

    /// Notes that files changed; the hints are read later, when more may have gathered.
    package mutating func filesChanged() {
        self.lingerUntil = self.lingerUntil ?? self.clock.monotonicTime() + self.configuration.linger
    }

    // MARK: Files

    /// Takes hints that have lingered, scans when a scan is due, and writes the registry.
    private mutating func look() {
        let now = self.now
        if let lingerUntil, lingerUntil <= now.monotonic {
            self.lingerUntil = nil
            switch self.hints.read() {
            case .paths(let paths): self.tail.pathsChanged(paths, now)
            case .everything: self.nextScan = now.monotonic
            case nil: break
            }
            self.hasSettledScan = false
        }
        if self.nextScan <= now.monotonic { self.scan(now) }
        while let retry = self.retries.first, retry.at <= now.monotonic {
            self.retries.removeFirst()
            self.streams.retry(retry.stream)
            self.tail.readingPostponed(retry.stream)
        }
        if self.tail.isCheckpointDue(now) { self.checkpoint(now) }
        for notice in self.tail.takeNotices() { self.telemetry.noticed(notice) }
    }

    private mutating func scan(_ now: TailTime) {
        do throws(FileSystemError) {
            try self.claims.claim()
        } catch {
            self.failure = error
            return
        }
        self.tail.scan(now)
        self.lastScan = now.monotonic
        self.hasSettledScan = self.isSettlingScanAsked
        self.isSettlingScanAsked = false
        if !self.hasCheckedSources {
            self.hasCheckedSources = true
            self.checkSources()
            self.noteRoundEnds()
        }
        self.hints.watch(self.tail.watchDirectories)
        self.reportPolling()
        let end = self.clock.monotonicTime()
        self.scanTook = end - now.monotonic
        // With hints a scan is only a safety net and may cost 0.5% of a core; without them 5%.
        let factor = self.hints.isComplete ? 200 : 20
        let shortest: Duration = self.hints.isComplete ? .seconds(5) : .milliseconds(500)
        self.nextScan = end + min(.seconds(300), max(shortest, self.scanTook * factor))
    }

    private mutating func noteRoundEnds() {
        guard case .round(.whatWasThere, _) = self.configuration.mode else { return }
        var ends: [StreamKey: Int] = [:]
        for stream in self.tail.streams { ends[stream] = self.tail.position(of: stream).byteCount }
        self.roundEnds = ends
    }

    /// Whether everything left of a stream arrived after the round began.
    ///
    /// False until the receiver's position is known, because the receiver may hold less than the registry says.
    private func isForNextRound(_ stream: StreamKey) -> Bool {
        guard let roundEnds, case .open = self.streams.state(of: stream) else { return false }
        let position = self.tail.position(of: stream)
        return position.cursor < position.byteCount && position.cursor >= roundEnds[stream, default: 0]
    }

    /// Logs once, each time it begins, that files are found by scanning alone.
    private mutating func reportPolling() {
        let isPolling = !self.hints.isComplete
        if isPolling, !self.isPolling {
            let all = self.tail.watchDirectories.count
            self.telemetry.polls(unwatchedCount: self.hints.file == nil ? all : self.hints.unwatchedCount)
        }
        self.isPolling = isPolling
    }

    /// Logs every source that is probably misconfigured; each scan looks for it again.
    private func checkSources() {
        let found = Set(self.tail.streams.map { self.tail.position(of: $0).source })
        for (index, source) in self.configuration.sources.enumerated() {
            switch source.files {
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

    private mutating func checkpoint(_ now: TailTime) {
        do throws(FileSystemError) {
            try self.tail.checkpoint(now)
        } catch {
            // The receiver knows each stream's position; the registry only saves some work at a start.
            self.telemetry.registryFailed(error)
        }
    }

    // MARK: Connection

    /// Whether a round has scanned and found nothing to send: it ends without a connection.
    private var needsNoReceiver: Bool {
        guard case .round = self.configuration.mode, self.generation == 0 else { return false }
        return !self.tail.needsReceiver
    }

    private mutating func connectIfDue() {
        guard case .disconnected(let retryAt) = self.phase, retryAt <= self.clock.monotonicTime() else { return }
        let address = self.configuration.receivers[self.receiverIndex % self.configuration.receivers.count]
        self.receiverIndex += 1
        self.generation += 1
        self.session = SenderSession()
        self.received.removeAll()
        self.phase = .connecting
        self.lastReceived = self.clock.monotonicTime()
        self.link = self.connect(address, self.generation)
    }

    private mutating func take(_ events: [(generation: Int, event: LinkEvent)]) {
        var mayRead = false
        for (generation, event) in events {
            if case .stop = event {
                self.stopDeadline = self.clock.monotonicTime() + self.configuration.drainPatience
                self.nextScan = self.clock.monotonicTime()
                continue
            }
            if case .measure(let reply) = event {
                reply(self.standing)
                continue
            }
            guard generation == self.generation else { continue }
            switch event {
            case .connected:
                mayRead = true
                let hello = Hello(
                    versions: LineProtocol.versions, agent: self.configuration.name.description,
                    instance: self.instance, token: self.configuration.token?.revealed, encodings: ["zlib"])
                self.perform(self.session.start(hello))
            case .received(let bytes):
                self.lastReceived = self.clock.monotonicTime()
                self.received.append(contentsOf: bytes)
                self.takeMessages()
                mayRead = true
            case .closed(let reason):
                self.disconnect(reason)
            case .stop, .measure, .bufferFreed:
                break
            }
        }
        if mayRead { self.link?.read() }
    }

    private mutating func takeMessages() {
        let bytes = self.received
        var consumed = 0
        do throws(WireError) {
            while self.link != nil,
                let (message, byteCount) = try bytes.withBytes({ (buffer) throws(WireError) in
                    try Message.decode(prefixOf: UnsafeRawBufferPointer(rebasing: buffer[consumed...]))
                })
            {
                consumed += byteCount
                if let action = self.session.receive(message) { self.perform(action) }
            }
        } catch {
            return self.disconnect("the receiver sent an invalid message: \(error.text)")
        }
        if self.link != nil { self.received.removeFirst(consumed) }
    }

    /// The longest line a client library may write: with a lower limit, every longer line would be skipped.
    private static var grantedLineByteCountMin: Int { 32 << 10 }

    private mutating func perform(_ action: SenderSession.Action) {
        switch action {
        case .send(let message):
            self.send(message)
        case .start(let ready):
            guard ready.limits.lineByteCountMax >= Self.grantedLineByteCountMin,
                ready.limits.rawByteCountMax >= ready.limits.lineByteCountMax
            else { return self.disconnect("the receiver's limits are too low for an event's line") }
            self.phase = .ready
            self.unreadySince = nil
            self.lastFailure = nil
            self.batchByteCountMax = min(self.configuration.batchByteCountMax, ready.limits.rawByteCountMax)
            self.tail.lowerLineLimit(to: ready.limits.lineByteCountMax)
            self.hasSettledScan = false
            self.summary.connectionCount += 1
            self.telemetry.connected(receiver: ready.receiver)
            if let receiver = self.receiver, receiver != ready.receiver { self.tail.receiverChanged() }
            self.receiver = ready.receiver
        case .seek(let number, let offset):
            guard let stream = self.streams.positioned(number) else { return }
            self.lines.resumed(stream, at: Int(offset.rawValue))
            self.tail.positionLearned(stream, at: Int(offset.rawValue))
        case .advance(let number, let offset):
            guard let stream = self.streams.stream(number) else { return }
            self.streams.succeeded(stream)
            self.backoff.succeed()
            self.lastAdvance = self.clock.monotonicTime()
            self.acked(stream, upTo: Int(offset.rawValue))
        case .finish(let number):
            guard let stream = self.streams.remove(number) else { return }
            self.backoff.succeed()
            self.summary.sealedStreamCount += 1
            self.tail.sealedByReceiver(stream)
            if let waiting = self.streams.nextWaiting() { self.tail.readingPostponed(waiting) }
        case .reopen(let number, let code, let text):
            self.reopen(number, code, text)
        case .pause(let milliseconds):
            self.pausedUntil = self.clock.monotonicTime() + .milliseconds(Int(min(milliseconds, 600_000)))
        case .move(let receivers):
            self.telemetry.moved(receivers)
            self.disconnect("the receiver redirected this agent")
        case .close(let failure):
            self.disconnect(failure.text)
        }
    }

    private mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard self.tail.contains(stream) else { return }
        let before = self.tail.position(of: stream).acked
        self.tail.acked(stream, upTo: offset)
        self.lines.acked(stream, upTo: offset)
        self.summary.ackedByteCount += self.tail.position(of: stream).acked - before
    }

    /// Opens a refused stream again: at once the first time, then with growing delays until it succeeds.
    private mutating func reopen(_ number: StreamNumber, _ code: ErrorCode, _ text: String) {
        guard let stream = self.streams.refused(number), self.tail.contains(stream) else { return }
        let attempt = self.streams.failed(stream)
        self.lastFailure = text
        self.telemetry.streamRefused(self.tail.id(of: stream).description, code, text, attempt: attempt)
        let delay: Duration = attempt == 1 && code != .inUse ? .zero : .seconds(min(60, 5 << min(attempt, 4)))
        self.retries.append((at: self.clock.monotonicTime() + delay, stream: stream))
        self.retries.sort { $0.at < $1.at }
    }

    private mutating func disconnect(_ reason: String) {
        guard self.link != nil else { return }
        self.telemetry.disconnected(reason: reason)
        self.lastFailure = reason
        self.link?.close()
        self.link = nil
        self.generation += 1
        self.unreadySince = self.unreadySince ?? self.clock.monotonicTime()
        self.session = SenderSession()
        self.received.removeAll()
        self.streams.removeAll()
        self.retries.removeAll()
        self.pausedUntil = nil
        self.phase = .disconnected(retryAt: self.clock.monotonicTime() + self.backoff.fail())
        self.tail.connectionLost()
    }

    private mutating func send(_ message: Message) {
        self.lastSent = self.clock.monotonicTime()
        self.link?.send(message)
    }

    /// How long the receiver keeps a silent connection; capped at a day, which fits into every clock.
    private var idleLimit: Duration? {
        self.session.limits.map { .milliseconds(min($0.idleMilliseconds, 86_400_000)) }
    }

    private mutating func keepAlive() {
        let now = self.clock.monotonicTime()
        let idle = self.idleLimit ?? .seconds(20)
        switch self.phase {
        case .disconnected:
            return
        case .connecting:
            if now - self.lastReceived > idle { self.disconnect("the receiver does not answer") }
        case .ready:
            if now - self.lastReceived > idle {
                self.disconnect("the receiver has sent nothing for \(idle)")
            } else if now - self.lastSent > idle / 3 {
                self.send(.ping(UInt64(self.generation)))
            }
        }
    }

    // MARK: Batches

    /// Ships while there are lines and room for them.
    private mutating func ship() {
        self.hasMore = false
        self.hasShippedAll = false
        guard self.phase == .ready else { return }
        if let pausedUntil {
            guard pausedUntil <= self.clock.monotonicTime() else { return }
            self.pausedUntil = nil
        }
        // Answers are taken in between, so that a long backlog does not delay the registry.
        for _ in 0..<16 {
            guard self.phase == .ready, self.session.admits(rawByteCount: self.batchByteCountMax),
                self.streams.openingCount < StreamNumbers.openingCountMax, self.hasBuffer
            else { return }
            guard let stream = self.tail.nextReady() else {
                self.hasShippedAll = self.streams.openingCount == 0 && !self.streams.hasWaiting
                return self.makeRoomForStreams()
            }
            switch self.streams.state(of: stream) {
            case .closed where self.session.hasRoomForStream || self.streams.hasNumber(stream): self.open(stream)
            case .closed: self.streams.wait(stream)
            case .opening, .refused, .waiting: continue  // It becomes ready again with its position.
            case .open where self.isForNextRound(stream): continue
            case .open(let number): self.shipNext(of: stream, number)
            }
        }
        self.hasMore = true
    }

    /// Whether a batch can be read; if not, an event comes when it can.
    private var hasBuffer: Bool {
        mutating get {
            if self.buffer == nil { self.buffer = self.buffers.take() }
            return self.buffer != nil
        }
    }

    /// Reconnects when streams that never end keep others from being opened; a new connection frees the numbers.
    private mutating func makeRoomForStreams() {
        guard self.streams.hasWaiting, self.session.isSettled, self.retries.isEmpty else { return }
        self.disconnect("the receiver grants no more streams on a connection, and others have lines to send")
    }

    private mutating func reportProgress() {
        guard let progress = self.configuration.progress else { return }
        let now = self.clock.monotonicTime()
        guard now - self.lastProgress > .milliseconds(250) else { return }
        self.lastProgress = now
        var rest = 0
        for stream in self.tail.streams {
            let position = self.tail.position(of: stream)
            rest += max(0, position.byteCount - position.cursor)
        }
        progress(self.summary.rawByteCount, self.summary.rawByteCount + rest)
    }

    private mutating func open(_ stream: StreamKey) {
        let source = self.configuration.sources[self.tail.position(of: stream).source]
        let format: StreamFormat =
            switch source.files {
            case .spool: .waybill
            case .files: .ndjson
            }
        let description = StreamDescription(
            id: self.tail.id(of: stream), source: Self.shortened(self.tail.position(of: stream).path),
            environment: source.environment,
            bundle: source.bundle, format: format, timeMember: source.timeMember, nameMember: source.nameMember)
        let number = self.streams.open(stream)
        self.openingCount += 1
        self.perform(self.session.open(number, description))
    }

    /// The end of a path, short enough for a message with every character escaped.
    private static func shortened(_ path: String) -> String {
        path.utf16.count <= 256 ? path : "…" + (String(path.utf16.suffix(255)) ?? "")
    }

    private mutating func shipNext(of stream: StreamKey, _ number: StreamNumber) {
        guard let buffer = self.buffer else { return }
        let read = self.tail.nextBatch(
            for: stream, byteCountMax: self.batchByteCountMax, into: buffer.bytes, self.now)
        switch read {
        case .batch(let offset, let rawByteCount, let lineCount, _):
            let header = BatchHeader(
                stream: number, offset: StreamOffset(UInt64(offset)), rawByteCount: rawByteCount,
                lineCount: lineCount, wireByteCount: 0, checksum: 0)
            self.shipBatch(of: stream, header, buffer)
        case .skip(let offset, let length, let reason):
            self.summary.skippedByteCount += length
            self.perform(
                self.session.skip(number, at: StreamOffset(UInt64(offset)), byteCount: UInt64(length), reason))
        case .sealed(let length):
            self.perform(self.session.seal(number, length: StreamOffset(UInt64(length))))
        case .unpositioned, .nothing:
            break
        }
    }

    private mutating func shipBatch(of stream: StreamKey, _ header: BatchHeader, _ buffer: BatchBuffer) {
        self.buffer = nil
        self.session.batchSent(header)
        self.lastSent = self.clock.monotonicTime()
        self.link?.send(RawBatch(id: self.tail.id(of: stream), header: header, buffer: buffer))
        self.summary.streamCount = self.tail.shippedStreamCount
        self.lines.sent(
            stream, from: Int(header.offset.rawValue), byteCount: header.rawByteCount, lineCount: header.lineCount)
        self.summary.rawByteCount += header.rawByteCount
        self.summary.lineCount += header.lineCount
        self.summary.batchCount += 1
    }

    // MARK: The end

    private mutating func outcome() -> AgentOutcome? {
        let now = self.clock.monotonicTime()
        if let stopDeadline {
            if self.isSettled(now) { return .drained(self.summary) }
            if stopDeadline <= now || self.phase != .ready { return .stopped(self.summary) }
            return nil
        }
        guard let patience = self.configuration.mode.patience else { return nil }
        if self.isSettled(now) { return .drained(self.summary) }
        let isRefused = !self.retries.isEmpty && self.session.isSettled && now - self.lastAdvance > patience
        let isUnready = self.unreadySince.map { now - $0 > patience } ?? false
        return isRefused || isUnready ? .unreachable(self.lastFailure ?? Self.silence, self.summary) : nil
    }

    /// The failure to report when not even an attempt has failed.
    private static var silence: String { "no receiver answered" }

    /// Whether nothing is left to ship, a scan has looked for more, and everything sent is acknowledged.
    ///
    /// Called by runs that end on their own: it requests one more scan.
    private mutating func isSettled(_ now: MonotonicTime) -> Bool {
        guard self.phase == .ready, self.session.isSettled, self.retries.isEmpty, !self.streams.hasWaiting else {
            return false
        }
        while let stream = self.tail.nextReady() {
            if self.isForNextRound(stream) { continue }
            self.tail.readingPostponed(stream)
            self.hasSettledScan = false
            return false
        }
        if self.hasSettledScan { return true }
        if !self.isSettlingScanAsked {
            self.isSettlingScanAsked = true
            // What cannot be read now is tried again with each scan.
            self.nextScan = min(self.nextScan, self.lastScan + .milliseconds(20))
        }
        return false
    }

    private var standing: AgentStanding {
        var standing = AgentStanding()
        standing.summary = self.summary
        standing.summary.wireByteCount = self.buffers.wireByteCount
        standing.summary.lostByteCount = self.tail.loss.byteCount
        standing.isConnected = self.phase == .ready
        standing.refusals = self.tail.refusals
        standing.inFlightByteCount = self.session.inFlightByteCount
        for stream in self.tail.streams {
            let position = self.tail.position(of: stream)
            standing.streamCount += 1
            standing.pendingByteCount += max(0, position.byteCount - position.acked)
        }
        return standing
    }

    private mutating func finish(_ outcome: AgentOutcome) -> AgentOutcome {
        self.checkpoint(self.now)
        for notice in self.tail.takeNotices() { self.telemetry.noticed(notice) }
        if self.phase == .ready { self.send(.bye) }
        self.link?.close()
        self.summary.lostByteCount = self.tail.loss.byteCount
        self.summary.wireByteCount = self.buffers.wireByteCount
        self.summary.duration = self.clock.monotonicTime() - self.started
        self.summary.lastFailure = self.lastFailure ?? (self.phase == .ready ? nil : Self.silence)
        // A round that needed no receiver has just seen that nothing is left.
        let mayHaveLeft = self.generation > 0
        for stream in self.tail.streams {
            let position = self.tail.position(of: stream)
            self.summary.heldByteCount += max(0, position.byteCount - position.cursor)
            if self.configuration.countsLines, mayHaveLeft {
                self.summary.remainingLineCount += LineLedger.lineCount(
                    of: position.path, from: position.acked, on: self.files)
            }
        }
        self.summary.ackedLineCount = self.lines.ackedCount
        switch outcome {
        case .drained: return .drained(self.summary)
        case .stopped: return .stopped(self.summary)
        case .unreachable(let reason, _): return .unreachable(reason, self.summary)
        case .failed, .unsecurable, .unmeasurable: return outcome
        }
    }

    /// Grows with everything that takes memory only for a while: files found, streams opened.
    package var turnoverCount: Int { self.tail.fileCount + self.openingCount }

    /// How long to wait for the network or a file before the next step.
    package func restingTime() -> Duration {
        if self.hasMore { return .zero }
        let now = self.clock.monotonicTime()
        var wake = self.nextScan
        if let lingerUntil { wake = min(wake, lingerUntil) }
        if let retry = self.retries.first { wake = min(wake, retry.at) }
        if let stopDeadline { wake = min(wake, stopDeadline) }
        if let pausedUntil { wake = min(wake, pausedUntil) }
        if let patience = self.configuration.mode.patience, let unreadySince {
            wake = min(wake, unreadySince + patience)
        }
        if self.tail.hasUnwrittenChanges { wake = min(wake, now + self.configuration.tailLimits.checkpointInterval) }
        switch self.phase {
        case .disconnected(let retryAt): wake = min(wake, retryAt)
        case .connecting: wake = min(wake, self.lastReceived + .seconds(20))
        case .ready:
            let idle = self.idleLimit ?? .seconds(90)
            wake = min(wake, self.lastSent + idle / 3)
        }
        return max(.zero, wake - now)
    }
}
