import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport

/// Which events an operator takes, and what becomes of their names and fields.
@Suite struct OperatorMappingTests {
    private func options(
        _ provider: Destination = .csv, _ change: (inout OperatorMapping.Rules) -> Void
    ) -> ExportOptions {
        var rules = OperatorMapping.Rules(version: 7)
        change(&rules)
        var options = ExportOptions(provider: provider)
        options.mapping = OperatorMapping(rules)
        return options
    }

    private func rule(_ change: (inout OperatorMapping.FieldRule) -> Void) -> OperatorMapping.FieldRule {
        var rule = OperatorMapping.FieldRule()
        change(&rule)
        return rule
    }

    /// Name and fields of a Mixpanel event, which keeps both as they are.
    private func mapped(_ line: String, _ options: ExportOptions, source: SourceDescription = ownSource) -> String {
        let text = export([line], options, source: source).output
        let event = text.firstRange(of: "{\"event\":").map { text[$0.upperBound...].prefix { $0 != "," } } ?? ""
        let fields = text.firstRange(of: "\"ip\":\"0\"").map { text[$0.upperBound...].dropLast(3) } ?? ""
        return String(event + fields)
    }

    // MARK: Selection

    @Test(arguments: [
        (["tap"], [], true), (["ta*"], [], true), (["*"], [], true), (["tapped"], [], false), (["tapped*"], [], false),
        ([], ["tap"], false), ([], ["t*"], false), (["t*"], ["tap"], false), (["other", "tap"], ["x*"], true),
    ])
    func `an event is taken when the lists say so`(take: [String], leave: [String], isTaken: Bool) {
        let options = self.options {
            $0.take.names = take
            $0.leave.names = leave
        }
        let sink = export([event()], options)
        #expect(sink.eventCount == (isTaken ? 1 : 0))
        #expect(sink.skipped == (isTaken ? [] : [.mapping]))
    }

    @Test func `every list of take must have the event, and one of leave is enough`() {
        let lines = [
            event(name: "a", id: 1), event(name: "b", id: 2), event(name: "a", id: 3, kind: "event"),
            event(name: "a", id: 4).replacing("com.example.shop", with: "org.other"),
            event(name: "a", id: 5).replacing("\"env\":\"prod\"", with: "\"env\":\"dev\""),
        ]
        let took = export(
            lines,
            self.options {
                $0.take.names = ["a"]
                $0.take.kinds = [.action]
                $0.take.apps = ["com.example.*"]
                $0.take.environments = [.prod]
            })
        #expect(took.records.map { $0.ids.suffix(1) } == ["1"])
        let left = export(
            lines,
            self.options {
                $0.leave.names = ["b"]
                $0.leave.kinds = [.event]
                $0.leave.apps = ["org.other"]
                $0.leave.environments = [.dev]
            })
        #expect(left.records.map { $0.ids.suffix(1) } == ["1"])
        #expect(left.skipped == [.mapping, .mapping, .mapping, .mapping])
    }

    @Test func `the environments of an export are its own matter, told apart from the mapping's`() {
        var options = ExportOptions(provider: .csv)
        options.environments = EnvironmentSet([.prod, .internal])
        let dev = event(id: 2).replacing("\"env\":\"prod\"", with: "\"env\":\"dev\"")
        let sink = export([event(), dev], options)
        #expect(sink.eventCount == 1 && sink.skipped == [.environment])
    }

