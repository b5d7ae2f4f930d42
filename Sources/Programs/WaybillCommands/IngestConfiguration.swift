import WaybillEvent
import WaybillHost
import WaybillIngest
import WaybillSystem

// The section `ingest` of a configuration file: what `waybill ingest --config FILE` runs.
//
//     ingest:
//       listen: 0.0.0.0:4380
//       spool: /var/spool/waybill-ingest
//       keys:
//         - {key: wk_4f0c…, bundle: com.example.shop, env: prod, origins: [https://shop.example.com]}

extension DoorConfiguration: ConfigurationRoot {
    static var defaults: DoorConfiguration {
        DoorConfiguration(
            listen: NetworkAddress(host: "127.0.0.1", port: UsualPort.ingest), spool: "", quarantine: "")
    }

    /// What `waybill check` says.
    var text: String {
        let line = self.line.receiver.map { ", and tunnels to \($0)" } ?? ""
        return "ingest on \(self.listen) with \(HumanText.count(self.keys.count, "key"))\(line)"
    }
}

/// An entry of `keys`.
extension DoorKey: ConfigurationRoot {
    static var defaults: DoorKey { DoorKey(source: IngestSource(key: "", bundle: "", environment: .prod)) }

    /// In their usual order.
    fileprivate var dialects: [Dialect] {
        get { Dialect.allCases.filter { self.source.dialects.contains($0) } }
        set { self.source.dialects = Set(newValue) }
    }

    /// A key is public, but it is a key: long enough that no one guesses it, and plain in an address.
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
    @KeyList<DoorConfiguration> private static var ingestPlaces: [ConfigurationKey<DoorConfiguration>] {
        ConfigurationKey(
            "listen", .address, \.listen,
            "The address that senders connect to; without TLS only a proxy on this host should reach it.")
        ConfigurationKey(
            "spool", .text, \.spool, required: "the folder of the spools",
            example: "/var/spool/waybill-ingest",
            "The folder of the spools, one for each app and environment, which an agent ships (`--spool 'FOLDER/*'`).")
        ConfigurationKey(
            "group", .text, optional: \.group, default: "the agent runs as the same user",
            example: "waybill-spool", "The group that shares the spools with the agent, which deletes what it shipped.")
        ConfigurationKey(
            "quarantine", .text, \.quarantine, required: "a folder",
            example: "/var/lib/waybill-ingest/quarantine",
            "The folder for events that cannot be lines, with the reason.")
        ConfigurationKey(
            "quarantine_days", .integer(1...3650), \.quarantineDayCountMax, unit: "days", applies: .reload,
            "Delete a day of the quarantine so many days after it is over.")
        Self.status(\.status, of: "ingest", port: UsualPort.ingestMetrics)
        ConfigurationKey(
            "certificate", in: "tls", .file, optional: \.certificate, applies: .reload, example: "ingest.pem",
            "The certificate and its intermediate ones (PEM).")
        ConfigurationKey(
            "key", in: "tls", .file, optional: \.privateKey, applies: .reload, example: "ingest.key",
            "The private key (PEM).")
    }

