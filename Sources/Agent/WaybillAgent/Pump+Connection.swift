internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The connection: who answers, what its answers mean for files, and when to try again.
extension Pump where Hints: ~Copyable {
    /// Whether a round has scanned and found nothing to send: it ends without a connection.
    var needsNoReceiver: Bool {
        guard self.goal.needsNoReceiver, !self.connection.hasBegun else { return false }
        return !self.tail.needsReceiver && !self.tail.isDeciding(self.clock.monotonicTime())
            && !self.claims.hasUnserved
    }

    mutating func connectIfDue() {
        let now = self.clock.monotonicTime()
        guard self.connection.isDue(at: now) else { return }
        switch self.choice.next(of: self.receiversInOrder, now) {
        case .wait(let time): self.connection.postpone(until: time)
        case .connect(let address):
            self.liveness.reset(at: now)
            self.connection.begin(to: address)
        }
    }

    mutating func take(_ events: [(generation: Int, event: LinkEvent)]) {
        var mayRead = false
        for (generation, event) in events {
            if case .stop = event {
                self.goal.stop(by: self.clock.monotonicTime() + self.configuration.drainPatience)
                self.schedule.hurry(self.clock.monotonicTime())
                continue
            }
            if case .asked(let question) = event {
                self.answer(question)
                continue
            }
            guard generation == self.connection.generation else { continue }
            switch event {
            case .connected:
                mayRead = true
                self.greet()
            case .received(let bytes):
                self.liveness.heard(at: self.clock.monotonicTime())
                self.connection.received(bytes)
                self.takeMessages()
                mayRead = true
            case .peer(let peer): self.weigh(peer)
            case .closed(let reason): self.disconnect(reason, .broken)
            case .stop, .asked, .bufferFreed:
                break
            }
        }
        if mayRead { self.connection.read() }
    }

    private mutating func greet() {
        do throws(TokenFile.Failure) {
            let token = try self.configuration.presentToken(on: self.files)?.revealed
            self.perform(self.connection.greet(self.configuration, token: token, at: self.clock.wallTime()))
        } catch {
            self.disconnect("\(error)", .refused)
        }
    }

    mutating func takeMessages() {
        do throws(WireError) {
            while let action = try self.connection.nextAction() { self.perform(action) }
        } catch {
            guard let said = self.connection.strangersWords else {
                return self.disconnect("the receiver sent an invalid message: \(error.text)", .refused)
            }
            return self.disconnect(
                "\(self.choice.address) is not a Waybill receiver: it said \"\(said)\"; correct the address", .refused)
        }
        guard self.connection.isOpen else { return }
        if let number = self.liveness.takePing() { self.send(.pong(number)) }
    }

    /// The longest line a client library may write: with a lower limit, every longer line would be skipped.
    static var grantedLineByteCountMin: Int { 32 << 10 }

    mutating func perform(_ action: SenderSession.Action) {
        switch action {
        case .send(.pong(let number)): self.liveness.heardPing(number)
        case .send(let message): self.send(message)
        case .start(let ready): self.start(ready)
        case .seek(let number, let offset, let proof, let end): self.seek(number, offset, proof, end: end)
        case .advance(let number, let offset, let end):
            self.tail.answered(end: end)
            guard let stream = self.streams.stream(number) else { return }
            self.streams.succeeded(stream)
            self.choice.succeeded()
            self.liveness.acknowledged(at: self.clock.monotonicTime())
            self.acked(stream, upTo: Int(offset.rawValue))
        case .finish(let number, let proof, let end): self.finish(number, proof, end: end)
        case .stored(let number, let offset):
            guard let stream = self.streams.stream(number) else { return }
            self.liveness.acknowledged(at: self.clock.monotonicTime())
            self.tally.stored(byteCount: self.tail.stored(stream, upTo: Int(offset.rawValue)))
        case .note(let counts):
            self.telemetry.quarantined(counts.filter { $0.export == nil })
            self.telemetry.refusedEvents(counts.filter { $0.export != nil })
            self.tally.setAside(counts)
        case .reopen(let number, let offset, let code, let text): self.reopen(number, offset, code, text)
        case .pause(let milliseconds):
            self.acceptance.pause(milliseconds: milliseconds, at: self.clock.monotonicTime())
        case .move(let receivers):
            self.telemetry.moved(receivers)
            self.turnAway()
            self.disconnect("the receiver redirected this agent", .refused)
        case .close(let failure):
            if failure == .receiverLeft { self.turnAway() }
            self.disconnect(failure.text, failure.cause)
        }
    }

