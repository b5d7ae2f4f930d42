internal import NIOCore
internal import NIOEmbedded
internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// A connection between an agent and a receiver of a fleet: what is sent arrives in order, late or not at all.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class FleetLink: AgentLink, @unchecked Sendable {
    unowned let life: FleetLife
    let agent: FleetAgent
    let receiver: FleetReceiver
    private let generation: Int
    private let latency: ClosedRange<Int>
    private var lastArrival: (atReceiver: Int64, atAgent: Int64) = (0, 0)
    private var server: FleetServerSide?
    private var isOver = false
    private var isEndSaid = false
    /// What the agent has opened on it.
    private(set) var ids: [StreamNumber: StreamID] = [:]
    /// The lines of batches whose end was not heard to be stored.
    private var unheard: [StreamNumber: [(end: StreamOffset, lines: [ArraySlice<UInt8>])]] = [:]
    /// For planted bugs: each stream's file, the length that its agent has sealed and whose end is not durable, its last
    /// position, and the id by which the receiver knows it.
    private(set) var paths: [StreamNumber: String] = [:]
    private(set) var sealing: [StreamNumber: StreamOffset] = [:]
    var sealed: Set<StreamNumber> = []
    var positions: [StreamNumber: StreamOffset] = [:]
    var renamed: [StreamNumber: StreamID] = [:]

    init(_ life: FleetLife, _ agent: FleetAgent, _ receiver: FleetReceiver, generation: Int) {
        self.life = life
        self.agent = agent
        self.receiver = receiver
        self.generation = generation
        let isSlow = life.knows(.slowLinks) && life.dice.chance(500)
        self.latency = isSlow ? 20_000...400_000 : 50...5_000
    }

    func connect() {
        guard !self.life.partitions.contains([self.agent.number, self.receiver.number]) else {
            return self.life.schedule.after(.seconds(10)) { self.tell(.closed(reason: "no answer")) }
        }
        self.arriveAtReceiver {
            guard !self.isOver, let process = self.receiver.process else {
                return self.tell(.closed(reason: "refused"))
            }
            self.server = process.accept(self)
            self.tell(.connected)
        }
    }

    private func tell(_ event: LinkEvent) {
        self.arriveAtAgent { if self.agent.holds(self) { self.agent.post(event, self.generation) } }
    }

    private func arriveAtReceiver(_ body: @escaping () -> Void) {
        let time = max(self.lastArrival.atReceiver, self.life.schedule.now + self.delay)
        self.lastArrival.atReceiver = time
        self.life.schedule.at(time, body)
    }

    private func arriveAtAgent(_ body: @escaping () -> Void) {
        let time = max(self.lastArrival.atAgent, self.life.schedule.now + self.delay)
        self.lastArrival.atAgent = time
        self.life.schedule.at(time, body)
    }

    private var delay: Int64 { Int64(self.life.dice.int(self.latency)) * 1000 }

    // MARK: The agent's side

    func send(_ message: Message) {
        guard !self.isOver, self.agent.isAlive else { return }
        switch message {
        case .open(let number, let description, let claim):
            self.ids[number] = description.id
            self.paths[number] = description.source
            self.life.note(
                "agent \(self.agent.number) opens \(description.id) at \(self.receiver.label) from "
                    + "\(claim.from.map { String($0.rawValue) } ?? "-")")
        case .seal(let number, let length):
            self.sealing[number] = length
            self.noteMessage(message, "says")
        default: self.noteMessage(message, "says")
        }
        self.agent.said(message)
        self.deliver(self.said(message).encoded)
    }

    func send(_ batch: RawBatch) {
        guard !self.isOver, self.agent.isAlive else { return }
        let raw = UnsafeRawBufferPointer(batch.buffer.bytes)[..<batch.header.rawByteCount]
        self.life.ledger.sent(batch.id, at: batch.header.offset, raw)
        self.unheard[batch.header.stream, default: []].append((batch.header.end, FileLines.of(raw)))
        self.life.note(
            "agent \(self.agent.number) sends \(batch.id) \(batch.header.offset.rawValue)-\(batch.header.end.rawValue) to "
                + "\(self.receiver.label): \(FleetLedger.tokens(in: raw))")
        self.deliver(self.agent.encoded(batch, of: self.renamed[batch.header.stream] ?? batch.id))
    }

    private func deliver(_ bytes: [UInt8]) {
        self.arriveAtReceiver { if !self.isEndSaid { self.server?.arrived(bytes) } }
    }

    func close() {
        guard !self.isOver else { return }
        self.isOver = true
        self.arriveAtReceiver { self.server?.peerEnded() }
    }

    /// The connection breaks: what is on its way is lost.
    func breakOff() {
        guard !self.isEndSaid else { return }
        let server = self.server
        self.end()
        server?.peerEnded()
    }

    // MARK: The receiver's side

    /// The receiver has said its last.
    func end() {
        guard !self.isEndSaid else { return }
        self.isEndSaid = true
        self.server = nil
        self.tell(.closed(reason: "the connection ended"))
    }

    /// Messages of the receiver, whole ones, as the agent hears them.
    func say(_ messages: [Message]) {
        guard !self.isEndSaid else { return }
        let bytes = messages.flatMap { self.heard($0) }.flatMap(\.encoded)
        guard !bytes.isEmpty else { return }
        // What is on its way while its agent is sent to another fleet never arrives.
        let bucket = self.life.bucket
        self.arriveAtAgent {
            guard self.life.bucket === bucket, self.agent.holds(self) else { return }
            for message in messages { self.note(arrived: message) }
            self.agent.post(.received(bytes), self.generation)
        }
    }

    /// The agent hears that a stream is stored up to an offset.
    private func note(arrived message: Message) {
        guard case .stored(let number, let offset) = message, let batches = self.unheard[number] else { return }
        for batch in batches where batch.end <= offset { self.agent.heard(batch.lines) }
        self.unheard[number] = batches.filter { $0.end > offset }
    }

    /// Judges what the receiver promises.
    func hear(_ message: Message) {
        self.noteMessage(message, "hears")
        switch message {
        case .stored(let number, let offset): self.demand(number, below: offset, "STORED")
        case .sealed(let number, let proof, _):
            guard let length = self.sealedLength(number, proof) else { break }
            self.demand(number, below: length, "SEALED")
        default: break
        }
    }

    /// Up to where `SEALED` speaks: what the agent sealed, or, if an earlier `SEAL` is answered, the length of its file.
    ///
    /// It says nothing of a file of which it does not prove the end, nor of what someone else sent behind it.
    private func sealedLength(_ number: StreamNumber, _ proof: StreamProof) -> StreamOffset? {
        if let length = self.sealing[number] { return length }
        guard let path = self.paths[number], let bytes = self.agent.disk.memory.bytes(of: path) else { return nil }
        let length = StreamOffset(UInt64(bytes.count))
        return self.proof(number, at: length)?.coversSame(as: proof) == true ? length : nil
    }

    private func noteMessage(_ message: Message, _ verb: String) {
        let text: String
        switch message {
        case .at(let number, let offset, _, _): text = "\(verb) AT \(self.name(number)) \(offset.rawValue)"
        case .ack(let number, let offset, _): text = "\(verb) ACK \(self.name(number)) \(offset.rawValue)"
        case .nak(let number, let offset, let code, _):
            text = "\(verb) NAK \(self.name(number)) \(offset.rawValue) \(code)"
        case .skip(let number, let range):
            text =
                "\(verb) SKIP \(self.name(number)) \(range.offset.rawValue)-\(range.end.rawValue) \(range.reason)"
        case .seal(let number, let length): text = "\(verb) SEAL \(self.name(number)) \(length.rawValue)"
        case .sealed(let number, _, _): text = "\(verb) SEALED \(self.name(number))"
        case .stored(let number, let offset): text = "\(verb) STORED \(self.name(number)) \(offset.rawValue)"
        default: return
        }
        self.life.note("agent \(self.agent.number), \(self.receiver.label): \(text)")
    }

    private func name(_ number: StreamNumber) -> String { self.ids[number].map { "\($0)" } ?? "?" }

    private func demand(_ number: StreamNumber, below offset: StreamOffset, _ word: String) {
        guard let id = self.ids[number], let tokens = self.life.ledger.sent(id, below: offset) else { return }
        let stored = self.life.bucket.tokens
        if let token = tokens.filter({ !stored.contains($0) }).min() {
            self.life.violate("\(self.receiver.label) says \(word) of \(id), and the bucket lacks line \(token)")
        }
    }
}

