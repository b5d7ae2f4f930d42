internal import NIOCore
internal import NIOTLS
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillHost

/// What wakes the pump: a queue of events, and a pipe that `poll(2)` watches.
final class PumpInbox: Sendable {
    private struct State {
        var events: [(generation: Int, event: LinkEvent)] = []
        var isSignalled = false
        var isClosed = false
    }

    private let state = Lock(State())
    let wake: WakePipe

    init() throws(FileSystemError) {
        self.wake = try WakePipe()
    }

    func post(_ event: LinkEvent, generation: Int) {
        let (isTaken, mustSignal) = self.state.withLock { state in
            guard !state.isClosed else { return (false, false) }
            state.events.append((generation, event))
            defer { state.isSignalled = true }
            return (true, !state.isSignalled)
        }
        if mustSignal { self.wake.signal() }
        if !isTaken, case .asked(let question) = event { question.refuse() }
    }

    /// Accepts no more events: the pump has ended.
    func close() {
        let events = self.state.withLock { state in
            state.isClosed = true
            defer { state.events = [] }
            return state.events
        }
        for case (_, .asked(let question)) in events { question.refuse() }
    }

    func drain() -> [(generation: Int, event: LinkEvent)] {
        self.state.withLock { state in
            if state.isSignalled {
                self.wake.clear()
                state.isSignalled = false
            }
            defer { state.events.removeAll(keepingCapacity: true) }
            return state.events
        }
    }
}

/// One connection to a receiver: sends messages and batches in the pump's order, and brings back bytes.
///
/// A batch takes its place in the order before it is compressed; whatever follows it waits.
final class Link: AgentLink, CompressedBatches {
    /// Something to send, at its place in the order.
    private struct Slot {
        /// `nil` while it is being compressed.
        var bytes: ByteBuffer?
        var isPong = false
    }

    private struct State {
        var carrier: (any LinkCarrier)?
        /// Until there is a connection: the candidates for it, one for each address that is tried.
        var candidates: [any Channel] = []
        var isClosed = false
        /// Everything from the first uncompressed batch on.
        var slots = CircularBuffer<Slot>()
        /// The ticket of the first slot.
        var firstTicket = 0
        var unwrittenPongCount = 0
        /// Reads that the pump has not yet answered with ``Link/read()``.
        var untakenReadCount = 0
        /// Whether the next read waits, either for the pump to take earlier ones or for PONGs to be written.
        var isReadHeld = true

        /// Whether a waiting read may begin.
        mutating func resumeReading() -> Bool {
            guard self.isReadHeld, self.hasRoomToRead else { return false }
            self.isReadHeld = false
            return true
        }

        /// False when the receiver stops reading our answers: then it is not read from either.
        var hasRoomToRead: Bool { self.untakenReadCount < 4 && self.unwrittenPongCount < 1024 }
    }

    private let compressor: BatchCompressor
    private let inbox: PumpInbox
    private let generation: Int
    private let state = Lock(State())

