internal import NIOCore
internal import NIOEmbedded
internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillSystem

/// One direction of a connection: what is sent arrives in order, late, in pieces, in part or not at all.
final class Pipe {
    private unowned let life: any Life
    private let latency: ClosedRange<Int>
    private var lastArrival: Int64 = 0
    /// Nothing arrives any more, and no one is told.
    var isSilent = false
    private var isEnded = false
    /// The connection breaks behind so many bytes.
    private var byteCountLeft: Int?
    private let isSplit: Bool
    var arrived: (([UInt8]) -> Void)?
    var ended: (() -> Void)?
    var broke: (() -> Void)?

    init(_ life: any Life) {
        self.life = life
        let dice = life.dice
        self.latency = dice.pick(life.rules.latencies)
        self.isSplit = dice.chance(300)
        if life.rules.cutsConnections, dice.chance(500) { self.byteCountLeft = dice.int(0...6000) }
    }

    func send(_ bytes: [UInt8]) {
        guard !self.isEnded, !self.isSilent, !bytes.isEmpty else { return }
        if let left = self.byteCountLeft, left <= bytes.count {
            self.byteCountLeft = nil
            self.push(Array(bytes[..<left]))
            self.broke?()
            return
        }
        if let left = self.byteCountLeft { self.byteCountLeft = left - bytes.count }
        if self.isSplit, bytes.count > 1 {
            let middle = self.life.dice.int(1..<bytes.count)
            self.push(Array(bytes[..<middle]))
            self.push(Array(bytes[middle...]))
        } else {
            self.push(bytes)
        }
    }

    private func push(_ bytes: [UInt8]) {
        guard !bytes.isEmpty else { return }
        self.later { if let arrived = self.arrived { arrived(bytes) } }
    }

    /// The sender closes; the other side learns of it behind what was sent before.
    func end() {
        guard !self.isEnded, !self.isSilent else { return }
        self.isEnded = true
        self.later { self.ended?() }
    }

    private func later(_ body: @escaping () -> Void) {
        let delay = Int64(self.life.dice.int(self.latency)) * 1000
        self.lastArrival = max(self.lastArrival, self.life.schedule.now + delay)
        self.life.schedule.at(self.lastArrival) { if !self.isSilent { body() } }
    }

    /// What is on its way, and all that follows it, comes so much later.
    func stall(_ duration: Int64) {
        self.lastArrival = max(self.lastArrival, self.life.schedule.now) + duration
    }

    /// Takes the ends apart, so that nothing keeps anything in memory.
    func release() {
        self.isSilent = true
        self.arrived = nil
        self.ended = nil
        self.broke = nil
    }
}

/// What answers a connection: a receiver, or something that only pretends to be one.
protocol AnsweringSide: AnyObject {
    var isOpen: Bool { get }
    func arrived(_ bytes: [UInt8])
    func peerEnded()
}

/// What makes a connection: an agent, or something that only pretends to be one.
protocol CallingSide: AnyObject {
    var life: any Life { get }
    var toAgent: Pipe { get }
    /// What it has opened.
    var ids: [StreamNumber: StreamID] { get }
    /// Whose token it shows.
    var principal: String { get }
    /// What it takes an answer for.
    func heard(_ message: Message, before next: Message?) -> [Message]
    func loseReceiver()
}

