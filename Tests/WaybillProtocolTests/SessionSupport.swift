import WaybillProtocol

/// The words of session tests.
enum Sample {
    static let one = StreamNumber(1)
    static let two = StreamNumber(2)

    static let hello = Hello(
        versions: [1], agent: "web-01", instance: "9f3c1a77d2e04b58", token: nil, encodings: ["zlib"])

    static func limits(window: Int = 1000, raw: Int = 500, wire: Int = 600, streams: Int = 3) -> ProtocolLimits {
        var limits = ProtocolLimits()
        limits.lineCountMax = 20
        limits.windowByteCount = window
        limits.rawByteCountMax = raw
        limits.wireByteCountMax = wire
        limits.streamCountMax = streams
        return limits
    }

    static func ready(version: UInt64 = 1, window: Int = 1000) -> Ready {
        Ready(version: version, receiver: Self.receiver, limits: Self.limits(window: window), milliseconds: 5)
    }

    static let receiver = Self.identity([(3, 0), (4, 80)], end: Self.end)

    /// A receiver with these starts, each with its position.
    static func identity(_ starts: [(id: UInt64, position: UInt64)], end: UInt64) -> ReceiverIdentity {
        let starts = starts.map { ReceiverStart(id: $0.id, position: $0.position) }
        guard
            let identity = ReceiverIdentity(
                name: "collector-1", incarnation: Incarnation(1, 2), starts: starts, end: end)
        else { preconditionFailure("\(starts) and \(end) are no history") }
        return identity
    }

    /// The journal's end in every answer.
    static let end: UInt64 = 90

    /// A proof of the stream "a" with bytes of one value.
    static func proof(_ offset: UInt64, of byte: UInt8 = 7) -> StreamProof {
        StreamProof(of: Self.id("a"), at: StreamOffset(offset), tail: Self.tail(offset, of: byte))
    }

    static func tail(_ offset: UInt64, of byte: UInt8 = 7) -> [UInt8] {
        Array(repeating: byte, count: StreamProof.byteCount(at: StreamOffset(offset)))
    }

    static func at(_ offset: UInt64, _ stream: StreamNumber = Sample.one) -> Message {
        .at(stream, StreamOffset(offset), Self.proof(offset), end: Self.end)
    }

    static func ack(_ offset: UInt64, _ stream: StreamNumber = Sample.one) -> Message {
        .ack(stream, StreamOffset(offset), end: Self.end)
    }

    static func sealed(_ offset: UInt64) -> Message {
        .sealed(Self.one, Self.proof(offset), end: Self.end)
    }

    static func skipped(_ offset: UInt64, byteCount: UInt64) -> SkippedRange {
        let tail = Self.tail(offset + byteCount)
        guard
            let range = SkippedRange(
                offset: StreamOffset(offset), byteCount: byteCount, reason: .tooLong, tail: tail)
        else { preconditionFailure("the tail has as many bytes as its offset demands") }
        return range
    }

    static func description(_ id: String = "a") -> StreamDescription {
        StreamDescription(
            id: Self.id(id), source: "/a.ndjson", environment: "prod", bundle: "com.example.shop", format: .waybill)
    }

    static func id(_ text: String) -> StreamID {
        guard let id = StreamID(text) else { preconditionFailure("\(text) is no stream id") }
        return id
    }

    static func header(
        _ stream: StreamNumber = Sample.one, at offset: UInt64, raw: Int, wire: Int = 24
    ) -> BatchHeader {
        BatchHeader(
            stream: stream, offset: StreamOffset(offset), rawByteCount: raw, lineCount: 1, wireByteCount: wire,
            checksum: 0)
    }

    /// One message of each word, of stream 1 where it has one.
    static let messages: [Message] = [
        .hello(Self.hello), .ready(Self.ready()), .open(Self.one, Self.description(), Self.claim), Self.at(150),
        .batch(Self.header(at: 150, raw: 50)), Self.ack(150),
        .nak(Self.one, StreamOffset(100), .gap, text: "x"),
        .skip(Self.one, Self.skipped(150, byteCount: 50)), .seal(Self.one, length: StreamOffset(200)),
        Self.sealed(200), .stored(Self.one, StreamOffset(100)), .note(Self.counts), .ping(7), .pong(7),
        .wait(milliseconds: 5), .move(["b:1"]), .err(.limit, text: "x"), .bye,
        .mark(position: 1, milliseconds: 2, checksum: 3),
        .start(ReceiverStart(id: 4, position: 80), Incarnation(1, 2)), .tail(Self.one, [1, 2, 3]),
    ]

    static let claim = OpenClaim(
        from: StreamOffset(100), by: Self.receiver.id, proof: Self.proof(100).digest)

    static let counts = [QuarantineCount(stream: Self.id("a"), reason: "not-json", count: 3)]
}
