import Testing
import WaybillProtocol

@Suite struct ReceiverSessionTests {
    /// Where the machine can be; in the last five the handshake is over, and stream 1 is as the name says.
    enum Stage: CaseIterable {
        case awaitingHello, admitting, closed, unknown, opening, open, ended, refused
    }

    private static func session(_ stage: Stage) -> ReceiverSession {
        var session = ReceiverSession(limits: Sample.limits())
        if stage == .awaitingHello { return session }
        _ = session.receive(.hello(Sample.hello))
        if stage == .admitting { return session }
        _ = session.admit(Sample.ready())
        if stage == .closed { _ = session.receive(.bye) }
        if stage == .closed || stage == .unknown { return session }
        _ = session.receive(.open(Sample.one, Sample.description(), .none))
        if stage == .opening { return session }
        if stage == .ended {
            _ = session.openedUnstored(Sample.one, at: StreamOffset(100), Sample.proof(100), end: Sample.end)
            return session
        }
        _ = session.opened(Sample.one, at: StreamOffset(100), Sample.proof(100), isSealed: false, end: Sample.end)
        if stage == .refused { _ = session.refused(Sample.one, at: StreamOffset(100), .gap, text: "") }
        return session
    }

    /// What the session does; a violation by its code alone, the text is for people.
    private enum Answer: Hashable {
        case action(ReceiverSession.Action)
        case error(ErrorCode)
        case nothing

        init(_ action: ReceiverSession.Action?) {
            switch action {
            case .close(.err(let code, _)): self = .error(code)
            case .some(let action): self = .action(action)
            case nil: self = .nothing
            }
        }
    }

    private static func expected(_ stage: Stage, _ message: Message) -> Answer {
        switch stage {
        case .closed: return .nothing
        case .admitting: return .error(.order)
        case .awaitingHello:
            if case .hello(let hello) = message { return .action(.admit(hello)) }
            return .error(.order)
        case .unknown, .opening, .open, .ended, .refused: break
        }
        let id = Sample.id("a")
        switch message {
        case .hello, .ready, .at, .ack, .nak, .sealed, .stored, .note, .wait, .move, .err: return .error(.order)
        case .mark, .start, .resting, .tail: return .error(.syntax)
        case .ping(let number): return .action(.reply(.pong(number)))
        case .pong: return .nothing
        case .bye: return .action(.close(.bye))
        case .open(let stream, let description, let claim):
            return stage == .opening ? .error(.order) : .action(.open(stream, description, claim))
        case .batch(let header):
            if stage == .open { return .action(.readBatch(header, id)) }
            if stage == .ended { return .action(.refuseBatch(header, Self.beyondEnd(header.stream, header.offset))) }
            return stage == .refused ? .action(.discardBatch(header)) : .error(.order)
        case .skip(let stream, let range):
            if stage == .open { return .action(.skip(stream, id, range)) }
            if stage == .ended { return .action(.reply(Self.beyondEnd(stream, range.offset))) }
            return stage == .refused ? .nothing : .error(.order)
        case .seal(let stream, let length):
            if stage == .open { return .action(.seal(stream, id, length: length)) }
            return stage == .refused || stage == .ended ? .nothing : .error(.order)
        }
    }

    private static func beyondEnd(_ stream: StreamNumber, _ offset: StreamOffset) -> Message {
        .nak(stream, offset, .sealed, text: "the stream was sealed here")
    }

    // MARK: A fleet

    @Test func `a stream that was sealed before gets SEALED when the fleet has stored its end`() {
        var session = Self.session(.opening)
        let proof = Sample.proof(100)
        let opened = session.openedUnstored(Sample.one, at: StreamOffset(100), proof, end: Sample.end)
        #expect(opened == [.at(Sample.one, StreamOffset(100), proof, end: Sample.end)])
        let early = session.stored(Sample.one, upTo: StreamOffset(100))
        #expect(early == [], "SEALED says it")
        let sealed = session.sealed(Sample.one, proof, end: Sample.end)
        #expect(sealed == [.sealed(Sample.one, proof, end: Sample.end)])
        let late = session.receive(.seal(Sample.one, length: StreamOffset(100)))
        #expect(late == nil)
        let again = session.sealed(Sample.one, proof, end: Sample.end)
        #expect(again == [], "it is said once")
    }