/// A connection between an agent and a receiver, with what both sides know of it.
///
/// `@unchecked Sendable`: a life runs on one thread.
final class Connection: AgentLink, CallingSide, @unchecked Sendable {
    unowned let life: any Life
    let agent: SimulatedAgent
    /// The honest receiver to which it leads.
    private(set) var receiver: SimulatedReceiver?
    private let generation: Int
    private let toReceiver: Pipe
    let toAgent: Pipe
    private(set) var server: (any AnsweringSide)?
    /// What the agent has opened on it.
    private(set) var ids: [StreamNumber: StreamID] = [:]
    /// The file of each stream, for planted bugs.
    private(set) var paths: [StreamNumber: String] = [:]
    /// The length that the agent has sealed, and streams that a planted bug has called sealed.
    private(set) var sealing: [StreamNumber: StreamOffset] = [:]
    var calledSealed: Set<StreamNumber> = []
    /// How far each stream reaches as far as the agent knows, for planted bugs.
    var offsets: [StreamNumber: StreamOffset] = [:]
    /// How far the batches of each stream reach, for planted bugs.
    private var sent: [StreamNumber: StreamOffset] = [:]
    /// The ids that the receiver was told in place of those, for planted bugs.
    var renamed: [StreamNumber: StreamID] = [:]
    /// The lines of batches whose end was not heard to be durable; where files have trouble alone.
    private var unheard: [StreamNumber: [(end: StreamOffset, lines: [ArraySlice<UInt8>])]] = [:]
    /// Answers that have arrived and are not whole messages yet.
    private var unparsed: [UInt8] = []
    private(set) var isOver = false
    /// Whether it leads to the false receiver.
    var isFalse = false

    init(_ life: any Life, agent: SimulatedAgent, generation: Int) {
        self.life = life
        self.agent = agent
        self.generation = generation
        self.toReceiver = Pipe(life)
        self.toAgent = Pipe(life)
        self.toAgent.arrived = { [weak self] in self?.arriveAtAgent($0) }
        self.toAgent.ended = { [weak self] in self?.arriveEndAtAgent() }
        self.toReceiver.arrived = { [weak self] in self?.arriveAtReceiver($0) }
        self.toReceiver.ended = { [weak self] in self?.server?.peerEnded() }
        self.toReceiver.broke = { [weak self] in self?.breakOff() }
        self.toAgent.broke = { [weak self] in self?.breakOff() }
    }

    // MARK: The agent's side

    var principal: String { Ownership.agent }

    /// The receiver has accepted.
    func connected(to receiver: SimulatedReceiver? = nil, accept: (Connection) -> (any AnsweringSide)?) {
        self.receiver = receiver
        guard !self.isOver, let server = accept(self) else { return self.refused() }
        self.server = server
        self.agent.post(.connected, self.generation)
    }

    func refused() {
        self.agent.post(.closed(reason: "refused"), self.generation)
    }

    private func arriveEndAtAgent() {
        self.agent.post(.closed(reason: "the receiver closed the connection"), self.generation)
    }

    private func arriveAtAgent(_ bytes: [UInt8]) {
        if self.agent.holds(self) {
            if !self.life.fileTroubles.isEmpty, !self.isFalse { self.note(arrived: bytes) }
            self.agent.post(.received(bytes), self.generation)
        } else if self.agent.isPowered {
            // The kernel answers for a process that is gone.
            self.toReceiver.end()
        }
    }

    func send(_ message: Message) {
        guard !self.isOver, self.agent.isAlive else { return }
        if case .open(let number, let description, let claim) = message {
            self.life.opens(description, claim)
            self.ids[number] = description.id
            self.paths[number] = description.source
            self.agent.openCount += 1
            self.note("opens \(description.id) from \(claim.from.map { String($0.rawValue) } ?? "-")")
            self.agent.opened.insert(description.id)
            // The planted bug: what was disputed once is asked for never again.
            if self.agent.credulity.setAside.contains(description.id) { return }
        }
        if case .seal(let number, let length) = message {
            self.offsets[number] = length
            self.sealing[number] = length
            self.note("says \(message)")
        }
        self.agent.said(message)
        self.toReceiver.send(self.said(message).encoded)
    }

    func send(_ batch: RawBatch) {
        guard !self.isOver, self.agent.isAlive else { return }
        self.life.sends(batch, on: self)
        let bytes = self.agent.encoded(batch, of: self.renamed[batch.header.stream] ?? batch.id)
        self.sent[batch.header.stream] = batch.header.end
        if !self.life.fileTroubles.isEmpty { self.remember(batch) }
        if self.life.has(.ackBeforeCommit) {
            self.toAgent.send(Message.ack(batch.header.stream, batch.header.end, end: 0).encoded)
        }
        self.toReceiver.send(bytes)
    }

