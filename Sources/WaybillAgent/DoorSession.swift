internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSystem

/// The line protocol over requests: what to ask a door for a message, and which messages its answers stand for.
///
///     HELLO   GET  /v1/streams              READY, or ERR token
///     OPEN    GET  /v1/streams/ID           AT, SEALED, or NAK
///     BATCH   PUT  /v1/streams/ID?offset=N  ACK, or NAK
///     SKIP    POST /v1/streams/ID/skip      ACK, or NAK
///     SEAL    POST /v1/streams/ID/seal      SEALED, later if the receiver's fleet has not stored everything
///
/// A door knows no sessions. So this remembers what one needs: the credentials, the receiver that answered first, each
/// stream's description, and the proof where it stands, without which nothing may be added to it. A receiver that is another
/// one, or was started again, ends the session, as it ends a connection.
///
/// A fleet is not shown: its receivers are behind the door, and a seal says that the fleet has stored the stream.
///
/// - SeeAlso: `Protocol/protocol.md`, section 21.
struct DoorSession {
    /// Something to ask the door.
    enum Question: Hashable {
        case greet
        case open(StreamNumber)
        case batch(BatchHeader)
        case skip(StreamNumber, SkippedRange)
        case seal(StreamNumber, StreamOffset)
        /// Whether the stream is sealed by now.
        case askAgain(StreamNumber)
    }

    enum Reaction: Hashable {
        case say([Message])
        /// Ask again later.
        case wait(Question)
        /// Say it, then close: what comes next about the stream cannot be asked.
        case sayAndClose([Message], reason: String)
        case close(reason: String)
    }

    private struct Stream {
        let description: StreamDescription
        let claim: OpenClaim
        /// The proof where the stream stands; outer `nil`: it is not known, or the stream is refused.
        var proof: ProofDigest??
    }

    private var headers: [DoorCall.Header] = []
    private var receiver: String?
    private var streams: [StreamNumber: Stream] = [:]

    /// Takes a message of the agent's.
    ///
    /// - Returns: what to ask; `nil` for a message that needs no answer of a door, or gets none: the stream is refused.
    mutating func question(for message: Message) -> Question? {
        switch message {
        case .hello(let hello):
            self.headers = Self.headers(of: hello)
            return .greet
        case .open(let number, let description, let claim):
            self.streams[number] = Stream(description: description, claim: claim)
            return .open(number)
        case .batch(let header): return self.isOpen(header.stream) ? .batch(header) : nil
        case .skip(let number, let range): return self.isOpen(number) ? .skip(number, range) : nil
        case .seal(let number, let length): return self.isOpen(number) ? .seal(number, length) : nil
        case .ready, .at, .ack, .nak, .sealed, .stored, .note, .ping, .pong, .wait, .move, .err, .bye, .mark, .start,
            .tail, .resting:
            return nil
        }
    }

    private func isOpen(_ number: StreamNumber) -> Bool { self.streams[number]?.proof != nil }

    private static func headers(of hello: Hello) -> [DoorCall.Header] {
        var headers = [DoorCall.Header(name: "Waybill-Agent", value: hello.agent)]
        if let key = hello.key { headers.append(.init(name: "Waybill-Key", value: key)) }
        if let token = hello.token { headers.append(.init(name: "Authorization", value: "Bearer \(token)")) }
        return headers
    }

    // MARK: Requests

    /// The request for a question; `nil` if its stream was refused meanwhile.
    ///
    /// - Parameter payload: of a batch.
    func request(for question: Question, payload: [UInt8]) -> DoorCall? {
        switch question {
        case .greet: return DoorCall(method: "GET", path: "v1/streams", headers: self.headers, body: [])
        case .open(let number), .askAgain(let number): return self.request("GET", number)
        case .batch(var header):
            let number = header.stream
            header.stream = Self.number
            return self.request(
                "PUT", number, "?offset=\(header.offset.rawValue)&", Message.batch(header).encoded + payload)
        case .skip(let number, let range):
            return self.request("POST", number, "/skip?", Message.skip(Self.number, range).encoded)
        case .seal(let number, let length):
            return self.request("POST", number, "/seal?", Message.seal(Self.number, length: length).encoded)
        }
    }

    /// The number of every stream over HTTP.
    private static let number = StreamNumber(1)

    /// - Parameter more: what follows the stream, up to its proof.
    private func request(
        _ method: String, _ number: StreamNumber, _ more: String? = nil, _ body: [UInt8] = []
    ) -> DoorCall? {
        guard let stream = self.streams[number] else { return nil }
        // "OPEN 1 " and LF.
        let object = Message.open(Self.number, stream.description, stream.claim).encoded.dropFirst(7).dropLast()
        var path = "v1/streams/\(stream.description.id.text)"
        if let more {
            guard let proof = stream.proof else { return nil }
            path += "\(more)proof=\(proof?.text ?? "-")"
        }
        let header = DoorCall.Header(name: "Waybill-Stream", value: String(decoding: object, as: UTF8.self))
        return DoorCall(method: method, path: path, headers: self.headers + [header], body: body)
    }