    @Test func `after a refusal SEALED waits for the next OPEN`() {
        var session = Self.session(.ended)
        _ = session.receive(.batch(Sample.header(at: 100, raw: 10)))
        let sealed = session.sealed(Sample.one, Sample.proof(100), end: Sample.end)
        #expect(sealed == [])
        let again = session.receive(.open(Sample.one, Sample.description(), .none))
        #expect(again == .open(Sample.one, Sample.description(), .none))
    }

    @Test(arguments: Stage.allCases)
    func `STORED is said of open streams alone`(stage: Stage) {
        let session = Self.session(stage)
        let messages = session.stored(Sample.one, upTo: StreamOffset(100))
        #expect(messages == (stage == .open ? [.stored(Sample.one, StreamOffset(100))] : []))
    }

    @Test(arguments: Stage.allCases, Sample.messages)
    func `each message has one answer in each state`(stage: Stage, message: Message) {
        var session = Self.session(stage)
        let action = session.receive(message)
        #expect(Answer(action) == Self.expected(stage, message))
        if case .close = action {
            #expect(session.isClosed == true)
            let answer = session.receive(.ping(1))
            #expect(answer == nil, "a closed session answers nothing")
        }
    }

    // MARK: Handshake

    @Test(arguments: [([], ["zlib"]), ([2], ["zlib"]), ([1], []), ([1], ["zstd"]), ([0, 3], ["zlib"])])
    func `an agent without a common version or encoding is told so`(versions: [UInt64], encodings: [String]) {
        var session = Self.session(.awaitingHello)
        var hello = Sample.hello
        hello.versions = versions
        hello.encodings = encodings
        let action = session.receive(.hello(hello))
        #expect(Answer(action) == .error(.version))
        #expect(session.isClosed == true)
    }

    @Test func `an agent that speaks later versions too is let in`() {
        var session = Self.session(.awaitingHello)
        var hello = Sample.hello
        hello.versions = [7, 1]
        hello.encodings = ["zstd", "zlib"]
        let action = session.receive(.hello(hello))
        #expect(action == .admit(hello))
        #expect(session.isReady == false)
        let ready = session.admit(Sample.ready())
        #expect(ready == .ready(Sample.ready()))
        #expect(session.isReady == true)
    }

    @Test func `a driver's refusal closes the session`() {
        var session = Self.session(.admitting)
        let action = session.refuse(.token, text: "wrong")
        #expect(action == .close(.err(.token, text: "wrong")))
        #expect(session.isClosed == true)
    }

    // MARK: Streams

    @Test func `a number keeps its stream while that is open or refused`() {
        for stage in [Stage.opening, .open, .refused] {
            var session = Self.session(stage)
            let action = session.receive(.open(Sample.one, Sample.description("b"), .none))
            #expect(Answer(action) == .error(.order), "\(stage)")
        }
    }

    @Test func `an open stream may be opened again, and waits for AT again`() {
        var session = Self.session(.open)
        let opened = session.receive(.open(Sample.one, Sample.description(), Sample.claim))
        #expect(opened == .open(Sample.one, Sample.description(), Sample.claim))
        let early = session.durable(Sample.one, upTo: StreamOffset(150), end: Sample.end)
        #expect(early == [], "an ack of before is not sent behind the new OPEN")
        let at = session.opened(
            Sample.one, at: StreamOffset(150), Sample.proof(150), isSealed: false, end: Sample.end)
        #expect(at == [Sample.at(150)])
    }

    @Test func `a stream that was sealed before is answered with AT and SEALED`() {
        var session = Self.session(.opening)
        let messages = session.opened(
            Sample.one, at: StreamOffset(317), Sample.proof(317), isSealed: true, end: Sample.end)
        #expect(messages == [Sample.at(317), Sample.sealed(317)], "with one proof and one end")
    }

    @Test func `a sealed stream's number may be opened anew`() {
        var session = Self.session(.open)
        let sealed = session.sealed(Sample.one, Sample.proof(317), end: Sample.end)
        #expect(sealed == [Sample.sealed(317)])
        let twice = session.sealed(Sample.one, Sample.proof(317), end: Sample.end)
        #expect(twice == [])
        let opened = session.receive(.open(Sample.one, Sample.description("b"), .none))
        #expect(opened == .open(Sample.one, Sample.description("b"), .none))
    }

