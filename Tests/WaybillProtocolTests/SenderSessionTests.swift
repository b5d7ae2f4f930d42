import Testing
import WaybillProtocol

@Suite struct SenderSessionTests {
    /// Where the machine can be; in the last six the handshake is over, and stream 1 is as the name says.
    enum Stage: CaseIterable {
        case connecting, awaitingReady, closed, unknown, opening, open, sealing, refused, left
    }

    /// A session that has come to `stage`; streams that are open have sent up to 200 and are acknowledged up to 100.
    private static func session(_ stage: Stage, window: Int = 1000) -> SenderSession {
        var session = SenderSession()
        if stage == .connecting { return session }
        _ = session.start(Sample.hello)
        if stage == .awaitingReady { return session }
        _ = session.receive(.ready(Sample.ready(window: window)))
        if stage == .closed { _ = session.receive(.bye) }
        if stage == .closed || stage == .unknown { return session }
        _ = session.open(Sample.one, Sample.description())
        if stage == .opening { return session }
        _ = session.receive(Sample.at(100))
        session.batchSent(Sample.header(at: 100, raw: 100))
        if stage == .sealing { _ = session.seal(Sample.one, length: StreamOffset(200)) }
        if stage == .left { session.leave(Sample.one) }
        if stage == .refused { _ = session.receive(.nak(Sample.one, StreamOffset(100), .corrupt, text: "")) }
        return session
    }

    private static func expected(_ stage: Stage, _ message: Message) -> SenderSession.Action? {
        switch stage {
        case .connecting: return .close(.unexpected("a message came before HELLO was sent"))
        case .closed: return nil
        case .awaitingReady:
            switch message {
            case .ready(let ready): return .start(ready)
            case .err(let code, let text): return .close(.refused(code, text: text))
            case .move(let receivers): return .move(receivers)
            default: return .close(.unexpected("READY was expected"))
            }
        case .unknown, .opening, .open, .sealing, .refused, .left:
            break
        }
        let unknown = SenderSession.Action.close(.unknownStream(Sample.one))
        switch message {
        case .hello, .ready, .open, .batch, .skip, .seal, .mark, .start, .resting, .tail:
            return .close(.unexpected("the receiver sent a message of the agent's"))
        case .at(let stream, let offset, let proof, let end):
            if stage == .unknown { return unknown }
            if stage == .left { return nil }
            return stage == .opening
                ? .seek(stream, to: offset, proof, end: end) : .close(.unexpected("AT for a stream in another state"))
        case .ack(let stream, let offset, let end):
            if stage == .unknown { return unknown }
            return stage == .open || stage == .sealing ? .advance(stream, to: offset, end: end) : nil
        case .stored(let stream, let offset):
            if stage == .unknown { return unknown }
            return stage == .open || stage == .sealing ? .stored(stream, upTo: offset) : nil
        case .note(let counts): return .note(counts)
        case .nak(let stream, let offset, let code, let text):
            if stage == .unknown { return unknown }
            return stage == .refused || stage == .left ? nil : .reopen(stream, offset, code, text: text)
        case .sealed(let stream, let proof, let end):
            if stage == .unknown { return unknown }
            if stage == .left { return nil }
            return stage == .open || stage == .sealing
                ? .finish(stream, proof, end: end) : .close(.unexpected("SEALED for a stream in another state"))
        case .ping(let number): return .send(.pong(number))
        case .pong: return nil
        case .wait(let milliseconds): return .pause(milliseconds: milliseconds)
        case .move(let receivers): return .move(receivers)
        case .err(let code, let text): return .close(.refused(code, text: text))
        case .bye: return .close(.receiverLeft)
        }
    }

    @Test(arguments: Stage.allCases, Sample.messages)
    func `each message has one answer in each state`(stage: Stage, message: Message) {
        var session = Self.session(stage)
        let action = session.receive(message)
        #expect(action == Self.expected(stage, message))
        if case .close = action {
            let answer = session.receive(.ping(1))
            #expect(answer == nil, "a closed session answers nothing")
        }
    }

    @Test func `HELLO is sent as it is told`() {
        var session = SenderSession()
        let action = session.start(Sample.hello)
        #expect(action == .send(.hello(Sample.hello)))
    }

