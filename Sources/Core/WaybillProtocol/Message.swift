/// The agent's greeting.
package struct Hello: Hashable, Sendable {
    /// The protocol versions it speaks.
    package var versions: [UInt64]
    /// Its configured name; the same after a restart.
    package var agent: String
    /// Random for each process, to distinguish a reconnecting agent from a second one with the same name.
    package var instance: String
    package var token: String?
    /// A device's secret, which proves its name: 16 random bytes in base64url, without padding.
    package var key: String?
    /// Encodings of batches it can send; `zlib` is always among them.
    package var encodings: [String]
    /// The program and its version, such as `waybill/0.1.0`, as the peer says; for people.
    package var software: String?
    /// The agent's clock in milliseconds since 1970; for diagnosis, never for ordering.
    package var milliseconds: Int64?

    package init(
        versions: [UInt64], agent: String, instance: String, token: String?, key: String? = nil, encodings: [String],
        software: String? = nil, milliseconds: Int64? = nil
    ) {
        self.versions = versions
        self.agent = agent
        self.instance = instance
        self.token = token
        self.key = key
        self.encodings = encodings
        self.software = software
        self.milliseconds = milliseconds
    }
}

/// The receiver's answer to the greeting, with what it grants.
package struct Ready: Hashable, Sendable {
    package var version: UInt64
    package var receiver: ReceiverIdentity
    /// The fleet that the receiver belongs to, 32 hexadecimal digits; `nil` for a receiver that stands alone.
    package var fleet: String?
    package var level: DurabilityLevel
    package var limits: ProtocolLimits
    /// The receiver's clock in milliseconds since 1970; for diagnosis, never for ordering.
    package var milliseconds: Int64

    package init(
        version: UInt64, receiver: ReceiverIdentity, fleet: String? = nil, level: DurabilityLevel = .durable,
        limits: ProtocolLimits, milliseconds: Int64
    ) {
        self.version = version
        self.receiver = receiver
        self.fleet = fleet
        self.level = level
        self.limits = limits
        self.milliseconds = milliseconds
    }
}

/// What `SEALED` of a receiver promises.
package enum DurabilityLevel: String, Hashable, Sendable {
    /// The bytes survive a power failure of this receiver.
    case durable
    /// The bytes survive the loss of this receiver.
    case stored
}

/// The format of a stream's lines.
package enum StreamFormat: String, Hashable, Sendable {
    /// Waybill's own events.
    case waybill
    /// Any other newline-delimited JSON.
    case ndjson
}

/// Who owns a stream, and which lines the owner may write: set by the receiver, whatever an agent says.
package struct StreamOwner: Hashable, Sendable {
    /// The principal's name, for a device followed by `/` and the device's name; empty when the receiver knows no
    /// principals.
    package var principal: String
    /// Patterns for a line's `env`; empty: every one.
    package var environments: [String]
    /// Patterns for a line's `bundle`; empty: every one.
    package var bundles: [String]

    package init(principal: String, environments: [String] = [], bundles: [String] = []) {
        self.principal = principal
        self.environments = environments
        self.bundles = bundles
    }

    /// The principal's name without a device.
    package var principalName: String { String(self.principal.prefix { $0 != "/" }) }

    /// The owner at a receiver that knows no principals.
    package static let everyone = StreamOwner(principal: "")
}

/// The description of a stream; the journal stores it as received, with the owner.
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
    /// The member of a foreign line that holds its user.
    package var userMember: String?
    /// The member of a foreign line that holds its anonymous id.
    package var anonymousMember: String?
    /// Only in the journal; what an agent writes there is replaced.
    package var owner: StreamOwner

    package var name: StreamName { StreamName(principal: self.owner.principal, id: self.id) }

    /// The description with its owner; `source`, which is for people, is cut if the line would become too long.
    ///
    /// - Returns: `nil` if the line is too long without a source.
    package func owned(by owner: StreamOwner) -> StreamDescription? {
        var owned = self
        owned.owner = owner
        while owned.json.utf8.count > Self.jsonByteCountMax, !owned.source.isEmpty {
            // Escaping makes a character at most six times as long.
            let excess = owned.json.utf8.count - Self.jsonByteCountMax
            owned.source.removeLast(min(owned.source.count, max(1, excess / 12)))
        }
        return owned.json.utf8.count <= Self.jsonByteCountMax ? owned : nil
    }

    /// Whether a text can be an app's name.
    package static func isBundle(_ text: String) -> Bool {
        (1...255).contains(text.utf8.count) && FreeText.isName(text)
    }

    /// What ``isBundle(_:)`` demands, for messages.
    package static let bundleRule = "1 to 255 bytes without control characters"

    /// The bytes of a line that are left for the object: `OPEN`, the largest number, two spaces and LF take the rest.
    package static let jsonByteCountMax = ProtocolLimits.messageByteCountMax - 24

    package init(
        id: StreamID, source: String, environment: String, bundle: String, format: StreamFormat,
        timeMember: String? = nil, nameMember: String? = nil, userMember: String? = nil,
        anonymousMember: String? = nil, owner: StreamOwner = .everyone
    ) {
        self.id = id
        self.source = source
        self.environment = environment
        self.bundle = bundle
        self.format = format
        self.timeMember = timeMember
        self.nameMember = nameMember
        self.userMember = userMember
        self.anonymousMember = anonymousMember
        self.owner = owner
    }
}

