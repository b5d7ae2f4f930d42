internal import WaybillJSON
internal import WaybillSystem

extension Message {
    /// Decodes the message at the start of `bytes`.
    ///
    /// - Returns: the message and the length of its line with the LF; `nil` when the line is not complete yet.
    /// - Throws: ``WireError`` when the line is not a valid message, or exceeds the limit.
    package static func decode(
        prefixOf bytes: UnsafeRawBufferPointer
    ) throws(WireError) -> (message: Message, byteCount: Int)? {
        let window = UnsafeRawBufferPointer(rebasing: bytes.prefix(ProtocolLimits.messageByteCountMax))
        guard let end = window.firstIndex(of: 0x0A) else {
            if window.count == ProtocolLimits.messageByteCountMax { throw .lineTooLong }
            return nil
        }
        return (try Message(line: UnsafeRawBufferPointer(rebasing: window[..<end])), end + 1)
    }

    /// Reads one line without its LF.
    package init(line: UnsafeRawBufferPointer) throws(WireError) {
        guard !line.isEmpty else { throw .emptyLine }
        if let index = line.firstIndex(where: { !(0x20...0x7E).contains($0) }) { throw .notASCII(byteOffset: index) }
        var fields = MessageFields(line: line)
        switch fields.word() {
        case "HELLO": self = .hello(try Hello(json: fields.rest(fieldCount: 2)))
        case "READY": self = .ready(try Ready(json: fields.rest(fieldCount: 2)))
        case "OPEN": self = try fields.open()
        case "AT": self = try fields.at()
        case "BATCH": self = .batch(try fields.batchHeader())
        case "ACK": self = .ack(try fields.stream(), try fields.offset(), end: try fields.integer())
        case "NAK":
            self = .nak(
                try fields.stream(), try fields.offset(), try fields.code(ofStream: true), text: fields.optionalRest())
        case "SKIP": self = try fields.skip()
        case "SEAL": self = .seal(try fields.stream(), length: try fields.offset())
        case "SEALED":
            let stream = try fields.stream()
            // The length is the one of the SEAL or the AT before it.
            let (proof, end) = try fields.proof(at: StreamOffset(LineProtocol.integerMax))
            self = .sealed(stream, proof, end: end)
        case "STORED": self = .stored(try fields.stream(), try fields.offset())
        case "NOTE": self = .note(try Self.quarantineCounts(json: fields.rest(fieldCount: 2)))
        case "PING": self = .ping(try fields.integer())
        case "PONG": self = .pong(try fields.integer())
        case "WAIT": self = .wait(milliseconds: try fields.integer())
        case "MOVE": self = .move(try Self.receivers(json: fields.rest(fieldCount: 2)))
        case "ERR": self = .err(try fields.code(ofStream: false), text: fields.optionalRest())
        case "BYE": self = .bye
        case "MARK":
            self = .mark(
                position: try fields.integer(), milliseconds: try fields.integer(), checksum: try fields.checksum())
        case "START": self = try fields.start()
        case "RESTING": self = try fields.resting()
        case "TAIL": self = .tail(try fields.stream(), try fields.base64())
        default: throw .unknownMessage
        }
        try fields.expectEnd()
    }

    private static func quarantineCounts(json: UnsafeRawBufferPointer) throws(WireError) -> [QuarantineCount] {
        let object = try FlatObject(json)
        var counts: [QuarantineCount] = []
        for entry in try object.objects("quarantined") { counts.append(try Self.count(entry, export: nil)) }
        for entry in try object.optionalObjects("refused") {
            counts.append(try Self.count(entry, export: try entry.string("export")))
        }
        return counts
    }

    private static func count(_ entry: FlatObject, export: String?) throws(WireError) -> QuarantineCount {
        guard let stream = StreamID(try entry.string("stream")) else { throw .badStreamID }
        return QuarantineCount(
            stream: stream, export: export, reason: try entry.string("reason"), count: Int(try entry.integer("count")))
    }

