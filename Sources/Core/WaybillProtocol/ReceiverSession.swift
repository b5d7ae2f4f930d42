/// The receiver's side of one connection: which messages are allowed when, and what to do with them.
///
///     awaitingHello ──HELLO──▶ admitting ──admit──▶ ready ──BYE, ERR──▶ closed
///
/// A stream on it: opening ──opened──▶ open ──refuse──▶ refused ──OPEN──▶ opening; SEAL leaves it open until sealed.
/// A stream's position is not kept here: only the journal's committer knows it.
package struct ReceiverSession: ~Copyable {
    /// What the receiver must do now.
    package enum Action: Hashable, Sendable {
        case reply(Message)
        /// Check the name and the token, then call ``admit(_:)`` or ``refuse(_:text:)``.
        case admit(Hello)
        /// Ask the committer for the stream's position.
        case open(StreamNumber, StreamDescription, OpenClaim)
        /// Read the whole payload, check it, and pass it to the committer.
        case readBatch(BatchHeader, StreamID)
        /// Read the payload and discard it: the stream was refused.
        case discardBatch(BatchHeader)
        /// Write `message`, then read the payload and discard it.
        case refuseBatch(BatchHeader, Message)
        case skip(StreamNumber, StreamID, SkippedRange)
        case seal(StreamNumber, StreamID, length: StreamOffset)
        /// Write `message`, then close.
        case close(Message)
    }

    private enum State {
        case awaitingHello  // Leaves to admitting or closed.
        case admitting  // Leaves to ready or closed.
        case ready  // Leaves to closed.
        case closed  // Terminal.
    }

    private enum StreamState {
        case opening(StreamID)  // Leaves to open or refused.
        case open(StreamID)  // Leaves to refused, opening, or is removed.
        /// It was sealed before this connection; `SEALED` waits until the fleet has stored the end.
        case ended(StreamID)  // Leaves to refused or opening.
        case refused(StreamID)  // Leaves to opening.
    }

    private let limits: ProtocolLimits
    private var state = State.awaitingHello
    private var streams: [StreamNumber: StreamState] = [:]

    package init(limits: ProtocolLimits) {
        self.limits = limits
    }

    package var isReady: Bool {
        if case .ready = self.state { return true }
        return false
    }

    package var isClosed: Bool {
        if case .closed = self.state { return true }
        return false
    }

    /// Whether a number still names a stream.
    package func knows(_ stream: StreamNumber) -> Bool { self.streams[stream] != nil }

    package mutating func receive(_ message: Message) -> Action? {
        switch self.state {
        case .awaitingHello:
            guard case .hello(let hello) = message else {
                return self.close(.order, "HELLO is the first message")
            }
            guard hello.versions.contains(where: LineProtocol.versions.contains) else {
                return self.close(.version, "this receiver speaks version 1; update the agent or the receiver")
            }
            guard hello.encodings.contains("zlib") else {
                return self.close(.version, "accept must name zlib")
            }
            self.state = .admitting
            return .admit(hello)
        case .admitting:
            return self.close(.order, "wait for READY")
        case .ready:
            return self.receiveReady(message)
        case .closed:
            return nil
        }
    }

    package mutating func admit(_ ready: Ready) -> Message {
        self.state = .ready
        return .ready(ready)
    }

    /// Ends the session with `ERR`.
    package mutating func refuse(_ code: ErrorCode, text: String) -> Action {
        self.close(code, text)
    }

    private mutating func receiveReady(_ message: Message) -> Action? {
        switch message {
        case .open(let stream, let description, let claim):
            return self.receiveOpen(stream, description, claim)
        case .batch(let header):
            return self.receiveBatch(header)
        case .skip(let stream, let range):
            switch self.streams[stream] {
            case .open(let id): return .skip(stream, id, range)
            case .ended(let id): return .reply(self.refuseMore(stream, id, at: range.offset))
            case .refused: return nil
            case .opening, nil: return self.close(.order, "stream \(stream.rawValue) is not open: OPEN, then AT")
            }
        case .seal(let stream, let length):
            switch self.streams[stream] {
            case .open(let id): return .seal(stream, id, length: length)
            case .ended, .refused: return nil
            case .opening, nil: return self.close(.order, "stream \(stream.rawValue) is not open: OPEN, then AT")
            }
        case .ping(let number): return .reply(.pong(number))
        case .pong: return nil
        case .bye:
            self.state = .closed
            return .close(.bye)
        case .mark, .start, .tail, .resting:
            return self.close(.syntax, WireError.unknownMessage.text)
        case .hello, .ready, .at, .ack, .nak, .sealed, .stored, .note, .wait, .move, .err:
            return self.close(.order, "this message is not the agent's to send now")
        }
    }

    private mutating func receiveOpen(
        _ stream: StreamNumber, _ description: StreamDescription, _ claim: OpenClaim
    ) -> Action {
        switch self.streams[stream] {
        case .opening:
            return self.close(.order, "stream \(stream.rawValue) is being opened: wait for AT")
        case .open(let id) where id != description.id, .ended(let id) where id != description.id,
            .refused(let id) where id != description.id:
            return self.close(.order, "number \(stream.rawValue) names another stream on this connection")
        case .open, .ended, .refused:
            break
        case nil:
            guard self.streams.count < self.limits.streamCountMax else {
                return self.close(.limit, "a connection has at most \(self.limits.streamCountMax) streams open")
            }
        }
        self.streams[stream] = .opening(description.id)
        return .open(stream, description, claim)
    }

    private mutating func receiveBatch(_ header: BatchHeader) -> Action {
        guard header.wireByteCount <= self.limits.wireByteCountMax else {
            return self.close(.limit, "a payload has at most \(self.limits.wireByteCountMax) bytes")
        }
        switch self.streams[header.stream] {
        case .open(let id):
            guard header.rawByteCount <= self.limits.rawByteCountMax else {
                return self.close(.limit, "a batch has at most \(self.limits.rawByteCountMax) raw bytes")
            }
            guard header.lineCount <= self.limits.lineCountMax else {
                return self.close(.limit, "a batch has at most \(self.limits.lineCountMax) lines")
            }
            return .readBatch(header, id)
        case .ended(let id):
            return .refuseBatch(header, self.refuseMore(header.stream, id, at: header.offset))
        case .refused:
            return .discardBatch(header)
        case .opening, nil:
            return self.close(.order, "stream \(header.stream.rawValue) is not open: OPEN, then AT")
        }
    }

    /// The committer has found the stream's position; `end` is the journal's durable end, here and in the other answers.
    package mutating func opened(
        _ stream: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, isSealed: Bool, end: UInt64
    ) -> [Message] {
        guard case .opening(let id)? = self.streams[stream], !self.isClosed else { return [] }
        if isSealed {
            // The agent may have sent more of the stream already; all of it is ignored.
            self.streams[stream] = .refused(id)
            return [.at(stream, offset, proof, end: end), .sealed(stream, proof, end: end)]
        }
        self.streams[stream] = .open(id)
        return [.at(stream, offset, proof, end: end)]
    }

    /// The stream was sealed before this connection, and the fleet has not stored its end: `SEALED` follows later.
    package mutating func openedUnstored(
        _ stream: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, end: UInt64
    ) -> [Message] {
        guard case .opening(let id)? = self.streams[stream], !self.isClosed else { return [] }
        self.streams[stream] = .ended(id)
        return [.at(stream, offset, proof, end: end)]
    }

    /// Refuses what follows the end of a stream whose `SEALED` waits: the agent learns of the end no other way.
    private mutating func refuseMore(_ stream: StreamNumber, _ id: StreamID, at offset: StreamOffset) -> Message {
        self.streams[stream] = .refused(id)
        return .nak(stream, offset, .sealed, text: "the stream was sealed here")
    }

    /// The fleet has stored the stream up to `offset`.
    package func stored(_ stream: StreamNumber, upTo offset: StreamOffset) -> [Message] {
        guard case .open? = self.streams[stream], !self.isClosed else { return [] }
        return [.stored(stream, offset)]
    }

    /// The stream is durable up to `offset`.
    package mutating func durable(_ stream: StreamNumber, upTo offset: StreamOffset, end: UInt64) -> [Message] {
        guard case .open? = self.streams[stream], !self.isClosed else { return [] }
        return [.ack(stream, offset, end: end)]
    }

    /// The stream is durable and closed.
    package mutating func sealed(_ stream: StreamNumber, _ proof: StreamProof, end: UInt64) -> [Message] {
        guard !self.isClosed else { return [] }
        switch self.streams[stream] {
        case .open: self.streams[stream] = nil
        // The agent may have sent more of the stream already; all of it is ignored.
        case .ended(let id): self.streams[stream] = .refused(id)
        case .opening, .refused, nil: return []
        }
        return [.sealed(stream, proof, end: end)]
    }

    /// A part of the stream was refused; whatever follows is ignored until the stream is opened again.
    package mutating func refused(
        _ stream: StreamNumber, at offset: StreamOffset, _ code: ErrorCode, text: String
    ) -> [Message] {
        guard !self.isClosed else { return [] }
        switch self.streams[stream] {
        case .open(let id):
            self.streams[stream] = .refused(id)
            return [.nak(stream, offset, code, text: text)]
        case .opening, .ended, .refused, nil:
            // An answer to an older message, while the stream is being opened.
            return []
        }
    }

    /// The stream could not be opened.
    package mutating func openRefused(
        _ stream: StreamNumber, at offset: StreamOffset, _ code: ErrorCode, text: String
    ) -> [Message] {
        guard !self.isClosed, case .opening(let id)? = self.streams[stream] else { return [] }
        self.streams[stream] = .refused(id)
        return [.nak(stream, offset, code, text: text)]
    }

    private mutating func close(_ code: ErrorCode, _ text: String) -> Action {
        self.state = .closed
        return .close(.err(code, text: text))
    }
}
