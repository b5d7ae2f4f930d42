internal import NIOCore
internal import WaybillProtocol
internal import WaybillSystem

/// A link to a receiver behind a door: the pump's messages become requests, one at a time, in their order.
///
///     Pump ─ Message, RawBatch ─▶ DoorLink ─ DoorSession ─▶ DoorTransport ─ HTTP ─▶ door
///       ▲──────── Message ────────────┘
///
/// Memory: batches that wait are in the compressor's buffers or compressed here; the window bounds both.
final class DoorLink: AgentLink, CompressedBatches {
    /// Something to ask, at its place in the order.
    private struct Slot {
        /// `nil` while it is being compressed.
        var message: Message?
        var payload: [UInt8] = []
        /// Not from the pump: a seal that is asked for again.
        var again: DoorSession.Question?
    }

    private struct State {
        var session = DoorSession()
        var slots = CircularBuffer<Slot>()
        /// The ticket of the first slot.
        var firstTicket = 0
        var isAsking = false
        var isClosed = false
    }

    /// How long until a seal is asked for again.
    private static let sealPause = TimeAmount.seconds(5)

    private let transport: any DoorTransport
    private let compressor: BatchCompressor
    private let eventLoop: any EventLoop
    private let inbox: PumpInbox
    private let generation: Int
    private let state = Lock(State())

    /// There is nothing to connect: the first request does.
    init(
        over transport: any DoorTransport, on eventLoop: any EventLoop, compressor: BatchCompressor, inbox: PumpInbox,
        generation: Int
    ) {
        self.transport = transport
        self.eventLoop = eventLoop
        self.compressor = compressor
        self.inbox = inbox
        self.generation = generation
        self.inbox.post(.connected, generation: generation)
    }

    func send(_ message: Message) {
        switch message {
        // It is this side that would have to answer, and it does.
        case .ping(let number): self.say([.pong(number)])
        case .bye: self.say([.bye])
        default:
            self.state.withLock { $0.slots.append(Slot(message: message)) }
            self.advance()
        }
    }

    func send(_ batch: RawBatch) {
        let ticket = self.state.withLock { state in
            state.slots.append(Slot())
            return state.firstTicket + state.slots.count - 1
        }
        self.compressor.compress(batch, for: self, ticket: ticket)
    }

    func compressed(_ header: BatchHeader, _ payload: UnsafeRawBufferPointer, ticket: Int) {
        self.state.withLock { state in
            guard !state.isClosed else { return }
            state.slots[offset: ticket - state.firstTicket].message = .batch(header)
            state.slots[offset: ticket - state.firstTicket].payload = Array(payload)
        }
        self.advance()
    }

    func close() {
        self.state.withLock { state in
            state.isClosed = true
            state.slots = CircularBuffer()
        }
        self.transport.close()
    }

    // MARK: Requests

    /// Sends the next request if none is on its way.
    private func advance() {
        guard let (request, question) = self.next() else { return }
        self.transport.send(request) { result in
            switch result {
            case .success(let answer): self.answered(answer, question)
            case .failure(let failure): self.inbox.post(.closed(reason: failure.reason), generation: self.generation)
            }
        }
    }

    private func next() -> (DoorCall, DoorSession.Question)? {
        self.state.withLock { state in
            guard !state.isAsking, !state.isClosed else { return nil }
            while let slot = state.slots.first, slot.message != nil || slot.again != nil {
                state.slots.removeFirst()
                state.firstTicket += 1
                let question = slot.again ?? slot.message.flatMap { state.session.question(for: $0) }
                guard let question, let request = state.session.request(for: question, payload: slot.payload) else {
                    continue
                }
                state.isAsking = true
                return (request, question)
            }
            return nil
        }
    }

    private func answered(_ answer: DoorAnswer, _ question: DoorSession.Question) {
        let reaction = self.state.withLock { state in
            state.isAsking = false
            return state.session.react(to: answer, question)
        }
        switch reaction {
        case .say(let messages): self.say(messages)
        case .wait(let question):
            self.eventLoop.scheduleTask(in: Self.sealPause) { self.askAgain(question) }
        case .sayAndClose(let messages, let reason):
            self.say(messages)
            return self.inbox.post(.closed(reason: reason), generation: self.generation)
        case .close(let reason): return self.inbox.post(.closed(reason: reason), generation: self.generation)
        }
        self.advance()
    }

    private func askAgain(_ question: DoorSession.Question) {
        self.state.withLock { state in
            if !state.isClosed { state.slots.append(Slot(again: question)) }
        }
        self.advance()
    }

    private func say(_ messages: [Message]) {
        self.inbox.post(.received(messages.flatMap(\.encoded)), generation: self.generation)
    }
}