    private mutating func start(_ ready: Ready) {
        guard ready.limits.lineByteCountMax >= Self.grantedLineByteCountMin,
            ready.limits.rawByteCountMax >= ready.limits.lineByteCountMax
        else { return self.disconnect("the receiver's limits are too low for an event's line", .refused) }
        let now = self.now
        let address = self.choice.address
        let isUnmet = self.tail.recognizes(ready.receiver, at: address) != .known
        if isUnmet, !self.choice.admitsUnfamiliar(at: now.monotonic) {
            return self.disconnect("another unknown receiver answers at \(address) within a minute", .refused)
        }
        let knewFleet = self.tail.fleet != nil
        var meeting: ReceiverMeeting?
        do throws(FileSystemError) {
            let fleet = self.acceptance.believedFleet(of: ready, at: address, self.configuration)
            if self.acceptance.isFleetDoubted, let claimed = ready.fleet {
                self.telemetry.fleetDoubted(claimed, of: ready.receiver, at: address)
            }
            let met = try self.tail.receiverMet(ready.receiver, at: address, of: fleet, now)
            self.telemetry.connected(receiver: ready.receiver, at: address, met)
            meeting = met
        } catch {
            // What could not be written is still on the disk as it was: the same is found with the next connection.
            self.telemetry.registryFailed(error)
        }
        self.acceptance.accepted(ready, at: address, now.wall)
        self.connection.accepted()
        if self.tail.isInFleet {
            self.choice.settle(
                among: self.receiversInOrder, age: self.configuration.connectionAgeMax, isNew: isUnmet && !knewFleet,
                at: now.monotonic)
        }
        self.liveness.becameReady(idle: Self.idle(of: ready))
        self.choice.accepted(at: now.monotonic)
        self.tail.lowerLineLimits(to: ready.limits)
        self.goal.foundMore()
        self.tally.connected(meeting)
    }

    private mutating func seek(
        _ number: StreamNumber, _ offset: StreamOffset, _ proof: StreamProof, end: UInt64
    ) {
        self.tail.answered(end: end)
        guard let stream = self.streams.stream(number) else { return }
        _ = self.streams.takeClaim(of: stream)
        let outcome = self.tail.positionLearned(stream, at: Int(offset.rawValue), proof)
        switch outcome {
        case .goOn, .done:
            _ = self.streams.positioned(number)
            self.agreed(stream)
            self.tally.resumed(stream, at: offset)
        case .openAgain, .postponed, .disputed, .shortened: self.leave(number, stream, after: outcome)
        }
    }

    private mutating func agreed(_ stream: StreamKey) {
        guard self.tail.contains(stream) else { return self.standings.settled(stream) }
        // It may be sealed here, without what another receiver has.
        guard self.tail.awaitedHolder(of: stream) == nil else { return }
        self.standings.agreed(stream, self.tail.position(of: stream))
    }

    private mutating func leave(_ number: StreamNumber, _ stream: StreamKey, after outcome: AnswerOutcome) {
        self.leave(number)
        switch outcome {
        case .goOn, .done, .openAgain, .postponed: break
        case .disputed: self.dispute(stream)
        case .shortened: self.askLater(stream)
        }
    }

    private mutating func finish(_ number: StreamNumber, _ proof: StreamProof, end: UInt64) {
        self.tail.answered(end: end)
        guard let stream = self.streams.remove(number) else { return }
        self.standings.sealed(stream)
        let unstored = self.tail.unstoredByteCount(of: stream)
        switch self.tail.sealedByReceiver(stream, proof) {
        case .goOn, .done:
            self.choice.succeeded()
            self.standings.settled(stream)
            self.tally.sealed(unstoredByteCount: unstored)
        case .openAgain, .postponed: self.tail.readingPostponed(stream)
        case .disputed: self.dispute(stream)
        case .shortened: self.askLater(stream)
        }
        if let waiting = self.streams.nextWaiting() { self.tail.readingPostponed(waiting) }
    }

    /// Gives up a number, and lets its file be opened again under another one.
    private mutating func leave(_ number: StreamNumber) {
        self.connection.session.leave(number)
        if let stream = self.streams.remove(number) { self.tail.readingPostponed(stream) }
    }

    private mutating func dispute(_ stream: StreamKey) {
        guard self.tail.contains(stream) else { return }
        self.tail.disputed(stream, self.now)
        guard !self.reship(stream) else { return self.standings.settled(stream) }
        self.askLater(stream)
    }

    private mutating func askLater(_ stream: StreamKey) {
        guard let receiver = self.acceptance.receiver, self.tail.contains(stream) else { return }
        let now = self.clock.monotonicTime()
        self.acceptance.failed(
            self.tail.awaitedHolder(of: stream).map { "a segment waits for \($0)" }
                ?? "the receiver holds other bytes of a file")
        self.streams.hold(stream, until: self.standings.disputed(stream, by: receiver, at: now))
    }

