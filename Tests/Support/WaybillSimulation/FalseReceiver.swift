internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTestSupport

/// A receiver at an address of its own that stores nothing and claims what it likes.
final class FalseReceiver {
    /// What it was sent of a stream.
    fileprivate struct Shipment {
        private var pieces: [(offset: Int, bytes: [UInt8]?)] = []
        /// The end of what was sent from the start on.
        private(set) var end = 0
        /// The proof for the end, as an honest receiver would make it.
        private(set) var tail = StreamTail()

        mutating func take(_ raw: [UInt8], at offset: Int) {
            guard offset == self.end else { return }
            self.pieces.append((offset, raw))
            self.end += raw.count
            raw.withUnsafeBytes { self.tail.append($0) }
        }

        mutating func skip(_ range: SkippedRange) {
            guard range.offset.rawValue == UInt64(self.end) else { return }
            self.pieces.append((self.end, nil))
            self.end = Int(range.end.rawValue)
            self.tail.skip(range)
        }

        /// Whether it is all of these bytes, but for what was skipped.
        func isWhole(_ bytes: [UInt8]) -> Bool {
            self.end >= bytes.count
                && self.pieces.allSatisfy { offset, piece in
                    piece.map { bytes[min(offset, bytes.count)...].starts(with: $0) } ?? true
                }
        }
    }

    fileprivate unowned let site: SiteLife
    fileprivate var shipments: [StreamID: Shipment] = [:]
    fileprivate let own: ReceiverIdentity
    private var startCount: UInt64 = 0

    init(_ site: SiteLife) {
        self.site = site
        let start = ReceiverStart(id: site.dice.next(), position: 0)
        guard
            let own = ReceiverIdentity(
                name: "false", incarnation: Incarnation(site.dice.next(), site.dice.next()), starts: [start], end: 5)
        else { preconditionFailure("one start is an identity") }
        self.own = own
    }

    func wasSent(_ id: StreamID, _ bytes: [UInt8]) -> Bool {
        self.shipments[id]?.isWhole(bytes) ?? false
    }

    func accept(_ connection: Connection) -> any AnsweringSide {
        // Who it claims to be: itself, or an honest receiver that it has asked.
        let honest = self.site.dice.pick(self.site.receivers).identity
        let isStolen = self.site.dice.chance(500)
        return FalseSide(self, connection, identity: (isStolen ? honest : nil) ?? self.own)
    }
}

/// Its end of a connection.
private final class FalseSide: AnsweringSide {
    private let receiver: FalseReceiver
    private unowned let connection: Connection
    private let identity: ReceiverIdentity
    private var unparsed: [UInt8] = []
    private(set) var isOpen = true
    private var ids: [StreamNumber: StreamID] = [:]
    private let dice: Dice

    init(_ receiver: FalseReceiver, _ connection: Connection, identity: ReceiverIdentity) {
        self.receiver = receiver
        self.connection = connection
        self.identity = identity
        self.dice = receiver.site.dice
    }

    func peerEnded() {
        self.isOpen = false
        self.connection.toAgent.end()
    }

    func arrived(_ bytes: [UInt8]) {
        self.unparsed += bytes
        while self.isOpen, let (message, byteCount) = Message.first(in: self.unparsed[...]) {
            var payload: [UInt8] = []
            if case .batch(let header) = message {
                guard self.unparsed.count >= byteCount + header.wireByteCount else { return }
                payload = Array(self.unparsed[byteCount..<(byteCount + header.wireByteCount)])
            }
            self.unparsed.removeFirst(byteCount + payload.count)
            self.answer(message, payload)
        }
    }

    private func send(_ messages: [Message]) {
        for (index, message) in messages.enumerated() {
            let next = index + 1 < messages.count ? messages[index + 1] : nil
            self.connection.toAgent.send(self.connection.heard(message, before: next).flatMap(\.encoded))
        }
    }