/// What an agent adds to an `OPEN` about the stream's past; never stored.
package struct OpenClaim: Hashable, Sendable {
    /// The offset that the agent speaks of.
    package var from: StreamOffset?
    /// The receiver that holds the stream up to ``from``, by its id.
    package var by: String?
    /// The proof for ``from``: the agent's file has these bytes.
    package var proof: ProofDigest?

    package init(from: StreamOffset? = nil, by: String? = nil, proof: ProofDigest? = nil) {
        self.from = from
        self.by = by
        self.proof = proof
    }

    /// The claim of an agent that says nothing.
    package static let none = OpenClaim()
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

    /// Whether a payload of that length can hold so many bytes: zlib cannot do better than 1032 : 1.
    ///
    /// Ask before anything is allocated for them.
    package var isPossible: Bool {
        (self.rawByteCount - 1) / 1032 <= self.wireByteCount
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
    /// Bytes that the receiver holds in an earlier, sealed stream of the same file.
    case held
    /// Bytes that the receiver's fleet has stored; another receiver of it took them. Not lost.
    case elsewhere
    /// Bytes that a receiver of the fleet took before it belonged to it: its own archive has them. Not lost.
    case before
    /// NULs before a line: its writer wrote after the end of a file that was cut. No one wrote them, and nothing is lost.
    case hole

    /// Whether the fleet is said to hold the bytes: nothing of the stream is given up.
    package var isOfFleet: Bool {
        switch self {
        case .elsewhere, .before: true
        case .tooLong, .tornTail, .truncated, .held, .hole: false
        }
    }
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
    case prove
    case notAllowed = "not-allowed"
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
        case .gap, .corrupt, .tooLarge, .retryAfter, .sealed, .inUse, .prove, .notAllowed: true
        case .syntax, .order, .version, .token, .limit, .timeout, .agentInUse, .unavailable: false
        }
    }
}

/// One message; a batch's payload follows its header on the connection and is not part of it.
///
/// `MessageDecoder.swift` reads the fields and `MessageEncoder.swift` writes them, each in a switch of its own;
/// `GrammarTests` holds both to the rules and the tables of members in `Protocol/protocol.md`.
package enum Message: Hashable, Sendable {
    case hello(Hello)
    case ready(Ready)
    case open(StreamNumber, StreamDescription, OpenClaim)
    /// `end` is the journal's durable end, here and in the other answers.
    case at(StreamNumber, StreamOffset, StreamProof, end: UInt64)
    case batch(BatchHeader)
    case ack(StreamNumber, StreamOffset, end: UInt64)
    case nak(StreamNumber, StreamOffset, ErrorCode, text: String)
    case skip(StreamNumber, SkippedRange)
    case seal(StreamNumber, length: StreamOffset)
    case sealed(StreamNumber, StreamProof, end: UInt64)
    case stored(StreamNumber, StreamOffset)
    case note([QuarantineCount])
    case ping(UInt64)
    case pong(UInt64)
    case wait(milliseconds: UInt64)
    case move([String])
    case err(ErrorCode, text: String)
    case bye
    /// Only in the journal: its own position, the time of receipt of what follows, and the checksum of what precedes.
    case mark(position: UInt64, milliseconds: UInt64, checksum: UInt32)
    /// Only in the journal: a start of the receiver.
    case start(ReceiverStart, Incarnation)
    /// Only in the journal: the stream's last bytes below the offset of the `AT` before it.
    case tail(StreamNumber, [UInt8])
    /// Only in the journal: how many streams are in its table of those at rest, and length and checksum of their records.
    case resting(count: UInt64, byteCount: UInt64, checksum: UInt32)
}

/// Lines of one stream that the receiver put into its quarantine, or that an export refused, for the agent's operator.
package struct QuarantineCount: Hashable, Sendable {
    package var stream: StreamID
    /// The export that refused them; `nil`: they are in the quarantine.
    package var export: String?
    /// The reason, a word such as `not-json` or `ga4.too_old`.
    package var reason: String
    package var count: Int

    package init(stream: StreamID, export: String? = nil, reason: String, count: Int) {
        self.stream = stream
        self.export = export
        self.reason = reason
        self.count = count
    }
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
    /// A proof that is not a digest, or that covers more bytes than there are below its offset.
    case badProof
    /// A tail that is not base64, or whose length is not the one that the offset demands.
    case badTail
    case badReason
    /// The holder of what is skipped with `before` is not a name of a fleet's receiver.
    case badHolder
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
        case .badProof: "bad-proof"
        case .badTail: "bad-tail"
        case .badReason: "bad-reason"
        case .badHolder: "bad-holder"
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
        case .badProof:
            "a proof is its number of bytes, at most 512 and the offset, and 32 hexadecimal digits, or 0 and -"
        case .badTail:
            "a tail is base64 of the last 512 bytes below the end, of fewer near the start, or - for truncated"
        case .badReason: "the reason of SKIP is one of \(SkipReason.allCases.map(\.rawValue).joined(separator: ", "))"
        case .badHolder: "the holder of what is skipped has 1 to 64 letters, digits, '.', '_' and '-'"
        case .badCode: "the code is not in errors.json"
        case .badJSON(let byteOffset): "the JSON object is broken at byte \(byteOffset)"
        case .badMember(let name): "member \(name) is missing, has the wrong type, or a value that it may not have"
        case .badStreamID: "a stream id has 1 to 128 letters, digits, '.', '_', ':' and '-'"
        }
    }
}