    @Test func `an override comes first, and its name is the one that rules are about`() {
        let options = self.options(.mixpanel) {
            $0.take.names = ["other"]
            $0.renames = [.init(from: "other", to: "third"), .init(from: "tap", to: "wrong")]
        }
        let line = event(members: #","overrides":{"mixpanel":{"name":"other","data":{"a":1}}}"#)
        #expect(self.mapped(line, options) == #""third","a":1"#)
        #expect(export([event()], options).skipped == [.mapping])
    }

    // MARK: Names

    @Test func `an event gets the name of its rule, whatever it was written like`() {
        let options = self.options(.mixpanel) {
            $0.renames = [.init(from: "tap", to: "A \"quoted\" 탭"), .init(from: "가\n나", to: "b")]
        }
        #expect(self.mapped(event(), options) == #""A \"quoted\" 탭""#)
        #expect(self.mapped(event(name: #"\u0074ap"#), options) == #""A \"quoted\" 탭""#)
        #expect(self.mapped(event(name: #"\uac00\n나"#), options) == #""b""#)
        #expect(self.mapped(event(name: "tapp"), options) == #""tapp""#)
    }

    @Test func `a screen with another name is an event`() {
        let screen = event(name: "screen_view", kind: "screen", members: #","screen":"Home""#)
        let options = self.options(.ga4) { $0.renames = [.init(from: "screen_view", to: "page")] }
        let output = export([screen], options).output
        #expect(output.contains(#""name":"page""#) && !output.contains("screen_name"))
    }

    // MARK: Fields

    @Test func `fields are dropped, renamed and set, in the order they had`() {
        let options = self.options(.mixpanel) {
            $0.fields = [
                self.rule {
                    $0.drops = ["note", "tmp_*"]
                    $0.renames = [.init(from: "a", to: "x \"y\"")]
                    $0.constants = [
                        .init(name: "channel", json: "\"app\""), .init(name: "n", json: "1.50"),
                    ]
                }
            ]
        }
        let data = #"{"b":"q\"\n","note":1,"\u0061":{"deep":[1, 2]},"tmp_1":0,"channel":"web","c":false}"#
        let expected = #""tap","channel":"app","n":1.50,"b":"q\"\n","x \"y\"":{"deep":[1,2]},"c":false"#
        #expect(self.mapped(event(members: ",\"data\":\(data)"), options) == expected)
        #expect(self.mapped(event(), options) == #""tap","channel":"app","n":1.50"#)
    }

    @Test func `the first rule that says something of a field decides, and a constant beats the app's field`() {
        let options = self.options(.mixpanel) {
            $0.fields = [
                self.rule {
                    $0.names = ["tap"]
                    $0.renames = [.init(from: "a", to: "kept")]
                    $0.constants = [.init(name: "c", json: "1")]
                },
                self.rule {
                    $0.names = ["t*"]
                    $0.drops = ["a", "b"]
                    $0.renames = [.init(from: "d", to: "c")]
                    $0.constants = [.init(name: "c", json: "2"), .init(name: "e", json: "true")]
                },
                self.rule {
                    $0.names = ["other"]
                    $0.drops = ["*"]
                },
            ]
        }
        let line = event(members: #","data":{"a":1,"b":2,"c":3,"d":4,"f":5}"#)
        #expect(self.mapped(line, options) == #""tap","c":1,"e":true,"kept":1,"f":5"#)
    }

    @Test func `fields of a foreign line that stand beside its time and name are its fields`() {
        let options = self.options(.mixpanel) {
            $0.fields = [
                self.rule {
                    $0.drops = ["secret"]
                    $0.renames = [.init(from: "status", to: "code")]
                }
            ]
        }
        let line = #"{"id":"x-1","time":1740820455,"name":"GET","anon":"device-1","status":200,"secret":"s"}"#
        #expect(self.mapped(line, options, source: foreignSource) == #""GET","code":200"#)
    }

    @Test func `a rename onto a field that is there counts as two of one name`() {
        let options = self.options(.mixpanel) {
            $0.fields = [self.rule { $0.renames = [.init(from: "b", to: "a")] }]
        }
        let record = export([event(members: #","data":{"a":1,"b":2}"#)], options).records.first
        #expect(record?.fixes[.collide] == 1 && record?.text.contains(#""a":1"#) == true)
    }

    @Test func `the line of a dead letter is the one that came, and says the version of the mapping`() throws {
        let options = self.options(.mixpanel) {
            $0.renames = [.init(from: "tap", to: "x")]
            $0.fields = [self.rule { $0.drops = ["a"] }]
        }
        let line = event(members: #","data":{"a":1}"#).replacing("019550fc-2dfb-7b1c-82d3-000000000001", with: "?")
        let refusal = try #require(export([line], options).refusals.first)
        #expect(refusal.line.contains("\"mapping\":7,\"event\":\(line)}"))
    }

    @Test(arguments: Destination.allCases)
    func `a mapping that says nothing changes nothing`(provider: Destination) throws {
        for file in ["golden-events.ndjson", "odd-events.ndjson"] {
            let events = lines(try vector(file))
            let plain = export(events, ExportOptions(provider: provider))
            #expect(export(events, self.options(provider) { _ in }).output == plain.output)
            let pattern = self.options(provider) { $0.fields = [self.rule { $0.drops = ["no such field"] }] }
            let patched = export(events, pattern)
            #expect(patched.output == plain.output)
            #expect(patched.records.map(\.fixes) == plain.records.map(\.fixes))
        }
    }

    // MARK: Versions

    @Test func `the fingerprint is that of the content, not of the version or of the order of lists`() {
        func fingerprint(_ change: (inout OperatorMapping.Rules) -> Void) -> String {
            self.options(.csv, change).mapping?.fingerprint ?? ""
        }
        let base = fingerprint { $0.take.names = ["a", "b c"] }
        // Kept in checkpoints: a later version must find it again.
        #expect(base == "4acc6ce5efb3f78f")
        #expect(base == fingerprint { ($0.version, $0.take.names) = (8, ["b c", "a"]) })
        let others = [
            fingerprint { $0.take.names = ["a", "b", "c"] }, fingerprint { $0.leave.names = ["a", "b c"] },
            fingerprint { $0.renames = [.init(from: "a", to: "b c")] }, fingerprint { _ in },
            fingerprint { $0.fields = [self.rule { $0.names = ["a", "b c"] }] },
            fingerprint { $0.fields = [self.rule { $0.drops = ["a", "b c"] }] },
            fingerprint { $0.fields = [self.rule { $0.constants = [.init(name: "a", json: "b c")] }] },
        ]
        #expect(Set(others + [base]).count == others.count + 1)
    }

    @Test func `other options have another fingerprint, and the same ones the same`() {
        var options = self.options(.csv) { $0.take.kinds = [.screen] }
        let before = options.fingerprint
        #expect(before == self.options(.csv) { $0.take.kinds = [.screen] }.fingerprint)
        options.csv.hasMilliseconds = true
        #expect(options.fingerprint != before)
        options = self.options(.csv) { $0.take.kinds = [.screen] }
        options.environments = EnvironmentSet([.prod])
        #expect(options.fingerprint != before)
    }
}
