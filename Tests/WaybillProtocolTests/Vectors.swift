import Testing
import WaybillJSON
import WaybillProtocol
import WaybillSystem

/// A JSON value of a vector, small enough to compare and to look into.
enum Value: Hashable {
    case object([String: Value])
    case array([Value])
    case string(String)
    case integer(UInt64)
    case other(String)

    init(_ tape: borrowing JSONTape, at index: Int) {
        let text = String(decoding: tape.bytes(of: index), as: UTF8.self)
        switch tape[index].kind {
        case .object:
            var members: [String: Value] = [:]
            var iterator = tape.members(of: index)
            while let member = iterator.next(in: tape) {
                members[JSONText.string(tape.bytes(of: member.key))] = Value(tape, at: member.value)
            }
            self = .object(members)
        case .array:
            var values: [Value] = []
            var item = index + 1
            while item < Int(tape[index].next) {
                values.append(Value(tape, at: item))
                item = Int(tape[item].next)
            }
            self = .array(values)
        case .string: self = .string(JSONText.string(tape.bytes(of: index)))
        case .number: self = UInt64(text).map(Value.integer) ?? .other(text)
        default: self = .other(text)
        }
    }

    subscript(name: String) -> Value? {
        if case .object(let members) = self { members[name] } else { nil }
    }

    var text: String? {
        if case .string(let text) = self { text } else { nil }
    }

    var integer: UInt64? {
        if case .integer(let value) = self { value } else { nil }
    }

    var values: [Value]? {
        if case .array(let values) = self { values } else { nil }
    }
}