    @Test(arguments: [0, 2, LineProtocol.integerMax])
    func `a version that it did not name ends the session`(version: UInt64) {
        var session = Self.session(.awaitingReady)
        let action = session.receive(.ready(Sample.ready(version: version)))
        #expect(action == .close(.version(version)))
    }

    @Test(arguments: [Stage.open, .sealing], [0, 99, 201, LineProtocol.integerMax])
    func `an ack outside what is in flight closes the session`(stage: Stage, offset: UInt64) {
        var session = Self.session(stage)
        let action = session.receive(Sample.ack(offset))
        #expect(action == .close(.ackOutOfRange(Sample.one, StreamOffset(offset))))
    }

    @Test(arguments: [Stage.open, .sealing], [100, 101, 199, 200])
    func `an ack inside what is in flight moves on, also when it comes twice`(stage: Stage, offset: UInt64) {
        var session = Self.session(stage)
        for _ in 0..<2 {
            let action = session.receive(Sample.ack(offset))
            #expect(action == .advance(Sample.one, to: StreamOffset(offset), end: Sample.end))
            let inFlight = session.inFlightByteCount
            #expect(inFlight == (offset == 200 ? 0 : 100))
        }
    }

    @Test func `an ack below the one before it closes the session`() {
        var session = Self.session(.open)
        _ = session.receive(Sample.ack(150))
        let action = session.receive(Sample.ack(149))
        #expect(action == .close(.ackOutOfRange(Sample.one, StreamOffset(149))))
    }

    @Test func `a refused stream is opened again and continues where AT says`() {
        var session = Self.session(.refused)
        #expect(session.inFlightByteCount == 0)
        let late = session.receive(Sample.ack(9000))
        #expect(late == nil)
        let opened = session.open(Sample.one, Sample.description())
        #expect(opened == .send(.open(Sample.one, Sample.description(), .none)))
        let again = session.receive(.nak(Sample.one, StreamOffset(0), .gap, text: "late"))
        #expect(again == .reopen(Sample.one, StreamOffset(0), .gap, text: "late"))
        _ = session.open(Sample.one, Sample.description())
        let sought = session.receive(Sample.at(40))
        #expect(sought == .seek(Sample.one, to: StreamOffset(40), Sample.proof(40), end: Sample.end))
        session.batchSent(Sample.header(at: 40, raw: 60))
        let advanced = session.receive(Sample.ack(100))
        #expect(advanced == .advance(Sample.one, to: StreamOffset(100), end: Sample.end))
    }

    @Test func `SEALED right behind AT finishes the stream, and its number is unknown from then on`() {
        var session = Self.session(.opening)
        _ = session.receive(Sample.at(317))
        let finished = session.receive(Sample.sealed(317))
        #expect(finished == .finish(Sample.one, Sample.proof(317), end: Sample.end))
        #expect(session.isSettled == true)
        let late = session.receive(Sample.ack(317))
        #expect(late == .close(.unknownStream(Sample.one)))
    }

    @Test func `what the agent knows of a stream goes into OPEN`() {
        var session = Self.session(.unknown)
        let opened = session.open(Sample.one, Sample.description(), Sample.claim)
        #expect(opened == .send(.open(Sample.one, Sample.description(), Sample.claim)))
    }

    @Test(arguments: [Stage.opening, .open, .sealing, .refused])
    func `a stream that is left takes no window, and whatever is still said of it is ignored`(stage: Stage) {
        var session = Self.session(stage)
        session.leave(Sample.one)
        #expect(session.inFlightByteCount == 0)
        #expect(session.isSettled == true)
        let late: [Message] = [
            Sample.at(100), Sample.ack(9000), .stored(Sample.one, StreamOffset(9000)),
            .nak(Sample.one, StreamOffset(0), .gap, text: ""), Sample.sealed(200),
        ]
        for message in late {
            let action = session.receive(message)
            #expect(action == nil)
        }
    }

    @Test(arguments: [Stage.open, .sealing], [0, 99, 100])
    func `what the fleet has stored was acknowledged before`(stage: Stage, offset: UInt64) {
        var session = Self.session(stage)
        let action = session.receive(.stored(Sample.one, StreamOffset(offset)))
        #expect(action == .stored(Sample.one, upTo: StreamOffset(offset)))
        let beyond = session.receive(.stored(Sample.one, StreamOffset(101)))
        #expect(beyond == .close(.ackOutOfRange(Sample.one, StreamOffset(101))))
    }