    /// Whether this agent may ship a disputed segment under another id by itself.
    private func mayReship(_ stream: StreamKey) -> Bool {
        guard self.tail.awaitedHolder(of: stream) == nil else { return self.tail.isOverdue(stream, self.now) }
        switch self.configuration.reshipRule {
        case .never: return false
        case .atOnce: return true
        case .after(let duration):
            let addresses = self.configuration.receivers.map(\.description)
            return self.tail.isDisputed(stream, at: addresses, for: duration, self.now)
        }
    }

    /// Ships a disputed segment under another id, if this agent may do so by itself.
    private mutating func reship(_ stream: StreamKey) -> Bool {
        guard self.mayReship(stream) else { return false }
        let path = self.tail.position(of: stream).path
        do throws(Reshipment.Failure) {
            guard case .renamed(let newPath) = try Reshipment.reship(path, on: self.files) else { return false }
            self.telemetry.reshipped(path, as: newPath)
            self.tally.reshipped()
            // It is found under its new name.
            self.schedule.hurry(self.clock.monotonicTime())
            return true
        } catch {
            self.telemetry.notReshipped(path, error)
            return false
        }
    }

    /// Whether a disputed stream may not be asked for yet; it becomes ready again later.
    mutating func mustWait(_ stream: StreamKey) -> Bool {
        guard let receiver = self.acceptance.receiver,
            let time = self.standings.nextAsking(stream, of: receiver, self.clock.monotonicTime())
        else { return false }
        self.streams.hold(stream, until: time)
        return true
    }

    mutating func acked(_ stream: StreamKey, upTo offset: Int) {
        guard self.tail.contains(stream) else { return }
        let before = self.tail.position(of: stream).acked
        self.tail.acked(stream, upTo: offset)
        let position = self.tail.position(of: stream)
        let ackedByteCount = position.acked - before
        self.tally.acked(stream, upTo: offset, byteCount: ackedByteCount)
        self.standings.acked(
            stream, position, hasAdvanced: ackedByteCount > 0, at: self.liveness.acknowledgedAt)
    }

    /// Opens a refused stream again: at once the first time, then with growing delays until it succeeds.
    private mutating func reopen(
        _ number: StreamNumber, _ offset: StreamOffset, _ code: ErrorCode, _ text: String
    ) {
        guard let stream = self.streams.refused(number), self.tail.contains(stream) else { return }
        let attempt = self.streams.failed(stream)
        self.tail.streamRefused(stream)
        self.acceptance.failed(text)
        self.standings.failed("\(code.rawValue): \(text)", self.tail.position(of: stream).path)
        self.telemetry.streamRefused(self.tail.id(of: stream).description, code, text, attempt: attempt)
        if code == .prove, !self.claim(number, stream, offset) { return }
        self.streams.postpone(stream, after: code, attempt: attempt, self.clock.monotonicTime())
    }

    /// Answers the demand for a proof.
    ///
    /// - Returns: whether the stream is opened again under its number.
    private mutating func claim(_ number: StreamNumber, _ stream: StreamKey, _ offset: StreamOffset) -> Bool {
        let last = self.streams.takeClaim(of: stream)
        let isRefused = last?.from == offset && last?.proof != nil
        switch self.tail.proofDemanded(stream, at: Int(offset.rawValue), isRefused: isRefused) {
        case .claim(let claim):
            self.streams.claim(claim, for: stream)
            return true
        case .outcome(let outcome):
            self.leave(number, stream, after: outcome)
            return false
        }
    }

    mutating func disconnect(_ reason: String, _ cause: Reconnection.Cause) {
        guard self.connection.isOpen else { return }
        guard !self.goal.isParting else { return self.connection.close() }
        self.acceptance.failed(reason)
        let now = self.clock.monotonicTime()
        let wait = self.choice.failed(cause, at: now)
        let alone = self.endConnection(retryAt: now + wait)
        self.telemetry.disconnected(
            AgentTelemetry.Disconnection(
                reason: reason, address: self.choice.address, alone: alone,
                waitingByteCount: self.standing.pendingByteCount, retryingIn: wait))
    }

    /// Ends the connection, if there is one; what was on its way is sent again.
    ///
    /// - Parameter time: when another one may begin.
    /// - Returns: how long no receiver has been ready.
    @discardableResult
    mutating func endConnection(retryAt time: MonotonicTime) -> Duration {
        self.choice.ended()
        self.goal.isBusy()
        self.connection.end(retryAt: time)
        let now = self.clock.monotonicTime()
        self.liveness.reset(at: now)
        self.streams.removeAll()
        self.tail.connectionLost()
        return self.acceptance.ended(at: now)
    }
}