/// The files in `Protocol/vectors/protocol`, and `Protocol/errors.json`.
enum Vectors {
    static let root = Path.parent(of: Path.parent(of: Path.parent(of: #filePath)))

    static func bytes(_ path: String) throws -> [UInt8] {
        let path = Path.join(Self.root, path)
        return try #require(try POSIXFileSystem().contents(of: path), "no file \(path)")
    }

    /// What follows a heading that begins with these words, up to the next heading.
    static func section(_ heading: String, of page: String) throws -> String {
        let text = String(decoding: try Self.bytes("Protocol/" + page), as: UTF8.self)
        let sections = text.split(separator: /\n##+\s(?:\d+\.\d+\s)?/)
        return String(try #require(sections.first { $0.hasPrefix(heading) }, "no section \(heading)"))
    }

    /// The rows of an NDJSON file.
    static func rows(_ name: String) throws -> [Value] {
        try Self.bytes("Protocol/vectors/protocol/" + name).split(separator: 0x0A).map { try Self.value(Array($0)) }
    }

    static func value(_ bytes: [UInt8]) throws -> Value {
        try bytes.withUnsafeBytes { bytes in
            var tape = JSONTape()
            try tape.parse(bytes)
            return Value(tape, at: 0)
        }
    }

    static func bytes(hexadecimal text: String) throws -> [UInt8] {
        let digits = Array(text.utf8)
        return try stride(from: 0, to: digits.count, by: 2).map { index in
            try #require(UInt8(String(decoding: digits[index..<(index + 2)], as: UTF8.self), radix: 16))
        }
    }
}

extension Value {
    func requireText(_ name: String) throws -> String {
        try #require(self[name]?.text, "no text \(name)")
    }

    func requireInteger(_ name: String) throws -> UInt64 {
        try #require(self[name]?.integer, "no integer \(name)")
    }

    func requireCount(_ name: String) throws -> Int {
        Int(try self.requireInteger(name))
    }

    func requireTexts(_ name: String) throws -> [String] {
        try #require(self[name]?.values, "no array \(name)").map { try #require($0.text) }
    }
}

extension Ready {
    /// What a row of `good.ndjson` says.
    fileprivate init(_ row: Value) throws {
        let bounds = try #require(row["limits"])
        var limits = ProtocolLimits()
        limits.lineByteCountMax = try bounds.requireCount("line")
        limits.rawByteCountMax = try bounds.requireCount("raw")
        limits.wireByteCountMax = try bounds.requireCount("wire")
        limits.streamCountMax = try bounds.requireCount("streams")
        limits.idleMilliseconds = try bounds.requireCount("idle_ms")
        limits.lineCountMax = try bounds.requireCount("lines")
        limits.windowByteCount = try row.requireCount("window")
        self.init(
            version: try row.requireInteger("protocol"), receiver: try ReceiverIdentity(row),
            fleet: row["fleet"]?.text,
            level: try #require(DurabilityLevel(rawValue: try row.requireText("level"))), limits: limits,
            milliseconds: Int64(try row.requireInteger("time")))
    }
}

extension Message {
    /// A line without its LF, or why it is no message.
    static func read(_ line: [UInt8]) -> Result<Message, WireError> {
        line.withUnsafeBytes { line in
            do throws(WireError) {
                return .success(try Message(line: line))
            } catch {
                return .failure(error)
            }
        }
    }

    /// What a row of `good.ndjson` says.
    init(_ row: Value) throws {
        func number() throws -> StreamNumber { StreamNumber(try row.requireInteger("number")) }
        func offset() throws -> StreamOffset { StreamOffset(try row.requireInteger("offset")) }
        func code() throws -> ErrorCode { try #require(ErrorCode(rawValue: try row.requireText("code"))) }
        func checksum() throws -> UInt32 { UInt32(try row.requireInteger("crc")) }
        switch try row.requireText("type") {
        case "HELLO":
            self = .hello(
                Hello(
                    versions: try #require(row["protocol"]?.values).map { try #require($0.integer) },
                    agent: try row.requireText("agent"), instance: try row.requireText("instance"),
                    token: row["token"]?.text, key: row["key"]?.text, encodings: try row.requireTexts("accept"),
                    software: row["software"]?.text, milliseconds: row["time"]?.integer.map { Int64($0) }))
        case "READY":
            self = .ready(try Ready(row))
        case "OPEN":
            self = .open(try number(), try StreamDescription(row), try OpenClaim(row))
        case "AT":
            self = .at(
                try number(), try offset(), try StreamProof(row, at: try offset()), end: try row.requireInteger("end"))
        case "BATCH":
            self = .batch(
                BatchHeader(
                    stream: try number(), offset: try offset(), rawByteCount: try row.requireCount("raw"),
                    lineCount: try row.requireCount("lines"), wireByteCount: try row.requireCount("wire"),
                    checksum: try checksum()))
        case "ACK": self = .ack(try number(), try offset(), end: try row.requireInteger("end"))
        case "NAK": self = .nak(try number(), try offset(), try code(), text: try row.requireText("text"))
        case "SKIP":
            let reason = try #require(SkipReason(rawValue: try row.requireText("reason")))
            let range = SkippedRange(
                offset: try offset(), byteCount: try row.requireInteger("length"), reason: reason,
                tail: try row["tail"]?.text.map(Vectors.bytes(hexadecimal:)), holder: row["holder"]?.text)
            self = .skip(try number(), try #require(range))
        case "SEAL": self = .seal(try number(), length: try offset())
        case "SEALED":
            self = .sealed(
                try number(), try StreamProof(row, at: StreamOffset(LineProtocol.integerMax)),
                end: try row.requireInteger("end"))
        case "STORED": self = .stored(try number(), try offset())
        case "NOTE":
            self = .note(
                try (#require(row["quarantined"]?.values) + (row["refused"]?.values ?? [])).map(QuarantineCount.init))
        case "PING": self = .ping(try row.requireInteger("value"))
        case "PONG": self = .pong(try row.requireInteger("value"))
        case "WAIT": self = .wait(milliseconds: try row.requireInteger("value"))
        case "MOVE": self = .move(try row.requireTexts("receivers"))
        case "ERR": self = .err(try code(), text: try row.requireText("text"))
        case "BYE": self = .bye
        case "MARK":
            self = .mark(
                position: try row.requireInteger("position"), milliseconds: try row.requireInteger("value"),
                checksum: try checksum())
        case "START":
            self = .start(
                try ReceiverStart(
                    hexadecimal: try row.requireText("start"), position: try row.requireInteger("position")),
                try #require(Incarnation(try row.requireText("incarnation").utf8)))
        case "TAIL": self = .tail(try number(), try Vectors.bytes(hexadecimal: try row.requireText("tail")))
        case let type: throw UnknownType(type: type)
        }
    }

    struct UnknownType: Error {
        let type: String
    }
}

extension StreamDescription {
    fileprivate init(_ row: Value) throws {
        self.init(
            id: try #require(StreamID(try row.requireText("stream"))), source: try row.requireText("source"),
            environment: try row.requireText("env"), bundle: try row.requireText("bundle"),
            format: try #require(StreamFormat(rawValue: try row.requireText("format"))), timeMember: row["time"]?.text,
            nameMember: row["name"]?.text, userMember: row["user"]?.text, anonymousMember: row["anonymous"]?.text)
    }
}

extension OpenClaim {
    fileprivate init(_ row: Value) throws {
        self.init(from: row["from"]?.integer.map { StreamOffset($0) }, by: row["by"]?.text)
        if let text = row["proof"]?.text {
            let digest: ProofDigest = try #require(ProofDigest(text.utf8))
            self.proof = digest
        }
    }
}

extension QuarantineCount {
    fileprivate init(_ row: Value) throws {
        let stream = try #require(StreamID(try row.requireText("stream")))
        self.init(
            stream: stream, export: row["export"]?.text, reason: try row.requireText("reason"),
            count: try row.requireCount("count"))
    }
}

extension StreamProof {
    fileprivate init(_ row: Value, at offset: StreamOffset) throws {
        let digest = try row["digest"]?.text.map { try #require(ProofDigest($0.utf8)) }
        let proof = try #require(StreamProof(byteCount: try row.requireCount("count"), digest: digest, at: offset))
        self = proof.skipping(row["skipped"]?.integer ?? 0)
    }
}

extension ReceiverStart {
    fileprivate init(hexadecimal text: String, position: UInt64) throws {
        self.init(id: try #require(UInt64(text, radix: 16)), position: position)
    }
}

extension ReceiverIdentity {
    fileprivate init(_ row: Value) throws {
        var starts: [ReceiverStart] = []
        for pair in try #require(row["starts"]?.values) {
            let parts = try #require(pair.values)
            let (id, position) = (try #require(parts[0].text), try #require(parts[1].integer))
            starts.append(try ReceiverStart(hexadecimal: id, position: position))
        }
        let incarnation = try #require(Incarnation(try row.requireText("incarnation").utf8))
        let identity = ReceiverIdentity(
            name: try row.requireText("receiver"), incarnation: incarnation, starts: starts,
            end: try row.requireInteger("end"))
        self = try #require(identity)
        #expect(try row.requireText("id") == self.id)
        #expect(try row.requireText("start") == self.starts.last?.idText)
    }
}

/// A row of `good.ndjson`.
struct GoodLine {
    let name: String
    let line: [UInt8]
    let message: Message
    let encoded: String

    static func all() throws -> [GoodLine] {
        try Vectors.rows("good.ndjson").map { row in
            let line = try row.requireText("line")
            return GoodLine(
                name: try row.requireText("name"), line: Array(line.utf8),
                message: try Message(try #require(row["message"])), encoded: row["encoded"]?.text ?? line)
        }
    }
}

/// A row of `bad.ndjson`.
struct BadLine {
    let name: String
    let line: [UInt8]
    let error: String

    static func all() throws -> [BadLine] {
        try Vectors.rows("bad.ndjson").map { row in
            let line = try row["hex"]?.text.map(Vectors.bytes(hexadecimal:)) ?? Array(try row.requireText("line").utf8)
            return BadLine(name: try row.requireText("name"), line: line, error: try row.requireText("error"))
        }
    }
}
