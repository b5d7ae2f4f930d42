import WaybillDoor
import WaybillEvent
import WaybillIngest
import WaybillMetrics
import WaybillSystem
import WaybillTLS

/// The section `ingest` of a configuration file: what `waybill ingest --config FILE` runs.
///
///     ingest:
///       listen: 0.0.0.0:4380
///       spool: /var/spool/waybill-ingest
///       keys:
///         - {key: wk_4f0c…, bundle: com.example.shop, env: prod, origins: [https://shop.example.com]}
struct IngestConfiguration: ConfigurationRoot {
    var door = DoorConfiguration(
        listen: NetworkAddress(host: "127.0.0.1", port: UsualPort.ingest), spool: "", quarantine: "")
    var certificate: String?
    var privateKey: String?
    var metrics: NetworkAddress?
    var statusSocket: String?
    var proxies: [String] = []

    static var defaults: IngestConfiguration { IngestConfiguration() }

    /// What `waybill check` says.
    var text: String { "ingest on \(self.door.listen) with \(self.door.keys.count) keys" }
}

/// An entry of `keys`.
struct KeyEntry: ConfigurationRoot {
    var key = ""
    var bundle = ""
    var environment = DeploymentEnvironment.prod
    var origins: [String] = []
    var dialects = Dialect.allCases
    var eventRate: Int?
    var addresses = AddressPolicy.drop

    static var defaults: KeyEntry { KeyEntry() }

    /// A key is public, but it is a key: long enough that nobody guesses it, and plain in an address.
    static func isKey(_ key: String) -> Bool {
        (8...128).contains(key.utf8.count)
            && key.utf8.allSatisfy {
                0x61...0x7A ~= $0 || 0x41...0x5A ~= $0 || 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "_")
                    || $0 == UInt8(ascii: "-")
            }
    }

    static let keyRule = "8 to 128 letters, digits, '_' and '-'"

    static func isBundle(_ bundle: String) -> Bool {
        (1...255).contains(bundle.utf8.count) && bundle.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F }
    }
}

extension ConfigurationTable {
    @KeyList<IngestConfiguration> private static var ingestPlaces: [ConfigurationKey<IngestConfiguration>] {
        ConfigurationKey(
            "listen", .address, \.door.listen,
            "The address that senders connect to; without TLS only a proxy on this host should reach it.")
        ConfigurationKey(
            "spool", .text, \.door.spool, required: "the folder of the spools",
            example: "/var/spool/waybill-ingest",
            "The folder of the spools, one for each app and environment, which an agent ships (`--spool 'FOLDER/*'`).")
        ConfigurationKey(
            "group", .text, optional: \.door.group, default: "the agent runs as the same user",
            example: "waybill-spool", "The group that shares the spools with the agent, which deletes what it shipped.")
        ConfigurationKey(
            "quarantine", .text, \.door.quarantine, required: "a folder",
            example: "/var/lib/waybill-ingest/quarantine",
            "The folder for events that cannot be lines, with the reason.")
        ConfigurationKey(
            "metrics", .address, optional: \.metrics, example: "127.0.0.1:\(UsualPort.ingestMetrics)",
            """
            Serve GET /metrics (Prometheus), /livez, /readyz and /status at this address, e.g. \
            127.0.0.1:\(UsualPort.ingestMetrics).
            """)
        ConfigurationKey(
            "status_socket", .text, optional: \.statusSocket, example: "/run/waybill/ingest.sock",
            "Serve the same at a UNIX socket, which its owner and group may open; `waybill status` asks there.")
        ConfigurationKey(
            "certificate", in: "tls", .file, optional: \.certificate, example: "ingest.pem",
            "The certificate and its intermediate ones (PEM).")
        ConfigurationKey(
            "key", in: "tls", .file, optional: \.privateKey, example: "ingest.key", "The private key (PEM).")
    }