    private static func receivers(json: UnsafeRawBufferPointer) throws(WireError) -> [String] {
        let object = try FlatObject(json)
        return try object.strings("receivers")
    }
}

/// The space-separated fields of one line.
private struct MessageFields {
    private let line: UnsafeRawBufferPointer
    /// Where the next field begins; past the line's end when none is left.
    private var position = 0
    private var count = 0

    init(line: UnsafeRawBufferPointer) {
        self.line = line
    }

    private mutating func next() throws(WireError) -> UnsafeRawBufferPointer {
        self.count += 1
        guard self.position <= self.line.count else { throw .fieldCount(expected: self.count) }
        let rest = self.line[self.position...]
        let end = rest.firstIndex(of: 0x20) ?? self.line.count
        guard end > self.position else { throw .fieldCount(expected: self.count) }
        defer { self.position = end + 1 }
        return UnsafeRawBufferPointer(rebasing: self.line[self.position..<end])
    }

    mutating func word() -> String {
        self.count += 1
        let end = self.line.firstIndex(of: 0x20) ?? self.line.count
        self.position = end + 1
        return String(decoding: self.line[..<end], as: UTF8.self)
    }

    mutating func integer() throws(WireError) -> UInt64 {
        let digits = try self.next()
        guard digits.count <= 16, digits.count == 1 || digits[0] != UInt8(ascii: "0") else {
            throw .badInteger(field: self.count)
        }
        var value: UInt64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { throw .badInteger(field: self.count) }
            value = value * 10 + UInt64(digit - UInt8(ascii: "0"))
        }
        guard value <= LineProtocol.integerMax else { throw .badInteger(field: self.count) }
        return value
    }

    mutating func stream() throws(WireError) -> StreamNumber {
        let value = try self.integer()
        guard value > 0 else { throw .badInteger(field: self.count) }
        return StreamNumber(value)
    }

    mutating func offset() throws(WireError) -> StreamOffset {
        StreamOffset(try self.integer())
    }

    mutating func byteCount() throws(WireError) -> Int {
        Int(try self.integer())
    }

    mutating func checksum() throws(WireError) -> UInt32 {
        let digits = try self.next()
        guard let value = FreeText.bits(digits, digitCount: 8) else { throw .badChecksum }
        return UInt32(value)
    }

    mutating func open() throws(WireError) -> Message {
        let stream = try self.stream()
        let json = try self.rest(fieldCount: 3)
        return .open(stream, try StreamDescription(json: json), try OpenClaim(json: json))
    }

    mutating func at() throws(WireError) -> Message {
        let stream = try self.stream()
        let offset = try self.offset()
        let (proof, end) = try self.proof(at: offset)
        return .at(stream, offset, proof, end: end)
    }

    /// A proof and the fields after it.
    mutating func proof(at offset: StreamOffset) throws(WireError) -> (StreamProof, end: UInt64) {
        let byteCount = try self.byteCount()
        let text = try self.next()
        var digest: ProofDigest?
        if !text.elementsEqual("-".utf8) {
            digest = ProofDigest(text)
            guard digest != nil else { throw .badProof }
        }
        guard let proof = StreamProof(byteCount: byteCount, digest: digest, at: offset) else { throw .badProof }
        let end = try self.integer()
        guard self.position <= self.line.count else { return (proof, end) }
        let skipped = try self.integer()
        guard (1...max(1, offset.rawValue)).contains(skipped), offset > StreamOffset(0) else {
            throw .badInteger(field: self.count)
        }
        return (proof.skipping(skipped), end)
    }

    mutating func start() throws(WireError) -> Message {
        let position = try self.integer()
        guard let id = FreeText.bits(try self.next()), let incarnation = Incarnation(try self.next()) else {
            throw .badProof
        }
        return .start(ReceiverStart(id: id, position: position), incarnation)
    }

    mutating func resting() throws(WireError) -> Message {
        let count = try self.integer()
        // An earlier build named a table of other records, 96 bytes each. So its journal is read as before, and what was
        // in that table is missing.
        let isEarlier = !self.line.dropFirst(self.position).contains(0x20)
        let byteCount = try isEarlier ? count * 96 : self.integer()
        return .resting(count: count, byteCount: byteCount, checksum: try self.checksum())
    }

    mutating func base64() throws(WireError) -> [UInt8] {
        guard let bytes = Base64.bytes(try self.next()), bytes.count <= StreamProof.byteCountMax else { throw .badTail }
        return bytes
    }

    mutating func batchHeader() throws(WireError) -> BatchHeader {
        let header = BatchHeader(
            stream: try self.stream(), offset: try self.offset(), rawByteCount: try self.byteCount(),
            lineCount: try self.byteCount(), wireByteCount: try self.byteCount(), checksum: try self.checksum())
        // A batch holds at least one line, and each line at least one byte.
        guard header.rawByteCount > 0 else { throw .badInteger(field: 4) }
        guard (1...header.rawByteCount).contains(header.lineCount) else { throw .badInteger(field: 5) }
        guard header.wireByteCount > 0 else { throw .badInteger(field: 6) }
        guard header.offset.rawValue + UInt64(header.rawByteCount) <= LineProtocol.integerMax else {
            throw .badInteger(field: 3)
        }
        return header
    }

    mutating func code(ofStream isOfStream: Bool) throws(WireError) -> ErrorCode {
        let word = String(decoding: try self.next(), as: UTF8.self)
        guard let code = ErrorCode(rawValue: word), code.isOfStream == isOfStream else { throw .badCode }
        return code
    }

    mutating func skip() throws(WireError) -> Message {
        let stream = try self.stream()
        let offset = try self.offset()
        let byteCount = try self.integer()
        guard byteCount > 0 else { throw .badInteger(field: 4) }
        guard offset.rawValue + byteCount <= LineProtocol.integerMax else { throw .badInteger(field: 3) }
        let reason = try self.skipReason()
        // A lone `-` is not base64.
        let text = try self.next()
        let tail = text.elementsEqual("-".utf8) ? nil : Base64.bytes(text)
        let holder = reason == .before ? try self.holder() : nil
        guard tail != nil || text.elementsEqual("-".utf8),
            let range = SkippedRange(
                offset: offset, byteCount: byteCount, reason: reason, tail: tail, holder: holder)
        else { throw .badTail }
        return .skip(stream, range)
    }

    mutating func holder() throws(WireError) -> String {
        let name = String(decoding: try self.next(), as: UTF8.self)
        guard SkippedRange.isHolder(name) else { throw .badHolder }
        return name
    }

    mutating func skipReason() throws(WireError) -> SkipReason {
        let word = String(decoding: try self.next(), as: UTF8.self)
        guard let reason = SkipReason(rawValue: word) else { throw .badReason }
        return reason
    }

    mutating func rest(fieldCount: Int) throws(WireError) -> UnsafeRawBufferPointer {
        guard self.position < self.line.count, self.line[self.position] != 0x20 else {
            throw .fieldCount(expected: fieldCount)
        }
        defer { self.position = self.line.count + 1 }
        return UnsafeRawBufferPointer(rebasing: self.line[self.position...])
    }

    mutating func optionalRest() -> String {
        guard self.position <= self.line.count else { return "" }
        defer { self.position = self.line.count + 1 }
        return String(decoding: self.line[self.position...], as: UTF8.self)
    }

    func expectEnd() throws(WireError) {
        if self.position <= self.line.count { throw .fieldCount(expected: self.count) }
    }
}