    private func remember(_ batch: RawBatch) {
        let bytes = Array(batch.buffer.bytes.prefix(batch.header.rawByteCount))
        self.agent.fileRecord.batchByteCountMax = max(self.agent.fileRecord.batchByteCountMax, bytes.count)
        self.unheard[batch.header.stream, default: []].append((batch.header.end, bytes.split(separator: 0x0A)))
    }

    /// The agent hears that streams are durable up to an offset.
    private func note(arrived bytes: [UInt8]) {
        self.unparsed += bytes
        while let (message, byteCount) = Message.first(in: self.unparsed[...]) {
            self.unparsed.removeFirst(byteCount)
            guard let (number, end) = self.life.delivered(message), let batches = self.unheard[number] else { continue }
            for batch in batches where batch.end <= end { self.agent.heard(batch.lines) }
            self.unheard[number] = batches.filter { $0.end > end }
        }
    }

    /// The planted bug: everything that was sent counts as acknowledged.
    func trustFlight() {
        guard !self.isOver else { return }
        for (number, end) in self.sent.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            self.agent.post(.received(Message.ack(number, end, end: 0).encoded), self.generation)
        }
    }

    func close() {
        guard !self.isOver else { return }
        self.isOver = true
        self.toReceiver.end()
    }

    // MARK: The receiver's side

    private func arriveAtReceiver(_ bytes: [UInt8]) {
        guard let server = self.server, server.isOpen else { return self.toAgent.end() }
        server.arrived(bytes)
    }

    /// What the agent takes an answer for: what it is, unless a bug is planted.
    func heard(_ message: Message, before next: Message?) -> [Message] {
        if case .ack(let number, let offset, _) = message, let id = self.ids[number] {
            self.offsets[number] = offset
            self.agent.acknowledged(id, offset)
        }
        switch message {
        case .at, .sealed, .nak, .stored: self.note("hears \(message)")
        default: break
        }
        let bent = self.translated(self.agent.believed(message, before: next, on: self))
        if case .at(let number, let offset, _, _) = bent { self.offsets[number] = offset }
        return self.bentInFleet(bent)
    }

    func note(_ text: @autoclosure () -> String) {
        self.life.note("\(self.agent.label), \(self.receiver?.label ?? "another receiver"): \(text())")
    }

    // MARK: Trouble

    func breakOff() {
        self.toAgent.end()
        self.toReceiver.end()
    }

    /// It breaks, what is on its way is lost, and both sides are told.
    func drop() {
        self.toAgent.isSilent = true
        self.toReceiver.isSilent = true
        self.server?.peerEnded()
        self.agent.dropAnswers()
        self.agent.post(.closed(reason: "the connection broke"), self.generation)
    }

    /// From now on nothing arrives at one side or both, and no one is told.
    func fallSilent() {
        let sides = self.life.dice.int(1...3)
        if sides & 1 != 0 { self.toAgent.isSilent = true }
        if sides & 2 != 0 { self.toReceiver.isSilent = true }
    }

    /// A machine lost its power: it sends nothing more, not even that.
    func loseReceiver() {
        self.server = nil
        self.toAgent.isSilent = true
    }

    func loseAgent() {
        self.isOver = true
        self.toReceiver.isSilent = true
        self.toAgent.isSilent = true
    }

    func stall() {
        let duration = self.life.dice.milliseconds(500...90_000)
        if self.life.dice.chance(600) { self.toReceiver.stall(duration) }
        if self.life.dice.chance(600) { self.toAgent.stall(duration) }
    }

    /// Whether neither side can say anything more on it.
    var isFinished: Bool { self.isOver && !(self.server?.isOpen ?? false) }

    func release() {
        self.isOver = true
        self.toAgent.release()
        self.toReceiver.release()
        self.server = nil
        self.receiver = nil
    }
}

/// The receiver's end of a connection: the shipped handler in an embedded channel, which reads only what it asked for.
final class ServerSide: AnsweringSide {
    private let connection: any CallingSide
    private let process: ReceiverProcess
    private let channel: EmbeddedChannel
    private let gate = ReadGate()
    /// Bytes that the kernel holds for the process.
    private var unread: [UInt8] = []
    private var hasPeerEnded = false
    private var isEndSaid = false
    private var isDelivering = false
    /// Answers that are not whole messages yet.
    private var unparsed: [UInt8] = []

