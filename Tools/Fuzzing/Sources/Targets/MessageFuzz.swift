internal import WaybillProtocol
internal import WaybillTestSupport

/// Lines of the protocol: what is decoded is what would be encoded, however the bytes arrive.
enum MessageFuzz {
    enum Outcome: Equatable {
        case incomplete
        case message(Message, byteCount: Int)
        case refused(WireError)
    }

    static func decode(_ bytes: some Collection<UInt8>) -> Outcome {
        withExactBytes(bytes) { bytes in
            do throws(WireError) {
                guard let (message, byteCount) = try Message.decode(prefixOf: bytes) else { return .incomplete }
                return .message(message, byteCount: byteCount)
            } catch {
                return .refused(error)
            }
        }
    }

    @Sendable static func run(_ input: [UInt8]) throws {
        let whole = Self.decode(input)
        let limit = ProtocolLimits.messageByteCountMax
        let lineEnd = input.prefix(limit).firstIndex(of: 0x0A)
        var counts = Array(0...min(input.count, 200))
        counts += [lineEnd, lineEnd.map { $0 + 1 }, limit - 1, limit, input.count].compactMap { $0 }
        for count in counts where count <= input.count {
            let expected: Outcome =
                if let lineEnd, count > lineEnd {
                    whole
                } else if count >= limit {
                    .refused(.lineTooLong)
                } else {
                    .incomplete
                }
            let part = Self.decode(input[..<count])
            try require(part == expected, "\(count) bytes of \(shown(input)): \(part), expected \(expected)")
        }
        guard case .message(let message, let byteCount) = whole else { return }
        try require(byteCount <= limit && byteCount == lineEnd.map { $0 + 1 }, "a line of \(byteCount) bytes")
        try Self.checkEncoding(of: message, read: Array(input[..<byteCount]))
    }

    static func checkEncoding(of message: Message, read line: [UInt8]) throws {
        let encoded = message.encoded
        let isCanonical: Bool =
            switch message {
            case .hello, .ready, .open, .move: true
            case .nak(_, _, _, let text), .err(_, let text):
                text.utf8.count > 512 || encoded == line || encoded == line.dropLast() + [0x20, 0x0A]
            case .at, .batch, .ack, .skip, .seal, .sealed, .ping, .pong, .wait, .bye, .mark: encoded == line
            }
        try require(isCanonical, "\(shown(line)) was read as what is written \(shown(encoded))")
        let isBounded: Bool =
            switch message {
            // These may be read with escapes shorter than those that are written.
            case .hello, .ready, .move: encoded.count <= ProtocolLimits.messageByteCountMax
            default: true
            }
        guard isBounded else { return }
        try require(encoded.count <= ProtocolLimits.messageByteCountMax, "a line of \(encoded.count) bytes is written")
        let again = Self.decode(encoded)
        switch message {
        case .nak(_, _, _, let text) where text.utf8.count > 512: break
        case .err(_, let text) where text.utf8.count > 512: break
        default:
            try require(
                again == .message(message, byteCount: encoded.count), "\(shown(line)) is read again as \(again)")
        }
        if case .open(_, let description) = message {
            // The journal writes it behind a number of its own.
            let line = Message.open(StreamNumber(LineProtocol.integerMax), description).encoded
            try require(
                Self.decode(line)
                    == .message(
                        .open(StreamNumber(LineProtocol.integerMax), description), byteCount: line.count),
                "a description that the journal cannot hold: \(shown(line))")
        }
    }
}

/// The JSON objects of `HELLO`, `READY`, `OPEN` and `MOVE`, judged a second time by a reader of their own.
enum HandshakeFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let words = ["HELLO ", "READY ", "OPEN 7 ", "MOVE "]
        let word = words[Int(input.first ?? 0) % words.count]
        let json = Array(input.dropFirst().prefix { $0 != 0x0A })
        let line = Array(word.utf8) + json + [0x0A]
        let isASCII = json.allSatisfy { 0x20...0x7E ~= $0 } && !json.isEmpty
        let reference = isASCII ? ReferenceJSON(json) : nil
        let expected = reference.flatMap { Self.message(word, $0) }
        let outcome = MessageFuzz.decode(line)
        if let expected {
            try require(outcome == .message(expected, byteCount: line.count), "\(shown(line)): \(outcome)")
            try MessageFuzz.checkEncoding(of: expected, read: line)
        } else {
            guard case .refused = outcome else { throw Violation("\(shown(line)) is taken: \(outcome)") }
        }
    }

    private static func message(_ word: String, _ json: ReferenceJSON) -> Message? {
        switch word {
        case "HELLO ": return Self.hello(json).map { .hello($0) }
        case "READY ": return Self.ready(json).map { .ready($0) }
        case "OPEN 7 ": return Self.description(json).map { .open(StreamNumber(7), $0) }
        default: return Self.all(json["receivers"]?.elements, \.text).map { .move($0) }
        }
    }

    private static func all<Value>(_ elements: [ReferenceJSON]?, _ value: (ReferenceJSON) -> Value?) -> [Value]? {
        guard let elements else { return nil }
        let values = elements.compactMap(value)
        return values.count == elements.count ? values : nil
    }

    private static func hello(_ json: ReferenceJSON) -> Hello? {
        guard let versions = Self.all(json["protocol"]?.elements, \.integer),
            let agent = json["agent"]?.text, 1...128 ~= agent.utf8.count,
            let instance = json["instance"]?.text, 1...64 ~= instance.utf8.count,
            let token = Self.optional(json["token"]), let encodings = Self.all(json["accept"]?.elements, \.text)
        else { return nil }
        return Hello(versions: versions, agent: agent, instance: instance, token: token, encodings: encodings)
    }

    private static func ready(_ json: ReferenceJSON) -> Ready? {
        guard let bounds = json["limits"], let version = json["protocol"]?.integer, let time = json["time"]?.integer,
            let receiver = json["receiver"]?.text
        else { return nil }
        let names = ["line", "raw", "wire", "streams", "idle_ms"]
        let counts = (names.map { bounds[$0] } + [json["window"]]).compactMap { $0?.integer }.filter { $0 > 0 }
        guard counts.count == 6 else { return nil }
        var limits = ProtocolLimits()
        limits.lineByteCountMax = Int(counts[0])
        limits.rawByteCountMax = Int(counts[1])
        limits.wireByteCountMax = Int(counts[2])
        limits.streamCountMax = Int(counts[3])
        limits.idleMilliseconds = Int(counts[4])
        limits.windowByteCount = Int(counts[5])
        return Ready(version: version, receiver: receiver, limits: limits, milliseconds: Int64(time))
    }

    /// The text of a member that may be absent or null; `nil` when it is something else.
    private static func optional(_ json: ReferenceJSON?) -> String?? {
        switch json {
        case nil, .null: .some(nil)
        case .string: .some(json?.text)
        default: nil
        }
    }

    private static func description(_ json: ReferenceJSON) -> StreamDescription? {
        guard let id = json["stream"]?.text.flatMap(StreamID.init),
            let format = json["format"]?.text.flatMap(StreamFormat.init(rawValue:)),
            let source = json["source"]?.text, let environment = json["env"]?.text,
            ["dev", "internal", "prod"].contains(environment),
            let bundle = json["bundle"]?.text, 1...255 ~= bundle.utf8.count,
            let time = Self.optional(json["time"]), let name = Self.optional(json["name"])
        else { return nil }
        let description = StreamDescription(
            id: id, source: source, environment: environment, bundle: bundle, format: format, timeMember: time,
            nameMember: name)
        return description.json.utf8.count <= StreamDescription.jsonByteCountMax ? description : nil
    }
}
