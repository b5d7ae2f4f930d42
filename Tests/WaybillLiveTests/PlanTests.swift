import Testing
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillServerTestSupport

@testable import WaybillLive

/// A plan: what is read of it, what is refused with which place, and what it says about events.
@Suite struct PlanTests {
    // MARK: Reading

    private static func read(_ text: String) throws(EventPlan.Failure) -> EventPlan {
        try EventPlan(Array(text.utf8), providers: ["ga4", "csv"])
    }

    @Test func `a plan is read with all that it may have`() throws {
        let plan = try Self.read(
            """
            {"$schema": "https://waybill.example/plan.schema.json", "expect": [
              {"name": "purchase", "count": 2, "providers": {"ga4": "exported"},
               "members": {"data.currency": "KRW", "data.value": {"type": "number"}, "user": null, "data.gift": true,
                           "data.n": 1.5, "data.k": -3}},
              {"name": "login"}, {"name": "tip", "count": {"min": 0, "max": 3}}, {"name": "view", "count": {"min": 4}}],
             "never": [{"name": "crash", "members": {"env": "dev"}}], "settle_seconds": 0}
            """)
        #expect(plan.expectations.map(\.pattern.name) == ["purchase", "login", "tip", "view"])
        #expect(plan.expectations.map(\.countMin) == [2, 1, 0, 4])
        #expect(plan.expectations.map(\.countMax) == [2, nil, 3, nil])
        #expect(
            plan.expectations[0].pattern.members == [
                .init(name: "data.currency", wanted: .value(type: .string, text: "KRW")),
                .init(name: "data.value", wanted: .type(.number)),
                .init(name: "user", wanted: .value(type: .null, text: "null")),
                .init(name: "data.gift", wanted: .value(type: .boolean, text: "true")),
                .init(name: "data.n", wanted: .value(type: .number, text: "1.5")),
                .init(name: "data.k", wanted: .value(type: .integer, text: "-3")),
            ])
        #expect(plan.expectations[0].pattern.providers == [.init(provider: "ga4", outcome: .exported)])
        #expect(plan.never.map(\.name) == ["crash"])
        #expect(plan.settle == .zero)
        #expect(try Self.read("{\"never\":[{\"name\":\"x\"}]}").settle == .seconds(2))
    }

    @Test(arguments: [
        ("", "1:1: this is not one JSON object: empty"),
        ("[]", "1:1: this is not one JSON object: not-object"),
        ("{\"expect\": [\n  {\"name\": \"a\",}]}", "2:16: this is not one JSON object: expected-key"),
        ("{}", "1:1: the plan is empty: list events in expect, or in never"),
        ("{\"expect\": []}", "1:1: the plan is empty: list events in expect, or in never"),
        ("{\"expects\": []}", "1:3: unknown member \"expects\"; did you mean \"expect\"?"),
        ("{\"expect\": {}}", "1:12: expect is a list of events: [{…}, …]"),
        ("{\"expect\": [\"login\"]}", "1:13: an entry is an object: {…}"),
        ("{\"expect\": [{}]}", "1:13: the entry has no name"),
        ("{\"expect\": [{\"name\": \"\"}]}", "1:22: name is the name of an event, in quotes"),
        ("{\"expect\": [{\"name\": 3}]}", "1:22: name is the name of an event, in quotes"),
        (
            "{\"expect\": [\n\n  {\"name\": \"é\", \"cuont\": 1}]}",
            "3:18: unknown member \"cuont\"; did you mean \"count\"?"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"xyzzyplugh\": 1}]}",
            "1:28: unknown member \"xyzzyplugh\"; known here: name, count, members, providers"
        ),
        ("{\"expect\": [{\"name\": \"a\", \"name\": \"b\"}]}", "1:28: \"name\" is there twice"),
        (
            "{\"expect\": [{\"name\": \"a\", \"count\": 0}]}",
            "1:36: an event that must not come belongs in never, and not in expect with count 0"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"count\": 1.5}]}",
            "1:36: count is a whole number from 1 to 1000000"
        ),
        ("{\"expect\": [{\"name\": \"a\", \"count\": {}}]}", "1:36: count has min, max or both, or is a number"),
        (
            "{\"expect\": [{\"name\": \"a\", \"count\": {\"min\": 3, \"max\": 2}}]}",
            "1:36: max is less than min, which is 3"
        ),
        ("{\"expect\": [{\"name\": \"a\", \"count\": {\"max\": 0}}]}", "1:44: max is a whole number from 1 to 1000000"),
        (
            "{\"never\": [{\"name\": \"a\", \"count\": 1}]}",
            "1:27: unknown member \"count\"; known here: name, members, providers"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"members\": {\"data.\": 1}}]}",
            "1:40: a member is named by its path, such as data.currency, user or screen"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"members\": {\"name\": 1}}]}",
            "1:40: the entry's own name is the event's name"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"members\": {\"data.x\": [1]}}]}",
            "1:49: a list cannot be compared; write {\"type\": \"array\"}"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"members\": {\"data.x\": {\"type\": \"int\"}}}]}",
            "1:58: type is one of: string, integer, number, boolean, array, object, null"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"members\": {\"data.x\": {}}}]}",
            "1:49: a member's value, or {\"type\": T}, is expected"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"providers\": {\"mixpanel\": \"exported\"}}]}",
            "1:42: mixpanel is not among the exports, which are: ga4, csv"
        ),
        (
            "{\"expect\": [{\"name\": \"a\", \"providers\": {\"ga4\": \"accepted\"}}]}",
            "1:48: the outcome is one of: exported, refused, held, skipped"
        ),
        (
            "{\"never\": [{\"name\": \"a\"}], \"settle_seconds\": -1}",
            "1:46: settle_seconds is a whole number from 0 to 600"
        ),
        ("{\"never\": [{\"name\": \"a\"}], \"$schema\": 1}", "1:29: $schema is an address in quotes"),
    ])
    func `what is not a plan is refused with its place and a remedy`(text: String, expected: String) {
        let failure = #expect(throws: EventPlan.Failure.self) { try Self.read(text) }
        #expect(failure?.description == expected)
    }

    // MARK: Comparing

    /// What a plan says about batches of lines, which ga4 takes if they have its id.
    private static func answer(
        _ plan: String, _ batches: [[String]], end: PlanEnd = .time, from position: Int = 0
    ) throws -> (answer: PlanAnswer, json: JSONValue, hasEverything: Bool) {
        let bench = try LiveBench()
        try bench.write(batches)
        var watch = try PlanWatch(
            data: bench.bench.data, exports: [ExportOptions(provider: .ga4)],
            plan: try EventPlan(Array(plan.utf8), providers: ["ga4"]), from: JournalPosition(position))
        try watch.advance(upTo: bench.bench.end)
        let answer = watch.answer(end)
        return (answer, try parsed(answer.json), watch.hasEverything)
    }

    private static func line(_ number: Int, _ name: String, _ more: String = "") -> String {
        LiveBench.line(number, name: name, more: more)
    }

    private static let instance = ",\"ids\":{\"ga4\":\"0a1b2c3d4e5f60718293a4b5c6d7e8f9\"}"

    @Test func `a plan whose events came is fulfilled`() throws {
        let plan = """
            {"expect": [
              {"name": "buy", "count": 2, "members": {"data.currency": "KRW", "data.value": {"type": "number"}}},
              {"name": "buy", "members": {"data.value": 10}, "providers": {"ga4": "exported"}}],
             "never": [{"name": "buy", "members": {"data.currency": "USD"}}]}
            """
        let found = try Self.answer(
            plan,
            [
                [Self.line(1, "buy", ",\"data\":{\"currency\":\"KRW\",\"value\":1.0e1}" + Self.instance)],
                [
                    Self.line(2, "buy", ",\"data\":{\"currency\":\"\\u004bRW\",\"value\":7}" + Self.instance),
                    Self.line(3, "other"),
                ],
            ], end: .everything)
        #expect(found.answer.isFulfilled)
        #expect(found.hasEverything)
        #expect(
            found.answer.json.text
                == "{\"ok\":true,\"end\":\"all-came\",\"events\":3,\"expect\":[{\"name\":\"buy\",\"outcome\":\"came\","
                + "\"count\":2,\"min\":2,\"max\":2},{\"name\":\"buy\",\"outcome\":\"came\",\"count\":1,\"min\":1,"
                + "\"max\":null}],\"never\":[{\"name\":\"buy\",\"outcome\":\"absent\",\"count\":0,\"examples\":[]}],"
                + "\"refused\":[],\"quarantined\":[],\"others\":[{\"name\":\"other\",\"count\":1}],\"unread\":[]}")
        #expect(found.answer.summary == ["2 of 2 expected events came"])
    }

    @Test func `an event that did not come is missing, with the name that may be meant`() throws {
        let found = try Self.answer("{\"expect\":[{\"name\":\"Purchase\"}]}", [[Self.line(1, "purchase")]])
        #expect(!found.answer.isFulfilled)
        #expect(!found.hasEverything)
        let entry = try #require(found.json["expect"]?.elements?.first)
        #expect(entry["outcome"]?.string == "missing")
        #expect(entry["nearest"]?.string == "purchase")
        #expect(
            found.answer.summary == [
                "0 of 1 expected events came",
                "missing: expect[0] Purchase: 0 came, and 1 must; events with the name \"purchase\" came",
            ])
    }

    @Test func `an event with another member, or none, says how it differs`() throws {
        let plan =
            "{\"expect\":[{\"name\":\"login\",\"members\":{\"data.method\":\"kakao\",\"data.n\":{\"type\":\"integer\"}}}]}"
        let found = try Self.answer(
            plan,
            [
                [
                    Self.line(1, "login", ",\"data\":{\"method\":\"email\",\"n\":1.5}"),
                    Self.line(2, "login", ",\"data\":{\"method\":\"kakao\"}"),
                ]
            ])
        let entry = try #require(found.json["expect"]?.elements?.first)
        #expect([entry["count"]?.integer, entry["differing"]?.integer] == [0, 2])
        let examples = try #require(entry["examples"]?.elements)
        let differences = examples.map { example in
            (example["differences"]?.elements ?? []).map {
                [$0["member"]?.string, $0["expected"]?.string, $0["found"]?.string]
            }
        }
        #expect(
            differences == [
                [["data.method", "\"kakao\"", "\"email\""], ["data.n", "a value of type integer", "1.5"]],
                [["data.n", "a value of type integer", nil]],
            ])
        #expect(
            found.answer.summary.last
                == "missing: expect[0] login: 0 came, and 1 must; 2 with this name differ: data.method is \"email\", and "
                + "not \"kakao\"")
    }

    @Test func `an event that a provider refuses says why, and what to do`() throws {
        let found = try Self.answer(
            "{\"expect\":[{\"name\":\"buy\",\"providers\":{\"ga4\":\"exported\"}}]}", [[Self.line(1, "buy")]])
        #expect(!found.answer.isFulfilled)
        let refused = try #require(found.json["refused"]?.elements?.first)
        #expect(refused["reason"]?.string == "ga4.no_app_instance_id")
        #expect(refused["remedy"]?.string?.contains("ids.ga4") == true)
        let difference = try #require(
            found.json["expect"]?.elements?.first?["examples"]?.elements?.first?["differences"]?.elements?.first)
        #expect(
            [difference["provider"]?.string, difference["expected"]?.string, difference["found"]?.string]
                == ["ga4", "exported", "refused"])
        #expect(difference["reason"]?.string == "ga4.no_app_instance_id")
        // A plan may expect just that.
        let expecting = try Self.answer(
            "{\"expect\":[{\"name\":\"buy\",\"providers\":{\"ga4\":\"refused\"}}]}", [[Self.line(1, "buy")]])
        #expect(expecting.answer.isFulfilled)
    }

    @Test func `too many events, and events that must not come, break a plan that has everything`() throws {
        let many = try Self.answer(
            "{\"expect\":[{\"name\":\"a\",\"count\":1}]}", [[Self.line(1, "a"), Self.line(2, "a")]])
        #expect(many.hasEverything)
        #expect(!many.answer.isFulfilled)
        #expect(many.json["expect"]?.elements?.first?["outcome"]?.string == "too-many")
        #expect(many.answer.summary.last == "too many: expect[0] a: 2, and at most 1 may come")
        let never = try Self.answer(
            "{\"expect\":[{\"name\":\"a\"}],\"never\":[{\"name\":\"b\"}]}", [[Self.line(1, "a"), Self.line(2, "b")]])
        #expect(never.hasEverything)
        #expect(!never.answer.isFulfilled)
        let entry = try #require(never.json["never"]?.elements?.first)
        #expect(
            entry["outcome"]?.string == "came"
                && entry["examples"]?.elements?.first?["at"]?.string?.hasSuffix(".2") == true)
        #expect(never.answer.summary.last == "must not come: never[0] b: 1 came")
    }

    @Test func `a plan that asks for nothing never has everything, and one that cannot be broken ends at once`() throws
    {
        let never = "{\"never\":[{\"name\":\"b\"}]}"
        let found = try Self.answer(never, [[Self.line(1, "a")]])
        #expect(!found.hasEverything)
        #expect(found.answer.isFulfilled)
        #expect(try Self.read(never).canBreak)
        #expect(try !Self.read("{\"expect\":[{\"name\":\"a\"}]}").canBreak)
        #expect(try Self.read("{\"expect\":[{\"name\":\"a\",\"count\":1}]}").canBreak)
    }

    @Test func `lines that are no events are named with their reason`() throws {
        let found = try Self.answer(
            "{\"expect\":[{\"name\":\"a\"}]}",
            [[Self.line(1, "a"), "{\"v\":1,\"name\":\"b\",\"env\":\"prod\",\"bundle\":\"x.y\"}\n", "not JSON\n"]])
        let lines = try #require(found.json["quarantined"]?.elements)
        #expect(lines.map { $0["reason"]?.string } == ["no-time", "not-json"])
        #expect(lines.map { $0["name"]?.string } == ["b", nil])
        #expect(lines.allSatisfy { $0["remedy"]?.string?.isEmpty == false })
        #expect(found.answer.isFulfilled)
    }

    @Test(arguments: [
        ("9007199254740993", "9007199254740992", false), ("1.50", "1.5", true), ("15e-1", "1.5", true),
        ("7", "7.0", true), ("-0", "0", true),
    ])
    func `numbers are compared as numbers`(found: String, wanted: String, isEqual: Bool) throws {
        let plan = "{\"expect\":[{\"name\":\"a\",\"members\":{\"data.x\":\(wanted)}}]}"
        let answer = try Self.answer(plan, [[Self.line(1, "a", ",\"data\":{\"x\":\(found)}")]]).answer
        #expect(answer.isFulfilled == isEqual)
    }

    @Test(arguments: ["\"1\"", "true", "null", "[]", "{}"])
    func `a value of another type is another value`(found: String) throws {
        let plan = "{\"expect\":[{\"name\":\"a\",\"members\":{\"data.x\":1}}]}"
        #expect(try !Self.answer(plan, [[Self.line(1, "a", ",\"data\":{\"x\":\(found)}")]]).answer.isFulfilled)
    }

    @Test func `names beyond those that are kept are counted`() throws {
        let lines = (1...203).map { Self.line($0, "other-\($0)") }
        let found = try Self.answer("{\"never\":[{\"name\":\"a\"}]}", [lines])
        #expect(found.json["others"]?.elements?.count == 200)
        #expect(found.json["more_others"]?.integer == 3)
    }
}
