import Testing
@testable import WaybillDoor
import WaybillJSON
import WaybillProtocol
import WaybillSystem

/// One request's conversation with the receiver, event by event.
@Suite struct StreamExchangeTests {
    private static let id = StreamID(unchecked: "s-1")
    private static let object =
        #"{"stream":"s-1","source":"/a","env":"prod","bundle":"com.example.shop","format":"waybill"}"#
    /// More bytes than a proof covers.
    private static let raw = [UInt8](repeating: 0x61, count: 599) + [0x0A]
    private static let digest = ProofDigest("0123456789abcdef0123456789abcdef".utf8)

    private static func request(_ call: StreamCall, _ query: Substring = "", _ body: String = "") throws
        -> StreamRequest
    {
        try StreamRequest(call, stream: Self.object, query: query, body: Array(body.utf8))
    }

    /// A batch of ``raw`` at 1000, whose payload is one byte.
    private static func batch(_ raw: [UInt8]? = Self.raw) throws -> StreamRequest {
        var request = try Self.request(
            .batch(Self.id), "offset=1000&proof=0123456789abcdef0123456789abcdef", "BATCH 1 1000 600 1 1 00000000\n?")
        if let raw { request.endProof = StreamProof(of: Self.id, at: StreamOffset(1600), tail: raw.suffix(512)) }
        return request
    }

    private static func proof(_ digest: ProofDigest?, at offset: UInt64) throws -> StreamProof {
        let count = digest == nil ? 0 : StreamProof.byteCount(at: StreamOffset(offset))
        return try #require(StreamProof(byteCount: count, digest: digest, at: StreamOffset(offset)))
    }

    private static func held(_ offset: UInt64, _ proof: StreamProof?, end: UInt64, isSealed: Bool? = nil) -> HeldStream
    {
        HeldStream(offset: StreamOffset(offset), proof: proof, end: end, isSealed: isSealed)
    }

    /// The code of a refusal; `nil` for anything else.
    private static func code(_ action: StreamExchange.Action) -> StreamRefusal.Code? {
        if case .finish(.failure(let refusal)) = action { refusal.code } else { nil }
    }