extension Hello {
    fileprivate init(json: UnsafeRawBufferPointer) throws(WireError) {
        let object = try FlatObject(json)
        self.init(
            versions: try object.integers("protocol"), agent: try object.name("agent"),
            instance: try object.name("instance"), token: try object.optionalString("token"),
            key: try object.optionalString("key"), encodings: try object.strings("accept"),
            software: try object.optionalString("software"),
            milliseconds: try object.optionalInteger("time").map { Int64($0) })
        guard (1...128).contains(self.agent.utf8.count) else { throw .badMember("agent") }
        guard (1...64).contains(self.instance.utf8.count) else { throw .badMember("instance") }
        if let key { guard DeviceKey(text: key.utf8) != nil else { throw .badMember("key") } }
    }
}

extension Ready {
    fileprivate init(json: UnsafeRawBufferPointer) throws(WireError) {
        let object = try FlatObject(json)
        let bounds = try object.object("limits")
        var limits = ProtocolLimits()
        limits.lineByteCountMax = try bounds.count("line")
        limits.rawByteCountMax = try bounds.count("raw")
        limits.wireByteCountMax = try bounds.count("wire")
        limits.streamCountMax = try bounds.count("streams")
        limits.idleMilliseconds = try bounds.count("idle_ms")
        limits.windowByteCount = try object.count("window")
        limits.lineCountMax = try bounds.count("lines")
        self.init(
            version: try object.integer("protocol"), receiver: try ReceiverIdentity(object),
            fleet: try Self.fleet(object), level: try Self.level(object), limits: limits,
            milliseconds: Int64(try object.integer("time")))
    }