    @KeyList<DoorConfiguration> private static var ingestLimits: [ConfigurationKey<DoorConfiguration>] {
        ConfigurationKey(
            "trusted_proxies", .texts, \.proxies, applies: .reload, default: "none", example: "[10.0.0.0/8]",
            "Addresses and networks whose `X-Forwarded-For` is believed.")
        ConfigurationKey(
            "connections", .integer(1...1_000_000), \.limits.connectionCountMax, applies: .reload,
            "Connections that may be open at once; for one more, the one that has been silent longest ends.")
        ConfigurationKey(
            "address_connections", .integer(1...1_000_000), \.limits.shareConnectionCountMax, applies: .reload,
            "Of these connections, those of one address, or of one network of 64 bits in version 6.")
        ConfigurationKey(
            "body_kib", .integer(64...65_536, factor: 1 << 10), \.limits.bodyByteCountMax, unit: "KiB",
            applies: .reload,
            "The largest body, as it arrives and inflated.")
        ConfigurationKey(
            "memory_mib", .integer(16...65_536, factor: 1 << 20), \.limits.memoryByteCountMax, unit: "MiB",
            applies: .reload,
            "Memory for bodies that arrive or wait; above it senders are asked to repeat (503).")
        ConfigurationKey(
            "address_mib", .integer(1...65_536, factor: 1 << 20), \.limits.shareByteCountMax, unit: "MiB",
            applies: .reload,
            "Of this memory, that of one address, or of one network of 64 bits in version 6.")
        ConfigurationKey(
            "body_kib_second", .integer(0...1024, factor: 1 << 10), \.limits.bodyByteRateMin, unit: "KiB",
            applies: .reload,
            "How fast a body of 64 KiB or more must arrive, each five seconds; 0: as slowly as it likes.")
        ConfigurationKey(
            "repeat_minutes", .duration(1...1440, unit: .seconds(60)), \.repeatDuration, unit: "minutes",
            "How long the id of a stored event is known, so that a repeated request stores nothing.")
        ConfigurationKey(
            "repeat_mib", .integer(1...65_536, factor: 1 << 20), \.repeatByteCountMax, unit: "MiB",
            "Memory for these ids; where it does not suffice, the time is shorter, and a metric says so.")
        ConfigurationKey(
            "reserve_mib", .integer(0...1_000_000, factor: 1 << 20), \.freeByteCountMin, unit: "MiB",
            "Free space on the spool's disk that is left to others.")
        ConfigurationKey(
            "idle_seconds", .duration(1...3600, unit: .seconds(1)), \.limits.idleDuration, unit: "seconds",
            applies: .reload,
            "How long a connection may be open without a request.")
        ConfigurationKey(
            "request_seconds", .duration(1...3600, unit: .seconds(1)), \.limits.requestDuration, unit: "seconds",
            applies: .reload,
            "How long a request may take from its first byte to its last.")
        ConfigurationKey(
            "keys", type: "list of sections", applies: .reload, default: "none", standing: "[]",
            "The write keys; see below.")
    }

    static var ingest: [ConfigurationKey<DoorConfiguration>] {
        self.ingestPlaces + self.ingestLimits + self.ingestLine
    }

    @KeyList<DoorConfiguration> private static var ingestLine: [ConfigurationKey<DoorConfiguration>] {
        ConfigurationKey(
            "receiver", in: "line", .place,
            optional: \.line.receiver, default: "none", example: "collector.example.com:\(UsualPort.proxied)",
            """
            Let agents through to a receiver (`/v1/line`): the address or the socket of its `receiver.proxied.listen`. The \
            receiver alone decides who is let in.
            """)
        ConfigurationKey(
            "tls", in: "line", .flag, \.line.usesTLS, "Use TLS to the receiver (its `receiver.proxied.tls`).")
        ConfigurationKey(
            "ca", in: "line", .file, optional: \.line.authorities, default: "the system's authorities",
            example: "ca.pem", "Use TLS to the receiver, and trust only these authorities (PEM).")
        ConfigurationKey(
            "connections", in: "line", .integer(1...1_000_000), \.line.connectionCountMax,
            "Tunnels that may be open at once.")
        ConfigurationKey(
            "insecure", in: "line", .flag, \.line.isInsecure,
            "Take tokens without TLS at an address that other machines reach.")
    }