    // MARK: Window

    @Test func `the window counts raw bytes over all streams until their end is acknowledged`() {
        var session = Self.session(.open)
        _ = session.open(Sample.two, Sample.description("b"))
        _ = session.receive(Sample.at(0, Sample.two))
        session.batchSent(Sample.header(at: 200, raw: 300))
        session.batchSent(Sample.header(Sample.two, at: 0, raw: 500))
        #expect(session.inFlightByteCount == 900)
        #expect(session.admits(rawByteCount: 100) == true)
        #expect(session.admits(rawByteCount: 101) == false)
        _ = session.receive(Sample.ack(499))
        #expect(session.inFlightByteCount == 800, "only the first batch is whole")
        _ = session.receive(Sample.ack(500))
        #expect(session.inFlightByteCount == 500)
        _ = session.receive(.nak(Sample.two, StreamOffset(0), .corrupt, text: ""))
        #expect(session.inFlightByteCount == 0)
    }

    @Test func `one batch fits an empty window however long it is`() {
        var session = Self.session(.open, window: 10)
        #expect(session.admits(rawByteCount: 1) == false)
        _ = session.receive(Sample.ack(200))
        #expect(session.admits(rawByteCount: 1_000_000) == true)
    }

    @Test func `a receiver that grants without bound is not believed`() {
        var session = SenderSession()
        _ = session.start(Sample.hello)
        var limits = Sample.limits(window: Int(LineProtocol.integerMax), streams: Int(LineProtocol.integerMax))
        let ready = Ready(version: 1, receiver: Sample.receiver, limits: limits, milliseconds: 5)
        limits.windowByteCount = 64 << 20
        limits.streamCountMax = 1 << 18
        let granted = Ready(version: 1, receiver: Sample.receiver, limits: limits, milliseconds: 5)
        let action = session.receive(.ready(ready))
        #expect(action == .start(granted))
        #expect(session.limits == limits)
    }

    @Test func `there is room for as many streams as the receiver grants, sealed ones not counted`() {
        var session = Self.session(.open)
        for number in 2...3 {
            #expect(session.hasRoomForStream == true)
            _ = session.open(StreamNumber(UInt64(number)), Sample.description("s\(number)"))
        }
        #expect(session.hasRoomForStream == false)
        _ = session.seal(Sample.one, length: StreamOffset(200))
        #expect(session.hasRoomForStream == false)
        _ = session.receive(Sample.sealed(200))
        #expect(session.hasRoomForStream == true)
    }

    @Test func `SKIP moves the position and takes no window`() {
        var session = Self.session(.open)
        let range = Sample.skipped(200, byteCount: 1_000_000)
        let action = session.skip(Sample.one, range)
        #expect(action == .send(.skip(Sample.one, range)))
        #expect(session.inFlightByteCount == 100)
        let advanced = session.receive(Sample.ack(1_000_200))
        #expect(advanced == .advance(Sample.one, to: StreamOffset(1_000_200), end: Sample.end))
        #expect(session.inFlightByteCount == 0)
        #expect(session.isSettled == true)
    }

    @Test func `SEALED takes what was in flight out of the window`() {
        var session = Self.session(.sealing)
        _ = session.receive(Sample.sealed(200))
        #expect(session.inFlightByteCount == 0)
    }

    @Test(arguments: Stage.allCases)
    func `nothing may be sent before READY, nor after the end`(stage: Stage) {
        let session = Self.session(stage)
        let isReady = stage != .connecting && stage != .awaitingReady && stage != .closed
        #expect(session.admits(rawByteCount: 1) == isReady)
        #expect(session.limits == (isReady ? Sample.limits() : nil))
    }

    @Test(arguments: [
        (Stage.unknown, true), (.opening, false), (.open, false), (.sealing, false), (.refused, true), (.left, true),
    ])
    func `a session is settled when nothing waits for an answer`(stage: Stage, isSettled: Bool) {
        let session = Self.session(stage)
        #expect(session.isSettled == isSettled)
    }
}
