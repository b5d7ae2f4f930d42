/// The agent's side of one connection: what may be sent, what was answered, and when to disconnect.
///
///     connecting ──start──▶ awaitingReady ──READY──▶ ready ──BYE, ERR, violation──▶ closed
///
/// A stream on it: opening ──AT──▶ open ──SEAL sent──▶ sealing ──SEALED──▶ gone; NAK ──▶ refused ──reopen──▶ opening.
package struct SenderSession: ~Copyable {
    /// What the agent must do now.
    package enum Action: Hashable, Sendable {
        case send(Message)
        /// The handshake is over; streams may be opened.
        case start(Ready)
        /// The receiver says that it holds the stream up to there: compare the proof with the file, then seek or
        /// ``leave(_:)``. `end` is the journal's durable end, here and in the other answers.
        case seek(StreamNumber, to: StreamOffset, StreamProof, end: UInt64)
        /// Advance the registry: everything up to this offset is durable.
        case advance(StreamNumber, to: StreamOffset, end: UInt64)
        /// The receiver says that the whole stream is durable and closed: compare the proof with the file.
        case finish(StreamNumber, StreamProof, end: UInt64)
        /// The fleet has stored the stream up to there.
        case stored(StreamNumber, upTo: StreamOffset)
        /// Counts of lines that the receiver set aside.
        case note([QuarantineCount])
        /// The receiver ignores the stream until it is opened again.
        case reopen(StreamNumber, StreamOffset, ErrorCode, text: String)
        /// Send no batch for this long.
        case pause(milliseconds: UInt64)
        /// Connect to one of these instead.
        case move([String])
        case close(Failure)
    }

    /// Why the agent ends a connection.
    package enum Failure: Error, Hashable, Sendable {
        /// The receiver refused with `ERR`.
        case refused(ErrorCode, text: String)
        /// The receiver is leaving; connect again.
        case receiverLeft
        /// An ack outside the range between what was acked and what was sent.
        case ackOutOfRange(StreamNumber, StreamOffset)
        /// A message that this state does not allow.
        case unexpected(String)
        case unknownStream(StreamNumber)
        case version(UInt64)
        case wire(WireError)
    }

    private enum State {
        case connecting  // Leaves to awaitingReady.
        case awaitingReady  // Leaves to ready or closed.
        case ready(ProtocolLimits)  // Leaves to closed.
        case closed  // Terminal.
    }

    private enum StreamPhase: UInt64 {
        case opening  // Leaves to open or refused.
        case open  // Leaves to sealing or refused.
        case sealing  // Leaves to refused, or is removed by SEALED.
        case refused  // Leaves to opening.
        case left  // Terminal: this agent ships nothing of it on this connection.
    }

    /// A phase and the acknowledged offset, in 8 bytes: there may be 100,000 idle streams.
    private struct StreamState {
        private let bits: UInt64

        init(_ phase: StreamPhase, acked: StreamOffset = StreamOffset(0)) {
            self.bits = acked.rawValue << 3 | phase.rawValue
        }

        /// The bits came from a phase.
        var phase: StreamPhase { StreamPhase(rawValue: self.bits & 7) ?? .left }
        var acked: StreamOffset { StreamOffset(self.bits >> 3) }
    }

    private struct Flight {
        let end: StreamOffset
        let rawByteCount: Int
    }

    /// The largest window, whatever the receiver grants: everything in flight waits in memory while it does not read.
    package static let windowByteCountMax = 64 << 20
    /// The most streams open at once, whatever the receiver grants.
    package static let streamCountMax = 1 << 18

    private var state = State.connecting
    private var streams: [StreamNumber: StreamState] = [:]
    /// The sent offset of each stream that has sent more than was acknowledged.
    private var sent: [StreamNumber: StreamOffset] = [:]
    private var flights: [StreamNumber: [Flight]] = [:]
    /// Raw bytes of batches that are not answered yet.
    package private(set) var inFlightByteCount = 0

    package init() {}

    /// The receiver's limits, capped by this agent's own; `nil` before `READY`.
    package var limits: ProtocolLimits? {
        if case .ready(let limits) = self.state { return limits }
        return nil
    }

    /// Whether the window has room for a batch of `rawByteCount` bytes; one batch always fits an empty window.
    package func admits(rawByteCount: Int) -> Bool {
        guard case .ready(let limits) = self.state else { return false }
        return self.inFlightByteCount == 0 || self.inFlightByteCount + rawByteCount <= limits.windowByteCount
    }

    /// Whether the receiver allows one more stream.
    package var hasRoomForStream: Bool {
        guard case .ready(let limits) = self.state else { return false }
        return self.streams.count < limits.streamCountMax
    }

    /// Whether everything sent has been answered.
    package var isSettled: Bool {
        self.inFlightByteCount == 0 && self.sent.isEmpty
            && self.streams.values.allSatisfy { state in
                switch state.phase {
                case .opening, .sealing: false
                case .open, .refused, .left: true
                }
            }
    }

    /// Whether everything sent has been answered, except for ends that are not sealed yet.
    package var isSettledButForSeals: Bool {
        self.inFlightByteCount == 0 && self.sent.isEmpty && self.streams.values.allSatisfy { $0.phase != .opening }
    }

    /// Whether a `SEAL` was sent and not answered.
    package var isSealing: Bool { self.streams.values.contains { $0.phase == .sealing } }

    package mutating func start(_ hello: Hello) -> Action {
        self.state = .awaitingReady
        return .send(.hello(hello))
    }

    /// Opens a stream, or opens it again after a refusal.
    package mutating func open(
        _ stream: StreamNumber, _ description: StreamDescription, _ claim: OpenClaim = .none
    ) -> Action {
        self.streams[stream] = StreamState(.opening)
        self.dropFlights(of: stream)
        return .send(.open(stream, description, claim))
    }

    /// Sends nothing more with this number, and ignores what the receiver still says about it.
    package mutating func leave(_ stream: StreamNumber) {
        self.streams[stream] = StreamState(.left)
        self.dropFlights(of: stream)
    }

    package mutating func batchSent(_ header: BatchHeader) {
        guard let sent = self.sentOnOpen(header.stream) else {
            preconditionFailure("a batch was sent on stream \(header.stream.rawValue), which is not open")
        }
        precondition(sent == header.offset, "a batch must begin where the last ended")
        self.sent[header.stream] = header.end
        self.flights[header.stream, default: []].append(Flight(end: header.end, rawByteCount: header.rawByteCount))
        self.inFlightByteCount += header.rawByteCount
    }

    package mutating func skip(
        _ stream: StreamNumber, _ range: SkippedRange
    ) -> Action {
        guard self.sentOnOpen(stream) == range.offset else {
            preconditionFailure("bytes were skipped on stream \(stream.rawValue) away from its position")
        }
        precondition(range.end > range.offset, "a skip moves forward")
        self.sent[stream] = range.end
        return .send(.skip(stream, range))
    }

    package mutating func seal(_ stream: StreamNumber, length: StreamOffset) -> Action {
        guard let state = self.streams[stream], let sent = self.sentOnOpen(stream) else {
            preconditionFailure("stream \(stream.rawValue) was sealed while not open")
        }
        precondition(sent == length, "a stream is sealed where it ends: \(length.rawValue), not \(sent.rawValue)")
        self.streams[stream] = StreamState(.sealing, acked: state.acked)
        return .send(.seal(stream, length: length))
    }

    /// How far an open stream was sent; `nil` when it is not open.
    private func sentOnOpen(_ stream: StreamNumber) -> StreamOffset? {
        guard let state = self.streams[stream], state.phase == .open else { return nil }
        return self.sent[stream] ?? state.acked
    }

    package mutating func receive(_ message: Message) -> Action? {
        switch self.state {
        case .closed:
            return nil
        case .connecting:
            return self.close(.unexpected("a message came before HELLO was sent"))
        case .awaitingReady:
            return self.receiveHandshake(message)
        case .ready:
            return self.receiveReady(message)
        }
    }

    private mutating func receiveHandshake(_ message: Message) -> Action {
        switch message {
        case .ready(let ready):
            guard LineProtocol.versions.contains(ready.version) else { return self.close(.version(ready.version)) }
            var granted = ready
            granted.limits.windowByteCount = min(ready.limits.windowByteCount, Self.windowByteCountMax)
            granted.limits.streamCountMax = min(ready.limits.streamCountMax, Self.streamCountMax)
            self.state = .ready(granted.limits)
            return .start(granted)
        case .err(let code, let text):
            return self.close(.refused(code, text: text))
        case .move(let receivers):
            self.state = .closed
            return .move(receivers)
        default:
            return self.close(.unexpected("READY was expected"))
        }
    }

    private mutating func receiveReady(_ message: Message) -> Action? {
        switch message {
        case .at(let stream, let offset, let proof, let end):
            if self.streams[stream]?.phase == .left { return nil }
            guard self.streams[stream]?.phase == .opening else { return self.misplaced(stream, "AT") }
            self.streams[stream] = StreamState(.open, acked: offset)
            return .seek(stream, to: offset, proof, end: end)
        case .ack(let stream, let offset, let end):
            return self.receiveAck(stream, offset, end: end)
        case .sealed(let stream, let proof, let end):
            return self.receiveSealed(stream, proof, end: end)
        case .stored(let stream, let offset):
            return self.receiveStored(stream, offset)
        case .note(let counts): return .note(counts)
        case .nak(let stream, let offset, let code, let text):
            switch self.streams[stream]?.phase {
            case .opening, .open, .sealing: break
            case .refused, .left: return nil
            case nil: return self.close(.unknownStream(stream))
            }
            self.streams[stream] = StreamState(.refused)
            self.dropFlights(of: stream)
            return .reopen(stream, offset, code, text: text)
        case .ping(let number): return .send(.pong(number))
        case .pong: return nil
        case .wait(let milliseconds): return .pause(milliseconds: milliseconds)
        case .move(let receivers): return .move(receivers)
        case .err(let code, let text): return self.close(.refused(code, text: text))
        case .bye: return self.close(.receiverLeft)
        case .hello, .ready, .open, .batch, .skip, .seal, .mark, .start, .tail, .resting:
            return self.close(.unexpected("the receiver sent a message of the agent's"))
        }
    }

    private mutating func receiveAck(_ stream: StreamNumber, _ offset: StreamOffset, end: UInt64) -> Action? {
        guard let state = self.streams[stream] else { return self.close(.unknownStream(stream)) }
        switch state.phase {
        case .open, .sealing:
            let sent = self.sent[stream] ?? state.acked
            guard state.acked <= offset, offset <= sent else { return self.close(.ackOutOfRange(stream, offset)) }
            self.streams[stream] = StreamState(state.phase, acked: offset)
            if offset == sent { self.sent[stream] = nil }
        case .opening, .refused, .left:
            return nil  // An answer to something sent before the stream was refused, left or opened again.
        }
        self.landFlights(of: stream, upTo: offset)
        return .advance(stream, to: offset, end: end)
    }

    private mutating func receiveStored(_ stream: StreamNumber, _ offset: StreamOffset) -> Action? {
        guard let state = self.streams[stream] else { return self.close(.unknownStream(stream)) }
        switch state.phase {
        case .open, .sealing:
            // What is stored was acknowledged before.
            return offset <= state.acked ? .stored(stream, upTo: offset) : self.close(.ackOutOfRange(stream, offset))
        case .opening, .refused, .left:
            return nil
        }
    }

    private mutating func receiveSealed(_ stream: StreamNumber, _ proof: StreamProof, end: UInt64) -> Action? {
        switch self.streams[stream]?.phase {
        case .open, .sealing:
            // `open`: the receiver sealed it on an earlier connection and reports that after AT.
            self.streams[stream] = nil
            self.dropFlights(of: stream)
            return .finish(stream, proof, end: end)
        case .left:
            return nil
        case .opening, .refused, nil:
            return self.misplaced(stream, "SEALED")
        }
    }

    private mutating func misplaced(_ stream: StreamNumber, _ word: String) -> Action {
        self.streams[stream] == nil
            ? self.close(.unknownStream(stream)) : self.close(.unexpected("\(word) for a stream in another state"))
    }

    private mutating func close(_ failure: Failure) -> Action {
        self.state = .closed
        return .close(failure)
    }

    private mutating func landFlights(of stream: StreamNumber, upTo offset: StreamOffset) {
        guard var flights = self.flights[stream] else { return }
        while let first = flights.first, first.end <= offset {
            self.inFlightByteCount -= first.rawByteCount
            flights.removeFirst()
        }
        self.flights[stream] = flights.isEmpty ? nil : flights
        self.checkWindow()
        guard self.flights.isEmpty, self.flights.capacity > Self.keptFlightCount else { return }
        // A dictionary never releases its capacity, and few of many streams have news later.
        self.flights = [:]
        if self.sent.isEmpty { self.sent = [:] }
    }

    /// The number of streams with batches in flight for which there is always room.
    private static let keptFlightCount = 1024

    private mutating func dropFlights(of stream: StreamNumber) {
        self.sent[stream] = nil
        for flight in self.flights.removeValue(forKey: stream) ?? [] { self.inFlightByteCount -= flight.rawByteCount }
        self.checkWindow()
    }

    /// The window has bytes exactly while batches are not answered.
    private func checkWindow() {
        precondition(
            self.inFlightByteCount >= 0 && (self.inFlightByteCount == 0) == self.flights.isEmpty,
            "\(self.inFlightByteCount) bytes of \(self.flights.count) streams are in flight")
    }
}