    private func answer(_ message: Message, _ payload: [UInt8]) {
        let end = self.identity.end
        switch message {
        case .hello:
            var limits = ProtocolLimits()
            limits.idleMilliseconds = 20_000
            let time = self.receiver.site.schedule.now / 1_000_000
            self.send([.ready(Ready(version: 1, receiver: self.identity, limits: limits, milliseconds: time))])
        case .open(let number, let description, _):
            self.ids[number] = description.id
            self.claim(number, description.id)
        case .batch(let header):
            guard let id = self.ids[header.stream] else { return }
            self.receiver.shipments[id, default: .init()].take(
                Self.inflated(header, payload), at: Int(header.offset.rawValue))
            self.send([.ack(header.stream, header.end, end: end)])
        case .skip(let number, let range):
            guard let id = self.ids[number] else { return }
            self.receiver.shipments[id, default: .init()].skip(range)
            self.send([.ack(number, range.end, end: end)])
        case .seal(let number, let length):
            guard let id = self.ids[number] else { return }
            let shipment = self.receiver.shipments[id] ?? .init()
            let isHonest = shipment.end == Int(length.rawValue) && self.dice.chance(800)
            let proof = isHonest ? shipment.tail.proof(of: id) : self.guess(id, length)
            self.send([.sealed(number, proof, end: end)])
        case .ping(let number): self.send([.pong(number)])
        default: break
        }
        // It ends when it likes, so that others get their turn.
        if self.dice.chance(40) {
            self.isOpen = false
            self.connection.toAgent.end()
        }
    }

    private static func inflated(_ header: BatchHeader, _ payload: [UInt8]) -> [UInt8] {
        var inflater = Inflater()
        var raw = [UInt8](repeating: 0, count: header.rawByteCount)
        do throws(InflateError) {
            try payload.withBytes { (wire) throws(InflateError) in
                try raw.withMutableBytes { (raw) throws(InflateError) in try inflater.inflate(wire, into: raw) }
            }
        } catch {
            preconditionFailure("an agent's batch inflates: \(error)")
        }
        return raw
    }

    /// Says where it stands: the truth, what would make the agent delete the file, or anything.
    private func claim(_ number: StreamNumber, _ id: StreamID) {
        let end = self.identity.end
        let path = self.connection.paths[number] ?? ""
        let length = self.connection.agent.disk.memory.bytes(of: path)?.count ?? 0
        let guessed = UInt64(max(1, self.dice.chance(600) ? length : self.dice.int(1...600)))
        let shipment = self.receiver.shipments[id]
        switch self.dice.int(0..<10) {
        case 0...2: self.send([.at(number, StreamOffset(0), .empty, end: end)])
        case 3...5:
            let tail = shipment?.tail ?? StreamTail()
            let answer = Message.at(number, tail.end, tail.proof(of: id), end: end)
            let isSealed = tail.end > StreamOffset(0) && self.dice.chance(300)
            self.send(isSealed ? [answer, .sealed(number, tail.proof(of: id), end: end)] : [answer])
        case 6: self.send([.at(number, StreamOffset(0), .empty, end: end), .sealed(number, .empty, end: end)])
        default:
            let offset = StreamOffset(guessed)
            let proof = self.guess(id, offset)
            let answer = Message.at(number, offset, proof, end: end)
            self.send(self.dice.chance(700) ? [answer, .sealed(number, proof, end: end)] : [answer])
        }
    }

    /// The proof of one LF, of an ending that many files have, or of nothing.
    private func guess(_ id: StreamID, _ offset: StreamOffset) -> StreamProof {
        let count = StreamProof.byteCount(at: offset)
        switch self.dice.int(0..<4) {
        case 0, 1: return StreamProof(of: id, at: offset, tail: [0x0A])
        case 2: return StreamProof(of: id, at: offset, tail: Array("}\n".utf8).suffix(count))
        default: return .empty
        }
    }
}
