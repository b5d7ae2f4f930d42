internal import NIOCore
internal import WaybillData
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// What waits for room in memory, and what arrives once there is some.
extension ConnectionHandler {
    /// Keeps a stream's description from `OPEN` while the stream is open, with the part of `source` that is kept.
    ///
    /// - Returns: `nil` when there is no room for it; the stream or the session is refused then.
    func keep(
        _ description: StreamDescription, of number: StreamNumber, _ context: ChannelHandlerContext
    ) -> StreamDescription? {
        guard let connection else { return nil }
        let description = description.shortened
        let before = self.descriptions[number]
        let byteCount = description.byteCount - (before?.byteCount ?? 0)
        switch self.shared.streams.keep(byteCount, isNew: before == nil, for: connection) {
        case .kept: break
        case .keptInsteadOf(let others):
            let text =
                "the streams of all connections have more than \(self.shared.streams.byteCountMax) bytes, and "
                + "this agent's have most"
            for other in others {
                self.shared.telemetry.limited(.descriptions)
                other.end(.limit, text: text)
            }
        case .tooManyStreams:
            self.shared.telemetry.limited(.streams)
            let text = "this agent has as many streams open as it may; see limits.streams"
            for message in self.session.openRefused(number, at: StreamOffset(0), .retryAfter, text: text) {
                self.write(message, context)
            }
            return nil
        case .tooManyBytes:
            self.shared.telemetry.limited(.descriptions)
            let text =
                "the streams of all connections have more than \(self.shared.streams.byteCountMax) bytes, and "
                + "this agent's have most"
            self.perform(self.session.refuse(.limit, text: text), context)
            return nil
        }
        self.descriptions[number] = description
        return description
    }

    func admit(_ request: CommitRequest, _ context: ChannelHandlerContext) {
        self.reserve(request.charge[.short], in: .short, for: .message(request), context)
    }

    /// Begins a batch when its principal's bytes a second allow it.
    func readBatch(_ header: BatchHeader, _ id: StreamID, _ context: ChannelHandlerContext) {
        let pause = self.paced { $0.take(header.rawByteCount, for: $1, at: $2) }
        guard let pause, pause > .zero else { return self.readPayload(header, id, context) }
        self.shared.telemetry.limited(.byteRate)
        self.mode = .awaitingAdmission(.pace(header, id))
        self.ticket += 1
        self.deadline.suspend()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let ticket = self.ticket
        context.eventLoop.scheduleTask(in: .nanoseconds(pause.nanoseconds)) {
            let handler = bound.value
            guard let context = handler.context, ticket == handler.ticket,
                case .awaitingAdmission(.pace(let header, let id)) = handler.mode
            else { return }
            handler.setDeadline(after: handler.shared.timeouts.idle, context)
            handler.readPayload(header, id, context)
            handler.process(context)
            context.flush()
            handler.readIfAllowed(context)
        }
    }

    /// Calls `body` with the agent if its bytes a second are bounded.
    private func paced<Result>(_ body: (inout ByteRates, AdmittedAgent, MonotonicTime) -> Result) -> Result? {
        guard let admitted = self.connection?.admitted, ByteRates.bounds(admitted) else { return nil }
        let now = self.shared.clock.monotonicTime()
        return self.shared.rates.withLock { body(&$0, admitted, now) }
    }

    /// Begins a payload when there is room for its first bytes, which are all of a short one.
    private func readPayload(_ header: BatchHeader, _ id: StreamID, _ context: ChannelHandlerContext) {
        guard !header.isShort else {
            return self.reserve(header.charge[.short], in: .short, for: .payload(header, id, number: 0), context)
        }
        self.reserve(
            min(header.wireByteCount, AdmissionBudget.pieceByteCount), in: .wire,
            for: .payload(header, id, number: self.shared.budget.nextPayloadNumber()), context)
    }

