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
            case .hello, .ready, .open, .move, .note: true
            case .nak(_, _, _, let text), .err(_, let text):
                text.utf8.count > 512 || encoded == line || encoded == line.dropLast() + [0x20, 0x0A]
            case .at, .batch, .ack, .skip, .seal, .sealed, .stored, .ping, .pong, .wait, .bye, .mark, .start, .resting,
                .tail:
                encoded == line
            }
        try require(isCanonical, "\(shown(line)) was read as what is written \(shown(encoded))")
        let isBounded: Bool =
            switch message {
            // These may be read with escapes shorter than those that are written.
            case .hello, .ready, .move, .note: encoded.count <= ProtocolLimits.messageByteCountMax
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
        if case .open(_, let description, _) = message {
            // The journal writes it behind a number of its own.
            let line = Message.open(StreamNumber(LineProtocol.integerMax), description, .none).encoded
            try require(
                Self.decode(line)
                    == .message(
                        .open(StreamNumber(LineProtocol.integerMax), description, .none), byteCount: line.count),
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
        let isShort = line.count <= ProtocolLimits.messageByteCountMax
        let reference = isASCII && isShort ? ReferenceJSON(json) : nil
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
        case "OPEN 7 ":
            guard let description = Self.description(json), let claim = Self.claim(json) else { return nil }
            return .open(StreamNumber(7), description, claim)
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
            let agent = Self.name(json["agent"]), 1...128 ~= agent.utf8.count,
            let instance = Self.name(json["instance"]), 1...64 ~= instance.utf8.count,
            let token = Self.optional(json["token"]), let key = Self.optional(json["key"]),
            let software = Self.optional(json["software"]), let time = Self.optionalInteger(json["time"]),
            let encodings = Self.all(json["accept"]?.elements, \.text)
        else { return nil }
        if let key {
            let digits = key.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "-" || $0 == "_") }
            guard digits, key.utf8.count == 22, let last = key.last, "AQgw".contains(last) else { return nil }
        }
        return Hello(
            versions: versions, agent: agent, instance: instance, token: token, key: key, encodings: encodings,
            software: software, milliseconds: time.map { Int64($0) })
    }

    /// A text without control characters and without what stands for a lone surrogate.
    private static func name(_ json: ReferenceJSON?) -> String? {
        guard let text = json?.text else { return nil }
        let isName = text.unicodeScalars.allSatisfy { scalar in
            scalar.value >= 0x20 && !(0x7F...0x9F ~= scalar.value) && scalar.value != 0xFFFD
        }
        return isName ? text : nil
    }

    private static func hexadecimal(_ json: ReferenceJSON?, digitCount: Int) -> String? {
        guard let text = json?.text, text.utf8.count == digitCount,
            text.utf8.allSatisfy({ 0x30...0x39 ~= $0 || 0x61...0x66 ~= $0 })
        else { return nil }
        return text
    }

    private static func identity(_ json: ReferenceJSON) -> ReceiverIdentity? {
        guard let name = Self.name(json["receiver"]), let end = json["end"]?.integer,
            let incarnation = Self.hexadecimal(json["incarnation"], digitCount: 32),
            let start = Self.hexadecimal(json["start"], digitCount: 16),
            let starts = Self.all(
                json["starts"]?.elements,
                { pair -> ReceiverStart? in
                    guard let parts = pair.elements, parts.count == 2,
                        let id = Self.hexadecimal(parts[0], digitCount: 16), let position = parts[1].integer
                    else { return nil }
                    return ReceiverStart(id: UInt64(id, radix: 16) ?? 0, position: position)
                }), let last = starts.last, last.idText == start
        else { return nil }
        return Incarnation(incarnation.utf8).flatMap {
            ReceiverIdentity(name: name, incarnation: $0, starts: starts, end: end)
        }
    }

    private static func ready(_ json: ReferenceJSON) -> Ready? {
        guard let bounds = json["limits"], let version = json["protocol"]?.integer, let time = json["time"]?.integer,
            let receiver = Self.identity(json), let level = Self.optional(json["level"]),
            let durability = DurabilityLevel(rawValue: level ?? "durable"), let fleet = Self.optional(json["fleet"]),
            fleet == nil || Incarnation((fleet ?? "").utf8) != nil
        else { return nil }
        let names = ["line", "raw", "wire", "streams", "idle_ms", "lines"]
        let counts = (names.map { bounds[$0] } + [json["window"]]).compactMap { $0?.integer }.filter { $0 > 0 }
        guard counts.count == 7 else { return nil }
        var limits = ProtocolLimits()
        limits.lineByteCountMax = Int(counts[0])
        limits.rawByteCountMax = Int(counts[1])
        limits.wireByteCountMax = Int(counts[2])
        limits.streamCountMax = Int(counts[3])
        limits.idleMilliseconds = Int(counts[4])
        limits.lineCountMax = Int(counts[5])
        limits.windowByteCount = Int(counts[6])
        return Ready(
            version: version, receiver: receiver, fleet: fleet, level: durability, limits: limits,
            milliseconds: Int64(time))
    }

    private static func claim(_ json: ReferenceJSON) -> OpenClaim? {
        var claim = OpenClaim()
        switch json["from"] {
        case nil, .null: break
        case .some(let from):
            guard let offset = from.integer else { return nil }
            claim.from = StreamOffset(offset)
        }
        guard let by = Self.optional(json["by"]), let proof = Self.optional(json["proof"]) else { return nil }
        claim.by = by
        if proof != nil {
            guard let text = Self.hexadecimal(json["proof"], digitCount: 32) else { return nil }
            claim.proof = ProofDigest(text.utf8)
        }
        return claim
    }

    /// An array of texts that may be absent or null; `nil` when it is something else.
    private static func texts(_ json: ReferenceJSON?) -> [String]? {
        switch json {
        case nil, .null: []
        case .some(let json): Self.all(json.elements, \.text)
        }
    }

    /// The text of a member that may be absent or null; `nil` when it is something else.
    private static func optional(_ json: ReferenceJSON?) -> String?? {
        switch json {
        case nil, .null: .some(nil)
        case .string: .some(json?.text)
        default: nil
        }
    }

    private static func optionalInteger(_ json: ReferenceJSON?) -> UInt64?? {
        switch json {
        case nil, .null: .some(nil)
        default: json?.integer.map { .some($0) }
        }
    }

    private static func description(_ json: ReferenceJSON) -> StreamDescription? {
        guard let id = json["stream"]?.text.flatMap(StreamID.init),
            let format = json["format"]?.text.flatMap(StreamFormat.init(rawValue:)),
            let source = json["source"]?.text, let environment = json["env"]?.text,
            ["dev", "internal", "prod"].contains(environment),
            let bundle = Self.name(json["bundle"]), 1...255 ~= bundle.utf8.count,
            let time = Self.optional(json["time"]), let name = Self.optional(json["name"]),
            let user = Self.optional(json["user"]), let anonymous = Self.optional(json["anonymous"]),
            let principal = Self.optional(json["principal"]), let environments = Self.texts(json["envs"]),
            let bundles = Self.texts(json["bundles"])
        else { return nil }
        let description = StreamDescription(
            id: id, source: source, environment: environment, bundle: bundle, format: format, timeMember: time,
            nameMember: name, userMember: user, anonymousMember: anonymous,
            owner: StreamOwner(principal: principal ?? "", environments: environments, bundles: bundles))
        return description.json.utf8.count <= StreamDescription.jsonByteCountMax ? description : nil
    }
}
