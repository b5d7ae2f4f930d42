import Testing
@testable import WaybillAgent
import WaybillProtocol

/// The line protocol over requests: what is asked for each message, and what the answers mean.
@Suite struct DoorSessionTests {
    private static let ready =
        #"{"protocol":1,"receiver":"c","incarnation":"5b0c6f2e9a174d38b6e1c07f42a9d813","start":"c41f09d27be65a30","#
        + #""end":9,"starts":[["c41f09d27be65a30",0]],"id":"c~5b0c6f2e9a174d38b6e1c07f42a9d813","#
        + #""fleet":"00000000000000000000000000000001","level":"stored","#
        + #""limits":{"line":1048576,"raw":2097152,"wire":2162688,"lines":65536,"streams":9,"idle_ms":90000},"#
        + #""window":8388608,"time":1}"#
    private static let receiver = "5b0c6f2e9a174d38b6e1c07f42a9d813 c41f09d27be65a30"
    private static let digest = "0123456789abcdef0123456789abcdef"
    private static let number = StreamNumber(7)
    private static let description = StreamDescription(
        id: StreamID(unchecked: "s-1"), source: "/a", environment: "prod", bundle: "com.example.shop", format: .waybill)

    private static func answer(_ status: Int, _ body: String, receiver: String? = Self.receiver) -> DoorAnswer {
        DoorAnswer(status: status, receiver: receiver, body: Array(body.utf8))
    }

    private static func header(at offset: UInt64, raw: Int = 100) -> BatchHeader {
        BatchHeader(
            stream: Self.number, offset: StreamOffset(offset), rawByteCount: raw, lineCount: 1, wireByteCount: 3,
            checksum: 0xABCD)
    }

