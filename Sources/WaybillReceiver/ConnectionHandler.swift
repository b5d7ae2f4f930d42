package import NIOCore
internal import Synchronization
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTLS

/// One connection: bytes in, messages to the session, batches to the checker, requests to the committer, answers out.
///
/// Confined to its event loop. It stops reading while the admission budget has no room, or while the peer does not read
/// its answers.
package final class ConnectionHandler: ChannelInboundHandler {
    package typealias InboundIn = ByteBuffer
    package typealias OutboundOut = ByteBuffer

    enum Mode {
        case lines
        /// The budget will call back.
        case awaitingAdmission(Admission)
        case payload(BatchHeader, StreamID, SharedBytesBuilder)
        /// `byteCount` bytes of a refused stream's batch are still to come.
        case discarding(byteCount: Int)
        case closed
    }

    /// What waits for room in the budget.
    enum Admission {
        case payload(BatchHeader, StreamID)
        indirect case message(CommitRequest)
    }

    /// A request waits here for the ones before it, so that parallel checks keep a stream's order.
    enum Slot {
        case checking(Int)
        case ready(CommitRequest)
        /// The check failed: nothing is handed over.
        case void
    }

    let shared: ReceiverShared
    var session: ReceiverSession
    var mode: Mode = .lines
    private var buffer: ByteBuffer?
    /// Starts with room for one: the default of sixteen would waste memory on idle connections.
    private var slots = CircularBuffer<Slot>(initialCapacity: 1)
    private var nextCheck = 0
    private var descriptions: [StreamNumber: StreamDescription] = [:]
    private var descriptionByteCount = 0
    var connection: ConnectionHandle?
    /// What the agent has shown; judged again when the register changes.
    var credentials: AgentCredentials?
    var denials = LogPace()
    var context: ChannelHandlerContext?
    var peer = "unknown"
    var deadline: NIODeadline = .distantFuture
    private var isDeadlineScheduled = false
    /// The number of the current or last payload.
    private var payloadNumber = 0
    private var payloadStart = NIODeadline.distantPast
    private var isPayloadWatched = false
    private var lastSent = NIODeadline.uptimeNanoseconds(0)
    private var closeReason = "the peer closed"

    package init(shared: ReceiverShared) {
        self.shared = shared
        self.session = ReceiverSession(limits: shared.limits)
    }

    // MARK: Channel events

    package func channelActive(context: ChannelHandlerContext) {
        self.context = context
        self.peer = context.remoteAddress?.description ?? "unknown"
        self.setDeadline(after: self.shared.timeouts.handshake, context)
        context.read()
    }

    package func channelInactive(context: ChannelHandlerContext) {
        self.end()
        context.fireChannelInactive()
    }

    package func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        if self.buffer == nil {
            self.buffer = bytes
        } else {
            self.buffer?.writeBuffer(&bytes)
        }
        self.process(context)
    }

    package func channelReadComplete(context: ChannelHandlerContext) {
        context.flush()
        self.readIfAllowed(context)
    }

    package func channelWritabilityChanged(context: ChannelHandlerContext) {
        self.readIfAllowed(context)
        context.fireChannelWritabilityChanged()
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.closeReason = "\(error)"
        context.close(promise: nil)
    }

    private func readIfAllowed(_ context: ChannelHandlerContext) {
        guard context.channel.isWritable || self.session.isClosed else { return }
        switch self.mode {
        case .lines, .payload, .discarding, .closed: context.read()
        case .awaitingAdmission: return
        }
    }

    /// The connection is gone: drops what was checked but not handed over; the agent sends it again.
    private func end() {
        if let connection {
            for case .ready(let request) in self.slots { self.shared.budget.release(request.admissionByteCount) }
            self.slots.removeAll()
            self.shared.committer.submit([.closed(connection)])
            self.shared.agents.left(connection)
        }
        self.releasePayload()
        self.resizeDescriptions(by: -self.descriptionByteCount)
        // The deadline's timer keeps this handler for a while.
        self.descriptions = [:]
        self.session = ReceiverSession(limits: self.shared.limits)
        if self.context != nil {
            self.shared.telemetry.disconnected(self.connection, peer: self.peer, reason: self.closeReason)
        }
        self.connection = nil
        self.mode = .closed
        self.buffer = nil
        self.context = nil
    }

    /// Releases what was reserved for a payload that will not be read to its end.
    private func releasePayload() {
        if case .payload(let header, _, _) = self.mode {
            self.shared.budget.release(header.admissionByteCount)
        }
    }

    // MARK: Bytes

    private func process(_ context: ChannelHandlerContext) {
        while self.buffer != nil, self.step(context) {}
        if self.buffer?.readableBytes == 0 { self.buffer = nil }
    }

    /// - Returns: whether the bytes at hand may hold more to do.
    private func step(_ context: ChannelHandlerContext) -> Bool {
        switch self.mode {
        case .closed:
            self.buffer = nil
            return false
        case .awaitingAdmission:
            return false
        case .discarding(let byteCount):
            let count = min(byteCount, self.buffer?.readableBytes ?? 0)
            self.buffer?.moveReaderIndex(forwardBy: count)
            self.mode = count == byteCount ? .lines : .discarding(byteCount: byteCount - count)
            return count == byteCount
        case .payload(let header, let id, let builder):
            self.buffer?.readWithUnsafeReadableBytes { bytes in
                let count = min(bytes.count, builder.missingByteCount)
                builder.append(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
                return count
            }
            guard builder.missingByteCount == 0 else { return false }
            self.mode = .lines
            self.setDeadline(after: self.shared.timeouts.idle, context)
            self.check(header, id, builder.finish(), context)
            return true
        case .lines:
            return self.readMessage(context)
        }
    }

    private func readMessage(_ context: ChannelHandlerContext) -> Bool {
        guard let buffer else { return false }
        if !self.session.isReady, buffer.readableBytesView.first == TLSRecord.handshake {
            let text =
                "this is TLS, which this port does not speak; start the agent without TLS, or the receiver with it"
            self.perform(self.session.refuse(.syntax, text: text), context)
            return false
        }
        let decoded: (message: Message, byteCount: Int)?
        do throws(WireError) {
            decoded = try buffer.withUnsafeReadableBytes { (bytes) throws(WireError) in
                try Message.decode(prefixOf: bytes)
            }
        } catch {
            let code: ErrorCode = error == .lineTooLong ? .limit : .syntax
            self.perform(self.session.refuse(code, text: error.text), context)
            return false
        }
        guard let (message, byteCount) = decoded else { return false }
        self.buffer?.moveReaderIndex(forwardBy: byteCount)
        if self.session.isReady { self.setDeadline(after: self.shared.timeouts.idle, context) }
        if let action = self.session.receive(message) { self.perform(action, context) }
        return true
    }

    // MARK: Actions

    func perform(_ action: ReceiverSession.Action, _ context: ChannelHandlerContext) {
        switch action {
        case .reply(let message):
            self.write(message, context)
        case .admit(let hello):
            // More in one piece with HELLO was sent without knowing what READY grants.
            guard self.buffer?.readableBytes ?? 0 == 0 else {
                return self.perform(self.session.refuse(.order, text: "wait for READY"), context)
            }
            self.admit(hello, context)
        case .open(let number, let description, let claim):
            self.open(number, description, claim, context)
        case .readBatch(let header, let id):
            self.reserve(header.admissionByteCount, for: .payload(header, id), context)
        case .discardBatch(let header):
            self.mode = .discarding(byteCount: header.wireByteCount)
        case .skip(let number, _, let range):
            guard let connection, let description = self.descriptions[number] else { return }
            self.admit(.skip(connection, number, description, range), context)
        case .seal(let number, _, let length):
            guard let connection, let description = self.descriptions[number] else { return }
            self.admit(.seal(connection, number, description, length: length), context)
        case .close(let message):
            if case .err(let code, let text) = message { self.closeReason = "\(code.rawValue): \(text)" }
            self.write(message, context)
            self.linger(context)
        }
    }

    /// Keeps a stream's description from `OPEN` while the stream is open.
    ///
    /// - Returns: whether there is room for it; without room the session ends.
    func keep(
        _ description: StreamDescription, of number: StreamNumber, _ context: ChannelHandlerContext
    ) -> Bool {
        let before = self.descriptions.updateValue(description, forKey: number)
        let total = self.resizeDescriptions(by: description.byteCount - (before?.byteCount ?? 0))
        let text: String
        if self.descriptionByteCount > self.shared.connectionDescriptionByteCountMax {
            text =
                "the streams of this connection have more than \(self.shared.connectionDescriptionByteCountMax) bytes"
        } else if total > self.shared.descriptionByteCountMax {
            text = "the streams of all connections have more than \(self.shared.descriptionByteCountMax) bytes"
        } else {
            return true
        }
        self.perform(self.session.refuse(.limit, text: text), context)
        return false
    }

    /// - Returns: how many bytes the descriptions of all connections take.
    @discardableResult private func resizeDescriptions(by byteCount: Int) -> Int {
        self.descriptionByteCount += byteCount
        return self.shared.descriptionByteCount.wrappingAdd(byteCount, ordering: .relaxed).newValue
    }

    /// Closes our side, and the connection once the peer has had time to read the reason.
    ///
    /// If we closed at once with unread bytes from the peer, the kernel would discard our last message.
    private func linger(_ context: ChannelHandlerContext) {
        self.releasePayload()
        self.mode = .closed
        context.flush()
        context.close(mode: .output, promise: nil)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: self.shared.timeouts.linger) {
            bound.value.context?.close(promise: nil)
        }
        context.read()
    }

    func admit(_ request: CommitRequest, _ context: ChannelHandlerContext) {
        self.reserve(request.admissionByteCount, for: .message(request), context)
    }

    private func reserve(_ byteCount: Int, for admission: Admission, _ context: ChannelHandlerContext) {
        self.mode = .awaitingAdmission(admission)
        let budget = self.shared.budget
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let eventLoop = context.eventLoop
        let isAdmitted = budget.reserve(byteCount) {
            eventLoop.execute {
                if !bound.value.admissionGranted() { budget.release(byteCount) }
            }
        }
        if isAdmitted { self.admitted(admission, context) } else { self.deadline = .distantFuture }
    }

    /// - Returns: whether the reservation is still needed.
    private func admissionGranted() -> Bool {
        guard let context, case .awaitingAdmission(let admission) = self.mode else { return false }
        self.setDeadline(after: self.shared.timeouts.idle, context)
        self.admitted(admission, context)
        self.process(context)
        context.flush()
        self.readIfAllowed(context)
        return true
    }

    private func admitted(_ admission: Admission, _ context: ChannelHandlerContext) {
        switch admission {
        case .payload(let header, let id):
            self.beginPayload(header, id, context)
        case .message(let request):
            self.mode = .lines
            self.enqueue(.ready(request))
        }
    }

    private func beginPayload(_ header: BatchHeader, _ id: StreamID, _ context: ChannelHandlerContext) {
        self.setDeadline(after: self.shared.timeouts.payload, context)
        let builder = SharedBytesBuilder(capacity: header.wireByteCount)
        self.mode = .payload(header, id, builder)
        self.payloadStart = context.eventLoop.now
        self.payloadNumber += 1
        if !self.isPayloadWatched { self.watch(builder, context) }
    }

    /// Closes the connection when its payload stalls or trickles in while others wait for the memory it holds.
    ///
    /// There is one timer at a time, however many payloads pass meanwhile; the payload that it finds is compared at the
    /// next check.
    private func watch(_ builder: SharedBytesBuilder, _ context: ChannelHandlerContext) {
        self.isPayloadWatched = true
        let (number, before) = (self.payloadNumber, builder.count)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: self.shared.timeouts.payloadCheck) {
            let handler = bound.value
            handler.isPayloadWatched = false
            guard let context = handler.context, case .payload(_, _, let current) = handler.mode else { return }
            let age = context.eventLoop.now - handler.payloadStart
            let seconds = Int(age.nanoseconds / 1_000_000_000)
            let isStill = handler.payloadNumber == number && current.count - before < 1024
            let isSlow = age > .seconds(10) && current.count < seconds * handler.shared.timeouts.payloadByteRateMin
            guard isStill || isSlow, handler.shared.budget.hasWaiters else { return handler.watch(current, context) }
            let text = "the payload came too slowly while other agents waited"
            handler.perform(handler.session.refuse(.timeout, text: text), context)
        }
    }

    // MARK: Checks, in order

    private func check(_ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes, _ context: ChannelHandlerContext) {
        let check = self.nextCheck
        self.nextCheck += 1
        self.slots.append(.checking(check))
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let budget = self.shared.budget
        self.shared.checker.check(header, of: id, wire: wire, on: context.eventLoop) { result in
            if !bound.value.checked(check, header, id, wire, result) {
                budget.release(header.admissionByteCount)
            }
        }
    }

    /// - Returns: whether the batch was kept.
    private func checked(
        _ check: Int, _ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes,
        _ result: Result<SharedBytes, BatchRefusal>
    ) -> Bool {
        guard let context, let connection,
            let index = self.slots.firstIndex(where: { if case .checking(check) = $0 { true } else { false } })
        else { return false }
        defer { self.handOver() }
        guard let description = self.descriptions[header.stream] else {
            self.slots[index] = .void
            return false
        }
        switch result {
        case .success(let raw):
            self.slots[index] = .ready(.batch(connection, header.stream, description, header, wire: wire, raw: raw))
            return true
        case .failure(let refusal):
            self.slots[index] = .void
            self.shared.telemetry.batchRefused(id, header, refusal, peer: self.peer)
            let messages = self.session.refused(header.stream, at: header.offset, refusal.code, text: refusal.text)
            for message in messages { self.write(message, context) }
            context.flush()
            return false
        }
    }

    private func enqueue(_ slot: Slot) {
        self.slots.append(slot)
        self.handOver()
    }

    private func handOver() {
        var requests: [CommitRequest] = []
        loop: while let slot = self.slots.first {
            switch slot {
            case .checking: break loop
            case .ready(let request): requests.append(request)
            case .void: break
            }
            self.slots.removeFirst()
        }
        if !requests.isEmpty { self.shared.committer.submit(requests) }
    }

    // MARK: Answers

    func receive(_ replies: [Reply], end: UInt64) {
        guard let context else { return }
        for reply in replies {
            let messages =
                switch reply {
                case .opened(let number, let offset, let proof, let isSealed):
                    self.session.opened(number, at: offset, proof, isSealed: isSealed, end: end)
                case .durable(let number, let offset): self.session.durable(number, upTo: offset, end: end)
                case .sealed(let number, let proof): self.session.sealed(number, proof, end: end)
                case .openRefused(let number, let offset, let code, let text):
                    self.session.openRefused(number, at: offset, code, text: text)
                case .refused(let number, let offset, let code, let text):
                    self.session.refused(number, at: offset, code, text: text)
                }
            for message in messages {
                // A stream that was already sealed when it was opened is still known here: the agent may have more on
                // the way.
                if case .sealed(let number, _) = reply, let closed = self.descriptions.removeValue(forKey: number) {
                    self.resizeDescriptions(by: -closed.byteCount)
                }
                self.write(message, context)
            }
        }
        context.flush()
    }

    /// Ends the session: the disk refuses what it sends.
    func refuse(_ text: String) {
        guard let context, !self.session.isClosed else { return }
        self.perform(self.session.refuse(.unavailable, text: text), context)
    }

    func supersede() {
        guard let context else { return }
        self.perform(
            self.session.refuse(.agentInUse, text: "the agent has connected again; this connection is closed"), context)
    }

    func write(_ message: Message, _ context: ChannelHandlerContext) {
        self.lastSent = context.eventLoop.now
        context.write(self.wrapOutboundOut(ByteBuffer(bytes: message.encoded)), promise: nil)
    }

    // MARK: Deadlines

    /// Moves the deadline; the single running timer checks it when it fires.
    func setDeadline(after amount: TimeAmount, _ context: ChannelHandlerContext) {
        self.deadline = context.eventLoop.now + amount
        self.scheduleDeadline(context)
    }

    private func scheduleDeadline(_ context: ChannelHandlerContext) {
        guard !self.isDeadlineScheduled else { return }
        self.isDeadlineScheduled = true
        let wake = min(self.deadline, context.eventLoop.now + self.shared.timeouts.keepalive)
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(deadline: wake) { bound.value.deadlineTimerFired() }
    }

    private func deadlineTimerFired() {
        self.isDeadlineScheduled = false
        guard let context else { return }
        let now = context.eventLoop.now
        if now >= self.deadline {
            let text = "nothing whole arrived in time; send PING when there is nothing to send"
            return self.perform(self.session.refuse(.timeout, text: text), context)
        }
        if case .awaitingAdmission = self.mode, let text = self.shared.conditions.withheld { return self.refuse(text) }
        if self.session.isReady, now - self.lastSent >= self.shared.timeouts.keepalive {
            self.write(.ping(0), context)
            context.flush()
        }
        self.scheduleDeadline(context)
    }
}

extension StreamDescription {
    /// Its approximate size in memory.
    fileprivate var byteCount: Int {
        256 + self.id.text.utf8.count + self.source.utf8.count + self.bundle.utf8.count
            + (self.timeMember?.utf8.count ?? 0) + (self.nameMember?.utf8.count ?? 0)
    }
}