    @Test func `a batch is sent where the stream stands, and answered with the proof at its end`() throws {
        var exchange = StreamExchange(try Self.batch())
        let before = try Self.proof(Self.digest, at: 1000)
        #expect(exchange.positioned(at: StreamOffset(1000), before, end: 5) == .send)
        #expect(exchange.isSent)
        #expect(exchange.acknowledged(upTo: StreamOffset(1000), end: 6) == .wait)
        #expect(exchange.acknowledged(upTo: StreamOffset(1600), end: 7) == .open)
        let after = StreamProof(of: Self.id, at: StreamOffset(1600), tail: Self.raw.suffix(512))
        #expect(
            exchange.positioned(at: StreamOffset(1600), after, end: 8)
                == .finish(.success(.held(Self.held(1600, after, end: 8), isRepeated: false))))
        #expect(exchange.lost(StreamRefusal(.unavailable, "gone")) == .wait)
    }

    @Test func `what was acknowledged stays true, whatever happens before its proof has come`() throws {
        let ends: [(inout StreamExchange) -> StreamExchange.Action] = [
            { $0.lost(StreamRefusal(.unavailable, "gone")) },
            { $0.refused(.inUse, "another", at: StreamOffset(0)) },
            { $0.sealed(.empty, end: 9) },
        ]
        for end in ends {
            var exchange = StreamExchange(try Self.batch())
            _ = exchange.positioned(at: StreamOffset(1000), try Self.proof(Self.digest, at: 1000), end: 5)
            _ = exchange.acknowledged(upTo: StreamOffset(1600), end: 7)
            #expect(end(&exchange) == .finish(.success(.held(Self.held(1600, nil, end: 7), isRepeated: false))))
        }
    }

    @Test func `a connection that ends before the answer says nothing about the batch`() throws {
        var exchange = StreamExchange(try Self.batch())
        _ = exchange.positioned(at: StreamOffset(1000), try Self.proof(Self.digest, at: 1000), end: 5)
        #expect(Self.code(exchange.lost(StreamRefusal(.unavailable, "gone"))) == .unavailable)
    }

    @Test func `a repeated batch is told from the receiver's proof alone`() throws {
        let after = StreamProof(of: Self.id, at: StreamOffset(1600), tail: Self.raw.suffix(512))
        var exchange = StreamExchange(try Self.batch())
        #expect(
            exchange.positioned(at: StreamOffset(1600), after, end: 8)
                == .finish(.success(.held(Self.held(1600, after, end: 8), isRepeated: true))))
        // Other bytes of the same length.
        var other = StreamExchange(try Self.batch(Self.raw.map { $0 == 0x61 ? 0x62 : $0 }))
        #expect(Self.code(other.positioned(at: StreamOffset(1600), after, end: 8)) == .differs)
        // Too few bytes to tell: the client compares.
        var short = StreamExchange(try Self.batch(nil))
        #expect(Self.code(short.positioned(at: StreamOffset(1600), after, end: 8)) == .gap)
    }

    @Test(arguments: [0, 999, 1001, 1599, 1601, UInt64(1) << 50])
    func `at any other offset nothing is sent`(offset: UInt64) throws {
        var exchange = StreamExchange(try Self.batch())
        let proof = try Self.proof(offset == 0 ? nil : Self.digest, at: offset)
        let action = exchange.positioned(at: StreamOffset(offset), proof, end: 8)
        #expect(Self.code(action) == .gap)
        guard case .finish(.failure(let refusal)) = action else { return }
        #expect(refusal.held == Self.held(offset, proof, end: 8))
    }

    @Test func `a proof that disagrees keeps a batch, a skip and a seal from being sent`() throws {
        let requests = [
            try Self.batch(),
            try Self.request(
                .skip(Self.id), "proof=0123456789abcdef0123456789abcdef", "SKIP 1 1000 600 truncated -\n"),
            try Self.request(.seal(Self.id), "proof=0123456789abcdef0123456789abcdef", "SEAL 1 1000\n"),
        ]
        for request in requests {
            var exchange = StreamExchange(request)
            let other = try Self.proof(ProofDigest("ffffffffffffffffffffffffffffffff".utf8), at: 1000)
            #expect(Self.code(exchange.positioned(at: StreamOffset(1000), other, end: 8)) == .differs)
        }
    }

    @Test func `a stream that has ended says so`() throws {
        let proof = try Self.proof(Self.digest, at: 1000)
        var ask = StreamExchange(try Self.request(.ask(Self.id)))
        #expect(ask.positioned(at: StreamOffset(1000), proof, end: 8) == .ping)
        let sealed = Self.held(1000, proof, end: 9, isSealed: true)
        #expect(ask.sealed(proof, end: 9) == .finish(.success(.held(sealed, isRepeated: nil))))
        #expect(ask.ponged() == .wait)
        var batch = StreamExchange(try Self.batch())
        _ = batch.positioned(at: StreamOffset(1000), proof, end: 8)
        #expect(Self.code(batch.sealed(proof, end: 9)) == .sealed)
        var open = StreamExchange(try Self.request(.ask(Self.id)))
        _ = open.positioned(at: StreamOffset(1000), proof, end: 8)
        let unsealed = Self.held(1000, proof, end: 8, isSealed: false)
        #expect(open.ponged() == .finish(.success(.held(unsealed, isRepeated: nil))))
    }

    @Test func `whether a stream is sealed is left out where AT alone was seen`() throws {
        let after = StreamProof(of: Self.id, at: StreamOffset(1600), tail: Self.raw.suffix(512))
        var exchange = StreamExchange(try Self.batch())
        guard
            case .finish(.success(.held(let held, isRepeated: true))) = exchange.positioned(
                at: StreamOffset(1600), after, end: 8)
        else {
            Issue.record("it is not told as repeated")
            return
        }
        #expect(held.isSealed == nil)
        let text = String(decoding: JSONWriter.object { held.write(to: &$0) }, as: UTF8.self)
        #expect(text.contains(#""end":8"#) && !text.contains("sealed") && !text.contains("skipped"))
    }

    @Test func `what was skipped of a stream is passed on, and keeps no batch from being told as repeated`() throws {
        let after = StreamProof(of: Self.id, at: StreamOffset(1600), tail: Self.raw.suffix(512)).skipping(1000)
        var exchange = StreamExchange(try Self.batch())
        guard
            case .finish(.success(.held(let held, isRepeated: true))) = exchange.positioned(
                at: StreamOffset(1600), after, end: 8)
        else {
            Issue.record("it is not told as repeated")
            return
        }
        let text = String(decoding: JSONWriter.object { held.write(to: &$0) }, as: UTF8.self)
        #expect(text.contains(#""skipped":1000"#))
    }

    @Test func `a seal that waits for the fleet's store is no seal yet`() throws {
        let proof = try Self.proof(Self.digest, at: 1000)
        let request = try Self.request(.seal(Self.id), "proof=0123456789abcdef0123456789abcdef", "SEAL 1 1000\n")
        var exchange = StreamExchange(request)
        #expect(exchange.positioned(at: StreamOffset(1000), proof, end: 8) == .send)
        var late = StreamExchange(request)
        _ = late.positioned(at: StreamOffset(1000), proof, end: 8)
        #expect(late.sealIsLate() == .finish(.success(.sealing(Self.held(1000, proof, end: 8, isSealed: false)))))
        let sealed = Self.held(1000, proof, end: 9, isSealed: true)
        #expect(exchange.sealed(proof, end: 9) == .finish(.success(.held(sealed, isRepeated: nil))))
        #expect(exchange.sealIsLate() == .wait)
    }

    @Test(arguments: ErrorCode.allCases)
    func `what the receiver refuses has a status, a cause and a remedy`(code: ErrorCode) throws {
        var exchange = StreamExchange(try Self.batch())
        guard case .finish(.failure(let refusal)) = exchange.refused(code, "why", at: StreamOffset(7)) else {
            Issue.record("the request goes on")
            return
        }
        #expect(refusal.code.rawValue == (code.isOfStream ? code.rawValue : "unavailable"))
        #expect(refusal.held?.offset == (code == .prove ? StreamOffset(7) : nil))
        #expect(refusal.cause == "why" && !refusal.code.remedy.isEmpty && (400...503).contains(refusal.code.status))
        #expect((refusal.headers["Retry-After"] != nil) == (refusal.code.retrySeconds != nil))
    }

    @Test func `a body that the door has no room for is refused as streams are, to be repeated`() {
        for (reason, code) in [
            (DoorTelemetry.RefusalReason.memory, StreamRefusal.Code.unavailable), (.displaced, .unavailable),
            (.share, .busy), (.tooLarge, .limit),
        ] {
            let refusal = StreamRefusal(reason)
            #expect(refusal.code == code && refusal.code.status == reason.status)
            #expect((refusal.headers["Retry-After"] != nil) == (code != .limit))
        }
    }

    @Test func `a client is the same from another address, and another one under another principal`() {
        let client = { (principal: String, agent: String, address: String) in
            ForwardedClient(principal: principal, agent: agent, address: address).name
        }
        #expect(client("app", "a-1", "10.0.0.1") == client("app", "a-1", "10.0.0.2"))
        #expect(client("app", "a-1", "10.0.0.1") != client("web", "a-1", "10.0.0.1"))
        #expect(client("app", "a-1", "10.0.0.1") != client("app", "a-2", "10.0.0.1"))
    }

    // MARK: What a request must be

    @Test(arguments: [
        ("GET", "/v1/streams", StreamCall.receiver), ("GET", "/v1/streams/", .receiver),
        ("GET", "/v1/streams/s-1", .ask(id)), ("GET", "/v1/streams/s%2D1", .ask(id)),
        ("PUT", "/v1/streams/s-1", .batch(id)), ("POST", "/v1/streams/s-1/skip", .skip(id)),
        ("POST", "/v1/streams/s-1/seal", .seal(id)),
    ])
    func `methods and paths`(method: String, path: String, call: StreamCall) throws {
        #expect(StreamCall.isPath(path[...]))
        #expect(try StreamCall(method: method, path: path[...]) == call)
    }

    @Test(arguments: [
        ("POST", "/v1/streams", StreamRefusal.Code.method), ("DELETE", "/v1/streams/s-1", .method),
        ("GET", "/v1/streams/s-1/seal", .method), ("GET", "/v1/streams/s-1/other", .notFound),
        ("GET", "/v1/streams/s-1/seal/more", .notFound), ("GET", "/v1/streams/a%20b", .syntax),
        ("GET", "/v1/streams/%", .syntax),
    ])
    func `other methods and paths are refused`(method: String, path: String, code: StreamRefusal.Code) {
        let error = #expect(throws: StreamRefusal.self) { try StreamCall(method: method, path: path[...]) }
        #expect(error?.code == code)
    }

    @Test(arguments: [(100, nil as StreamRefusal.Code?), (ProtocolLimits.messageByteCountMax - 200, .syntax)])
    func `an OPEN that is too long once the client is named is refused`(
        padding: Int, code: StreamRefusal.Code?
    ) throws {
        let object = Self.object.dropLast() + #","by":"\#(String(repeating: "x", count: padding))"}"#
        let request = try StreamRequest(.ask(Self.id), stream: String(object), query: "", body: [])
        let client = ForwardedClient(
            principal: "app", agent: String(repeating: "a", count: 128), address: "2001:db8:1:2:3:4:5:6")
        do throws(StreamRefusal) {
            try request.check(for: client)
            #expect(code == nil)
        } catch {
            #expect(error.code == code)
        }
    }

    /// As a proxy may name it.
    private static let longAddress = String(repeating: "1", count: ProtocolLimits.messageByteCountMax)

    @Test func `a sender's address that no OPEN can carry is refused`() throws {
        let request = try Self.request(.ask(Self.id))
        let error = #expect(throws: StreamRefusal.self) {
            try request.check(for: ForwardedClient(principal: "app", agent: "a-1", address: Self.longAddress))
        }
        #expect(error?.code == .syntax)
    }

    @Test(arguments: [
        ("offset=0", "BATCH 1 0 16 2 1 00000000\n?", nil as StreamRefusal.Code?),
        ("offset=0&proof=-", "BATCH 1 0 16 2 1 00000000\n?", nil),
        ("", "BATCH 1 0 16 2 1 00000000\n?", .syntax),
        ("offset=1", "BATCH 1 0 16 2 1 00000000\n?", .syntax),
        ("offset=9", "BATCH 1 9 16 2 1 00000000\n?", .syntax),
        ("offset=9&proof=12", "BATCH 1 9 16 2 1 00000000\n?", .syntax),
        ("offset=0", "BATCH 2 0 16 2 1 00000000\n?", .syntax),
        ("offset=0", "BATCH 1 0 16 2 1 00000000\n", .corrupt),
        ("offset=0", "BATCH 1 0 16 2 1 00000000\n??", .corrupt),
        ("offset=0", "BATCH 1 0 16 2 1 0000000\n?", .syntax),
        ("offset=0", "SEAL 1 0\n", .syntax), ("offset=0", "", .syntax),
    ])
    func `a frame's line, length and place are checked`(
        query: String, body: String, code: StreamRefusal.Code?
    ) throws {
        do throws(StreamRefusal) {
            _ = try StreamRequest(.batch(Self.id), stream: Self.object, query: query[...], body: Array(body.utf8))
            #expect(code == nil)
        } catch {
            #expect(error.code == code)
        }
    }
}