    private static func fleet(_ object: FlatObject) throws(WireError) -> String? {
        guard let text = try object.optionalString("fleet") else { return nil }
        guard Bits128(text: text.utf8) != nil else { throw .badMember("fleet") }
        return text
    }

    private static func level(_ object: FlatObject) throws(WireError) -> DurabilityLevel {
        guard let text = try object.optionalString("level") else { return .durable }
        guard let level = DurabilityLevel(rawValue: text) else { throw .badMember("level") }
        return level
    }
}

extension ReceiverIdentity {
    fileprivate init(_ object: FlatObject) throws(WireError) {
        guard let incarnation = Incarnation(try object.string("incarnation").utf8) else {
            throw .badMember("incarnation")
        }
        let starts = try object.starts("starts")
        guard
            let identity = ReceiverIdentity(
                name: try object.name("receiver"), incarnation: incarnation, starts: starts,
                end: try object.integer("end"))
        else { throw .badMember("starts") }
        guard FreeText.bits(try object.string("start").utf8) == identity.start else { throw .badMember("start") }
        self = identity
    }
}

extension OpenClaim {
    fileprivate init(json: UnsafeRawBufferPointer) throws(WireError) {
        let object = try FlatObject(json)
        self.init(
            from: try object.optionalInteger("from").map { StreamOffset($0) }, by: try object.optionalString("by"))
        if let text = try object.optionalString("proof") {
            guard let digest = ProofDigest(text.utf8) else { throw .badMember("proof") }
            self.proof = digest
        }
    }
}

extension StreamDescription {
    /// Reads the JSON object of `OPEN`; unknown members are ignored.
    package init(json: UnsafeRawBufferPointer) throws(WireError) {
        let object = try FlatObject(json)
        guard let id = StreamID(try object.string("stream")) else { throw .badStreamID }
        guard let format = StreamFormat(rawValue: try object.string("format")) else { throw .badMember("format") }
        self.init(
            id: id, source: try object.string("source"), environment: try object.string("env"),
            bundle: try object.string("bundle"), format: format, timeMember: try object.optionalString("time"),
            nameMember: try object.optionalString("name"), userMember: try object.optionalString("user"),
            anonymousMember: try object.optionalString("anonymous"),
            owner: StreamOwner(
                principal: try object.optionalString("principal") ?? "",
                environments: try object.optionalStrings("envs"), bundles: try object.optionalStrings("bundles")))
        guard ["dev", "internal", "prod"].contains(self.environment) else { throw .badMember("env") }
        guard Self.isBundle(self.bundle) else { throw .badMember("bundle") }
        // The journal encodes the object again, after its own stream number.
        guard self.json.utf8.count <= Self.jsonByteCountMax else { throw .badMember("source") }
    }
}
