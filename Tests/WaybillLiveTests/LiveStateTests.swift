import Testing
import WaybillData
import WaybillExport
import WaybillJSON
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillLive

@Suite struct LiveStateTests {
    @Test func `rows have the members that the page needs, newest first`() throws {
        let live = try LiveBench()
        try live.write([
            [LiveBench.line(1)],
            [
                LiveBench.line(
                    2, user: "u-7",
                    more:
                        ",\"screen\":\"Cart\",\"prev\":\"Home\",\"prev_ms\":21800,\"session\":\"s\",\"data\":{\"a\":1}")
            ],
        ])
        var state = live.state(exports: [.ga4, .csv])
        try live.read(&state)
        let json = try parsed(state.events(.everything, before: nil, limit: 200, fields: []))
        #expect(json["scanned"]?.count == 2)
        #expect(json["oldest"]?.count == Int(ProjectionBench.noon))
        #expect(json["position"]?.string == json.places.first)
        let row = try #require(json["rows"]?.elements?.first)
        let members = try #require(row.members).map(\.name)
        #expect(
            members == [
                "at", "id", "ts", "received", "delay", "env", "app", "kind", "name", "screen", "prev", "prev_ms",
                "session", "user", "anon", "version", "refused", "new",
            ])
        #expect(row["ts"]?.count == Int(ProjectionBench.noon) - 1000)
        #expect(row["delay"]?.count == 2000)
        #expect(row["prev_ms"]?.count == 21_800)
        #expect(row["version"]?.string == "1.4.0")
        #expect(row["refused"]?["ga4"]?.string == "ga4.no_app_instance_id")
        // What was there at the start is not new.
        #expect(row["new"]?.elements?.count == 0)
        let older = try parsed(state.events(.everything, before: LineID(json.places[0]), limit: 200, fields: []))
        #expect(older.places == [json.places[1]])
        let one = try parsed(state.events(.everything, before: nil, limit: 1, fields: []))
        #expect(one.places == [json.places[0]])
        let none = try parsed(state.events(try Filter("user:x"), before: nil, limit: 9, fields: []))
        #expect(none.places == [] && none["scanned"]?.count == 2)
    }

    @Test func `a line that ended the page twice is shown as poison, and the lines around it as events`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1), LiveBench.line(2), LiveBench.line(3)]])
        var follower = Follower(
            journal: live.bench.data.journal, from: JournalPosition(0), files: live.bench.data.files)
        let batch = try #require(try follower.next(upTo: live.bench.end)).batch
        var places = ReadingPlaces()
        for _ in 0..<2 {
            let place = places.place(of: "live-0")
            place.enter(
                .line, position: batch.position.rawValue, FNV1a.hash(ProjectionBench.description(1).id.text.utf8),
                offset: LiveBench.line(1).utf8.count)
            place.mark(signal: 11)
            places = ReadingPlaces(leftBy: places)
        }
        for told in [1, 0] {
            let sentences = Lock<[String]>([])
            let lone = LoneReader(
                of: "live", in: live.bench.data,
                memory: LoneReader.Memory(of: "live", in: live.bench.data, for: "live"), places: places,
                version: "1.2.3", tell: { text in sentences.withLock { $0.append(text) } })
            var state = LiveState(data: live.bench.data, exports: [], lone: lone)
            try live.read(&state)
            let rows = try parsed(state.events(.everything, before: nil, limit: 9, fields: []))
            #expect(rows.places.map { LineID($0) } == [3, 1].map { LineID(batch: batch.position, line: $0) })
            let kept = try #require(state.kept.lines().first)
            #expect(kept.reason == .poison && kept.id == LineID(batch: batch.position, line: 2))
            #expect(sentences.withLock { $0.count } == told)
            // An answer about one line reads its batch again, and not this line of it.
            #expect(try state.event(at: kept.id, upTo: live.bench.end) != nil)
            places = ReadingPlaces(leftBy: places)
        }
    }

    @Test func `an erased person leaves the memory at the next look, and later lines do not come in`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1, user: "u-7"), LiveBench.line(2)], [LiveBench.line(3, user: "u-7")]])
        var state = live.state(exports: [.ga4])
        try live.read(&state)
        var rows = try parsed(state.events(.everything, before: nil, limit: 9, fields: []))
        #expect(rows.places.count == 3)
        let place = try #require(LineID(rows.places[0]))

        let key = [UInt8](repeating: 7, count: 32)
        var log = try ErasureLog(live.bench.data)
        try log.use(key: key)
        let digest = ErasedPeople.digest(of: Array("u-7".utf8), .user, key: key)
        try log.record(ErasureRecord(kind: .user, at: LiveBench.now), of: digest)
        try live.write([[LiveBench.line(4, user: "u-7"), LiveBench.line(5)]])
        try live.read(&state)
        rows = try parsed(state.events(.everything, before: nil, limit: 9, fields: []))
        #expect(rows["rows"]?.elements?.compactMap { $0["user"]?.string } == [])
        #expect(rows.places.count == 2)
        #expect(try state.event(at: place, upTo: live.bench.end) == nil)

        // Without a readable record, nothing is shown.
        for path in [ErasureLog.path(in: live.bench.data), ErasureLog.secondPath(in: live.bench.data)] {
            try live.bench.disk.replace(path, with: Array("nothing that was ever written".utf8))
            try? live.bench.disk.unlink(path + ".previous")
        }
        #expect(throws: FileSystemError.self) { try state.begin(upTo: live.bench.end) }
        #expect(try parsed(state.events(.everything, before: nil, limit: 9, fields: [])).places == [])
    }

    @Test func `an event is found by place and by id, with all outcomes`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1), "broken\n", LiveBench.line(2)]])
        var limits = LineRing.Limits()
        limits.rowCount = 1
        var state = live.state(exports: Destination.allCases, limits: limits)
        try live.read(&state)
        let end = live.bench.end
        let newest = try #require(state.ring.newest?.id)
        let found = try parsed(try state.event(at: newest, upTo: end))
        #expect(found["raw"]?.string == String(LiveBench.line(2).dropLast()))
        #expect(found["event"]?["name"]?.string == "tapped")
        #expect(found["stream"]?.string == "stream-1")
        #expect(found["offset"]?.count == LiveBench.line(1).utf8.count + 7)
        let outcomes = try #require(found["outcomes"]?.elements)
        #expect(outcomes.map { $0["provider"]?.string ?? "" } == Destination.allCases.map(\.rawValue))
        #expect(outcomes[0]["outcome"]?.string == "refused")
        #expect(outcomes[0]["detail"]?.string != nil)
        #expect(outcomes.filter { $0["outcome"]?.string == "exported" }.allSatisfy { $0["record"]?.string != nil })
        // One that left the ring is read from the journal; so is the broken one.
        let older = try #require(try state.event(at: LineID(batch: newest.batch, line: 1), upTo: end))
        #expect(JSONValue(older)?["raw"]?.string == String(LiveBench.line(1).dropLast()))
        let broken = try #require(try state.event(at: LineID(batch: newest.batch, line: 2), upTo: end))
        #expect(JSONValue(broken)?["quarantined"]?.string == "not-json")
        for place in [
            "0.0", "\(newest.batch).7", "\(end).0", "999999.1", "\(newest.batch.rawValue + 1).1", "\(newest.batch).0",
        ] {
            let id = try #require(LineID(place))
            #expect(try state.event(at: id, upTo: end) == nil, "\(place)")
        }
        #expect(state.event(named: "019550fc-0000-7000-8000-000000000002") != nil)
        #expect(state.event(named: "019550fc-0000-7000-8000-000000000003") == nil)
    }

    @Test func `a person has what was before the sign-in, and no one else's`() throws {
        let live = try LiveBench()
        try live.write([
            [
                LiveBench.line(1, anon: "a"), LiveBench.line(2, user: "u1", anon: "a"), LiveBench.line(3, anon: "a"),
                LiveBench.line(4, user: "u2", anon: "a"), LiveBench.line(5, anon: "a"), LiveBench.line(6, anon: "b"),
                LiveBench.line(7, user: "u1", anon: "c"), LiveBench.line(8, user: "u1", anon: "c"),
            ]
        ])
        var state = live.state()
        try live.read(&state)
        func person(_ key: String, before: LineID? = nil) throws -> (anons: [String], numbers: [Int]) {
            let json = try parsed(try state.person(key, before: before))
            let ids = try #require(json["rows"]?.elements).compactMap { $0["id"]?.string }
            return (json["anons"]?.elements?.compactMap(\.string) ?? [], ids.compactMap { Int($0.suffix(12)) })
        }
        #expect(try person("u1") == (["a", "c"], [8, 7, 2, 1]))
        #expect(try person("u2") == (["a"], [5, 4, 3]))
        #expect(try person("b") == (["b"], [6]))
        #expect(try person("a") == ([], []))
        #expect(try person("u1", before: state.ring[state.ring.start + 6].id).numbers == [2, 1])
    }

    @Test func `what a person did before the ring begins is read from the journal, when it is asked for`() throws {
        let live = try LiveBench()
        try live.write([
            [LiveBench.line(1, anon: "a")], [LiveBench.line(2, user: "u1", anon: "a"), LiveBench.line(3, anon: "b")],
            [LiveBench.line(4, user: "u2", anon: "b"), LiveBench.line(5, user: "u1", anon: "a")],
        ])
        var limits = LineRing.Limits()
        limits.rowCount = 1
        var state = live.state(limits: limits)
        try live.read(&state)
        let first = try parsed(try state.person("u1", before: nil))
        #expect(first.places.count == 1)
        let older = try parsed(try state.person("u1", before: LineID(first.places[0])))
        #expect(older["rows"]?.elements?.compactMap { $0["id"]?.string?.last } == ["2", "1"])
        #expect(older["anons"]?.elements?.compactMap(\.string) == ["a"])
        let oldest = try parsed(try state.person("u1", before: LineID(older.places[1])))
        #expect(oldest.places == [])
    }

    @Test func `names, properties and types are flagged when they come for the first time`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1, more: ",\"data\":{\"a\":1}")]])
        var state = live.state()
        try live.read(&state)
        try live.write([
            [
                LiveBench.line(2, more: ",\"data\":{\"a\":2}"), LiveBench.line(3, name: "paid"),
                LiveBench.line(4, more: ",\"data\":{\"a\":\"2\",\"b\":null}"), LiveBench.line(5, name: "paid"),
                LiveBench.line(6, more: ",\"data\":{\"a\":null,\"b\":1.5}"),
            ]
        ])
        try live.read(&state)
        let news = (state.ring.start..<state.ring.end).map { state.ring[$0].news }
        #expect(news == [[], [], ["name"], ["data.a:string", "data.b"], [], ["data.b:number"]])
        let names = try parsed(state.names.json)
        let tapped = try #require(names["names"]?.elements?.last)
        #expect(tapped["name"]?.string == "tapped" && tapped["count"]?.count == 4)
        #expect(tapped["versions"]?.elements?.compactMap(\.string) == ["1.4.0"])
        let property = try #require(tapped["properties"]?.elements?.first)
        #expect(property["path"]?.string == "data.a" && property["count"]?.count == 4)
        let types = try #require(property["types"]?.elements)
        #expect(types.compactMap { $0["type"]?.string } == ["integer", "string"])
        #expect(types.compactMap { $0["count"]?.count } == [2, 1])
        #expect(types.map { $0["versions"]?.elements?.compactMap(\.string) } == [["1.4.0"], ["1.4.0"]])
        #expect(property["conflict"]?.bool == true)
        #expect(tapped["properties"]?.elements?.last?["conflict"]?.bool == false)
    }

    @Test func `a tap flags what is new since it began, and reads what was before for that`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1, more: ",\"data\":{\"a\":1}")]])
        let start = live.bench.end
        try live.write([
            [LiveBench.line(2, more: ",\"data\":{\"a\":\"2\"}"), LiveBench.line(3, name: "paid"), LiveBench.line(4)]
        ])
        func news(from first: JournalPosition) throws -> [[String]] {
            var tap = try Tap(
                data: live.bench.data, exports: [], mask: .none, filter: .everything, isExplaining: false,
                from: first...start)
            var lines: [[UInt8]] = []
            while let next = try tap.next(upTo: live.bench.end) { lines += next }
            return try lines.map { try parsed($0)["new"]?.elements?.compactMap(\.string) ?? [] }
        }
        #expect(try news(from: start) == [["data.a:string"], ["name"], []])
        #expect(try news(from: JournalPosition(0)) == [[], ["data.a:string"], ["name"], []])
    }

    @Test func `a flood of names fills no memory`() throws {
        let live = try LiveBench()
        try live.write(
            (0..<25).map { batch in (0..<100).map { LiveBench.line(batch * 100 + $0, name: "n\(batch)-\($0)") } })
        var state = live.state()
        try live.read(&state)
        #expect(state.names.omittedCount == 500)
    }

    @Test func `a flood of one reason pushes no other out of the quarantine`() throws {
        let live = try LiveBench()
        try live.write([["{\"name\":\"x\"}\n"], (0..<3000).map { "broken \($0)\n" }])
        var state = live.state()
        try live.read(&state)
        let json = try parsed(state.status(now: LiveBench.now, problem: "the receiver sleeps"))
        #expect(json["quarantined"]?.counts == ["no-time": 1, "not-json": 3000])
        let lines = try #require(json["quarantine"]?.elements)
        #expect(lines.count == 21)
        #expect(lines[0]["line"]?.string == "broken 2999")
        #expect(lines.last?["reason"]?.string == "no-time")
        #expect(json["receiver"]?.string == "the receiver sleeps")
        #expect(
            JSONValue(state.status(now: LiveBench.now, problem: nil, quarantinedMax: 4))?["quarantine"]?.elements?.count
                == 5)
    }

    @Test func `the status counts lines, delays and sources, and takes over what the receiver says`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1), LiveBench.line(2)], [LiveBench.line(3)]])
        var state = live.state(exports: [.csv])
        try live.read(&state)
        // The rate is that of the last minute.
        let soon = WallTime(milliseconds: ProjectionBench.noon + 30_000)
        var json = try parsed(state.status(now: soon, problem: nil))
        #expect(json["delay"]?["p50"]?.count == 1000 && json["delay"]?["p99"]?.count == 2000)
        #expect(json["rate"]?.elements?.count == 60)
        #expect(json["rate"]?.elements?.compactMap(\.count).reduce(0, +) == 3)
        let source = try #require(json["sources"]?.elements?.first)
        #expect(source["lines"]?.count == 3 && source["source"]?.string == "/var/log/1.ndjson")
        #expect(json["agents"] == nil && json["unaccounted"]?.kind == .null)
        #expect(json["providers"]?.elements?.first?["exported"]?.kind == .null)
        let report = """
            {"time":1,"journal_end":77,"agents":[{"name":"a","peer":"p","since":1,"streams":1,"last_batch":null,"lines":3}],
            "projections":[{"name":"archive","lines":3,"exported":0,"held":0,"refused":{},"skipped":{},
            "quarantined":{"nul":2},"unaccounted":0,"pending":5},{"name":"ga4","lines":3,"exported":1,"held":0,
            "refused":{"ga4.too_old":2},"skipped":{"kind":1},"quarantined":{},"unaccounted":-1,"pending":7}]}
            """
        state.take(try #require(ReceiverReport(Array(report.utf8))), now: LiveBench.now)
        json = try parsed(state.status(now: LiveBench.now, problem: nil))
        #expect(json["journal_end"]?.count == 77 && json["pending"]?.count == 7)
        #expect(json["unaccounted"]?.integer == -1)
        #expect(json["agents"]?.elements?.first?["name"]?.string == "a")
        #expect(json["quarantined"]?.counts == ["nul": 2])
        let providers = try #require(json["providers"]?.elements)
        #expect(providers.map { $0["name"]?.string } == ["ga4", "csv"])
        #expect(providers[0]["refused"]?.count == 2 && providers[0]["skips"]?.counts == ["kind": 1])
        #expect(providers[0]["reasons"]?.elements?.first?["reason"]?.string == "ga4.too_old")
    }

    @Test func `the segments of a spool are one source, which says what its events were sent as`() throws {
        let live = try LiveBench()
        let folder = "/var/spool/waybill-ingest/com.example.shop-prod"
        let writer = "0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b"
        let lines = [
            [LiveBench.line(1, more: ",\"via\":\"segment\""), LiveBench.line(2, more: ",\"via\":\"native\"")],
            [LiveBench.line(3, more: ",\"via\":\"segment\""), LiveBench.line(4, more: ",\"via\":7")],
        ]
        try live.bench.write(
            lines.enumerated().map { index, lines in
                var description = ProjectionBench.description(index + 1)
                description.source = "\(folder)/\(writer)-\(index * 2 + 1).ndjson"
                description.environment = "prod"
                description.bundle = "com.example.shop"
                return (description, Array(lines.joined().utf8))
            }, perGroup: 1, at: ProjectionBench.noon)
        var state = live.state()
        try live.read(&state)
        let sources = try #require(
            try parsed(state.status(now: LiveBench.now, problem: nil))["sources"]?.elements)
        #expect(sources.count == 1)
        #expect(sources[0]["source"]?.string == folder)
        #expect(sources[0]["stream"]?.string == "stream-2")
        #expect(sources[0]["lines"]?.count == 4)
        #expect(sources[0]["via"]?.elements?.map(\.string) == ["native", "segment"])
    }

    @Test(
        arguments: [
            ("/spool/0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b-1.ndjson", "/spool"),
            ("/spool/0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b-.ndjson", nil),
            ("/spool/0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b-1.json", nil), ("/var/log/1.ndjson", nil), ("", nil),
            ("0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b-1.ndjson", nil),
        ] as [(String, String?)])
    func `only a segment's name stands for its folder`(path: String, folder: String?) {
        #expect(SourceMeters.spool(ofSegment: path) == folder)
    }

    @Test(arguments: ["", "[]", "{}", "{\"journal_end\":-1}", "{\"journal_end\":1}", "not json"])
    func `what is not a receiver's status is nothing`(text: String) {
        #expect(ReceiverReport(Array(text.utf8)) == nil)
    }

    @Test func `rates move with the seconds`() {
        var meter = RateMeter()
        for second in 0..<100 { meter.add(second, at: WallTime(milliseconds: Int64(second) * 1000 + 5)) }
        #expect(meter.rates(now: WallTime(milliseconds: 100_000)) == Array(41...99) + [0])
        #expect(meter.rates(now: WallTime(milliseconds: 130_000)).reduce(0, +) == (71...99).reduce(0, +))
        #expect(meter.rates(now: WallTime(milliseconds: 900_000)).reduce(0, +) == 0)
        // A late second still counts, one that is gone does not.
        meter.add(7, at: WallTime(milliseconds: 880_000))
        meter.add(7, at: WallTime(milliseconds: 1_000))
        #expect(meter.rates(now: WallTime(milliseconds: 900_000)).reduce(0, +) == 7)
    }

    @Test func `hostile values are text, and of bounded length`() throws {
        let live = try LiveBench()
        let long = String(repeating: "e\u{301}", count: 200_000)
        try live.write([[LiveBench.line(1, name: "<img src=x onerror=alert(1)>\\u202e", user: long)]])
        var state = live.state()
        try live.read(&state)
        let bytes = state.events(.everything, before: nil, limit: 9, fields: [["user"], ["name"]])
        #expect(bytes.count < 4000)
        let row = try #require(try parsed(bytes)["rows"]?.elements?.first)
        #expect(row["name"]?.string == "<img src=x onerror=alert(1)>\u{202e}")
        #expect(row["user"]?.string?.unicodeScalars.count == 256)
    }
}
