internal import WaybillIngest
internal import WaybillProtocol
internal import WaybillSystem

/// What a request of `/v1/streams` asks for, by its method and path.
///
///     GET  /v1/streams              who the receiver is, and its limits
///     GET  /v1/streams/ID           how far it holds a stream, with the proof
///     PUT  /v1/streams/ID?offset=N  a batch
///     POST /v1/streams/ID/skip      bytes that will never be sent
///     POST /v1/streams/ID/seal      the stream's end
enum StreamCall: Hashable, Sendable {
    case receiver
    case ask(StreamID)
    case batch(StreamID)
    case skip(StreamID)
    case seal(StreamID)

    private static let root: Substring = "/v1/streams"

    static func isPath(_ path: Substring) -> Bool {
        path == Self.root || path.hasPrefix("/v1/streams/")
    }

    /// - Parameter path: without its query.
    init(method: String, path: Substring) throws(StreamRefusal) {
        let parts = path.dropFirst(Self.root.count).split(separator: "/", omittingEmptySubsequences: true)
        guard let first = parts.first else {
            try Self.demand("GET", method)
            self = .receiver
            return
        }
        guard let text = PercentText.decode(first), let id = StreamID(text) else {
            throw StreamRefusal(.syntax, "a stream's id has 1 to 128 letters, digits, '.', '_', ':' and '-'")
        }
        switch parts.dropFirst() {
        case []:
            guard ["GET", "PUT"].contains(method) else { throw Self.wrongMethod("GET, PUT") }
            self = method == "GET" ? .ask(id) : .batch(id)
        case ["skip"]:
            try Self.demand("POST", method)
            self = .skip(id)
        case ["seal"]:
            try Self.demand("POST", method)
            self = .seal(id)
        default: throw StreamRefusal(.notFound, "there is no such path")
        }
    }

    private static func demand(_ allowed: String, _ method: String) throws(StreamRefusal) {
        guard method == allowed else { throw Self.wrongMethod(allowed) }
    }

    private static func wrongMethod(_ allowed: String) -> StreamRefusal {
        StreamRefusal(.method, "this path takes \(allowed)", headers: ["Allow": allowed])
    }

    /// Its name in metrics.
    var verb: StreamVerb {
        switch self {
        case .receiver: .receiver
        case .ask: .ask
        case .batch: .batch
        case .skip: .skip
        case .seal: .seal
        }
    }

    var id: StreamID? {
        switch self {
        case .receiver: nil
        case .ask(let id), .batch(let id), .skip(let id), .seal(let id): id
        }
    }
}

/// The kinds of requests about streams, for metrics.
enum StreamVerb: String, CaseIterable, Sendable {
    case receiver
    case ask
    case batch
    case skip
    case seal
}

/// A request about one stream, read and checked as far as that needs no receiver.
struct StreamRequest: Sendable {
    enum Content: Sendable {
        case ask
        case batch(BatchHeader, payload: SharedBytes)
        case skip(SkippedRange)
        case seal(StreamOffset)
    }

    let description: StreamDescription
    let claim: OpenClaim
    let content: Content
    /// The proof of the client's own file where the content begins; a seal begins at its end.
    let proof: ProofDigest?
    /// The proof of the client's own bytes where the content ends; `nil` if it does not hold enough of them.
    var endProof: StreamProof?

    /// - Parameters:
    ///   - stream: the object of an `OPEN`, from `Waybill-Stream`.
    ///   - query: the part after the question mark.
    init(_ call: StreamCall, stream: String?, query: Substring, body: [UInt8]) throws(StreamRefusal) {
        guard let id = call.id else { throw StreamRefusal(.notFound, "this path is no stream") }
        (self.description, self.claim) = try Self.opening(of: stream, id)
        let query = Array(query.utf8)
        switch call {
        case .receiver, .ask:
            self.content = .ask
            self.proof = nil
        case .batch:
            let header = try Self.header(in: body)
            guard FormText.value(of: "offset", in: query) == Array("\(header.offset.rawValue)".utf8) else {
                throw StreamRefusal(.syntax, "offset in the query is not the offset of the frame")
            }
            let payload = body.suffix(header.wireByteCount)
            self.content = .batch(header, payload: payload.withUnsafeBytes { SharedBytes($0) })
            self.proof = try Self.proof(in: query, at: header.offset)
        case .skip:
            guard case .skip(_, let range) = try Self.message(in: body).message else {
                throw StreamRefusal(.syntax, "the body is a line SKIP 1 offset length reason tail")
            }
            self.content = .skip(range)
            self.proof = try Self.proof(in: query, at: range.offset)
            self.endProof = StreamProof(of: id, at: range.end, tail: range.tail ?? [])
        case .seal:
            guard case .seal(_, let length) = try Self.message(in: body).message else {
                throw StreamRefusal(.syntax, "the body is a line SEAL 1 length")
            }
            self.content = .seal(length)
            self.proof = try Self.proof(in: query, at: length)
        }
    }

