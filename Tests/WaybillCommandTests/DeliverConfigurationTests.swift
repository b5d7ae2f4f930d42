import Testing
import WaybillDelivery
import WaybillEvent
import WaybillExport
import WaybillHost
import WaybillSystem

@testable import WaybillCommands

/// The section `deliver` of a configuration file.
@Suite struct DeliverConfigurationTests {
    private static func problems(_ deliveries: String) -> [String] {
        ConfigurationFile(yaml: "deliver:\n  data: /data\n  deliveries:\n\(deliveries)", directory: "/etc/waybill")
            .problems.map { $0.text(in: "f") }
    }

    private static func file(_ deliver: String, _ rest: String = "") throws(ConfigurationProblems) -> DeliverFile {
        try DeliverFile(ConfigurationFile(yaml: "deliver: \(deliver)\n\(rest)", directory: "/etc/waybill"), "f")
    }

    @Test func `every key reaches the service`() throws {
        let file = try Self.file(
            """
            {data: /data, deliveries: [{provider: mixpanel, env: prod, credentials_file: m.keys, rate: 200, region: eu,
              ambiguous: resend, force: on, timeout_seconds: 7, backoff_seconds: 8, retry_seconds: 9}]}
            """)
        let entry = try #require(file.setup.entries.first)
        #expect(entry.name == "mixpanel" && entry.credentialsFile == "/etc/waybill/m.keys")
        #expect((entry.timeout, entry.retryLongest) == (.seconds(7), .seconds(9)))
        var delivery = DeliveryConfiguration(dataDirectory: "/data", provider: try DeliverableProvider(.mixpanel))
        (delivery.env, delivery.region, delivery.ambiguity) = (.prod, .eu, .resend)
        (delivery.eventsPerSecond, delivery.isForced, delivery.isFollowing) = (200, true, true)
        delivery.backoffLongest = .seconds(8)
        #expect(entry.delivery == delivery)
        #expect(file.deliver.status.metrics == nil && file.deliver.status.socket == nil)
    }

    @Test func `in a fleet the merger has a name`() throws {
        let store = "store: {url: 's3://example-events/w'}\n"
        #expect(try Self.file("{data: /data}", store + "merger: {data: /data, name: m1}").merger == "m1")
        #expect(throws: ConfigurationProblems.self) { try Self.file("{data: /data}", store) }
        #expect(throws: ConfigurationProblems.self) {
            try DeliverFile(ConfigurationFile(yaml: "receiver: {data: /data}", directory: "."), "f")
        }
    }

    @Test func `a reload says which keys changed`() throws {
        let old = try Self.file("{data: /data, deliveries: [{provider: ga4}, {provider: segment, name: b}]}")
        let new = try Self.file("{data: /x, deliveries: [{provider: ga4, rate: 5}, {provider: posthog, name: c}]}")
        #expect(
            ConfigurationTable.changes(from: old, old, to: new).map(\.description) == [
                "deliver.data: /data -> /x", "deliver.deliveries.ga4.rate: the provider's documented limit -> 5",
                "deliver.deliveries.c: absent -> present", "deliver.deliveries.b: present -> absent",
            ])
        #expect(ConfigurationTable.changes(from: old, old, to: new).map(\.needsRestart) == [true, false, false, false])
        #expect(ConfigurationTable.changes(from: old, old, to: old) == [])
    }

    @Test func `the bucket of a fleet needs a restart when it changes`() throws {
        for section in ["receiver", "merger"] {
            func file(_ name: String, _ endpoint: String) throws -> DeliverFile {
                try Self.file(
                    "{data: /data}",
                    "store: {url: 's3://example-events/w'\(endpoint)}\n\(section): {data: /data, name: \(name)}")
            }
            let changes = ConfigurationTable.changes(
                from: try file("m1", ""), try file("m1", ""),
                to: try file("m2", ", endpoint: 'https://storage.example.com'"))
            #expect(changes.map(\.key) == ["store.endpoint", "\(section).name"] && changes.allSatisfy(\.needsRestart))
        }
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
