import Testing
import WaybillExport

@testable import WaybillCommands

/// The section `deliver` of a configuration file.
@Suite struct DeliverConfigurationTests {
    private static func problems(_ deliveries: String) -> [String] {
        ConfigurationFile(yaml: "deliver:\n  data: /data\n  deliveries:\n\(deliveries)", directory: "/etc/waybill")
            .problems.map { $0.text(in: "f") }
    }

    @Test func `the program with the HTTP client gets every key as a text`() throws {
        let yaml = """
            deliver:
              data: /data
              deliveries:
                - {provider: mixpanel, env: prod, credentials_file: m.keys, rate: 200}
            """
        let deliver = try #require(ConfigurationFile(yaml: yaml, directory: "/etc/waybill").deliver)
        #expect(
            String(decoding: deliver.json(store: nil, merger: ""), as: UTF8.self)
                == #"{"data":"/data","metrics":"none","status_socket":"none","status_token_file":"none","deliveries":["#
                + #"{"provider":"mixpanel","name":"mixpanel","env":"prod","#
                + #""credentials_file":"/etc/waybill/m.keys","region":"none","endpoint":"none","ambiguous":"skip","#
                + #""rate":"200","timeout_seconds":"30","backoff_seconds":"60","retry_seconds":"600","force":"off"}],"#
                + #""written":{}}"#)
    }

    @Test func `in a fleet it gets the bucket and the merger's name, too`() throws {
        let yaml = """
            store: {url: 's3://example-events/w', region: eu-central-1, ca: store.pem}
            deliver: {data: /data}
            """
        let file = ConfigurationFile(yaml: yaml, directory: "/etc/waybill")
        let deliver = try #require(file.deliver)
        #expect(
            String(decoding: deliver.json(store: file.store, merger: "m1"), as: UTF8.self).hasPrefix(
                #"{"store":{"url":"s3://example-events/w","endpoint":"none","region":"eu-central-1","addressing":"auto","#
                    + #""checksum":"auto","ca":"/etc/waybill/store.pem","merger":"m1"},"data":"/data","#))
    }

    @Test func `what cannot work is named with its line`() {
        let twice = Self.problems("    - {provider: ga4}\n    - {provider: ga4, name: b}")
        let text = "appears twice: each export is sent by one delivery; remove one"
        #expect(twice == ["f: line 5: deliver.deliveries[1].provider: \(text)"])
        #expect(Self.problems("    - {provider: snowplow}").count == 1)
        #expect(Self.problems("    - {provider: csv}").count == 1)
        #expect(Self.problems("    - {provider: ga4, endpoint: 'http://collector.example.com'}").count == 1)
        #expect(Self.problems("    - {provider: ga4, api_secret: x}").count == 1)
        #expect(Self.problems("    - {provider: ga4, name: 'A b'}").count == 1)
        #expect(Self.problems("    - {provider: ga4}\n    - {provider: segment}") == [])
    }
}
