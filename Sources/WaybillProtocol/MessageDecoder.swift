internal import WaybillJSON

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
        case "OPEN": self = .open(try fields.stream(), try StreamDescription(json: fields.rest(fieldCount: 3)))
        case "AT": self = .at(try fields.stream(), try fields.offset())
        case "BATCH": self = .batch(try fields.batchHeader())
        case "ACK": self = .ack(try fields.stream(), try fields.offset())
        case "NAK":
            self = .nak(
                try fields.stream(), try fields.offset(), try fields.code(ofStream: true), text: fields.optionalRest())
        case "SKIP": self = try fields.skip()
        case "SEAL": self = .seal(try fields.stream(), length: try fields.offset())
        case "SEALED": self = .sealed(try fields.stream())
        case "PING": self = .ping(try fields.integer())
        case "PONG": self = .pong(try fields.integer())
        case "WAIT": self = .wait(milliseconds: try fields.integer())
        case "MOVE": self = .move(try Self.receivers(json: fields.rest(fieldCount: 2)))
        case "ERR": self = .err(try fields.code(ofStream: false), text: fields.optionalRest())
        case "BYE": self = .bye
        case "MARK":
            self = .mark(
                position: try fields.integer(), milliseconds: try fields.integer(), checksum: try fields.checksum())
        default: throw .unknownMessage
        }
        try fields.expectEnd()
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
        guard digits.count == 8 else { throw .badChecksum }
        var value: UInt32 = 0
        for digit in digits {
            switch digit {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): value = value << 4 | UInt32(digit - UInt8(ascii: "0"))
            case UInt8(ascii: "a")...UInt8(ascii: "f"): value = value << 4 | UInt32(digit - UInt8(ascii: "a") + 10)
            default: throw .badChecksum
            }
        }
        return value
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
        return .skip(stream, offset, byteCount: byteCount, try self.skipReason())
    }

    mutating func skipReason() throws(WireError) -> SkipReason {
        let word = String(decoding: try self.next(), as: UTF8.self)
        guard let reason = SkipReason(rawValue: word) else { throw .badReason }
        return reason
    }

    mutating func rest(fieldCount: Int) throws(WireError) -> UnsafeRawBufferPointer {
        guard self.position < self.line.count else { throw .fieldCount(expected: fieldCount) }
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
            versions: try object.integers("protocol"), agent: try object.string("agent"),
            instance: try object.string("instance"), token: try object.optionalString("token"),
            encodings: try object.strings("accept"))
        guard (1...128).contains(self.agent.utf8.count) else { throw .badMember("agent") }
        guard (1...64).contains(self.instance.utf8.count) else { throw .badMember("instance") }
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
        self.init(
            version: try object.integer("protocol"), receiver: try object.string("receiver"), limits: limits,
            milliseconds: Int64(try object.integer("time")))
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
            nameMember: try object.optionalString("name"))
        guard ["dev", "internal", "prod"].contains(self.environment) else { throw .badMember("env") }
        guard (1...255).contains(self.bundle.utf8.count) else { throw .badMember("bundle") }
        // The journal encodes the object again, after its own stream number.
        guard self.json.utf8.count <= Self.jsonByteCountMax else { throw .badMember("source") }
    }
}