/// The receiver's end of a link: the shipped handler in an embedded channel, which reads only what it asked for.
final class FleetServerSide {
    private let link: FleetLink
    private let process: FleetReceiverProcess
    private let channel: EmbeddedChannel
    private let gate = ReadGate()
    /// Bytes that the kernel holds for the process.
    private var unread: [UInt8] = []
    private var hasPeerEnded = false
    private var isDelivering = false
    /// Answers that are not whole messages yet.
    private var unparsed: [UInt8] = []

    init(_ link: FleetLink, _ process: FleetReceiverProcess, handler: some ChannelHandler) {
        self.link = link
        self.process = process
        self.channel = EmbeddedChannel(handlers: [self.gate, handler], loop: process.loop)
        let promise = process.loop.makePromise(of: Void.self)
        promise.futureResult.whenFailure { preconditionFailure("an embedded channel cannot connect: \($0)") }
        self.channel.connect(to: .embedded, promise: promise)
    }

    var isOpen: Bool { self.process.isAlive && self.channel.isActive }

    func arrived(_ bytes: [UInt8]) {
        self.unread += bytes
        self.deliver()
    }

    func peerEnded() {
        self.hasPeerEnded = true
        if self.link.life.dice.chance(300) { self.unread = [] }
        self.deliver()
    }

    /// Hands over what the process asked to read.
    private func deliver() {
        guard self.isOpen else { return }
        if self.gate.isAsked, !self.unread.isEmpty {
            self.gate.isAsked = false
            let bytes = self.unread
            self.unread = []
            do {
                try self.channel.writeInbound(ByteBuffer(bytes: bytes))
            } catch {
                self.channel.close(promise: nil)
            }
        } else if self.gate.isAsked, self.hasPeerEnded {
            self.channel.close(promise: nil)
        }
        self.process.turn()
    }

    /// Sends what the process wrote, and reads on when it asked for more.
    func flush() {
        let written = self.gate.written
        self.gate.written = []
        self.unparsed += written
        var messages: [Message] = []
        while let (message, byteCount) = Message.first(in: self.unparsed[...]) {
            self.unparsed.removeFirst(byteCount)
            self.link.hear(message)
            messages.append(message)
        }
        if !messages.isEmpty { self.link.say(messages) }
        if self.gate.isOutputClosed || !self.channel.isActive { self.link.end() }
        if self.isOpen, self.gate.isAsked, !self.unread.isEmpty || self.hasPeerEnded, !self.isDelivering {
            self.isDelivering = true
            self.link.life.schedule.after(10_000) {
                self.isDelivering = false
                self.deliver()
            }
        }
    }

    /// The process is gone.
    func close() {
        if self.channel.isActive { self.channel.close(promise: nil) }
        self.link.end()
    }
}
