internal import WaybillJSON
internal import WaybillProtocol

/// Why a request about a stream was not granted: a status, and JSON with what to do.
///
/// - SeeAlso: `Protocol/protocol.md`, section 21 "Streams over HTTP".
struct StreamRefusal: Error, Hashable, Sendable {
    /// The codes of `Protocol/errors.json` that can occur here, and those that only HTTP has.
    enum Code: String, CaseIterable, Sendable {
        case gap
        case corrupt
        case tooLarge = "too-large"
        case retryAfter = "retry-after"
        case sealed
        case inUse = "in-use"
        case prove
        case notAllowed = "not-allowed"
        case syntax
        case token
        case limit
        case timeout
        case unavailable
        // HTTP's own.
        case differs
        case busy
        case notFound = "not-found"
        case method
    }

    let code: Code
    let cause: String
    /// What the receiver holds, as far as it matters here.
    var held: HeldStream?
    var headers: [String: String] = [:]
    /// How long the answer waits: attempts to be let in that fail are slowed.
    var delay = Duration.zero

    init(_ code: Code, _ cause: String, held: HeldStream? = nil, headers: [String: String] = [:]) {
        self.code = code
        self.cause = cause
        self.held = held
        self.headers = headers
        if headers["Retry-After"] == nil, let seconds = code.retrySeconds { self.headers["Retry-After"] = "\(seconds)" }
    }

    /// The refusal for a body that the door does not take.
    init(_ reason: DoorTelemetry.RefusalReason) {
        switch reason {
        case .tooLarge: self.init(.limit, "the body is larger than any frame")
        case .share: self.init(.busy, "this address sends too much at once")
        default: self.init(.unavailable, "the door has no room for this request now")
        }
    }

    /// The refusal for what a receiver said about a stream.
    init(_ code: ErrorCode, _ text: String, offset: StreamOffset?) {
        switch code {
        case .gap: self.init(.gap, text)
        case .corrupt: self.init(.corrupt, text)
        case .tooLarge: self.init(.tooLarge, text)
        case .retryAfter: self.init(.retryAfter, text)
        case .sealed: self.init(.sealed, text)
        case .inUse: self.init(.inUse, text)
        case .prove: self.init(.prove, text, held: offset.map { HeldStream(offset: $0, proof: nil, end: nil) })
        case .notAllowed: self.init(.notAllowed, text)
        // They end the connection, which is the door's.
        case .syntax, .order, .version, .token, .limit, .timeout, .agentInUse, .unavailable:
            self.init(.unavailable, text)
        }
    }

    /// The body of the answer.
    var body: [UInt8] {
        JSONWriter.object { json in
            json.member("code", self.code.rawValue)
            json.member("cause", self.cause)
            json.member("remedy", self.code.remedy)
            self.held?.write(to: &json)
        }
    }
}

extension StreamRefusal.Code {
    var status: Int {
        switch self {
        case .gap, .differs, .sealed, .inUse, .prove: 409
        case .corrupt, .syntax: 400
        case .tooLarge, .limit: 413
        case .token: 401
        case .notAllowed: 403
        case .notFound: 404
        case .method: 405
        case .busy: 429
        case .retryAfter, .timeout, .unavailable: 503
        }
    }

    /// When to come again, where nothing else says.
    var retrySeconds: Int? {
        switch self {
        case .retryAfter, .inUse: 5
        case .busy, .timeout, .unavailable: 1
        case .gap, .corrupt, .tooLarge, .sealed, .prove, .notAllowed, .syntax, .token, .limit, .differs, .notFound,
            .method:
            nil
        }
    }

    var remedy: String {
        switch self {
        case .gap: "GET the stream, compare its proof with your bytes, and continue from its offset"
        case .differs: "do not send this file under this id: other bytes are stored under it; ship it under another id"
        case .sealed: "the stream has ended; send more bytes as another stream"
        case .inUse: "stop the other client that ships this stream, or wait until it has closed"
        case .prove: "repeat it with from and proof in Waybill-Stream, for this offset of your file, or with from 0"
        case .corrupt: "read the bytes again and send the frame again"
        case .tooLarge: "skip the line with POST …/skip and the reason too-long"
        case .limit: "keep to the limits of GET /v1/streams"
        case .syntax: "correct the request; Protocol/protocol.md, section 21, describes it"
        case .token: "send Authorization: Bearer with the token of an agent, and a device's key in Waybill-Key"
        case .notAllowed: "ask the operator: agents: in the configuration says what this client may do"
        case .notFound: "see Protocol/protocol.md, section 21, for the paths"
        case .method: "see Allow for the methods of this path"
        case .busy: "send one request at a time"
        case .retryAfter, .timeout, .unavailable:
            "repeat the request after Retry-After; what was stored meanwhile is not stored twice"
        }
    }
}

/// What a receiver holds of a stream, as it said.
struct HeldStream: Hashable, Sendable {
    let offset: StreamOffset
    /// `nil`: it was not said.
    let proof: StreamProof?
    /// The journal's durable end; `nil`: it was not said.
    let end: UInt64?
    /// `nil`: it was not said; the answer may come before the `SEALED` of a sealed stream.
    var isSealed: Bool?

    func write(to json: inout JSONWriter) {
        json.member("offset", Int(self.offset.rawValue))
        if let proof {
            json.member("count", proof.byteCount)
            json.member("digest", proof.digest?.text ?? "-")
            if proof.skippedByteCount > 0 { json.member("skipped", Int(proof.skippedByteCount)) }
        }
        if let end { json.member("end", Int(end)) }
        if let isSealed { json.member("sealed", isSealed) }
    }
}
