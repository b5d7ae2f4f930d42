import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillServerTestSupport

@testable import WaybillLive

@Suite struct MaskTests {
    private static let secret = [UInt8](repeating: 7, count: 32)

    @Test func `a masked value is in no answer, whichever way it is asked for`() throws {
        let live = try LiveBench()
        let more =
            ",\"ids\":{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"},\"data\":{\"email\":\"ann@secret.example\","
            + "\"email\":\"twice@secret.example\",\"phone\":990011,\"list\":[{\"card\":\"4111secret\"}],\"plan\":\"gold\"},"
            + "\"overrides\":{\"mixpanel\":{\"data\":{\"email\":\"over@secret.example\"}}}"
        try live.write([
            [
                LiveBench.line(1, user: "secret-ann", more: more),
                LiveBench.line(2, user: "secret-ann", more: ",\"data\":{\"email\":null}"),
                "{\"name\":\"no time\",\"user\":\"secret-ann\"}\n", "broken \"user\":\"secret-ann\"\n",
            ]
        ])
        let mask = try Mask("user,data.email,data.phone,data.list.card", secret: Self.secret)
        var state = live.state(exports: Destination.allCases, mask: mask)
        try live.read(&state)
        let end = live.bench.end
        let newest = try #require(state.ring.newest?.id)
        let user = mask.name(of: Array("secret-ann".utf8))
        var stream = state.stream(.everything, fields: [["user"], ["data", "email"]], after: LineID("0.0"))
        let named = state.event(named: "019550fc-0000-7000-8000-000000000001")
        var answers = [
            state.events(.everything, before: nil, limit: 9, fields: [["data", "email"], ["data"]]),
            try #require(try state.event(at: LineID(batch: newest.batch, line: 1), upTo: end)),
            try #require(try state.event(at: LineID(batch: newest.batch, line: 3), upTo: end)),
            try #require(try state.event(at: LineID(batch: newest.batch, line: 4), upTo: end)),
            try #require(named),
            try state.person(user, before: nil), state.names.json, state.kept.refusalsJSON,
            state.status(now: LiveBench.now, problem: nil),
        ]
        while let frame = state.frame(for: &stream, isTick: true) { answers.append(frame) }
        for answer in answers {
            for secret in ["secret-ann", "secret.example", "990011", "4111secret"] {
                #expect(!answer.text.contains(secret), "\(secret) in \(answer.text.prefix(3000))")
            }
        }
        #expect(answers[0].text.contains("gold"))
        #expect(JSONValue(answers[5])?.places.count == 2)
        // Nor does a filter tell whether a guess is right.
        for guess in ["user:secret-ann", "data.email:ann", "secret", "990011"] {
            #expect(JSONValue(state.events(try Filter(guess), before: nil, limit: 9, fields: []))?.places == [])
        }
        #expect(
            JSONValue(state.events(try Filter("user:\(user)"), before: nil, limit: 9, fields: []))?.places.count == 2)
        #expect(JSONValue(try state.person("secret-ann", before: nil))?.places == [])
    }

    @Test func `the verdict is that of the line as it was shipped`() throws {
        let live = try LiveBench()
        // Mixpanel refuses a placeholder for a user, and takes a name.
        try live.write([[LiveBench.line(1, user: "anonymous"), LiveBench.line(2, user: "u-1")]])
        let mask = try Mask("user", secret: Self.secret)
        var plain = live.state(exports: [.mixpanel, .csv])
        try live.read(&plain)
        var masked = live.state(exports: [.mixpanel, .csv], mask: mask)
        try live.read(&masked)
        for line in 1...2 {
            let place = LineID(batch: try #require(plain.ring.newest?.id).batch, line: line)
            let expected = try parsed(try plain.event(at: place, upTo: live.bench.end))
            let found = try parsed(try masked.event(at: place, upTo: live.bench.end))
            let outcomes = { (json: JSONValue) in
                json["outcomes"]?.elements?.map { [$0["outcome"]?.string, $0["reason"]?.string] }
            }
            #expect(outcomes(found) == outcomes(expected))
        }
    }

    @Test func `a log's members are masked under the names that its source gives them`() throws {
        let mask = try Mask("user,name", secret: Self.secret)
        let source = SourceDescription(
            env: .prod, bundle: "com.example.web", isForeign: true, nameMember: "msg", userMember: "uid")
        var line = ShownLine(mask: mask)
        let text = #"{"time":"2026-11-20T11:00:00Z","msg":"secret","uid":"secret","user":"secret","x":1}"#
        let isEvent = Array(text.utf8).withUnsafeBytes { line.load($0, EventReader(source: source)) }
        #expect(isEvent)
        #expect(!Array(line.bytes).text.contains("secret"))
        #expect(line.name == mask.name(of: Array("secret".utf8)))
        #expect(line.user == line.name)
    }

    @Test func `equal values have equal names, with one secret`() throws {
        let other = try Mask("user", secret: [UInt8](repeating: 8, count: 32))
        let mask = try Mask("user", secret: Self.secret)
        #expect(mask.name(of: [1]) == mask.name(of: [1]))
        #expect(mask.name(of: [1]) != mask.name(of: [2]))
        #expect(mask.name(of: [1]) != other.name(of: [1]))
        #expect(mask.name(of: [1]).count == 17)
    }

    @Test(arguments: ["", "user,", "data.", ".x", "a b", "ts", "env.x", "user,kind"])
    func `what cannot be masked is refused`(list: String) {
        #expect(throws: Mask.Failure.self) { try Mask(list, secret: Self.secret) }
    }
}