    /// Connects in the background and posts events with `generation`.
    ///
    /// With TLS the link is connected once the receiver has proven its name, and through a door once that has opened a tunnel;
    /// nothing of the protocol is sent before that.
    ///
    /// - Parameter door: the door at the address; `nil`: it is a receiver's.
    init(
        to address: NetworkAddress, through door: DoorAddress? = nil, group: any EventLoopGroup,
        attempts: ConnectionAttempts, tls: TLSClient?, compressor: BatchCompressor, inbox: PumpInbox, generation: Int
    ) {
        self.compressor = compressor
        self.inbox = inbox
        self.generation = generation
        attempts.begin()
        LinkTransport.connect(to: address, on: group) { channel in
            guard self.takes(channel) else { throw ChannelError.alreadyClosed }
            let pipeline = channel.pipeline.syncOperations
            if let tls { try pipeline.addHandler(tls.handler(for: address)) }
            let peer = tls.map { TLSPeer(client: $0, address: address) }
            if let door { try TunnelHandshake(door).add(to: pipeline) }
            try pipeline.addHandler(
                LinkHandler(link: self, inbox: inbox, generation: generation, peer: peer, isTunnelled: door != nil))
        }.whenComplete { result in
            switch result {
            case .success(let channel):
                if self.connected(ChannelCarrier(channel: channel)) == .nobodyWaits {
                    channel.close(promise: nil)
                } else if tls == nil, door != nil {
                    channel.triggerUserOutboundEvent(TunnelRequest(), promise: nil)
                } else if tls == nil {
                    inbox.post(.connected, generation: generation)
                } else {
                    // Reads the handshake's first bytes; the handshake reads the rest itself.
                    channel.read()
                }
            case .failure(let error):
                inbox.post(.closed(reason: ConnectionFailure.text(of: error, to: address)), generation: generation)
            }
            attempts.end()
        }
    }

    /// Whether a channel may begin to connect: not once the link is closed.
    private func takes(_ candidate: any Channel) -> Bool {
        self.state.withLock { state in
            if !state.isClosed { state.candidates.append(candidate) }
            return !state.isClosed
        }
    }

    /// The link's state when a channel has connected.
    private enum Arrival {
        case awaited
        /// It was closed.
        case nobodyWaits
    }

    /// Goes through a tunnel that another system carries, and posts events with `generation`.
    init(
        through door: DoorAddress, _ open: TunnelOpener, compressor: BatchCompressor, inbox: PumpInbox, generation: Int
    ) {
        self.compressor = compressor
        self.inbox = inbox
        self.generation = generation
        let events = CarrierEvents(
            opened: { inbox.post(.connected, generation: generation) },
            received: { bytes in
                inbox.post(.received(bytes), generation: generation)
                if self.hasRead() { self.state.withLock { $0.carrier }?.read() }
            },
            closed: { inbox.post(.closed(reason: $0), generation: generation) })
        _ = self.connected(open(door.url, events))
    }

    private func connected(_ carrier: any LinkCarrier) -> Arrival {
        self.state.withLock { state in
            state.carrier = carrier
            state.candidates = []
            return state.isClosed ? .nobodyWaits : .awaited
        }
    }

    func send(_ message: Message) {
        var slot = Slot(bytes: ByteBuffer(bytes: message.encoded))
        if case .pong = message { slot.isPong = true }
        self.state.withLock { state in
            guard state.carrier != nil else { return }
            if slot.isPong { state.unwrittenPongCount += 1 }
            state.slots.append(slot)
            self.write(&state)
        }
    }

    func send(_ batch: RawBatch) {
        let ticket = self.state.withLock { state in
            state.slots.append(Slot())
            return state.firstTicket + state.slots.count - 1
        }
        self.compressor.compress(batch, for: self, ticket: ticket)
    }

    /// Puts a compressed batch in its place.
    func compressed(_ header: BatchHeader, _ payload: UnsafeRawBufferPointer, ticket: Int) {
        let line = Message.batch(header).encoded
        var bytes = ByteBuffer()
        bytes.reserveCapacity(line.count + payload.count)
        bytes.writeBytes(line)
        bytes.writeBytes(payload)
        self.state.withLock { state in
            guard !state.isClosed else { return }
            state.slots[offset: ticket - state.firstTicket].bytes = bytes
            self.write(&state)
        }
    }

    /// Writes what is ready at the head of the order, followed by one flush.
    ///
    /// Called under the lock, so that two threads keep the order: off its event loop a channel only queues the write.
    private func write(_ state: inout State) {
        guard let carrier = state.carrier else { return }
        while let slot = state.slots.first, let bytes = slot.bytes {
            state.slots.removeFirst()
            state.firstTicket += 1
            let isFollowed = state.slots.first?.bytes != nil
            var written: (@Sendable () -> Void)?
            if slot.isPong { written = { self.pongWritten() } }
            carrier.write(bytes, isFollowed: isFollowed, written: written)
        }
    }

