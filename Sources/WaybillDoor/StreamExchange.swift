internal import WaybillProtocol

/// What a client is answered about a stream.
enum StreamAnswer: Hashable, Sendable {
    /// Everything below the offset is durable.
    ///
    /// - Parameter isRepeated: whether the request's bytes were held before; `nil` for a request without bytes.
    case held(HeldStream, isRepeated: Bool?)
    /// The end is known to the receiver and will be sealed later: its fleet has not stored everything yet.
    case sealing(HeldStream)
}

/// One request's conversation with the receiver: decides what to send, and when the answer is known.
///
///     ask    OPEN ─ AT ─ PING ─ PONG                       a SEALED of an earlier session arrives before PONG
///     batch  OPEN ─ AT ─ BATCH ─ ACK ─ OPEN ─ AT           only if AT has the request's offset and proof
///     skip   OPEN ─ AT ─ SKIP ─ ACK ─ OPEN ─ AT
///     seal   OPEN ─ AT ─ SEAL ─ SEALED
///
/// It remembers nothing of earlier requests, so a repeated one is told from the receiver's offset and proof alone. What was
/// acknowledged stays true if the connection ends afterwards.
///
/// - SeeAlso: `Protocol/protocol.md`, section 21 "Streams over HTTP".
struct StreamExchange {
    enum Action: Hashable {
        /// Send `OPEN`.
        case open
        /// Send the request's `BATCH`, `SKIP` or `SEAL`; the stream stands where it begins.
        case send
        /// Send `PING`.
        case ping
        case wait
        case finish(Result<StreamAnswer, StreamRefusal>)
    }

    private enum Phase {
        /// `OPEN` was sent. Leaves to every other phase.
        case opening
        /// `AT` has answered a request that only asks.
        case asking(HeldStream)
        /// The request was sent after `AT`.
        case sent(HeldStream)
        /// Its bytes are durable; `OPEN` was sent again, for the proof at their end.
        case proving(HeldStream)
        case finished  // Terminal.
    }

    private let content: StreamRequest.Content
    private let proof: ProofDigest?
    private let endProof: StreamProof?
    private var phase = Phase.opening

    init(_ request: StreamRequest) {
        self.content = request.content
        self.proof = request.proof
        self.endProof = request.endProof
    }

    /// Whether the receiver may have taken the request without having said so.
    var isSent: Bool {
        switch self.phase {
        case .sent: true
        case .opening, .asking, .proving, .finished: false
        }
    }

    private var begin: StreamOffset? {
        switch self.content {
        case .ask: nil
        case .batch(let header, _): header.offset
        case .skip(let range): range.offset
        case .seal(let length): length
        }
    }

    private var end: StreamOffset? {
        switch self.content {
        case .ask: nil
        case .batch(let header, _): header.end
        case .skip(let range): range.end
        case .seal(let length): length
        }
    }

    private var isSeal: Bool { if case .seal = self.content { true } else { false } }

    /// `AT` has come.
    mutating func positioned(at offset: StreamOffset, _ proof: StreamProof, end: UInt64) -> Action {
        let held = HeldStream(offset: offset, proof: proof, end: end)
        switch self.phase {
        case .opening: return self.decide(held)
        case .proving: return self.finish(.success(.held(held, isRepeated: false)))
        case .asking, .sent, .finished: return .wait
        }
    }

    private mutating func decide(_ held: HeldStream) -> Action {
        guard let begin, let end else {
            self.phase = .asking(held)
            return .ping
        }
        if held.offset == begin {
            guard held.proof?.digest == self.proof else { return self.refuse(.differs, Self.differing, held) }
            self.phase = .sent(held)
            return .send
        }
        if held.offset == end, let endProof, endProof.byteCount == held.proof?.byteCount {
            guard endProof.digest == held.proof?.digest else { return self.refuse(.differs, Self.differing, held) }
            return self.finish(.success(.held(held, isRepeated: true)))
        }
        let cause =
            held.offset > begin
            ? "the receiver holds more of the stream than the request begins at"
            : "the receiver holds less of the stream than the request begins at"
        return self.refuse(.gap, cause, held)
    }

    private static let differing = "the bytes that are stored under this id are not the ones of this request"

    /// `ACK` has come.
    mutating func acknowledged(upTo offset: StreamOffset, end: UInt64) -> Action {
        guard case .sent = self.phase, let requested = self.end, offset >= requested else { return .wait }
        self.phase = .proving(HeldStream(offset: offset, proof: nil, end: end))
        return .open
    }

    /// `SEALED` has come.
    mutating func sealed(_ proof: StreamProof, end: UInt64) -> Action {
        switch self.phase {
        case .asking(let held), .sent(let held):
            let sealed = HeldStream(offset: held.offset, proof: proof, end: end, isSealed: true)
            if case .sent = self.phase, !self.isSeal {
                return self.refuse(.sealed, "the stream has ended at \(held.offset.rawValue)", sealed)
            }
            return self.finish(.success(.held(sealed, isRepeated: nil)))
        case .proving(let held): return self.finish(.success(.held(held, isRepeated: false)))
        case .opening, .finished: return .wait
        }
    }

    /// `NAK` has come.
    mutating func refused(_ code: ErrorCode, _ text: String, at offset: StreamOffset) -> Action {
        switch self.phase {
        case .opening, .asking, .sent: return self.finish(.failure(StreamRefusal(code, text, offset: offset)))
        case .proving(let held): return self.finish(.success(.held(held, isRepeated: false)))
        case .finished: return .wait
        }
    }

    /// `PONG` has come: nothing that was sent with `AT` is still on its way.
    mutating func ponged() -> Action {
        guard case .asking(var held) = self.phase else { return .wait }
        held.isSealed = false
        return self.finish(.success(.held(held, isRepeated: nil)))
    }

    /// A seal is not answered yet; a receiver that stands alone answers within one sync of its disk.
    mutating func sealIsLate() -> Action {
        guard case .sent(var held) = self.phase, self.isSeal else { return .wait }
        held.isSealed = false
        return self.finish(.success(.sealing(held)))
    }

    /// The connection has ended, or the time is over.
    mutating func lost(_ refusal: StreamRefusal) -> Action {
        switch self.phase {
        case .opening, .asking, .sent: return self.finish(.failure(refusal))
        case .proving(let held): return self.finish(.success(.held(held, isRepeated: false)))
        case .finished: return .wait
        }
    }

    private mutating func refuse(_ code: StreamRefusal.Code, _ cause: String, _ held: HeldStream) -> Action {
        self.finish(.failure(StreamRefusal(code, cause, held: held)))
    }

    private mutating func finish(_ result: Result<StreamAnswer, StreamRefusal>) -> Action {
        self.phase = .finished
        return .finish(result)
    }
}
