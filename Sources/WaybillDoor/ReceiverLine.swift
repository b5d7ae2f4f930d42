internal import NIOCore
internal import NIOSSL
internal import NIOTLS
internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTLS

/// A request on its way to the receiver.
struct StreamTask {
    let request: StreamRequest
    /// For whom the door speaks.
    let client: ForwardedClient
    /// Called once, on the pool's event loop.
    let done: (StreamOutcome) -> Void
}

/// Whose streams a client's are, from whatever address it comes.
struct ClientName: Hashable {
    let principal: String
    let agent: String
}

extension ForwardedClient {
    var name: ClientName { ClientName(principal: self.principal, agent: self.agent) }
}

/// The answer to a request, and which receiver gave it.
struct StreamOutcome: Sendable {
    let result: Result<StreamAnswer, StreamRefusal>
    /// Incarnation and start, as in `READY`; `nil`: no receiver was asked.
    var receiver: String?
}

/// One connection to the receiver: one request at a time, each with its own `OPEN`.
///
///     StreamPool ─▶ ReceiverLine ─ OPEN, BATCH … ─▶ receiver
///                        │ SenderSession: what the receiver may say; StreamExchange: what it means for the request
///
/// Confined to the pool's event loop.
final class ReceiverLine: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    /// What the pool hears.
    enum Event {
        case ready(Ready)
        /// A request was answered; the next may begin.
        case rested
        case closed(reason: String)
    }

    /// A stream under one client's ownership: an agent does not open a stream under two numbers of a connection.
    private struct StreamKey: Hashable {
        let client: ClientName
        let id: StreamID
    }

    private struct Conversation {
        let task: StreamTask
        let number: StreamNumber
        var exchange: StreamExchange
    }

    /// After so many streams the connection ends: the receiver keeps a description of each.
    static let streamCountMax = 256
    /// How long a receiver has for its answer to `HELLO`, connecting included.
    private static let readyTimeout = TimeAmount.seconds(20)
    /// How long a client waits for `SEALED`.
    private static let sealTimeout = TimeAmount.seconds(5)

    private let hello: Hello
    private let peer: TLSPeer?
    private let events: (ReceiverLine, Event) -> Void
    private var session = SenderSession()
    private var context: ChannelHandlerContext?
    private var buffer = ByteBuffer()
    private var conversation: Conversation?
    private var numbers: [StreamKey: StreamNumber] = [:]
    private(set) var ready: Ready?
    private var reason: String?
    private var isEstablished = false
    private var isClosing = false
    private var lastReceived = NIODeadline.now()
    /// For `READY`, then for the present request's `SEALED`.
    private var timer: Scheduled<Void>?
    private var heart: RepeatedTask?

    init(hello: Hello, peer: TLSPeer?, events: @escaping (ReceiverLine, Event) -> Void) {
        self.hello = hello
        self.peer = peer
        self.events = events
    }

    /// Whether it has opened as many streams as a connection opens.
    var isWorn: Bool { self.numbers.count >= Self.streamCountMax }
    var isResting: Bool {
        self.ready != nil && self.conversation == nil && self.context != nil && !self.isClosing
    }

    // MARK: Requests

    /// Begins a request; the line must be resting.
    func begin(_ task: StreamTask) {
        let key = StreamKey(client: task.client.name, id: task.request.description.id)
        let number = self.numbers[key] ?? StreamNumber(UInt64(self.numbers.count + 1))
        self.numbers[key] = number
        self.conversation = Conversation(task: task, number: number, exchange: StreamExchange(task.request))
        self.perform(.open)
    }

    /// Ends the present request because its time is over.
    ///
    /// What the receiver still says about it would be mistaken for an answer to the next one, so the connection ends.
    func giveUp(_ refusal: StreamRefusal) {
        guard self.conversation != nil else { return }
        // Before the answer, which lets the next request begin.
        self.isClosing = true
        self.change { $0.lost(refusal) }
        self.close("the receiver did not answer in time")
    }

    /// Says goodbye; what is not answered is lost.
    func close(_ reason: String) {
        self.reason = self.reason ?? reason
        self.isClosing = true
        guard let context else { return }
        if self.ready != nil { self.write(.bye) }
        context.close(promise: nil)
    }

    private func perform(_ action: StreamExchange.Action) {
        guard let conversation else { return }
        let request = conversation.task.request
        switch action {
        case .wait: break
        case .open:
            var claim = request.claim
            claim.client = conversation.task.client
            self.perform(self.session.open(conversation.number, request.description, claim))
        case .ping: self.write(.ping(conversation.number.rawValue))
        case .send: self.send(request, conversation.number)
        case .finish(let result):
            self.conversation = nil
            self.session.leave(conversation.number)
            let receiver = self.ready?.receiver
            conversation.task.done(
                StreamOutcome(result: result, receiver: receiver.map { "\($0.incarnation.text) \($0.startText)" }))
            self.events(self, .rested)
        }
    }

    private func send(_ request: StreamRequest, _ number: StreamNumber) {
        switch request.content {
        case .ask: break
        case .batch(var header, let payload):
            guard let limits = self.session.limits, header.fits(limits) else {
                return self.change { $0.lost(StreamRefusal(.limit, "the batch exceeds the receiver's limits")) }
            }
            header.stream = number
            self.session.batchSent(header)
            self.write(.batch(header))
            guard let context else { return }
            var bytes = ByteBuffer()
            bytes.writeBytes(payload.bytes)
            context.writeAndFlush(self.wrapOutboundOut(bytes), promise: nil)
        case .skip(let range): self.perform(self.session.skip(number, range))
        case .seal(let length):
            self.perform(self.session.seal(number, length: length))
            guard let context else { return }
            let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
            self.timer?.cancel()
            self.timer = context.eventLoop.scheduleTask(in: Self.sealTimeout) {
                let line = bound.value
                guard line.conversation?.number == number else { return }
                line.change { $0.sealIsLate() }
            }
        }
    }

    /// Tells the present request's exchange what happened.
    private func change(_ event: (inout StreamExchange) -> StreamExchange.Action) {
        guard var conversation else { return }
        let action = event(&conversation.exchange)
        self.conversation = conversation
        self.perform(action)
    }

    // MARK: The session

    private func perform(_ action: SenderSession.Action) {
        switch action {
        case .send(let message): self.write(message)
        case .start(let ready):
            self.ready = ready
            self.keepAlive(.milliseconds(Int64(min(ready.limits.idleMilliseconds, 86_400_000))))
            self.events(self, .ready(ready))
        case .seek(let number, let offset, let proof, let end):
            self.change(number) { $0.positioned(at: offset, proof, end: end) }
        case .advance(let number, let offset, let end):
            self.change(number) { $0.acknowledged(upTo: offset, end: end) }
        case .finish(let number, let proof, let end): self.change(number) { $0.sealed(proof, end: end) }
        case .reopen(let number, let offset, let code, let text):
            self.change(number) { $0.refused(code, text, at: offset) }
        // A fleet's progress is seen by asking again; what was set aside was acknowledged.
        case .stored, .note: break
        case .pause: self.close("the receiver asks to wait")
        case .move: self.close("the receiver redirected the door")
        case .close(let failure): self.close(failure.text)
        }
    }

    /// As above, unless it is about a request that is over.
    private func change(_ number: StreamNumber, _ event: (inout StreamExchange) -> StreamExchange.Action) {
        guard self.conversation?.number == number else { return }
        self.change(event)
    }

    private func write(_ message: Message) {
        guard let context else { return }
        context.writeAndFlush(self.wrapOutboundOut(ByteBuffer(bytes: message.encoded)), promise: nil)
    }

    /// Probes a silent receiver, and closes when it does not answer.
    private func keepAlive(_ idle: TimeAmount) {
        guard let context else { return }
        let third = TimeAmount.nanoseconds(max(1, idle.nanoseconds / 3))
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        self.heart = context.eventLoop.scheduleRepeatedTask(initialDelay: third, delay: third) { _ in
            let line = bound.value
            if NIODeadline.now() - line.lastReceived > idle {
                line.close("the receiver has said nothing for its idle time")
            } else {
                line.write(.ping(0))
            }
        }
    }

    // MARK: Channel events

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        self.timer = context.eventLoop.scheduleTask(in: Self.readyTimeout) {
            if bound.value.ready == nil { bound.value.close("the receiver does not answer") }
        }
    }

    /// The channel, to which this was added, is connected, and reads nothing yet.
    func connected() throws {
        guard let context else { return }
        if self.peer == nil { self.perform(self.session.start(self.hello)) }
        try context.channel.syncOptions?.setOption(.autoRead, value: true)
    }

    /// There will be no channel.
    func failed(_ reason: String) {
        self.events(self, .closed(reason: reason))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        var bytes = self.unwrapInboundIn(data)
        self.lastReceived = .now()
        self.buffer.writeBuffer(&bytes)
        do throws(WireError) {
            while self.context != nil,
                let (message, byteCount) = try self.buffer.withUnsafeReadableBytes({ (bytes) throws(WireError) in
                    try Message.decode(prefixOf: bytes)
                })
            {
                self.buffer.moveReaderIndex(forwardBy: byteCount)
                if case .pong(let number) = message { self.ponged(number) }
                if let action = self.session.receive(message) { self.perform(action) }
            }
            self.buffer.discardReadBytes()
        } catch {
            self.close("the receiver sent an invalid message: \(error.text)")
        }
    }

    private func ponged(_ number: UInt64) {
        self.change(StreamNumber(number)) { $0.ponged() }
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let peer, case .handshakeCompleted = event as? TLSUserEvent {
            if peer.isNamed(by: Self.certificate(context)) {
                self.isEstablished = true
                self.perform(self.session.start(self.hello))
            } else {
                self.close(peer.wrongHost)
            }
        }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        let text = ConnectionFailure.reason(of: error)
        let reason = self.peer.flatMap {
            $0.reason(
                of: error, certificate: Self.certificate(context), isEstablished: self.isEstablished, otherwise: text)
        }
        self.reason = self.reason ?? (reason ?? text)
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.ended()
        context.fireChannelInactive()
    }

    func handlerRemoved(context: ChannelHandlerContext) { self.ended() }

    private func ended() {
        guard self.context != nil else { return }
        self.context = nil
        self.heart?.cancel()
        self.timer?.cancel()
        let reason = self.reason ?? "the receiver closed the connection"
        // The request first, so that no other takes its place on this line.
        self.change { $0.lost(StreamRefusal(.unavailable, reason)) }
        self.events(self, .closed(reason: reason))
    }

    private static func certificate(_ context: ChannelHandlerContext) -> NIOSSLCertificate? {
        do {
            return try context.pipeline.syncOperations.handler(type: NIOSSLClientHandler.self).peerCertificate
        } catch {
            // The TLS handler has left the pipeline, and the certificate with it.
            return nil
        }
    }
}

extension BatchHeader {
    /// Whether a receiver with these limits reads the batch.
    func fits(_ limits: ProtocolLimits) -> Bool {
        self.rawByteCount <= limits.rawByteCountMax && self.wireByteCount <= limits.wireByteCountMax
            && self.lineCount <= limits.lineCountMax
    }
}

extension ReceiverIdentity {
    /// The present start, as `READY` writes it.
    var startText: String { self.starts[self.starts.count - 1].idText }
}