    /// Takes room, now or later, and then continues with what waited for it.
    private func reserve(
        _ amount: Int, in room: AdmissionBudget.Room, for admission: Admission, _ context: ChannelHandlerContext
    ) {
        self.mode = .awaitingAdmission(admission)
        self.ticket += 1
        let ticket = self.ticket
        let budget = self.shared.budget
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        var number: Int?
        if case .payload(_, _, let own) = admission, room == .wire { number = own }
        let resume: @Sendable () -> Void = { [number] in
            eventLoop.execute {
                if bound.value.admissionGranted(ticket, amount, in: room) { return }
                var charge = AdmissionCharge()
                charge[room] = amount
                if let number { budget.payloadEnded(number) }
                budget.release(charge)
            }
        }
        let isAdmitted =
            switch admission {
            case .payload(_, _, let number) where room == .wire:
                budget.reserveFirst(amount, ofPayload: number, for: self.account, otherwise: resume)
            case .more(let payload):
                budget.reserveMore(amount, ofPayload: payload.number, otherwise: resume)
            case .pace, .turn, .payload, .inflation, .message:
                budget.reserve(amount, in: room, for: self.account, otherwise: resume)
            }
        if isAdmitted {
            self.charge[room] += amount
            self.admitted(admission, context)
        } else {
            self.deadline.suspend()
        }
    }

    /// - Returns: whether the reservation is still needed.
    private func admissionGranted(_ ticket: Int, _ amount: Int, in room: AdmissionBudget.Room) -> Bool {
        guard let context, ticket == self.ticket, case .awaitingAdmission(let admission) = self.mode else {
            return false
        }
        self.charge[room] += amount
        self.setDeadline(after: admission.deadline(self.shared.timeouts), context)
        self.admitted(admission, context)
        self.process(context)
        context.flush()
        self.readIfAllowed(context)
        return true
    }

    private func admitted(_ admission: Admission, _ context: ChannelHandlerContext) {
        switch admission {
        case .pace(let header, let id):
            self.readPayload(header, id, context)
        case .payload(let header, let id, let number):
            self.setDeadline(after: self.shared.timeouts.payload, context)
            self.read(Payload(header, id, number: number), context)
            self.watch(context)
        case .more(let payload):
            self.read(payload, context)
        case .turn(let header, let id, let wire):
            guard !header.isShort else {
                self.mode = .lines
                return self.check(header, id, wire, context)
            }
            self.reserve(header.rawByteCount, in: .raw, for: .inflation(header, id, wire), context)
        case .inflation(let header, let id, let wire):
            self.mode = .lines
            self.check(header, id, wire, context)
        case .message(let request):
            self.mode = .lines
            self.charge -= request.charge
            self.requests.append(request)
            self.handOver()
        }
    }

    private func read(_ payload: Payload, _ context: ChannelHandlerContext) {
        var payload = payload
        payload.grant(context.eventLoop.now)
        self.mode = .payload(payload)
    }

    /// All that there is room for has arrived.
    func pieceArrived(_ payload: Payload, _ context: ChannelHandlerContext) {
        var payload = payload
        payload.pause(context.eventLoop.now)
        guard payload.builder.missingByteCount == 0 else {
            return self.reserve(payload.nextPieceByteCount, in: .wire, for: .more(payload), context)
        }
        self.setDeadline(after: self.shared.timeouts.idle, context)
        self.endPayload(payload)
        // A payload that comes slowly takes no turn of those that are here.
        let turn = payload.header.turn
        let room: AdmissionBudget.Room = turn[.turn] > 0 ? .turn : .shortTurn
        self.reserve(turn[room], in: room, for: .turn(payload.header, payload.id, payload.builder.finish()), context)
    }

    /// The budget counts a long payload among those that arrive, until it is here or will not be read to its end.
    private func endPayload(_ payload: Payload) {
        guard !payload.header.isShort else { return }
        self.shared.budget.payloadEnded(payload.number)
    }

    /// Releases what was reserved for a payload that will not be read to its end.
    func releasePayload() {
        if case .awaitingAdmission(.pace(let header, _)) = self.mode {
            _ = self.paced { $0.giveBack(header.rawByteCount, of: $1, at: $2) }
        }
        if let arrivingPayload { self.endPayload(arrivingPayload) }
        self.shared.budget.release(self.charge)
        self.charge = AdmissionCharge()
    }