    // MARK: Answers

    mutating func react(to answer: DoorAnswer, _ question: Question) -> Reaction {
        if let receiver = answer.receiver, let own = self.receiver, receiver != own {
            return .close(reason: "another receiver answers behind the door, or the same was started again")
        }
        switch (question, answer.status) {
        case (.greet, 200): return self.greeted(answer)
        case (_, 200), (_, 202): return self.granted(answer, question)
        default: return self.refused(answer, question)
        }
    }

    private mutating func greeted(_ answer: DoorAnswer) -> Reaction {
        let line = Array("READY ".utf8) + answer.body
        let message: Message
        do throws(WireError) {
            message = try line.withBytes { (bytes) throws(WireError) in try Message(line: bytes) }
        } catch {
            return .close(reason: "the address is not a door for streams: its answer is not READY's object")
        }
        guard case .ready(var ready) = message else { return .close(reason: "the door did not answer with READY") }
        ready.fleet = nil
        ready.level = .durable
        let receiver = ready.receiver
        self.receiver = "\(receiver.incarnation.text) \(receiver.starts[receiver.starts.count - 1].idText)"
        return .say([.ready(ready)])
    }

    private mutating func granted(_ answer: DoorAnswer, _ question: Question) -> Reaction {
        guard let held = DoorHeld(answer.body) else { return .close(reason: "the door's answer cannot be read") }
        switch question {
        case .greet: return .close(reason: "the door did not answer with READY")
        case .open(let number):
            guard let proof = held.proof else { return .close(reason: "the door gave no proof") }
            self.streams[number]?.proof = .some(proof.digest)
            var messages = [Message.at(number, held.offset, proof, end: held.end)]
            if held.isSealed { messages.append(.sealed(number, proof, end: held.end)) }
            return .say(messages)
        case .batch(let header): return self.took(header.stream, upTo: header.end, held)
        case .skip(let number, let range): return self.took(number, upTo: range.end, held)
        case .seal(let number, _), .askAgain(let number):
            guard held.isSealed, let proof = held.proof else { return .wait(.askAgain(number)) }
            return .say([.sealed(number, proof, end: held.end)])
        }
    }

    private mutating func took(_ number: StreamNumber, upTo end: StreamOffset, _ held: DoorHeld) -> Reaction {
        guard held.offset >= end else { return .close(reason: "the door acknowledged less than it took") }
        let messages = [Message.ack(number, end, end: held.end)]
        guard held.offset == end, let proof = held.proof else {
            // The next request would need the proof at exactly this place; opening the stream again asks for it.
            self.streams[number]?.proof = nil
            return .sayAndClose(messages, reason: "the door took the bytes, and gave no proof at their end")
        }
        self.streams[number]?.proof = .some(proof.digest)
        return .say(messages)
    }

    private mutating func refused(_ answer: DoorAnswer, _ question: Question) -> Reaction {
        let json = JSONValue(answer.body)
        let code = json?["code"]?.string ?? ""
        let cause = json?["cause"]?.string ?? "status \(answer.status)"
        if code == ErrorCode.token.rawValue { return .say([.err(.token, text: cause)]) }
        guard let number = question.number else { return .close(reason: "the door answers: \(cause)") }
        if case .askAgain = question { return .wait(question) }
        let offset = StreamOffset(UInt64(json?["offset"]?.count ?? 0))
        let refusal: ErrorCode
        switch (code, ErrorCode(rawValue: code)) {
        // What it holds is compared once the stream is opened again.
        case ("differs", _): refusal = .gap
        case (_, let known?) where known.isOfStream: refusal = known
        default: return .close(reason: "the door answers: \(cause)")
        }
        self.streams[number]?.proof = nil
        return .say([.nak(number, offset, refusal, text: cause)])
    }
}

extension DoorSession.Question {
    /// The stream that it is about.
    var number: StreamNumber? {
        switch self {
        case .greet: nil
        case .open(let number), .skip(let number, _), .seal(let number, _), .askAgain(let number): number
        case .batch(let header): header.stream
        }
    }
}

/// What a door says that the receiver holds.
private struct DoorHeld {
    let offset: StreamOffset
    let proof: StreamProof?
    let end: UInt64
    let isSealed: Bool

    init?(_ body: [UInt8]) {
        guard let json = JSONValue(body), let offset = json["offset"]?.count, let end = json["end"]?.count else {
            return nil
        }
        self.offset = StreamOffset(UInt64(offset))
        self.end = UInt64(end)
        self.isSealed = json["sealed"]?.bool ?? false
        if let count = json["count"]?.count, let text = json["digest"]?.string {
            let digest = ProofDigest(text.utf8)
            let skipped = UInt64(json["skipped"]?.count ?? 0)
            guard text == "-" || digest != nil, skipped <= self.offset.rawValue else { return nil }
            self.proof = StreamProof(byteCount: count, digest: digest, at: self.offset)?.skipping(skipped)
        } else {
            self.proof = nil
        }
    }
}
