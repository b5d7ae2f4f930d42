/// The agent's greeting.
package struct Hello: Hashable, Sendable {
    /// The protocol versions it speaks.
    package var versions: [UInt64]
    /// Its configured name; the same after a restart.
    package var agent: String
    /// Random for each process, to distinguish a reconnecting agent from a second one with the same name.
    package var instance: String
    package var token: String?
    /// Encodings of batches it can send; `zlib` is always among them.
    package var encodings: [String]

    package init(versions: [UInt64], agent: String, instance: String, token: String?, encodings: [String]) {
        self.versions = versions
        self.agent = agent
        self.instance = instance
        self.token = token
        self.encodings = encodings
    }
}

/// The receiver's answer to the greeting, with what it grants.
package struct Ready: Hashable, Sendable {
    package var version: UInt64
    package var receiver: String
    package var limits: ProtocolLimits
    /// The receiver's clock in milliseconds since 1970; for diagnosis, never for ordering.
    package var milliseconds: Int64

    package init(version: UInt64, receiver: String, limits: ProtocolLimits, milliseconds: Int64) {
        self.version = version
        self.receiver = receiver
        self.limits = limits
        self.milliseconds = milliseconds
    }
}

/// The format of a stream's lines.
package enum StreamFormat: String, Hashable, Sendable {
    /// Waybill's own events.
    case waybill
    /// Any other newline-delimited JSON.
    case ndjson
}

/// The description of a stream; the journal stores it as received.
package struct StreamDescription: Hashable, Sendable {
    package var id: StreamID
    /// Where the agent reads the stream; for people.
    package var source: String
    /// `dev`, `internal` or `prod`; applies to lines that do not carry it themselves.
    package var environment: String
    /// The app; applies to lines that do not carry it themselves.
    package var bundle: String
    package var format: StreamFormat
    /// The member of a foreign line that holds its time.
    package var timeMember: String?
    /// The member of a foreign line that holds its name.
    package var nameMember: String?

    /// The bytes of a line that are left for the object: `OPEN`, the largest number, two spaces and LF take the rest.
    package static let jsonByteCountMax = ProtocolLimits.messageByteCountMax - 24

    package init(
        id: StreamID, source: String, environment: String, bundle: String, format: StreamFormat,
        timeMember: String? = nil, nameMember: String? = nil
    ) {
        self.id = id
        self.source = source
        self.environment = environment
        self.bundle = bundle
        self.format = format
        self.timeMember = timeMember
        self.nameMember = nameMember
    }
}

/// The line in front of a batch's payload.
package struct BatchHeader: Hashable, Sendable {
    package var stream: StreamNumber
    /// Where the batch begins in its stream.
    package var offset: StreamOffset
    /// Its bytes in the source.
    package var rawByteCount: Int
    /// Its lines; the last may lack its LF when it ends the source.
    package var lineCount: Int
    /// The payload's bytes.
    package var wireByteCount: Int
    /// CRC-32 of ``checksummedText(id:)`` and the payload.
    package var checksum: UInt32

    package init(
        stream: StreamNumber, offset: StreamOffset, rawByteCount: Int, lineCount: Int, wireByteCount: Int,
        checksum: UInt32
    ) {
        self.stream = stream
        self.offset = offset
        self.rawByteCount = rawByteCount
        self.lineCount = lineCount
        self.wireByteCount = wireByteCount
        self.checksum = checksum
    }

    package var end: StreamOffset {
        self.offset.advanced(by: self.rawByteCount)
    }

    /// The bytes that the checksum covers before the payload: `id SP offset SP raw SP lines SP wire LF`.
    package func checksummedText(id: StreamID) -> String {
        "\(id.text) \(self.offset.rawValue) \(self.rawByteCount) \(self.lineCount) \(self.wireByteCount)\n"
    }
}

/// Why an agent skips bytes.
package enum SkipReason: String, CaseIterable, Hashable, Sendable {
    /// A line that exceeds the limit; the agent keeps it in its quarantine folder.
    case tooLong = "too-long"
    /// The end of a segment whose writer died in the middle of a line.
    case tornTail = "torn-tail"
    /// Bytes that the source no longer holds.
    case truncated
}

