internal import WaybillProtocol
internal import WaybillTestSupport

/// Both machines with a network between them that drops, repeats and reorders messages.
///
/// TCP does none of that, but a proxy, a bug or a stranger might. Whatever happens, the agent never takes for durable
/// what the receiver does not hold, and what the receiver holds is the source's bytes; without faults all arrives.
enum SessionPairFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        var input = FuzzInput(input)
        var pair = SessionPair(isFaulty: input.bool())
        while !input.isAtEnd, !pair.isClosed { try pair.step(&input) }
        if pair.faultCount == 0 {
            for _ in 0..<2000 where !pair.isDone { try pair.settle() }
            try require(pair.isDone && !pair.isClosed, "a connection without faults does not come to its end")
        }
    }
}

private struct SessionPair: ~Copyable {
    private static let files: [[UInt8]] = [40, 0, 97].map { count in (0..<count).map { UInt8($0) } }

    private struct Packet {
        let message: Message
        var payload: [UInt8] = []
    }

    private enum Work {
        case open(StreamNumber, StreamID)
        case batch(StreamNumber, StreamID, BatchHeader, [UInt8])
        case seal(StreamNumber, StreamID, UInt64)
    }

    private enum Standing {
        case idle
        case opening
        case open(cursor: Int)
        case waiting
        case finished
    }

    private struct Held {
        var bytes: [UInt8] = []
        var isSealed = false
    }

    private var sender = SenderSession()
    private var receiver = ReceiverSession(limits: SmallMessages.limits())
    private var up: [Packet] = []
    private var down: [Packet] = []
    private var works: [Work] = []
    private var standings = Array(repeating: Standing.idle, count: Self.files.count)
    private var held: [StreamID: Held] = [:]
    private let isFaulty: Bool
    private(set) var faultCount = 0
    private(set) var isClosed = false

    init(isFaulty: Bool) {
        self.isFaulty = isFaulty
        _ = self.sender.start(SmallMessages.hello())
        self.up.append(Packet(message: .hello(SmallMessages.hello())))
    }

    var isDone: Bool {
        self.standings.allSatisfy { if case .finished = $0 { true } else { false } }
    }

    mutating func step(_ input: inout FuzzInput) throws {
        let decision = input.byte()
        let fault = self.isFaulty ? decision >> 4 : 0
        switch decision & 3 {
        case 0: self.agentSends(Int(decision >> 2) % Self.files.count, byteCount: 1 + Int(decision >> 3))
        case 1:
            self.faultCount += Self.disturb(&self.up, fault)
            if !self.up.isEmpty { try self.receiverReads(self.up.removeFirst()) }
        case 2: self.committerWorks()
        default:
            self.faultCount += Self.disturb(&self.down, fault)
            if !self.down.isEmpty { try self.agentReads(self.down.removeFirst()) }
        }
    }

    /// One round in which everybody does what there is to do.
    mutating func settle() throws {
        for file in Self.files.indices { self.agentSends(file, byteCount: 7) }
        while !self.up.isEmpty { try self.receiverReads(self.up.removeFirst()) }
        while !self.works.isEmpty { self.committerWorks() }
        while !self.down.isEmpty { try self.agentReads(self.down.removeFirst()) }
    }

    /// - Returns: 1 if something happened to the packets, else 0.
    private static func disturb(_ packets: inout [Packet], _ fault: UInt8) -> Int {
        guard let first = packets.first else { return 0 }
        switch fault {
        case 13: packets.removeFirst()
        case 14: packets.insert(first, at: 0)
        case 15 where packets.count > 1: packets.swapAt(0, packets.count - 1)
        default: return 0
        }
        return 1
    }

    private static func number(_ file: Int) -> StreamNumber {
        StreamNumber(UInt64(file + 1))
    }

    private mutating func agentSends(_ file: Int, byteCount: Int) {
        guard self.sender.limits != nil, !self.isClosed else { return }
        let number = Self.number(file)
        switch self.standings[file] {
        case .opening, .waiting, .finished: return
        case .idle:
            let description = SmallMessages.description(file)
            _ = self.sender.open(number, description)
            self.up.append(Packet(message: .open(number, description, .none)))
            self.standings[file] = .opening
        case .open(let cursor) where cursor >= Self.files[file].count:
            _ = self.sender.seal(number, length: StreamOffset(UInt64(cursor)))
            self.up.append(Packet(message: .seal(number, length: StreamOffset(UInt64(cursor)))))
            self.standings[file] = .waiting
        case .open(let cursor):
            let end = min(cursor + byteCount, Self.files[file].count)
            guard self.sender.admits(rawByteCount: end - cursor) else { return }
            let header = BatchHeader(
                stream: number, offset: StreamOffset(UInt64(cursor)), rawByteCount: end - cursor, lineCount: 1,
                wireByteCount: end - cursor, checksum: 0)
            self.sender.batchSent(header)
            self.up.append(Packet(message: .batch(header), payload: Array(Self.files[file][cursor..<end])))
            self.standings[file] = .open(cursor: end)
        }
    }

