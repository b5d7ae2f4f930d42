import Testing
import WaybillExport
import WaybillServerTestSupport
import WaybillTestSupport

/// What is known of a server's visitor reaches the fields that each provider's reports read.
@Suite struct VisitorExportTests {
    private static let agent =
        "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Mobile Safari/537.36"

    /// The golden visitor's line, as a provider gets it.
    private func output(_ options: ExportOptions) throws -> String {
        let sink = export(try vectorLines("visitor.ndjson").map { String($0.dropLast()) }, options)
        #expect(sink.refusals.isEmpty)
        return sink.output
    }

    private func output(_ provider: Destination) throws -> String {
        try self.output(ExportOptions(provider: provider))
    }

    @Test func `Mixpanel has the system and the country`() throws {
        #expect(
            try self.output(.mixpanel).contains(
                #""$os":"Android","$os_version":"15","$app_version_string":"1.4.2","$app_build_number":"118","#
                    + #""$model":"Pixel 8","mp_country_code":"KR","#))
    }

    @Test func `Amplitude has the system, the language and the country`() throws {
        #expect(
            try self.output(.amplitude).contains(
                #""platform":"Android","os_name":"android","os_version":"15","device_model":"Pixel 8","#
                    + #""language":"ko-KR","country":"KR","#))
    }

    @Test func `Segment has the user agent and the country in its context`() throws {
        #expect(
            try self.output(.segment).contains(
                #""locale":"ko-KR","userAgent":"\#(Self.agent)","location":{"country":"KR"},"library":"#))
    }

    @Test func `PostHog has the user agent and the country, and looks up no address`() throws {
        #expect(
            try self.output(.posthog).contains(
                #""$raw_user_agent":"\#(Self.agent)","$geoip_country_code":"KR","$geoip_disable":true,"#))
    }

    @Test func `Snowplow has the user agent and the language`() throws {
        #expect(try self.output(.snowplow).contains(#""lang":"ko-KR","ua":"\#(Self.agent)","ue_pr":"#))
    }

    @Test func `GA4 has device and country where the operator wants them`() throws {
        let line = event(
            members: #","ids":{"ga4":"0a1b2c3d4e5f60718293a4b5c6d7e8f9"},"os":"Android","lang":"ko-KR","country":"KR""#)
        var options = ExportOptions(provider: .ga4)
        #expect(!export([line], options).output.contains("user_location"))
        options.ga4.includesDevice = true
        #expect(
            export([line], options).output.contains(
                #""device":{"language":"ko-KR","operating_system":"Android"},"user_location":{"country_id":"KR"},"#))
    }

    @Test func `a custom export has columns for both`() throws {
        var options = ExportOptions(provider: .custom("visits"))
        options.custom = CustomOptions(
            format: .ndjson,
            columns: [.init(name: "country", from: "country"), .init(name: "agent", from: "user_agent")])
        #expect(try self.output(options) == "{\"country\":\"KR\",\"agent\":\"\(Self.agent)\"}\n")
    }

    @Test(arguments: [Destination.mixpanel, .amplitude, .segment, .posthog, .snowplow])
    func `an app's event has neither`(provider: Destination) {
        let output = export([event(members: #","anon":"b5372db0","os":"iOS""#)], ExportOptions(provider: provider))
            .output
        #expect(!output.contains("ountry") && !output.contains("gent"))
    }

    @Test(arguments: [Destination.mixpanel, .amplitude, .segment, .posthog])
    func `a foreign line's members of these names are fields`(provider: Destination) {
        let line =
            #"{"time":"2025-03-01T09:14:15.926Z","id":"019550fc-2dfb-7b1c-82d3-000000000001","user":"u-12345","#
            + #""country":"Korea","user_agent":"curl"}"#
        let output = export([line], ExportOptions(provider: provider), source: foreignSource).output
        #expect(output.contains(#""country":"Korea","user_agent":"curl""#))
        #expect(!output.contains("mp_country_code") && !output.contains("$raw_user_agent"))
        #expect(!output.contains("\"location\"") && !output.contains("\"userAgent\""))
    }
}