    init(_ connection: any CallingSide, _ process: ReceiverProcess, handler: some ChannelHandler) {
        self.connection = connection
        self.process = process
        self.channel = EmbeddedChannel(handlers: [self.gate, handler], loop: process.loop)
        // An embedded channel is open once it was told where it is connected to; the address means nothing.
        let promise = process.loop.makePromise(of: Void.self)
        promise.futureResult.whenFailure { error in preconditionFailure("an embedded channel cannot connect: \(error)")
        }
        self.channel.connect(to: .embedded, promise: promise)
    }

    var isOpen: Bool { self.process.isAlive && self.channel.isActive }

    func arrived(_ bytes: [UInt8]) {
        self.unread += bytes
        self.deliver()
    }

    func peerEnded() {
        self.hasPeerEnded = true
        if self.connection.life.dice.chance(300) { self.unread = [] }
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
        let bytes = self.gate.written
        self.gate.written = []
        if !bytes.isEmpty { self.connection.toAgent.send(self.heard(bytes)) }
        if !self.isEndSaid, self.gate.isOutputClosed || !self.channel.isActive {
            self.isEndSaid = true
            self.connection.toAgent.end()
        }
        if self.isOpen, self.gate.isAsked, !self.unread.isEmpty || self.hasPeerEnded, !self.isDelivering {
            self.isDelivering = true
            self.connection.life.schedule.after(10_000) {
                self.isDelivering = false
                self.deliver()
            }
        }
    }

    /// Judges what the receiver promises in these bytes.
    private func heard(_ bytes: [UInt8]) -> [UInt8] {
        self.unparsed += bytes
        var sent: [UInt8] = []
        var start = 0
        while let (message, byteCount) = Message.first(in: self.unparsed[start...]) {
            let next = Message.first(in: self.unparsed[(start + byteCount)...])?.message
            self.connection.life.judge(message, on: self.connection, of: self.process)
            let heard = self.connection.heard(message, before: next)
            sent += heard == [message] ? Array(self.unparsed[start..<(start + byteCount)]) : heard.flatMap(\.encoded)
            start += byteCount
        }
        self.unparsed.removeFirst(start)
        return sent
    }

    /// The process is gone.
    func close(isSaid: Bool) {
        if self.channel.isActive { self.channel.close(promise: nil) }
        if isSaid, !self.isEndSaid {
            self.isEndSaid = true
            self.connection.toAgent.end()
        }
    }

    func lost() {
        self.isEndSaid = true
        self.connection.loseReceiver()
    }

    /// The receiver stops: it says so and closes.
    func leave() {
        self.gate.written += Message.bye.encoded
        self.channel.close(promise: nil)
        self.flush()
    }
}

/// The socket of an embedded channel: keeps what is written, and knows whether anybody wants to read.
final class ReadGate: ChannelOutboundHandler {
    typealias OutboundIn = ByteBuffer
    typealias OutboundOut = ByteBuffer

    var isAsked = false
    var isOutputClosed = false
    var written: [UInt8] = []

    func read(context: ChannelHandlerContext) {
        self.isAsked = true
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        self.written += self.unwrapOutboundIn(data).readableBytesView
        promise?.succeed()
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        if case .output = mode {
            self.isOutputClosed = true
            promise?.succeed()
        } else {
            context.close(mode: mode, promise: promise)
        }
    }
}

extension SocketAddress {
    static var embedded: SocketAddress {
        do {
            return try SocketAddress(unixDomainSocketPath: "/simulated")
        } catch {
            preconditionFailure("a short path is an address: \(error)")
        }
    }
}

extension Message {
    /// The message at the start of `bytes`; `nil` while it is not whole.
    static func first(in bytes: ArraySlice<UInt8>) -> (message: Message, byteCount: Int)? {
        bytes.withUnsafeBytes { buffer in
            do throws(WireError) {
                return try Message.decode(prefixOf: buffer)
            } catch {
                preconditionFailure("a receiver sent what is not a message: \(error)")
            }
        }
    }
}