    /// Each entry of `keys`.
    @KeyList<DoorKey> static var ingestKey: [ConfigurationKey<DoorKey>] {
        ConfigurationKey(
            "key", .text(rule: DoorKey.keyRule, isValid: DoorKey.isKey), \.source.key, applies: .reload,
            required: "the write key",
            example: "wk_7f3a9c51e0d84b26", "The write key. It is public: it names the app, and is not a secret.")
        ConfigurationKey(
            "bundle", .text(rule: "1 to 255 printable ASCII characters", isValid: DoorKey.isBundle), \.source.bundle,
            applies: .reload,
            required: "the app", example: "com.example.shop", "The app that the events belong to.")
        ConfigurationKey(
            "env", .choice, \.source.environment, applies: .reload, "The environment that the events belong to.")
        ConfigurationKey(
            "origins", .texts, \.origins, applies: .reload, default: "all", example: "[https://shop.example.com]",
            "Pages that may use the key; `*` stands for labels of a name, as in https://*.example.com.")
        ConfigurationKey(
            "dialects", ValueType<Dialect>.choices, \.dialects, applies: .reload, default: "all",
            example: "[segment, native]",
            "Whose requests the key allows.")
        ConfigurationKey(
            "events_second", .integer(1...10_000_000), \.eventRateMax, applies: .reload,
            """
            The most events a second, and 20 seconds' worth at once, at least 500; above that senders are asked to wait (429).
            """)
        ConfigurationKey(
            "address_events_second", .integer(1...10_000_000), optional: \.addressEventRateMax, applies: .reload,
            default: "a fifth of `events_second`", example: "1000",
            """
            Of these, those of one address, or of one network of 64 bits in version 6. A server that sends for many users \
            needs more.
            """)
        ConfigurationKey(
            "addresses", .choice, \.source.addressPolicy, applies: .reload,
            "What is kept of senders' addresses: nothing (`drop`), their network (`truncate`), or all (`keep`).")
        ConfigurationKey(
            "quarantine_mib", .integer(0...65_536, factor: 1 << 20), \.source.quarantineByteCountMax, unit: "MiB",
            applies: .reload,
            "The most that is kept of a day's faulty events, shared among addresses; further ones are only counted.")
    }
}

extension ConfigurationFile {
    static func ingest(_ section: inout ConfigurationSection) -> DoorConfiguration {
        var configuration = DoorConfiguration.defaults
        section.read(ConfigurationTable.ingest, into: &configuration)
        if (configuration.certificate == nil) != (configuration.privateKey == nil) {
            section.complain("tls", "needs both certificate: FILE and key: FILE")
        }
        let line = configuration.line
        if line.receiver != nil, configuration.certificate == nil, !line.isInsecure,
            !LocalRequest.isLoopbackName(configuration.listen.host)
        {
            section.complain(
                "line.insecure",
                "agents' tokens would be in the clear: set tls, listen on a loopback address, or set it on")
        }
        if section.has("streams") {
            section.complain(
                "streams", "is gone: agents reach the receiver through `line`, see Documentation/ingest.md")
        }
        if !configuration.limits.hasRoomForBody {
            section.complain("address_mib", "has no room for one body; make it larger, or body_kib smaller")
        }
        for proxy in configuration.proxies {
            guard let range = AddressRange(proxy) else {
                section.complain("trusted_proxies", "\(proxy) is not an address or a network such as 10.0.0.0/8")
                continue
            }
            configuration.trustedProxies.append(range)
        }
        section.each("keys") { section in
            var entry = DoorKey.defaults
            section.read(ConfigurationTable.ingestKey, into: &entry)
            if configuration.keys.contains(where: { $0.source.key == entry.source.key }) {
                section.complain("key", "appears twice; each key stands for one app")
            }
            for origin in entry.origins {
                if !DoorKey.isOrigin(origin) {
                    section.complain("origins", "\(origin) is not an origin such as https://shop.example.com")
                } else if DoorKey.sent(origin) != origin {
                    section.complain("origins", "no browser sends \(origin); write \(DoorKey.sent(origin))")
                }
            }
            configuration.keys.append(entry)
        }
        return configuration
    }
}

extension DoorKey {
    /// An origin as browsers send it: the host in lower case, without the scheme's own port (RFC 6454, 6.2).
    fileprivate static func sent(_ origin: String) -> String {
        let text = origin.lowercased()
        let port = text.hasPrefix("https:") ? ":443" : ":80"
        return text.hasSuffix(port) ? String(text.dropLast(port.utf8.count)) : text
    }

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