    @KeyList<IngestConfiguration> private static var ingestLimits: [ConfigurationKey<IngestConfiguration>] {
        ConfigurationKey(
            "trusted_proxies", .texts, \.proxies, default: "none", example: "[10.0.0.0/8]",
            "Addresses and networks whose `X-Forwarded-For` is believed.")
        ConfigurationKey(
            "connections", .integer(1...1_000_000), \.door.connectionCountMax,
            "Connections that may be open at once; for one more, the one that has been silent longest ends.")
        ConfigurationKey(
            "body_kib", .integer(64...16_384, factor: 1 << 10), \.door.bodyByteCountMax, unit: "KiB",
            "The largest body, as it arrives and inflated.")
        ConfigurationKey(
            "memory_mib", .integer(16...65_536, factor: 1 << 20), \.door.memoryByteCountMax, unit: "MiB",
            "Memory for bodies that arrive or wait; beyond it senders are asked to repeat (503).")
        ConfigurationKey(
            "repeat_minutes", .duration(1...1440, unit: .seconds(60)), \.door.repeatDuration, unit: "minutes",
            "How long the id of a stored event is known, so that a repeated request stores nothing.")
        ConfigurationKey(
            "repeat_mib", .integer(1...65_536, factor: 1 << 20), \.door.repeatByteCountMax, unit: "MiB",
            "Memory for these ids; where it does not suffice, the time is shorter, and a metric says so.")
        ConfigurationKey(
            "reserve_mib", .integer(0...1_000_000, factor: 1 << 20), \.door.freeByteCountMin, unit: "MiB",
            "Free space on the spool's disk that is left to others.")
        ConfigurationKey(
            "idle_seconds", .duration(1...3600, unit: .seconds(1)), \.door.idleDuration, unit: "seconds",
            "How long a connection may be open without a request.")
        ConfigurationKey(
            "request_seconds", .duration(1...3600, unit: .seconds(1)), \.door.requestDuration, unit: "seconds",
            "How long a request may take from its first byte to its last.")
        ConfigurationKey(
            "keys", type: "list of sections", default: "none", standing: "[]", "The write keys; see below.")
    }

    static var ingest: [ConfigurationKey<IngestConfiguration>] { self.ingestPlaces + self.ingestLimits }

    /// Each entry of `keys`.
    @KeyList<KeyEntry> static var ingestKey: [ConfigurationKey<KeyEntry>] {
        ConfigurationKey(
            "key", .text(rule: KeyEntry.keyRule, isValid: KeyEntry.isKey), \.key, required: "the write key",
            example: "wk_7f3a9c51e0d84b26", "The write key. It is public: it names the app, and is no secret.")
        ConfigurationKey(
            "bundle", .text(rule: "1 to 255 printable ASCII characters", isValid: KeyEntry.isBundle), \.bundle,
            required: "the app", example: "com.example.shop", "The app that the events belong to.")
        ConfigurationKey("env", .choice, \.environment, "The environment that the events belong to.")
        ConfigurationKey(
            "origins", .texts, \.origins, default: "all", example: "[https://shop.example.com]",
            "Pages that may use the key; `*` stands for labels of a name, as in https://*.example.com.")
        ConfigurationKey(
            "dialects", ValueType<Dialect>.choices, \.dialects, default: "all", example: "[segment, native]",
            "Whose requests the key allows.")
        ConfigurationKey(
            "events_second", .integer(1...10_000_000), optional: \.eventRate, example: "500",
            "The most events a second; beyond that senders are asked to wait (429).")
        ConfigurationKey(
            "addresses", .choice, \.addresses,
            "What is kept of senders' addresses: nothing (`drop`), their network (`truncate`), or all (`keep`).")
    }
}

extension ConfigurationFile {
    static func ingest(_ section: inout ConfigurationSection) -> IngestConfiguration {
        var configuration = IngestConfiguration.defaults
        section.read(ConfigurationTable.ingest, into: &configuration)
        if (configuration.certificate == nil) != (configuration.privateKey == nil) {
            section.complain("tls", "needs both certificate: FILE and key: FILE")
        } else if let certificate = configuration.certificate, let key = configuration.privateKey {
            configuration.door.tls = TLSServerConfiguration(identity: CertificateFiles(chain: certificate, key: key))
        }
        for proxy in configuration.proxies {
            guard let range = AddressRange(proxy) else {
                section.complain("trusted_proxies", "\(proxy) is not an address or a network such as 10.0.0.0/8")
                continue
            }
            configuration.door.trustedProxies.append(range)
        }
        section.each("keys") { section in
            var entry = KeyEntry.defaults
            section.read(ConfigurationTable.ingestKey, into: &entry)
            if configuration.door.keys.contains(where: { $0.source.key == entry.key }) {
                section.complain("key", "appears twice; each key stands for one app")
            }
            for origin in entry.origins where !KeyEntry.isOrigin(origin) {
                section.complain("origins", "\(origin) is not an origin such as https://shop.example.com")
            }
            configuration.door.keys.append(
                DoorKey(
                    source: IngestSource(
                        key: entry.key, bundle: entry.bundle, environment: entry.environment,
                        dialects: Set(entry.dialects), addressPolicy: entry.addresses),
                    origins: entry.origins, eventRateMax: entry.eventRate))
        }
        configuration.door.metrics = MetricsListening(
            address: configuration.metrics, socket: configuration.statusSocket)
        return configuration
    }
}

extension KeyEntry {
    /// A scheme, a host with at most one star, and maybe a port.
    fileprivate static func isOrigin(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 3, ["http:", "https:"].contains(parts[0]), parts[1].isEmpty, !parts[2].isEmpty else {
            return false
        }
        return parts[2].filter { $0 == "*" }.count <= 1
            && parts[2].utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "@") }
    }
}