    /// Refuses what the receiver could not read once the client is named: it would end the connection, which others use.
    func check(for client: ForwardedClient) throws(StreamRefusal) {
        var claim = self.claim
        claim.client = client
        let number = StreamNumber(UInt64(ReceiverLine.streamCountMax))
        let line = Message.open(number, self.description, claim).encoded
        do throws(WireError) {
            let decoded = try line.withBytes { (bytes) throws(WireError) in try Message.decode(prefixOf: bytes) }
            guard decoded?.byteCount == line.count else { throw .lineTooLong }
        } catch {
            throw StreamRefusal(.syntax, "Waybill-Stream, with the client's name added, is no OPEN: \(error.text)")
        }
    }

    /// Bytes that it makes durable, as they are in the file.
    var rawByteCount: Int {
        switch self.content {
        case .batch(let header, _): header.rawByteCount
        case .ask, .skip, .seal: 0
        }
    }

    private static func opening(
        of text: String?, _ id: StreamID
    ) throws(StreamRefusal) -> (StreamDescription, OpenClaim) {
        guard let text else {
            throw StreamRefusal(.syntax, "the header Waybill-Stream is missing: the object of an OPEN")
        }
        var line = Array("OPEN 1 \(text)".utf8)
        while line.last == 0x20 { line.removeLast() }
        guard case .open(_, let description, let claim) = try Self.message(in: line + [0x0A]).message else {
            throw StreamRefusal(.syntax, "the header Waybill-Stream is not the object of an OPEN")
        }
        guard description.id == id else {
            throw StreamRefusal(.syntax, "Waybill-Stream names another stream than the path")
        }
        guard claim.client == nil else {
            throw StreamRefusal(.notAllowed, "only the door names a client in Waybill-Stream")
        }
        return (description, claim)
    }

    /// A batch's line, whose payload is the rest of the body.
    private static func header(in body: [UInt8]) throws(StreamRefusal) -> BatchHeader {
        let (message, byteCount) = try Self.message(in: body, isWhole: false)
        guard case .batch(let header) = message else {
            throw StreamRefusal(.syntax, "the body is a frame: BATCH 1 offset raw lines wire crc, LF, and the payload")
        }
        guard body.count - byteCount == header.wireByteCount else {
            throw StreamRefusal(
                .corrupt,
                "the frame says \(header.wireByteCount) bytes of payload, and the body has \(body.count - byteCount)")
        }
        return header
    }

    private static func message(
        in bytes: [UInt8], isWhole: Bool = true
    ) throws(StreamRefusal) -> (message: Message, byteCount: Int) {
        let decoded: (message: Message, byteCount: Int)?
        do throws(WireError) {
            decoded = try bytes.withBytes { (buffer) throws(WireError) in try Message.decode(prefixOf: buffer) }
        } catch {
            throw StreamRefusal(.syntax, error.text)
        }
        guard let decoded, !isWhole || decoded.byteCount == bytes.count else {
            throw StreamRefusal(.syntax, "the line does not end in LF, or something follows it")
        }
        guard decoded.message.stream?.rawValue == 1 else {
            throw StreamRefusal(.syntax, "over HTTP a stream's number is 1")
        }
        return decoded
    }

    /// `proof=` and 32 hexadecimal digits, or `-` where nothing is held that could be proved.
    private static func proof(in query: [UInt8], at offset: StreamOffset) throws(StreamRefusal) -> ProofDigest? {
        let text = FormText.value(of: "proof", in: query)
        if text == nil, offset == StreamOffset(0) { return nil }
        if text == [UInt8(ascii: "-")] { return nil }
        // As a slice it is text; an array would be the digest's own bytes.
        guard let digest = text.flatMap({ ProofDigest($0[...]) }) else {
            throw StreamRefusal(.syntax, "proof in the query is missing: the digest of your bytes below the offset")
        }
        return digest
    }
}

extension Message {
    /// The number of the stream that a client's message is about.
    fileprivate var stream: StreamNumber? {
        switch self {
        case .open(let number, _, _), .skip(let number, _), .seal(let number, _): number
        case .batch(let header): header.stream
        default: nil
        }
    }
}
