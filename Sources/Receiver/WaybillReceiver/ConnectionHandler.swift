package import NIOCore
internal import WaybillData
internal import WaybillHost
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

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
        case payload(Payload)
        /// `byteCount` bytes of a refused stream's batch are still to come.
        case discarding(byteCount: Int)
        case closed
    }

    /// What waits for room in the budget.
    enum Admission {
        /// A batch, for the bytes a second that its principal may send.
        case pace(BatchHeader, StreamID)
        /// A payload, for its first bytes; a long one has a number in the budget.
        case payload(BatchHeader, StreamID, number: Int)
        /// A payload, for its next bytes.
        case more(Payload)
        /// A payload that has arrived, for its share of the archive's time.
        case turn(BatchHeader, StreamID, SharedBytes)
        /// The same, for its inflated bytes.
        case inflation(BatchHeader, StreamID, SharedBytes)
        indirect case message(CommitRequest)
    }

    let shared: ReceiverShared
    var session: ReceiverSession
    var mode: Mode = .lines
    var buffer: ByteBuffer?
    var requests = RequestOrder<CommitRequest>()
    var descriptions: [StreamNumber: StreamDescription] = [:]
    var connection: ConnectionHandle?
    var denials = LogInterval()
    var storage: StorageAnswers
    var context: ChannelHandlerContext?
    /// `nil`: the other end of the channel, which is known once the channel is active.
    private var knownOrigin: ConnectionOrigin?
    var origin: ConnectionOrigin { self.knownOrigin ?? ConnectionOrigin(address: nil) }
    var peer: String { self.origin.text }
    var address: String { self.origin.account }
    /// Who is charged: the address until `HELLO` is accepted.
    var account = Account(principal: "", device: nil)
    /// Whether something of it is durable.
    var isKnown = false
    /// The durable end of the journal when this connection was last answered.
    var durableEnd: UInt64 = 0
    var deadline: ConnectionDeadline
    /// What the message that is being read holds of the budget.
    var charge = AdmissionCharge()
    /// Names the last request for room: one that came to nothing may still be granted later.
    var ticket = 0
    var isPayloadWatched = false
    /// Others have their turn at the event loop before more of this connection's bytes are looked at.
    var isTurnOver = false
    var closeReason = "the peer closed"

    /// - Parameter origin: whom the connection is from; `nil`: from the other end of the channel.
    package init(shared: ReceiverShared, from origin: ConnectionOrigin? = nil) {
        self.knownOrigin = origin
        self.shared = shared
        self.storage = StorageAnswers(shared.membership)
        self.deadline = ConnectionDeadline(keepalive: shared.timeouts.keepalive)
        self.session = ReceiverSession(limits: shared.limits)
    }

    // MARK: Channel events

    package func channelActive(context: ChannelHandlerContext) {
        self.context = context
        self.knownOrigin = self.knownOrigin ?? ConnectionOrigin(address: context.remoteAddress)
        self.account = Account(principal: "", device: self.address)
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
        if context.channel.isWritable, !self.storage.isEmpty { self.storageAdvanced() }
        self.readIfAllowed(context)
        context.fireChannelWritabilityChanged()
    }

    package func errorCaught(context: ChannelHandlerContext, error: any Error) {
        self.closeReason = "\(error)"
        context.close(promise: nil)
    }

    func readIfAllowed(_ context: ChannelHandlerContext) {
        guard !self.isTurnOver, context.channel.isWritable || self.session.isClosed else { return }
        switch self.mode {
        case .lines, .payload, .discarding, .closed: context.read()
        case .awaitingAdmission: return
        }
    }

    /// The connection is gone: drops what was checked but not handed over; the agent sends it again.
    func end() {
        if let connection {
            for request in self.requests.removeAll() { self.shared.budget.release(request.charge) }
            self.shared.committer.submit([.closed(connection)])
            self.shared.agents.left(connection, at: self.shared.clock.monotonicTime())
            self.shared.streams.left(connection)
        }
        self.releasePayload()
        // The deadline's timer keeps this handler for a while.
        self.descriptions = [:]
        self.storage = StorageAnswers(self.shared.membership)
        self.session = ReceiverSession(limits: self.shared.limits)
        if self.context != nil {
            self.shared.telemetry.disconnected(
                self.connection, peer: self.peer, address: self.address, reason: self.closeReason)
        }
        self.connection = nil
        self.mode = .closed
        self.buffer = nil
        self.context = nil
    }

    // MARK: Bytes

    func process(_ context: ChannelHandlerContext) {
        guard !self.isTurnOver else { return }
        var stepCount = 0
        while self.buffer != nil, self.step(context) {
            stepCount += 1
            if stepCount == Self.stepCountMax, self.buffer?.readableBytes ?? 0 > 0 { return self.endTurn(context) }
        }
        if self.buffer?.readableBytes == 0 { self.buffer = nil }
    }

    /// - Returns: whether the bytes at hand may hold more to do.
    func step(_ context: ChannelHandlerContext) -> Bool {
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
        case .payload(let payload):
            self.buffer?.readWithUnsafeReadableBytes { bytes in
                let count = min(bytes.count, payload.grantedByteCount - payload.builder.count)
                payload.builder.append(UnsafeRawBufferPointer(rebasing: bytes[..<count]))
                return count
            }
            guard payload.builder.count == payload.grantedByteCount else { return false }
            self.pieceArrived(payload, context)
            return true
        case .lines:
            return self.readMessage(context)
        }
    }

    func readMessage(_ context: ChannelHandlerContext) -> Bool {
        guard let buffer else { return false }
        if !self.session.isReady, buffer.readableBytesView.first == TLSRecord.handshake {
            let text =
                "this is TLS, which this port does not speak; start the agent without TLS, or the receiver with it"
            self.perform(self.session.refuse(.syntax, text: text), context)
            return false
        }
        if !self.session.isReady, buffer.readableBytesView.starts(with: ProxyHeader.signature.prefix(8)) {
            let text = "this is a proxy's header, which this address does not take; see receiver.proxied"
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
        self.connection?.heard(at: context.eventLoop.now)
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
            self.readBatch(header, id, context)
        case .discardBatch(let header):
            self.mode = .discarding(byteCount: header.wireByteCount)
        case .refuseBatch(let header, let message):
            self.write(message, context)
            self.mode = .discarding(byteCount: header.wireByteCount)
        case .skip(let number, _, let range):
            self.skip(number, range, context)
        case .seal(let number, _, let length):
            guard let connection, let description = self.descriptions[number] else { return }
            self.admit(.seal(connection, number, description, length: length), context)
        case .close(.bye) where self.connection != nil:
            self.sayFarewell(until: context.eventLoop.now + Self.farewellPatience, context)
        case .close(let message):
            if case .err(let code, let text) = message { self.closeReason = "\(code.rawValue): \(text)" }
            self.write(message, context)
            self.linger(context)
        }
    }

    /// Closes our side, and the connection once the peer has had time to read the reason.
    ///
    /// If we closed at once with unread bytes from the peer, the kernel would discard our last message.
    func linger(_ context: ChannelHandlerContext) {
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

    // MARK: Answers

    func receive(_ replies: [Reply], end: UInt64) {
        guard let context else { return }
        self.durableEnd = end
        for reply in replies {
            let messages =
                switch reply {
                case .opened(let number, let offset, let proof, let isSealed, let isChanged):
                    self.opened(number, at: offset, proof, isSealed: isSealed, isChanged: isChanged, end: end)
                case .durable(let number, let offset): self.durable(number, upTo: offset, end: end, context)
                case .sealed(let number, let offset, let proof): self.sealed(number, at: offset, proof, end: end)
                case .openRefused(let number, let offset, let code, let text):
                    self.session.openRefused(number, at: offset, code, text: text)
                case .refused(let number, let offset, let code, let text):
                    self.session.refused(number, at: offset, code, text: text)
                }
            for message in messages { self.write(message, context) }
        }
        self.reportStorage(context)
        context.flush()
    }

    /// Ends the session: the disk refuses what it sends.
    func refuse(_ text: String) {
        self.end(.unavailable, text: text)
    }

    private func durable(
        _ number: StreamNumber, upTo offset: StreamOffset, end: UInt64, _ context: ChannelHandlerContext
    ) -> [Message] {
        if !self.isKnown {
            self.isKnown = true
            self.shared.connections.places.change(context.channel) { $0.known($1) }
        }
        self.storage.acknowledged(number, upTo: offset, end: end)
        return self.session.durable(number, upTo: offset, end: end)
    }

    func end(_ code: ErrorCode, text: String) {
        guard let context, !self.session.isClosed else { return }
        self.perform(self.session.refuse(code, text: text), context)
    }

    func write(_ message: Message, _ context: ChannelHandlerContext) {
        self.deadline.sent(context.eventLoop.now)
        context.write(self.wrapOutboundOut(ByteBuffer(bytes: message.encoded)), promise: nil)
    }
}