    /// A session with a stream that stands at 1000.
    private static func session() throws -> DoorSession {
        var session = DoorSession()
        let hello = Hello(versions: [1], agent: "a-1", instance: "i", token: "secret", key: "k", encodings: ["zlib"])
        #expect(session.question(for: .hello(hello)) == .greet)
        _ = session.react(to: Self.answer(200, Self.ready, receiver: nil), .greet)
        #expect(session.question(for: .open(Self.number, Self.description, .none)) == .open(Self.number))
        let held = #"{"offset":1000,"count":512,"digest":"\#(Self.digest)","end":20,"sealed":false}"#
        let proof = try #require(
            StreamProof(byteCount: 512, digest: ProofDigest(Self.digest.utf8), at: StreamOffset(1000)))
        #expect(
            session.react(to: Self.answer(200, held), .open(Self.number))
                == .say([.at(Self.number, StreamOffset(1000), proof, end: 20)]))
        return session
    }

    private static func question(_ message: Message, of session: inout DoorSession) throws -> DoorSession.Question {
        let question = session.question(for: message)
        return try #require(question)
    }

    @Test func `what was skipped of a stream comes with its proof`() throws {
        let proof = try #require(
            StreamProof(byteCount: 512, digest: ProofDigest(Self.digest.utf8), at: StreamOffset(1000)))
        for (skipped, isGood) in [(1, true), (1000, true), (1001, false)] as [(UInt64, Bool)] {
            var session = try Self.session()
            let held =
                #"{"offset":1000,"count":512,"digest":"\#(Self.digest)","skipped":\#(skipped),"end":20,"sealed":true}"#
            let reaction = session.react(to: Self.answer(200, held), .seal(Self.number, StreamOffset(1000)))
            #expect((reaction == .say([.sealed(Self.number, proof.skipping(skipped), end: 20)])) == isGood)
        }
    }

    @Test func `the receiver is shown without its fleet`() throws {
        var session = DoorSession()
        guard case .say(let messages) = session.react(to: Self.answer(200, Self.ready, receiver: nil), .greet),
            case .ready(let ready)? = messages.first
        else {
            Issue.record("no READY")
            return
        }
        #expect(ready.fleet == nil && ready.level == .durable && ready.receiver.end == 9)
    }

    @Test func `a batch carries its frame, the stream's object and the proof where it begins`() throws {
        var session = try Self.session()
        let question = try Self.question(.batch(Self.header(at: 1000)), of: &session)
        let request = try #require(session.request(for: question, payload: [1, 2, 3]))
        #expect(request.method == "PUT")
        #expect(request.path == "v1/streams/s-1?offset=1000&proof=\(Self.digest)")
        #expect(request.body == Array("BATCH 1 1000 100 1 3 0000abcd\n".utf8) + [1, 2, 3])
        #expect(
            request.headers.map { "\($0.name): \($0.value)" } == [
                "Waybill-Agent: a-1", "Waybill-Key: k", "Authorization: Bearer secret",
                #"Waybill-Stream: {"stream":"s-1","source":"/a","env":"prod","bundle":"com.example.shop","#
                    + #""format":"waybill"}"#,
            ])
        let after = String(repeating: "f", count: 32)
        let held = #"{"offset":1100,"count":512,"digest":"\#(after)","end":21,"sealed":false,"repeated":false}"#
        #expect(
            session.react(to: Self.answer(200, held), question)
                == .say([.ack(Self.number, StreamOffset(1100), end: 21)]))
        let next = try Self.question(.seal(Self.number, length: StreamOffset(1100)), of: &session)
        #expect(session.request(for: next, payload: [])?.path == "v1/streams/s-1/seal?proof=\(after)")
    }

    @Test(arguments: [
        #"{"offset":1100,"end":21,"sealed":false,"repeated":false}"#,
        #"{"offset":1200,"count":512,"digest":"0123456789abcdef0123456789abcdef","end":21,"repeated":false}"#,
    ])
    func `without the proof at its end a batch is acknowledged, and the stream opened again`(held: String) throws {
        var session = try Self.session()
        let question = try Self.question(.batch(Self.header(at: 1000)), of: &session)
        guard case .sayAndClose(let messages, _) = session.react(to: Self.answer(200, held), question) else {
            Issue.record("the session goes on without a proof")
            return
        }
        #expect(messages == [.ack(Self.number, StreamOffset(1100), end: 21)])
    }

    @Test func `after a refusal nothing is asked about the stream until it is opened again`() throws {
        var session = try Self.session()
        let question = try Self.question(.batch(Self.header(at: 1000)), of: &session)
        let refusal = #"{"code":"differs","cause":"why","remedy":"…","offset":1000}"#
        #expect(
            session.react(to: Self.answer(409, refusal), question)
                == .say([.nak(Self.number, StreamOffset(1000), .gap, text: "why")]))
        #expect(session.question(for: .batch(Self.header(at: 1100))) == nil)
        #expect(session.question(for: .seal(Self.number, length: StreamOffset(1100))) == nil)
        #expect(session.question(for: .open(Self.number, Self.description, .none)) != nil)
    }

    @Test func `another receiver behind the door ends the session`() throws {
        var session = try Self.session()
        let question = try Self.question(.batch(Self.header(at: 1000)), of: &session)
        let other = Self.receiver.replacing("c41f", with: "c410")
        guard case .close = session.react(to: Self.answer(200, "{}", receiver: other), question) else {
            Issue.record("the session goes on")
            return
        }
    }

    @Test func `a seal that waits is asked for again`() throws {
        var session = try Self.session()
        let question = try Self.question(.seal(Self.number, length: StreamOffset(1000)), of: &session)
        let waiting = #"{"offset":1000,"count":512,"digest":"\#(Self.digest)","end":20,"sealed":false}"#
        #expect(session.react(to: Self.answer(202, waiting), question) == .wait(.askAgain(Self.number)))
        #expect(session.request(for: .askAgain(Self.number), payload: [])?.method == "GET")
        #expect(
            session.react(to: Self.answer(200, waiting), .askAgain(Self.number)) == .wait(.askAgain(Self.number)))
        let sealed = waiting.replacing("false", with: "true")
        guard case .say(let messages) = session.react(to: Self.answer(200, sealed), .askAgain(Self.number)),
            case .sealed(Self.number, let proof, end: 20)? = messages.first
        else {
            Issue.record("it is not sealed")
            return
        }
        #expect(proof.digest?.text == Self.digest)
    }

    @Test(arguments: [
        (503, #"{"code":"unavailable","cause":"away"}"#), (503, #"{"code":"timeout","cause":"late"}"#),
        (429, #"{"code":"busy","cause":"too many"}"#), (502, "<html>a proxy</html>"), (200, "nonsense"),
        (400, #"{"code":"syntax","cause":"what"}"#),
    ])
    func `an answer about the door ends the session, which is begun again later`(status: Int, body: String) throws {
        var session = try Self.session()
        let question = try Self.question(.batch(Self.header(at: 1000)), of: &session)
        guard case .close = session.react(to: Self.answer(status, body, receiver: nil), question) else {
            Issue.record("the session goes on")
            return
        }
    }

    @Test func `a token that is refused is told as a receiver tells it`() {
        var session = DoorSession()
        #expect(
            session.react(to: Self.answer(401, #"{"code":"token","cause":"wrong"}"#, receiver: nil), .greet)
                == .say([.err(.token, text: "wrong")]))
    }
}