    private mutating func receiverReads(_ packet: Packet) throws {
        guard let action = self.receiver.receive(packet.message) else { return }
        switch action {
        case .reply(let message): self.down.append(Packet(message: message))
        case .admit: self.down.append(Packet(message: self.receiver.admit(SmallMessages.ready())))
        case .open(let number, let description, _): self.works.append(.open(number, description.id))
        case .readBatch(let header, let id):
            self.works.append(.batch(header.stream, id, header, packet.payload))
        case .discardBatch, .skip: break
        case .refuseBatch(let header, _): preconditionFailure("no SEALED waits, and yet \(header) is refused")
        case .seal(let number, let id, let length): self.works.append(.seal(number, id, length.rawValue))
        case .close(let message): self.down.append(Packet(message: message))
        }
    }

    private mutating func answer(_ messages: [Message]) {
        self.down += messages.map { Packet(message: $0) }
    }

    private mutating func committerWorks() {
        guard !self.works.isEmpty else { return }
        switch self.works.removeFirst() {
        case .open(let number, let id):
            let held = self.held[id, default: Held()]
            self.answer(
                self.receiver.opened(
                    number, at: StreamOffset(UInt64(held.bytes.count)), .empty, isSealed: held.isSealed, end: 0))
        case .batch(let number, let id, let header, let payload):
            let count = UInt64(self.held[id, default: Held()].bytes.count)
            if header.end.rawValue <= count {
                self.answer(self.receiver.durable(number, upTo: StreamOffset(count), end: 0))
            } else if header.offset.rawValue == count, self.held[id]?.isSealed != true {
                self.held[id, default: Held()].bytes += payload
                self.answer(self.receiver.durable(number, upTo: header.end, end: 0))
            } else {
                self.answer(self.receiver.refused(number, at: StreamOffset(count), .gap, text: ""))
            }
        case .seal(let number, let id, let length):
            let count = UInt64(self.held[id, default: Held()].bytes.count)
            if length == count {
                self.held[id, default: Held()].isSealed = true
                self.answer(self.receiver.sealed(number, .empty, end: 0))
            } else {
                self.answer(self.receiver.refused(number, at: StreamOffset(count), .gap, text: ""))
            }
        }
    }

    private mutating func agentReads(_ packet: Packet) throws {
        guard let action = self.sender.receive(packet.message) else { return }
        switch action {
        case .seek(let number, let offset, _, _): try self.seek(Int(number.rawValue) - 1, offset.rawValue)
        case .advance(let number, let offset, _):
            try self.checkHeld(Int(number.rawValue) - 1, offset.rawValue, "acknowledged")
        case .finish(let number, _, _):
            let file = Int(number.rawValue) - 1
            let held = self.held[SmallMessages.id(file), default: Held()]
            try require(held.isSealed, "finished without being sealed")
            try self.checkHeld(file, UInt64(Self.files[file].count), "finished")
            self.standings[file] = .finished
        case .reopen(let number, _, _, _): self.standings[Int(number.rawValue) - 1] = .idle
        case .send(let message): self.up.append(Packet(message: message))
        case .close: self.isClosed = true
        case .start, .pause, .move, .stored, .note: break
        }
    }

    /// What the agent seeks to was durable; it may have been overtaken since.
    private mutating func seek(_ file: Int, _ offset: UInt64) throws {
        try self.checkHeld(file, offset, "resumed")
        self.standings[file] = .open(cursor: Int(offset))
    }

    private func checkHeld(_ file: Int, _ offset: UInt64, _ what: String) throws {
        let bytes = self.held[SmallMessages.id(file), default: Held()].bytes
        try require(
            bytes.count >= Int(offset) && bytes.elementsEqual(Self.files[file].prefix(bytes.count)),
            "\(what) at \(offset) while \(bytes.count) bytes are held: \(bytes)")
    }
}