/// A code of `NAK` or `ERR`; `Protocol/errors.json` defines what each means and what the peer must do.
package enum ErrorCode: String, CaseIterable, Hashable, Sendable {
    // NAK: one stream.
    case gap
    case corrupt
    case tooLarge = "too-large"
    case retryAfter = "retry-after"
    case sealed
    case inUse = "in-use"
    // ERR: the connection.
    case syntax
    case order
    case version
    case token
    case limit
    case timeout
    case agentInUse = "agent-in-use"
    case unavailable

    /// Whether it belongs to `NAK`, which is about one stream, and not to `ERR`, which ends the connection.
    package var isOfStream: Bool {
        switch self {
        case .gap, .corrupt, .tooLarge, .retryAfter, .sealed, .inUse: true
        case .syntax, .order, .version, .token, .limit, .timeout, .agentInUse, .unavailable: false
        }
    }
}

/// One message; a batch's payload follows its header on the connection and is not part of it.
package enum Message: Hashable, Sendable {
    case hello(Hello)
    case ready(Ready)
    case open(StreamNumber, StreamDescription)
    case at(StreamNumber, StreamOffset)
    case batch(BatchHeader)
    case ack(StreamNumber, StreamOffset)
    case nak(StreamNumber, StreamOffset, ErrorCode, text: String)
    case skip(StreamNumber, StreamOffset, byteCount: UInt64, SkipReason)
    case seal(StreamNumber, length: StreamOffset)
    case sealed(StreamNumber)
    case ping(UInt64)
    case pong(UInt64)
    case wait(milliseconds: UInt64)
    case move([String])
    case err(ErrorCode, text: String)
    case bye
    /// Only in the journal: its own position, the time of receipt of what follows, and the checksum of what precedes.
    case mark(position: UInt64, milliseconds: UInt64, checksum: UInt32)
}

/// How a message can be invalid; `Protocol/errors.json` defines the consequence.
package enum WireError: Error, Hashable, Sendable {
    case lineTooLong
    case emptyLine
    case notASCII(byteOffset: Int)
    case unknownMessage
    /// There are too few or too many fields, or two adjacent spaces.
    case fieldCount(expected: Int)
    /// An integer with a sign, a leading zero or a non-digit, or greater than 2^53 - 1.
    case badInteger(field: Int)
    case badChecksum
    case badReason
    case badCode
    case badJSON(byteOffset: Int)
    case badMember(String)
    case badStreamID

    /// One of a fixed set of words, for metrics and logs; contains no input.
    package var code: String {
        switch self {
        case .lineTooLong: "line-too-long"
        case .emptyLine: "empty-line"
        case .notASCII: "not-ascii"
        case .unknownMessage: "unknown-message"
        case .fieldCount: "field-count"
        case .badInteger: "bad-integer"
        case .badChecksum: "bad-checksum"
        case .badReason: "bad-reason"
        case .badCode: "bad-code"
        case .badJSON: "bad-json"
        case .badMember: "bad-member"
        case .badStreamID: "bad-stream-id"
        }
    }

    /// The error and its place, for the peer's operator.
    package var text: String {
        switch self {
        case .lineTooLong: "a message line has at most \(ProtocolLimits.messageByteCountMax) bytes"
        case .emptyLine: "a message line is empty"
        case .notASCII(let byteOffset): "byte \(byteOffset) of the line is not printable ASCII"
        case .unknownMessage: "no message begins with this word"
        case .fieldCount(let expected): "the message has \(expected) fields, single spaces between them"
        case .badInteger(let field): "field \(field) is a decimal integer up to 2^53-1 without sign or leading zero"
        case .badChecksum: "the checksum is 8 lower-case hexadecimal digits"
        case .badReason: "the reason of SKIP is one of \(SkipReason.allCases.map(\.rawValue).joined(separator: ", "))"
        case .badCode: "the code is not in errors.json"
        case .badJSON(let byteOffset): "the JSON object is broken at byte \(byteOffset)"
        case .badMember(let name): "member \(name) is missing or has the wrong type"
        case .badStreamID: "a stream id has 1 to 128 letters, digits, '.', '_', ':' and '-'"
        }
    }
}
