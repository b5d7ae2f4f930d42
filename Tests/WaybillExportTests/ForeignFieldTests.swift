import Testing
import WaybillEvent
import WaybillExport
import WaybillServerTestSupport

/// Which members of a foreign line are used, and which are fields.
@Suite struct ForeignFieldTests {
    private static let start = "{\"time\":\"2025-03-01T09:14:19Z\",\"event\":\"GET\""

    /// The properties that a line becomes for a provider that keeps JSON as it is.
    private func properties(_ members: String) throws -> String {
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, stream: LineStream(principal: "web", id: "a"))
        let line = "\(Self.start),\"anon\":\"b5372db0\"\(members)}"
        let record = try #require(export([line], ExportOptions(provider: .segment), source: source).records.first)
        let start = try #require(record.text.firstRange(of: "\"properties\":")).upperBound
        let end = try #require(record.text.firstRange(of: ",\"messageId\"")).lowerBound
        return String(record.text[start..<end])
    }

    @Test(arguments: [
        (#","data":{"a":1},"b":2"#, #"{"a":1,"b":2}"#), (#","b":2,"data":{"a":1}"#, #"{"a":1,"b":2}"#),
        (#","b":2,"data":{}"#, #"{"b":2}"#), (#","data":"text","b":2"#, #"{"data":"text","b":2}"#),
        (#","data":[1]"#, #"{"data":[1]}"#), (#","data":null,"b":2"#, #"{"b":2}"#),
        (#","log":"GET / 200""#, #"{"log":"GET / 200"}"#), (#","log":"1.2""#, "{}"),
        (#","log":"12""#, #"{"log":"12"}"#),
        (#","log":"1.2.3""#, #"{"log":"1.2.3"}"#), (#","log":".2""#, #"{"log":".2"}"#),
        (#","kind":"user","a":1"#, #"{"kind":"user","a":1}"#),
        (#","kind":"user","traits":[]"#, #"{"kind":"user","traits":[]}"#),
        (#","kind":"Deployment""#, #"{"kind":"Deployment"}"#), (#","kind":"action""#, "{}"),
        (#","traits":{"a":1}"#, #"{"traits":{"a":1}}"#),
        (#","screen":5,"session":1,"build":7"#, #"{"screen":5,"session":1,"build":7}"#),
        (#","tz":"+09:00","seq":"a","dt":1.5,"v":30"#, #"{"tz":"+09:00","seq":"a","dt":1.5,"v":30}"#),
        (#","tz":540,"seq":1,"dt":15,"v":1,"os":"linux""#, "{}"),
        (
            #","ids":[1],"providers":"all","overrides":1,"consent":true"#,
            #"{"ids":[1],"providers":"all","overrides":1,"consent":true}"#
        ),
        (#","env":"staging","bundle":"x","ts":5,"name":7"#, #"{"env":"staging","bundle":"x","ts":5,"name":7}"#),
        (#","screen":null,"user":null"#, "{}"), (#","user":{"id":1}"#, #"{"user":{"id":1}}"#),
        (#","user":true"#, #"{"user":true}"#),
    ])
    func `a member that is not what its name means is a field`(members: String, expected: String) throws {
        // The line's own time is `time` unless `ts` is there, which comes first.
        let line = members.replacing("\"ts\":5", with: "\"timestamp\":5")
        #expect(try self.properties(line) == expected.replacing("\"ts\":5", with: "\"timestamp\":5"))
    }

    @Test func `a line of Docker's keeps its text, and its version of the log is not claimed`() throws {
        let line = #"{"log":"GET / 200\n","stream":"stdout","time":"2025-03-01T09:14:19.003Z"}"#
        let csv = export([line], ExportOptions(provider: .csv), source: foreignSource)
        #expect(csv.output == "2025-03-01 09:14:19,,,,log,,log=GET / 200\\n;stream=stdout\r\n")
    }

    @Test func `a field of two names counts once, the one in data`() throws {
        let line = "\(Self.start),\"a\":1,\"data\":{\"a\":2,\"b\":3}}"
        let csv = export([line], ExportOptions(provider: .csv), source: foreignSource)
        #expect(csv.output.hasSuffix(",a=2;b=3\r\n") && csv.records.map { $0.fixes[.collide] } == [1])
        var options = ExportOptions(provider: .custom("warehouse"))
        var column = CustomOptions.Column(name: "all", from: "data")
        column.type = .json
        options.custom = CustomOptions(format: .ndjson, columns: [column])
        let escaped = line.replacing("\"a\":1", with: "\"\\u0061\":1")
        for line in [line, escaped] {
            let sink = export([line], options, source: foreignSource)
            #expect(sink.output == "{\"all\":{\"a\":2,\"b\":3}}\n" && sink.records.map(\.fixes.total) == [1])
        }
    }

    @Test(arguments: [Destination.amplitude, .segment, .posthog, .snowplow])
    func `a dash is no one, in the usual members too, and is no field`(provider: Destination) throws {
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, stream: LineStream(principal: "web", id: "a"))
        let line = "\(Self.start),\"user\":\"-\",\"anon\":\"b5372db0\"}"
        let record = try #require(export([line], ExportOptions(provider: provider), source: source).records.first)
        #expect(!record.text.contains("\"-\"") && record.text.contains("b5372db0"))
        let dashes = "\(Self.start),\"user\":\"-\",\"anon\":\"-\"}"
        let sink = export([dashes], ExportOptions(provider: provider), source: source)
        #expect(sink.refusals.count == (provider == .snowplow ? 0 : 1))
        #expect(!sink.output.contains("\"-\"") && !sink.output.contains("\"uid\"") && !sink.output.contains("\"duid\""))
    }

    @Test func `a named member that can be no person is a field`() throws {
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, userMember: "login", anonymousMember: "cookie")
        let line = "\(Self.start),\"login\":{\"a\":1},\"cookie\":\"-\"}"
        let csv = export([line], ExportOptions(provider: .csv), source: source)
        #expect(csv.output.hasSuffix(",\"login={\"\"a\"\":1}\"\r\n"))
    }

    @Test func `an event of a foreign line is a user's only with traits`() {
        let line = "\(Self.start),\"anon\":\"b5372db0\",\"kind\":\"user\",\"traits\":{\"a\":1}}"
        let source = SourceDescription(
            env: .prod, bundle: "b", isForeign: true, stream: LineStream(principal: "web", id: "a"))
        #expect(
            export([line], ExportOptions(provider: .segment), source: source).output.contains(
                "{\"type\":\"identify\",\"traits\":{\"a\":1}"))
    }
}