    private func pongWritten() {
        let carrier = self.state.withLock { state -> (any LinkCarrier)? in
            state.unwrittenPongCount -= 1
            return state.resumeReading() ? state.carrier : nil
        }
        carrier?.read()
    }

    func read() {
        let carrier = self.state.withLock { state -> (any LinkCarrier)? in
            state.untakenReadCount = 0
            return state.resumeReading() ? state.carrier : nil
        }
        carrier?.read()
    }

    #if os(Linux)
        func lookAtPeer() {
            guard let channel = (self.state.withLock { $0.carrier } as? ChannelCarrier)?.channel else { return }
            // Nothing closes the descriptor while its event loop is here.
            channel.eventLoop.execute {
                guard let peer = LinkTransport.peer(of: channel) else { return }
                self.inbox.post(.peer(peer), generation: self.generation)
            }
        }
    #endif

    /// Counts one read that is passed to the pump.
    ///
    /// - Returns: whether the next read may begin.
    fileprivate func hasRead() -> Bool {
        self.state.withLock { state in
            state.untakenReadCount += 1
            state.isReadHeld = !state.hasRoomToRead
            return !state.isReadHeld
        }
    }

    func close() {
        let (carrier, candidates) = self.state.withLock { state -> ((any LinkCarrier)?, [any Channel]) in
            state.isClosed = true
            state.slots = CircularBuffer()
            defer { state.candidates = [] }
            return (state.carrier, state.candidates)
        }
        carrier?.close()
        for channel in candidates { channel.close(promise: nil) }
    }
}

/// Passes what arrives to the pump.
private final class LinkHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let link: Link
    private let inbox: PumpInbox
    private let generation: Int
    private var hasTaken = false
    /// The identity that the receiver must prove; `nil` without TLS.
    private let peer: TLSPeer?
    /// Whether the receiver is behind a door.
    private let isTunnelled: Bool
    private var isEstablished = false
    /// The first error.
    private var reason: String?

    init(link: Link, inbox: PumpInbox, generation: Int, peer: TLSPeer?, isTunnelled: Bool) {
        self.link = link
        self.inbox = inbox
        self.generation = generation
        self.peer = peer
        self.isTunnelled = isTunnelled
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let buffer = self.unwrapInboundIn(data)
        self.inbox.post(.received(Array(buffer.readableBytesView)), generation: self.generation)
        self.hasTaken = true
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        if self.hasTaken, self.link.hasRead() { context.read() }
        self.hasTaken = false
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if let peer, case .handshakeCompleted = event as? TLSUserEvent {
            if peer.isNamed(on: context.pipeline.syncOperations) {
                self.isEstablished = true
                if self.isTunnelled {
                    context.triggerUserOutboundEvent(TunnelRequest(), promise: nil)
                } else {
                    self.inbox.post(.connected, generation: self.generation)
                }
            } else {
                self.reason = peer.wrongHost
                context.close(promise: nil)
            }
        }
        if event is TunnelOpened { self.inbox.post(.connected, generation: self.generation) }
        context.fireUserInboundEventTriggered(event)
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        if let failure = error as? TunnelFailure {
            self.reason = self.reason ?? failure.description
        } else if let peer {
            self.reason =
                self.reason
                ?? peer.reason(
                    of: error, on: context.pipeline.syncOperations, isEstablished: self.isEstablished,
                    otherwise: ConnectionFailure.reason(of: error))
        } else {
            self.reason = ConnectionFailure.reason(of: error)
        }
        context.close(promise: nil)
    }

    func channelInactive(context: ChannelHandlerContext) {
        self.inbox.post(
            .closed(reason: self.reason ?? "the receiver closed the connection"), generation: self.generation)
        context.fireChannelInactive()
    }
}
