import WaybillProtocol

/// The words of session tests.
enum Sample {
    static let one = StreamNumber(1)
    static let two = StreamNumber(2)

    static let hello = Hello(
        versions: [1], agent: "web-01", instance: "9f3c1a77d2e04b58", token: nil, encodings: ["zlib"])

    static func limits(window: Int = 1000, raw: Int = 500, wire: Int = 600, streams: Int = 3) -> ProtocolLimits {
        var limits = ProtocolLimits()
        limits.windowByteCount = window
        limits.rawByteCountMax = raw
        limits.wireByteCountMax = wire
        limits.streamCountMax = streams
        return limits
    }

    static func ready(version: UInt64 = 1, window: Int = 1000) -> Ready {
        Ready(version: version, receiver: "collector-1", limits: Self.limits(window: window), milliseconds: 5)
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
        .hello(Self.hello), .ready(Self.ready()), .open(Self.one, Self.description()), .at(Self.one, StreamOffset(150)),
        .batch(Self.header(at: 150, raw: 50)), .ack(Self.one, StreamOffset(150)),
        .nak(Self.one, StreamOffset(100), .gap, text: "x"),
        .skip(Self.one, StreamOffset(150), byteCount: 50, .tooLong), .seal(Self.one, length: StreamOffset(200)),
        .sealed(Self.one), .ping(7), .pong(7), .wait(milliseconds: 5), .move(["b:1"]), .err(.limit, text: "x"), .bye,
        .mark(position: 1, milliseconds: 2, checksum: 3),
    ]
}
