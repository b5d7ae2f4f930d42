import Testing
import WaybillExport
import WaybillServerTestSupport

/// Values that a provider's server would take apart, cut or refuse, at their edges.
@Suite struct VendorEdgeTests {
    private static let session = "019550fb-32b4-7000-8000-000000000001"

    @Test(arguments: [
        (Self.session, true), ("019550fb-32b4-4000-8000-000000000001", true), ("s-1", false),
        ("019550fb-32b4-7000-8000-00000000000g", false), ("019550fb-32b4-7xyz------------------", false),
    ])
    func `Snowplow gets a session that is a UUID, and no other`(session: String, isSent: Bool) {
        let sink = export([event(members: ",\"session\":\"\(session)\"")], ExportOptions(provider: .snowplow))
        #expect(sink.output.contains("\"sid\":\"\(session)\"") == isSent && sink.output.contains("\"sid\"") == isSent)
        #expect(sink.records.map { $0.fixes[.dropField] } == [isSent ? 0 : 1])
    }

    @Test(arguments: [
        (Self.session, 1_740_820_394_676), ("019550fb-32b4-7xyz------------------", -1),
        ("019550fb-32b4-7000-8000-00000000000g", -1), ("019550fb-32b4-4000-8000-000000000001", -1),
    ])
    func `only a whole UUID says when a session began`(session: String, start: Int) {
        let sink = export(
            [event(user: "u-88123", members: ",\"session\":\"\(session)\"")], ExportOptions(provider: .amplitude))
        #expect(sink.output.contains("\"session_id\":\(start),"))
    }

    @Test(arguments: [(MixpanelOptions.IdentityMerge.simplified, 247), (.original, 255)])
    func `Mixpanel gets a whole device id or none`(merge: MixpanelOptions.IdentityMerge, limit: Int) {
        var options = ExportOptions(provider: .mixpanel)
        options.mixpanel.identityMerge = merge
        for (count, isSent) in [(limit, true), (limit + 1, false)] {
            let device = String(repeating: "d", count: count)
            let line = event().replacing("b5372db0-c21e-41e4-8dfc-aa07a5b093db", with: device)
            let sink = export([line], options)
            #expect(sink.output.contains("\"$device_id\":\"\(device)\"") == isSent)
            #expect(sink.output.contains("$device_id") == isSent)
            #expect(sink.records.map(\.fixes.total) == [isSent ? 0 : 1])
            let alone = event(user: nil).replacing("b5372db0-c21e-41e4-8dfc-aa07a5b093db", with: device)
            #expect(export([alone], options).refusals.map(\.reason) == (isSent ? [] : [.mixpanelBadID]))
        }
    }

    @Test(arguments: [("2147483647", true), ("2147483648", false), ("99999999999999999999", false)])
    func `Amplitude gets no quantity beyond 32 bits`(quantity: String, isSent: Bool) throws {
        let data = "{\"price\":2,\"quantity\":\(quantity),\"currency\":\"EUR\"}"
        let line = event(name: "purchase", user: "u-88123", members: ",\"data\":\(data)")
        let record = try #require(export([line], ExportOptions(provider: .amplitude)).records.first)
        #expect(record.text.contains("\"price\":2,\"quantity\":\(quantity),\"revenueType\"") == isSent)
        #expect(record.text.contains("\"event_properties\":\(data)") && record.text.contains("revenueType") == isSent)
        #expect(record.fixes.total == (isSent ? 0 : 1))
    }

    @Test func `Snowplow gets at most 40 levels in each of its texts`() throws {
        for (kind, member, levels) in [("action", "data", 37), ("user", "traits", 37), ("screen", "data", 36)] {
            for (depth, isNested) in [(levels, true), (levels + 1, false)] {
                let value = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)
                let line = event(kind: kind, members: ",\"screen\":\"S\",\"\(member)\":{\"v\":\(value)}")
                let record = try #require(export([line], ExportOptions(provider: .snowplow)).records.first)
                #expect(record.text.contains("\\\"v\\\":\(value)") == isNested, "\(kind) \(depth)")
                #expect(record.fixes[.coerce] == (isNested ? 0 : 1))
            }
        }
    }

    @Test func `Snowplow's own schemas are not an app's`() {
        for name in ["user_traits", "screen_data"] {
            let output = export([event(name: name)], ExportOptions(provider: .snowplow)).output
            #expect(output.contains("iglu:com.example.shop/x_\(name)/jsonschema/1-0-0"))
        }
        for (vendor, written) in [
            ("com.snowplowanalytics.mobile", "x_com.snowplowanalytics.mobile"), ("com.snowplow", "com.snowplow"),
        ] {
            let line = event().replacing("com.example.shop", with: vendor)
            #expect(export([line], ExportOptions(provider: .snowplow)).output.contains("iglu:\(written)/tap/"))
        }
    }

    @Test func `PostHog removes what has a name and is not set`() throws {
        let traits = #"{"a":1,"$b":2,"c":null,"":null,"x_$b":null,"$d":null,"x_$d":null}"#
        let line = event(kind: "user", members: ",\"traits\":\(traits)")
        let record = try #require(export([line], ExportOptions(provider: .posthog)).records.first)
        #expect(record.text.contains(#""$set":{"a":1,"x_$b":2},"$unset":["c","x_","x_$d"]"#))
        #expect(record.fixes[.collide] == 2 && record.fixes[.rename] == 3)
    }
}