    @Test func `a refusal is said once, and nothing of the stream until it is opened again`() {
        var session = Self.session(.open)
        let first = session.refused(Sample.one, at: StreamOffset(100), .corrupt, text: "x")
        #expect(first == [.nak(Sample.one, StreamOffset(100), .corrupt, text: "x")])
        let second = session.refused(Sample.one, at: StreamOffset(150), .gap, text: "y")
        #expect(second == [])
        let ack = session.durable(Sample.one, upTo: StreamOffset(100), end: Sample.end)
        #expect(ack == [])
        let sealed = session.sealed(Sample.one, Sample.proof(100), end: Sample.end)
        #expect(sealed == [])
        let at = session.opened(
            Sample.one, at: StreamOffset(100), Sample.proof(100), isSealed: false, end: Sample.end)
        #expect(at == [], "an answer to an OPEN that was refused")
    }

    @Test func `answers about a stream that no one opened are not sent`() {
        var session = Self.session(.unknown)
        let messages =
            session.opened(Sample.one, at: StreamOffset(0), .empty, isSealed: false, end: Sample.end)
            + session.durable(Sample.one, upTo: StreamOffset(1), end: Sample.end)
            + session.sealed(Sample.one, Sample.proof(1), end: Sample.end)
            + session.refused(Sample.one, at: StreamOffset(0), .gap, text: "")
            + session.openRefused(Sample.one, at: StreamOffset(0), .prove, text: "")
        #expect(messages == [])
    }

    @Test func `a session that was closed sends nothing more`() {
        var session = Self.session(.open)
        _ = session.receive(.bye)
        let messages =
            session.durable(Sample.one, upTo: StreamOffset(1), end: Sample.end)
            + session.sealed(Sample.one, Sample.proof(1), end: Sample.end)
            + session.refused(Sample.one, at: StreamOffset(0), .gap, text: "")
        #expect(messages == [])
    }

    @Test(arguments: [ErrorCode.inUse, .prove, .notAllowed])
    func `an OPEN that is refused is answered once, and may come again`(code: ErrorCode) {
        var session = Self.session(.opening)
        let first = session.openRefused(Sample.one, at: StreamOffset(100), code, text: "x")
        #expect(first == [.nak(Sample.one, StreamOffset(100), code, text: "x")])
        let second = session.openRefused(Sample.one, at: StreamOffset(100), code, text: "x")
        #expect(second == [])
        let again = session.receive(.open(Sample.one, Sample.description(), Sample.claim))
        #expect(again == .open(Sample.one, Sample.description(), Sample.claim))
    }

    // MARK: Limits

    @Test func `streams are counted until they are sealed`() {
        var session = Self.session(.unknown)
        for number in 1...3 as ClosedRange<UInt64> {
            let action = session.receive(.open(StreamNumber(number), Sample.description("s\(number)"), .none))
            #expect(action == .open(StreamNumber(number), Sample.description("s\(number)"), .none))
        }
        _ = session.opened(Sample.two, at: StreamOffset(0), .empty, isSealed: false, end: Sample.end)
        _ = session.sealed(Sample.two, .empty, end: Sample.end)
        let fourth = session.receive(.open(StreamNumber(4), Sample.description("s4"), .none))
        #expect(fourth == .open(StreamNumber(4), Sample.description("s4"), .none))
        let fifth = session.receive(.open(StreamNumber(5), Sample.description("s5"), .none))
        #expect(Answer(fifth) == .error(.limit))
    }

    @Test(arguments: [
        (500, 600, 20, true), (501, 600, 20, false), (500, 601, 20, false), (500, 600, 21, false),
    ])
    func `a batch beyond a limit ends the session before its payload is read`(
        raw: Int, wire: Int, lines: Int, isGood: Bool
    ) {
        var session = Self.session(.open)
        var header = Sample.header(at: 100, raw: raw, wire: wire)
        header.lineCount = lines
        let action = session.receive(.batch(header))
        #expect(Answer(action) == (isGood ? .action(.readBatch(header, Sample.id("a"))) : .error(.limit)))
    }

    @Test func `a refused stream's batch is read away, but not beyond the limit of the wire`() {
        var session = Self.session(.refused)
        let header = Sample.header(at: 100, raw: 501, wire: 600)
        let discarded = session.receive(.batch(header))
        #expect(discarded == .discardBatch(header))
        let refused = session.receive(.batch(Sample.header(at: 100, raw: 1, wire: 601)))
        #expect(Answer(refused) == .error(.limit))
    }
}
