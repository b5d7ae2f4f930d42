import Testing
import WaybillHost
import WaybillIngest
import WaybillSystem

@testable import WaybillCommands

/// The section `ingest`, and what a reload makes of it.
@Suite struct IngestConfigurationTests {
    private static func door(_ yaml: String) throws -> DoorConfiguration {
        let file = ConfigurationFile(yaml: "ingest:\n" + yaml, directory: "/etc/waybill")
        try #require(file.problems.isEmpty, "\(file.problems)")
        return try #require(file.ingest)
    }

    private static let old = """
          spool: /spool
          quarantine: /quarantine
          tls: {certificate: a.pem, key: a.key}
          keys:
            - {key: wk_a0000001, bundle: com.example.a}
            - {key: wk_b0000001, bundle: com.example.b, origins: [https://a.example.com]}
        """
    /// Each key has another value.
    private static let new = """
          listen: 127.0.0.1:1
          spool: /other
          group: adm
          quarantine: /elsewhere
          quarantine_days: 16
          metrics: 127.0.0.1:2
          status_socket: /run/x.sock
          status_token_file: token
          tls: {certificate: b.pem, key: b.key}
          trusted_proxies: [10.0.0.0/8]
          connections: 7
          address_connections: 6
          body_kib: 64
          memory_mib: 17
          address_mib: 3
          body_kib_second: 9
          repeat_minutes: 11
          repeat_mib: 12
          reserve_mib: 13
          idle_seconds: 14
          request_seconds: 15
          keys:
            - {key: wk_b0000001, bundle: com.example.b, env: dev, origins: [https://b.example.com], dialects: [native],
               events_second: 5, address_events_second: 4, addresses: keep, quarantine_mib: 1}
            - {key: wk_c0000001, bundle: com.example.c}
        """

    /// The keys that have values in ``new``.
    private static var changed: [ConfigurationKey<DoorConfiguration>] {
        ConfigurationTable.ingest.filter { $0.facts.name != "keys" && $0.facts.section != "line" }
    }

    @Test func `where tunnels lead needs a restart`() throws {
        let started = try Self.door(Self.old)
        var new = started
        new.line.receiver = ListeningPlace("127.0.0.1:4396")
        new.line.connectionCountMax = 3
        let changes = ConfigurationTable.changes(from: started, started, to: new)
        #expect(changes.map(\.key) == ["ingest.line.receiver", "ingest.line.connections"])
        #expect(changes.allSatisfy { $0.needsRestart })
        #expect(started.taking(new).line.receiver == nil)
    }

    @Test func `a reload takes each key that applies at a reload, and no other`() throws {
        let (started, new) = (try Self.door(Self.old), try Self.door(Self.new))
        let taken = started.taking(new)
        for key in Self.changed {
            #expect(key.show(started) != key.show(new), "\(key.facts.key) is not changed by this test")
            let expected = key.facts.applies == .reload ? new : started
            #expect(key.show(taken) == key.show(expected), "\(key.facts.key)")
        }
        #expect(taken.keys == new.keys)
        #expect(taken.trustedProxies == new.trustedProxies)
    }

    @Test func `a reload names each change, and what needs a restart`() throws {
        let (started, new) = (try Self.door(Self.old), try Self.door(Self.new))
        let changes = ConfigurationTable.changes(from: started, started, to: new)
        let waiting = Self.changed.filter { $0.facts.applies == .restart }.map { "ingest.\($0.facts.key)" }
        #expect(Set(changes.filter(\.needsRestart).map(\.key)) == Set(waiting))
        let found = Set(changes.map(\.description))
        for expected in [
            "ingest.keys[wk_a0000001]: present -> absent", "ingest.keys[wk_c0000001]: absent -> present",
            "ingest.keys[wk_b0000001].env: prod -> dev", "ingest.keys[wk_b0000001].events_second: 5000 -> 5",
            "ingest.keys[wk_b0000001].quarantine_mib: 32 -> 1", "ingest.address_mib: 16 -> 3",
            "ingest.quarantine_days: 30 -> 16",
        ] {
            #expect(found.contains(expected), "\(expected)")
        }
        // Each key of an entry but for its name and app.
        #expect(
            found.filter { $0.hasPrefix("ingest.keys[wk_b0000001].") }.count == ConfigurationTable.ingestKey.count - 2)
        #expect(ConfigurationTable.changes(from: started, new, to: new).allSatisfy { $0.needsRestart })
    }

    @Test func `turning TLS on or off needs a restart`() throws {
        let (with, without) = (
            try Self.door(Self.old),
            try Self.door(Self.old.replacing("tls: {certificate: a.pem, key: a.key}", with: ""))
        )
        for (started, new) in [(with, without), (without, with)] {
            let changes = ConfigurationTable.changes(from: started, started, to: new)
            #expect(changes.map(\.key).sorted() == ["ingest.tls.certificate", "ingest.tls.key"])
            #expect(changes.allSatisfy { $0.needsRestart })
            #expect(started.taking(new).certificate == started.certificate)
        }
    }

    @Test(arguments: [
        ("body_kib: 4096\n  address_mib: 3", "ingest.address_mib"),
        ("trusted_proxies: [here]", "ingest.trusted_proxies"),
        ("tls: {certificate: a.pem}", "ingest.tls"), ("keys: [{key: short, bundle: b}]", "ingest.keys[0].key"),
        ("keys: [{key: wk_a0000001, bundle: b, origins: [shop]}]", "ingest.keys[0].origins"),
        ("keys: [{key: wk_a0000001, bundle: b, origins: ['https://Shop.example.com']}]", "ingest.keys[0].origins"),
        ("keys: [{key: wk_a0000001, bundle: b, origins: ['https://*.example.com:443']}]", "ingest.keys[0].origins"),
        ("keys: [{key: wk_a0000001, bundle: b, origins: ['http://shop.example.com:80']}]", "ingest.keys[0].origins"),
    ])
    func `what cannot be is a problem with its key`(yaml: String, key: String) {
        let file = ConfigurationFile(
            yaml: "ingest:\n  spool: /s\n  quarantine: /q\n  \(yaml)\n", directory: "/etc/waybill")
        #expect(file.problems.map(\.key) == [key])
    }

    @Test func `the package's file writes where its services look`() {
        let text = ServiceFile.ingest.text
        #expect(text.contains("\n  spool: /var/spool/waybill-ingest\n"))
        #expect(text.contains("\n  group: waybill-spool\n"))
        #expect(ServiceFile.agent.text.contains("\n    - spool: /var/spool/waybill/*\n"))
    }
}
