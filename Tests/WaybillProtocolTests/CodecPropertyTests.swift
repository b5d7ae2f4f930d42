import Testing
import WaybillProtocol
import WaybillSystem

/// Messages at random, near the borders of what is allowed.
struct RandomMessages {
    var generator: SeededGenerator

    init(seed: UInt64) {
        self.generator = SeededGenerator(seed: seed)
    }

    mutating func integer(from minimum: UInt64 = 0) -> UInt64 {
        let edges = [minimum, minimum + 1, 9, 10, 4096, 1 << 32, LineProtocol.integerMax - 1, LineProtocol.integerMax]
        if Bool.random(using: &self.generator) { return edges.randomElement(using: &self.generator) ?? minimum }
        let bits = UInt64.random(in: 1...52, using: &self.generator)
        return UInt64.random(in: minimum...(1 << bits), using: &self.generator)
    }

    mutating func count() -> Int {
        Int(self.integer(from: 1))
    }

    mutating func number() -> StreamNumber {
        StreamNumber(self.integer(from: 1))
    }

    mutating func offset() -> StreamOffset {
        StreamOffset(self.integer())
    }

    mutating func text(_ lengths: ClosedRange<Int> = 0...30) -> String {
        var result = ""
        let planes: [ClosedRange<UInt32>] = [0...0x1F, 0x20...0x7E, 0x7F...0x7FF, 0xAC00...0xD7A3, 0x1F300...0x1F9FF]
        for _ in 0..<Int.random(in: lengths, using: &self.generator) {
            let plane = planes.randomElement(using: &self.generator) ?? 0x41...0x41
            if let scalar = Unicode.Scalar(UInt32.random(in: plane, using: &self.generator)) {
                result.unicodeScalars.append(scalar)
            }
        }
        return result
    }

    /// A text that a name may be.
    mutating func name(_ lengths: ClosedRange<Int>) -> String {
        String(
            String.UnicodeScalarView(
                self.text(lengths).unicodeScalars.filter { $0.properties.generalCategory != .control }))
    }

    mutating func word() -> UInt64 {
        UInt64.random(in: 0...UInt64.max, using: &self.generator)
    }

    mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8.random(in: 0...255, using: &self.generator) }
    }

    /// A proof as it may be at an offset.
    mutating func proof(at offset: StreamOffset) -> StreamProof {
        let count = StreamProof.byteCount(at: offset)
        let given = Bool.random(using: &self.generator) ? count : Int.random(in: 0...count, using: &self.generator)
        let most = Bool.random(using: &self.generator) ? 0 : offset.rawValue
        return StreamProof(of: Sample.id("a"), at: offset, tail: self.bytes(given))
            .skipping(UInt64.random(in: 0...most, using: &self.generator))
    }

    mutating func skipped() -> SkippedRange? {
        let reason = SkipReason.allCases.randomElement(using: &self.generator) ?? .truncated
        let offset = UInt64.random(in: 0...(1 << 50), using: &self.generator)
        let small = Bool.random(using: &self.generator)
        let byteCount = UInt64.random(in: 1...(small ? 600 : 1 << 40), using: &self.generator)
        let start = StreamOffset(small ? offset % 600 : offset)
        let tail = self.bytes(StreamProof.byteCount(at: StreamOffset(start.rawValue + byteCount)))
        return SkippedRange(
            offset: start, byteCount: byteCount, reason: reason, tail: reason == .truncated ? nil : tail,
            holder: reason == .before ? "collector-1" : nil)
    }

    private mutating func receiver() -> ReceiverIdentity? {
        var position: UInt64 = 0
        let starts = (0..<Int.random(in: 1...16, using: &self.generator)).map { _ in
            position += UInt64.random(in: 0...(1 << 40), using: &self.generator)
            return ReceiverStart(id: self.word(), position: position)
        }
        return ReceiverIdentity(
            name: self.name(0...20), incarnation: Incarnation(self.word(), self.word()), starts: starts,
            end: position + UInt64.random(in: 0...(1 << 40), using: &self.generator))
    }

    private mutating func claim() -> OpenClaim {
        guard Bool.random(using: &self.generator) else { return .none }
        return OpenClaim(
            from: Bool.random(using: &self.generator) ? self.offset() : nil,
            by: Bool.random(using: &self.generator) ? self.text() : nil,
            proof: Bool.random(using: &self.generator) ? ProofDigest(self.bytes(16)) : nil)
    }

    mutating func printable() -> String {
        let bytes = (0..<Int.random(in: 0...40, using: &self.generator)).map { _ in
            UInt8.random(in: 0x20...0x7E, using: &self.generator)
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    mutating func header() -> BatchHeader {
        let raw = UInt64.random(in: 1...(1 << 52), using: &self.generator)
        let offset = UInt64.random(in: 0...(LineProtocol.integerMax - raw), using: &self.generator)
        return BatchHeader(
            stream: self.number(), offset: StreamOffset(offset), rawByteCount: Int(raw),
            lineCount: Int.random(in: 1...Int(raw), using: &self.generator), wireByteCount: self.count(),
            checksum: UInt32.random(in: 0...UInt32.max, using: &self.generator))
    }

    private mutating func handshake() -> Message {
        if Bool.random(using: &self.generator) {
            return .hello(
                Hello(
                    versions: (0..<Int.random(in: 0...3, using: &self.generator)).map { _ in self.integer() },
                    agent: "a" + self.name(0...20), instance: "i" + self.name(0...10),
                    token: Bool.random(using: &self.generator) ? self.text() : nil,
                    key: Bool.random(using: &self.generator) ? "AAECAwQFBgcICQoLDA0ODw" : nil,
                    encodings: (0..<Int.random(in: 0...3, using: &self.generator)).map { _ in self.text(0...5) },
                    software: Bool.random(using: &self.generator) ? self.text() : nil,
                    milliseconds: Bool.random(using: &self.generator) ? Int64(self.integer()) : nil))
        }
        var limits = ProtocolLimits()
        limits.lineByteCountMax = self.count()
        limits.rawByteCountMax = self.count()
        limits.wireByteCountMax = self.count()
        limits.streamCountMax = self.count()
        limits.windowByteCount = self.count()
        limits.idleMilliseconds = self.count()
        limits.lineCountMax = self.count()
        return .ready(
            Ready(
                version: self.integer(), receiver: self.receiver() ?? Sample.receiver,
                fleet: Bool.random(using: &self.generator) ? self.receiver()?.incarnation.text : nil,
                level: Bool.random(using: &self.generator) ? .durable : .stored, limits: limits,
                milliseconds: Int64(self.integer())))
    }

    private mutating func description() -> StreamDescription {
        let letters = Array("azAZ09._:-")
        let id = (0..<Int.random(in: 1...128, using: &self.generator)).map { _ in
            letters.randomElement(using: &self.generator) ?? "a"
        }
        return StreamDescription(
            id: Sample.id(String(id)), source: self.text(0...100),
            environment: ["dev", "internal", "prod"].randomElement(using: &self.generator) ?? "dev",
            bundle: "b" + self.name(0...20), format: Bool.random(using: &self.generator) ? .waybill : .ndjson,
            timeMember: Bool.random(using: &self.generator) ? self.text() : nil,
            nameMember: Bool.random(using: &self.generator) ? self.text() : nil,
            userMember: Bool.random(using: &self.generator) ? self.text() : nil,
            anonymousMember: Bool.random(using: &self.generator) ? self.text() : nil)
    }

    mutating func message() -> Message {
        let ofStream = ErrorCode.allCases.filter(\.isOfStream).randomElement(using: &self.generator) ?? .gap
        let ofConnection = ErrorCode.allCases.filter { !$0.isOfStream }.randomElement(using: &self.generator) ?? .limit
        switch Int.random(in: 0...18, using: &self.generator) {
        case 0, 1: return self.handshake()
        case 2: return .open(self.number(), self.description(), self.claim())
        case 3:
            let offset = self.offset()
            return .at(self.number(), offset, self.proof(at: offset), end: self.integer())
        case 4: return .batch(self.header())
        case 5: return .ack(self.number(), self.offset(), end: self.integer())
        case 6: return .nak(self.number(), self.offset(), ofStream, text: self.printable())
        case 7: return .skip(self.number(), self.skipped() ?? Sample.skipped(0, byteCount: 1))
        case 8: return .seal(self.number(), length: self.offset())
        case 9: return .sealed(self.number(), self.proof(at: self.offset()), end: self.integer())
        case 10: return .ping(self.integer())
        case 11: return .pong(self.integer())
        case 12: return .wait(milliseconds: self.integer())
        case 13: return .move((0..<Int.random(in: 0...3, using: &self.generator)).map { _ in self.text() })
        case 14: return .err(ofConnection, text: self.printable())
        case 15: return .stored(self.number(), self.offset())
        case 16:
            let refusedCount = Int.random(in: 0...2, using: &self.generator)
            return .note(
                (0..<Int.random(in: refusedCount...5, using: &self.generator)).reversed().map { number in
                    QuarantineCount(
                        stream: Sample.id("a-1"), export: number < refusedCount ? self.text() : nil,
                        reason: self.text(), count: Int(self.integer()))
                })
        case 17:
            return Bool.random(using: &self.generator)
                ? .start(
                    ReceiverStart(id: self.word(), position: self.integer()), Incarnation(self.word(), self.word()))
                : .tail(self.number(), self.bytes(Int.random(in: 1...512, using: &self.generator)))
        default:
            return Bool.random(using: &self.generator)
                ? .bye : .mark(position: self.integer(), milliseconds: self.integer(), checksum: 0xBEEF)
        }
    }
}

@Suite struct CodecPropertyTests {
    @Test(arguments: 0..<UInt64(100))
    func `what is encoded is decoded as it was`(seed: UInt64) throws {
        var random = RandomMessages(seed: seed)
        for _ in 0..<100 {
            let message = random.message()
            let line = message.encoded
            #expect(line.count <= ProtocolLimits.messageByteCountMax)
            let decoded = try line.withUnsafeBytes { try Message.decode(prefixOf: $0) }
            #expect(decoded?.message == message)
            #expect(decoded?.byteCount == line.count)
        }
    }

    @Test(arguments: 0..<UInt64(100))
    func `a damaged line is refused, or says what another line says`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let lines = try GoodLine.all().map(\.line)
        for _ in 0..<200 {
            var line = lines.randomElement(using: &generator) ?? []
            for _ in 0..<Int.random(in: 1...3, using: &generator) where !line.isEmpty {
                let index = Int.random(in: 0..<line.count, using: &generator)
                switch Int.random(in: 0...3, using: &generator) {
                case 0: line[index] = UInt8.random(in: 0...255, using: &generator)
                case 1: line.remove(at: index)
                case 2: line.insert(UInt8.random(in: 0x20...0x7E, using: &generator), at: index)
                default: line.removeSubrange(index...)
                }
            }
            guard case .success(let message) = Message.read(line) else { continue }
            // A text longer than 512 bytes is cut when it is written; all else stays.
            let again = try Message.read(Array(message.encoded.dropLast())).get()
            #expect(again.encoded == message.encoded, "\(String(decoding: line, as: UTF8.self))")
        }
    }

    @Test(arguments: 0..<UInt64(100))
    func `messages and payloads are cut the same however the bytes arrive`(seed: UInt64) throws {
        var random = RandomMessages(seed: seed)
        var sent: [Message] = []
        var stream: [UInt8] = []
        for _ in 0..<30 {
            var message = random.message()
            if case .batch(var header) = message {
                header.wireByteCount = Int.random(in: 1...300, using: &random.generator)
                message = .batch(header)
                stream += message.encoded
                // Payloads may look like messages, and hold line ends.
                let filler = Array("BYE\n".utf8)
                stream += (0..<header.wireByteCount).map { filler[$0 % 4] }
            } else {
                stream += message.encoded
            }
            sent.append(message)
        }
        var received: [Message] = []
        var buffer: [UInt8] = []
        var payloadByteCount = 0
        while !stream.isEmpty {
            let count = min(stream.count, Int.random(in: 1...200, using: &random.generator))
            buffer += stream.prefix(count)
            stream.removeFirst(count)
            while true {
                let skipped = min(payloadByteCount, buffer.count)
                buffer.removeFirst(skipped)
                payloadByteCount -= skipped
                guard payloadByteCount == 0,
                    let (message, byteCount) = try buffer.withUnsafeBytes({ try Message.decode(prefixOf: $0) })
                else { break }
                buffer.removeFirst(byteCount)
                if case .batch(let header) = message { payloadByteCount = header.wireByteCount }
                received.append(message)
            }
        }
        #expect(received == sent)
    }
}