    /// Watches how a payload arrives: one that trickles while others wait for the memory it holds gives way, and its
    /// agent sends it again later.
    ///
    /// There is one timer at a time, however many payloads pass meanwhile.
    private func watch(_ context: ChannelHandlerContext) {
        guard !self.isPayloadWatched, self.arrivingPayload != nil else { return }
        self.isPayloadWatched = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: self.shared.timeouts.payloadCheck) {
            let handler = bound.value
            handler.isPayloadWatched = false
            guard let context = handler.context, let payload = handler.arrivingPayload else { return }
            defer { handler.watch(context) }
            guard handler.shared.budget.hasWaiters else { return }
            if payload.isSlow(context.eventLoop.now, handler.shared.timeouts) { handler.giveWay(payload, context) }
        }
    }

    /// The payload that arrives, or waits for room for its next bytes.
    private var arrivingPayload: Payload? {
        switch self.mode {
        case .payload(let payload), .awaitingAdmission(.more(let payload)): payload
        case .awaitingAdmission, .lines, .discarding, .closed: nil
        }
    }

    /// Gives up the room of a payload whose bytes trickle in; the rest of it is discarded.
    private func giveWay(_ payload: Payload, _ context: ChannelHandlerContext) {
        self.releasePayload()
        self.shared.telemetry.limited(.slowPayload)
        self.mode = .discarding(byteCount: payload.builder.missingByteCount)
        let messages = self.session.refused(
            payload.header.stream, at: payload.header.offset, .retryAfter,
            text: "the payload came too slowly while other agents waited")
        for message in messages { self.write(message, context) }
        // It may have waited for room, and read nothing meanwhile.
        self.setDeadline(after: self.shared.timeouts.payload, context)
        self.process(context)
        context.flush()
        self.readIfAllowed(context)
    }

    // MARK: Checks, in order

    func check(_ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes, _ context: ChannelHandlerContext) {
        let check = self.requests.beginCheck()
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let budget = self.shared.budget
        self.charge -= header.charge
        self.shared.checker.check(header, of: id, wire: wire, on: context.eventLoop) { result in
            if !bound.value.checked(check, header, id, wire, result) { budget.release(header.charge) }
        }
    }

    /// - Returns: whether the batch was kept.
    func checked(
        _ check: Int, _ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes,
        _ result: Result<SharedBytes, BatchRefusal>
    ) -> Bool {
        guard let context, let connection else { return false }
        defer { self.handOver() }
        guard let description = self.descriptions[header.stream] else {
            self.requests.endCheck(check, with: nil)
            return false
        }
        switch result {
        case .success(let raw):
            return self.requests.endCheck(
                check, with: .batch(connection, header.stream, description, header, wire: wire, raw: raw))
        case .failure(let refusal):
            self.requests.endCheck(check, with: nil)
            self.shared.telemetry.batchRefused(id, header, refusal, peer: self.peer, address: self.address)
            let messages = self.session.refused(header.stream, at: header.offset, refusal.code, text: refusal.text)
            for message in messages { self.write(message, context) }
            context.flush()
            return false
        }
    }

    private func handOver() {
        let requests = self.requests.takeReady()
        if !requests.isEmpty { self.shared.committer.submit(requests) }
    }
}

extension ConnectionHandler.Admission {
    /// How long the peer may be silent once it has what it waited for.
    fileprivate func deadline(_ timeouts: ReceiverShared.Timeouts) -> TimeAmount {
        switch self {
        case .payload, .more: timeouts.payload
        case .pace, .turn, .inflation, .message: timeouts.idle
        }
    }
}

extension StreamDescription {
    /// Bytes of `source` that are kept; it is for people.
    private static let sourceByteCountMax = 512

    /// Its approximate size in memory.
    var byteCount: Int {
        let members = [self.timeMember, self.nameMember, self.userMember, self.anonymousMember]
        return 256 + self.id.text.utf8.count + self.source.utf8.count + self.bundle.utf8.count
            + members.reduce(0) { $0 + ($1?.utf8.count ?? 0) }
    }

    /// Itself with a short `source`, cut between characters.
    fileprivate var shortened: StreamDescription {
        guard self.source.utf8.count > Self.sourceByteCountMax else { return self }
        var source = ""
        for scalar in self.source.unicodeScalars {
            guard source.utf8.count + UTF8.width(scalar) <= Self.sourceByteCountMax else { break }
            source.unicodeScalars.append(scalar)
        }
        var description = self
        description.source = source
        return description
    }
}
