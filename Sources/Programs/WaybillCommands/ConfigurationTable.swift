import WaybillAgent
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillHost
import WaybillProjection
import WaybillProtocol
import WaybillReceiver
import WaybillSystem
import WaybillTail
import WaybillYAML

/// Every key of the configuration file.
enum ConfigurationTable {
    static var receiver: [ConfigurationKey<ReceiverConfiguration>] {
        Self.data(of: "receiver", port: UsualPort.receiver) + Self.service + Self.proxied + Self.storage
            + Self.keeping() + Self.journal + Self.limits + Self.partitions()
            + [Self.exports(option: "--exports", default: "none; without a file \(ReceiverCommand.usualExports)")]
    }

    /// Whom the receiver serves, and where.
    @KeyList<ReceiverConfiguration> private static var service: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey(
            "listen", .address, \.listen, option: "--listen", "The address that agents connect to.")
        ConfigurationKey(
            "connections", .integer(1...1_000_000), \.connectionCountMax,
            "Connections that may be open at once; a quarter of them may be silent.")
        ConfigurationKey(
            "projections", .choice, \.projections,
            "With a bucket: write archive and exports here (`all`), or leave them to mergers (`none`).")
        ConfigurationKey(
            "stop_seconds", .duration(0...3600, unit: .seconds(1)), \.stopPatience, unit: "seconds",
            option: "--stop-seconds",
            "How long a stop waits for archive and exports; the next start reads the rest from the journal.")
        ConfigurationKey(
            "insecure", .flag, \.isInsecure, option: "--insecure",
            "Allow tokens without TLS on an address that is not a loopback one.")
        ConfigurationKey(
            "audit", .text, optional: \.audit,
            example: "/var/log/waybill/audit.json",
            "Write who connected, opened, skipped, sealed or was refused to this file (JSON lines; 2 files of 64 MiB).")
        ConfigurationKey(
            "agents", type: "list of sections", applies: .reload,
            default: "none: all agents are one principal", "Who may connect, and what each may write; see below.",
            show: Self.agentsText)
        ConfigurationKey(
            "agents_file", type: "file", applies: .reload, example: "agents.yaml",
            "A file with the list `agents`, in place of the key.")
        ConfigurationKey(
            "certificate", in: "tls", .file, optional: \.certificate, applies: .reload, option: "--tls-certificate",
            example: "receiver.pem",
            "Use TLS: the receiver's certificate, followed by its intermediates (PEM); needs a key.")
        ConfigurationKey(
            "key", in: "tls", .file, optional: \.privateKey, applies: .reload, option: "--tls-key",
            example: "receiver.key",
            "The private key of the certificate (PEM, no passphrase).")
        ConfigurationKey(
            "client_ca", in: "tls", .file, optional: \.clientAuthorities, applies: .reload, option: "--tls-client-ca",
            example: "agents-ca.pem",
            "Accept only agents with a certificate from these authorities (PEM).")
        ConfigurationKey(
            "crl", in: "tls", .file, optional: \.revocations, applies: .reload,
            example: "agents.crl",
            "Refuse agents whose certificate is in these revocation lists (PEM, X509 CRL).")
    }

    /// Where proxies bring agents.
    @KeyList<ReceiverConfiguration> private static var proxied: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey(
            "listen", in: "proxied", .place,
            optional: \.proxied.place, default: "none", example: "/run/waybill/line.sock",
            """
            A second address, or the path of a socket, where the door and other proxies bring agents. Each connection begins \
            with a header of the PROXY protocol, version 2. No certificate is asked for there.
            """)
        ConfigurationKey(
            "from", in: "proxied", .texts, \.proxied.proxies, default: "required with an address",
            example: "[127.0.0.1]", "The addresses and networks of these proxies.")
        ConfigurationKey(
            "group", in: "proxied", .text, optional: \.proxied.group, default: "the user's own",
            example: "waybill-door", "The group that may open the socket.")
        ConfigurationKey(
            "tls", in: "proxied", .flag, \.proxied.usesTLS, "TLS follows the header, with the certificate of `tls`.")
        ConfigurationKey(
            "connections", in: "proxied", .integer(1...1_000_000), \.proxied.connectionCountMax,
            "Connections that proxies may have open together; they count among `connections`, too.")
    }

    /// What it writes, and what it needs meanwhile.
    @KeyList<ReceiverConfiguration> private static var storage: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey(
            "admission_mib", in: "memory", .integer(4...4096, factor: 1 << 20), \.admissionByteCount, unit: "MiB",
            "Memory for batches that wait for the disk.")
        ConfigurationKey(
            "descriptions_mib", in: "memory", .integer(1...65_536, factor: 1 << 20), \.descriptionByteCount,
            unit: "MiB", "Memory for the descriptions of open streams; the agent that has most loses its connection.")
        ConfigurationKey(
            "feed_mib", in: "memory", .integer(1...4096, factor: 1 << 20), \.feedByteCount, unit: "MiB",
            "Memory for stored batches that archive and exports have not read yet; they read the rest from the disk.")
        ConfigurationKey(
            "mib", in: "piece", .integer(1...32, factor: 1 << 20), \.pieceByteCount, unit: "MiB",
            "With a bucket (`store`): a piece of the journal goes there when it is so large.")
        ConfigurationKey(
            "seconds", in: "piece", .duration(1...3600, unit: .seconds(1)), \.pieceInterval, unit: "seconds",
            "Or when its first byte has waited so long.")
    }

    /// How long the journal is kept, which a merger's log of rounds decides instead.
    @KeyList<ReceiverConfiguration> private static var journal: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey(
            "retention_hours", in: "journal", .duration(0...8760, unit: .seconds(3600)), \.host.journalRetention,
            unit: "hours", applies: .reload,
            "How long the journal is kept after archive and exports have read it.")
        ConfigurationKey(
            "gib", in: "journal", .integer(1...1_000_000, factor: 1 << 30), optional: \.host.unreadJournal.byteCountMax,
            unit: "GiB", applies: .reload, default: "keep all", example: "100",
            "Delete the oldest segments that the archive has read when the journal takes more, read by exports or not.")
        ConfigurationKey(
            "hours", in: "journal", .duration(1...87_600, unit: .seconds(3600)), optional: \.host.unreadJournal.ageMax,
            unit: "hours", applies: .reload, default: "keep all", example: "720",
            "Delete segments that the archive has read and that are older, read by exports or not.")
    }

    /// What one address and one agent may take.
    @KeyList<ReceiverConfiguration> private static var limits: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey(
            "silent_connections", in: "limits", .integer(1...1_000_000), \.quotas.silentConnectionCountMax,
            "Connections of one address that have not said `HELLO`; for one more, the oldest of them ends.")
        ConfigurationKey(
            "streams", in: "limits", .integer(1...10_000_000), \.quotas.streamCountMax,
            "Streams that one agent may have open, and may begin on a day without sealing them.")
    }

    /// Each entry of `exports`.
    @KeyList<ExportOptions> static var export: [ConfigurationKey<ExportOptions>] {
        ConfigurationKey(
            "provider", type: (Destination.allCases.map(\.rawValue) + ["custom"]).joined(separator: ", "),
            default: "required", "What the export is for; each provider once.")
        ConfigurationKey(
            "zone", .zone, \.zone, applies: .reload, option: "--zone",
            "The time zone of the export's days, e.g. Asia/Seoul.")
        ConfigurationKey(
            "cut_off", .timeOfDay, \.cutOffSecond, applies: .reload,
            "When a day of the export is sealed: this time of the next day.")
        ConfigurationKey(
            "close_after", .age, \.closeAfter,
            default: "5m for providers that `waybill deliver` sends, off for others", example: "5m",
            "How long a part takes records, counted from the receipt of its first; then it is closed and can be sent.")
        ConfigurationKey(
            "env", .environments, \.environments, applies: .reload, default: "all",
            example: "[prod]",
            "The environments whose events are exported.")
        ConfigurationKey(
            "mapping", type: "file", applies: .reload,
            example: "ga4.yaml", "A mapping: what to leave out, rename and add (`formats/providers.md`, \"Mappings\").",
            show: { $0.custom == nil ? $0.mappingText : "none" })
        ConfigurationKey(
            "name", type: "letters a to z, digits and '-', at most 32", default: "required for `custom`",
            "The name of a custom provider; its folder below `exports/`.")
        ConfigurationKey(
            "file", type: "file", applies: .reload, default: "required for `custom`",
            "The columns of a custom provider (`formats/providers.md`, \"Custom providers\").",
            show: { $0.custom == nil ? "none" : $0.mappingText })
        ConfigurationKey(
            "events", in: "dead", .flag, \.keepsRefusedEvents,
            "Keep a copy of each refused event in its dead letter, which otherwise says where the archive has it.")
    }

    /// The section `options` of an export.
    static func options(of provider: Destination) -> [ConfigurationKey<ExportOptions>] {
        provider.type.options(ExportOptionKeys())
    }

    /// Each entry of `sources`.
    @KeyList<SourceEntry> static var source: [ConfigurationKey<SourceEntry>] {
        ConfigurationKey(
            "spool", .text, optional: \.spool, applies: .reload, option: "--spool", default: "required, or `files`",
            example: "/var/spool/app",
            "A folder that an app's client library writes into.")
        ConfigurationKey(
            "group", .text, optional: \.group, applies: .reload, option: "--group", example: "waybill-spool",
            "The group of users that shares the spool; a missing folder is created for it with the mode 2770.")
        ConfigurationKey(
            "files", .texts, optional: \.files, applies: .reload, option: "--glob", default: "required, or `spool`",
            example: "['/var/log/app/*.json']",
            "Patterns of other NDJSON files, e.g. '/var/log/app/*.json'; with *, ?, [a-z], {a,b}, and ** for any folders."
        )
        ConfigurationKey(
            "exclude", .texts, optional: \.excludes, applies: .reload, option: "--exclude", example: "['*.gz']",
            "Patterns of other NDJSON files to leave out: '*.gz' by name, '/var/log/app/old' a folder with all in it.")
        ConfigurationKey(
            "env", .choice, optional: \.environment, applies: .reload, option: "--env", default: "required for `files`",
            example: "prod", "The environment of other NDJSON files.")
        ConfigurationKey(
            "bundle", .text(rule: StreamDescription.bundleRule, isValid: StreamDescription.isBundle),
            optional: \.bundle, applies: .reload, option: "--bundle", default: "required for `files`",
            example: "com.example.web",
            "The app of other NDJSON files, e.g. com.example.web.")
        ConfigurationKey(
            "time", .text, optional: \.timeMember, applies: .reload, option: "--time-member",
            example: "time",
            "The member that holds the time of a line in other NDJSON files.")
        ConfigurationKey(
            "name", .text, optional: \.nameMember, applies: .reload, option: "--name-member",
            example: "event",
            "The member that holds the name of a line in other NDJSON files.")
        ConfigurationKey(
            "user", .text, optional: \.userMember, applies: .reload, option: "--user-member",
            example: "user_id",
            "The member that holds the id of the user in a line of other NDJSON files.")
        ConfigurationKey(
            "anonymous", .text, optional: \.anonymousMember, applies: .reload, option: "--anonymous-member",
            example: "cookie_id",
            "The member that holds the id of the device or browser in a line of other NDJSON files.")
        ConfigurationKey(
            "follow_links", .flag, \.followsLinks, applies: .reload, option: "--follow-links",
            "Follow links to other NDJSON files, and links to folders that a wildcard matches.")
        ConfigurationKey(
            "poll", .flag, \.isPolled, applies: .reload, option: "--poll",
            "Look for changes twice a second, as on network file systems, for at most 5 % of a core.")
    }

    /// The facts of a key by its path, such as `receiver.archive.cut_off` or `agent.sources.env`.
    static func facts(_ path: String) -> KeyFacts? { Self.factsByPath[path] }

    /// Made once: the help of every option, which each start of a program builds, asks for one.
    private static let factsByPath: [String: KeyFacts] = {
        let lists = [
            ("receiver.exports.", Self.export.map(\.facts)), ("merger.exports.", Self.export.map(\.facts)),
            ("receiver.agents.", Self.agentEntry.map(\.facts)),
            ("agent.sources.", Self.source.map(\.facts)),
            ("receiver.", Self.receiver.map(\.facts)), ("merger.", Self.merger.map(\.facts)),
            ("agent.", Self.agent.map(\.facts)),
            ("deliver.deliveries.", Self.delivery.map(\.facts)), ("deliver.", Self.deliver.map(\.facts)),
            ("store.", Self.store.map(\.facts)),
            ("ingest.keys.", Self.ingestKey.map(\.facts)), ("ingest.", Self.ingest.map(\.facts)),
        ]
        let pairs = lists.flatMap { prefix, keys in keys.map { (prefix + $0.key, $0) } }
        return Dictionary(pairs) { first, _ in first }
    }()
}

// MARK: What keys are read into

/// An entry of `sources`.
struct SourceEntry: ConfigurationRoot {
    var spool: String?
    var files: [String]?
    var environment: DeploymentEnvironment?
    var bundle: String?
    var timeMember: String?
    var nameMember: String?
    var userMember: String?
    var anonymousMember: String?
    var followsLinks = false
    var excludes: [String]?
    var isPolled = false
    var group: String?

    static var defaults: SourceEntry { SourceEntry() }
}

extension ReceiverConfiguration: HostRoot {
    static var defaults: ReceiverConfiguration { ReceiverConfiguration(dataDirectory: "") }

    /// TLS, for a section that may lack files until it is read.
    private var files: TLSServerConfiguration {
        get { self.tls ?? TLSServerConfiguration(identity: CertificateFiles(chain: "", key: "")) }
        set { self.tls = newValue }
    }

    var certificate: String? {
        get { self.files.identity.chain.isEmpty ? nil : self.files.identity.chain }
        set { self.files.identity.chain = newValue ?? "" }
    }

    var privateKey: String? {
        get { self.files.identity.key.isEmpty ? nil : self.files.identity.key }
        set { self.files.identity.key = newValue ?? "" }
    }

    var revocations: String? {
        get { self.files.revocations }
        set { self.files.revocations = newValue }
    }

    var clientAuthorities: String? {
        get { self.files.clientAuthorities }
        set { self.files.clientAuthorities = newValue }
    }
}

extension AgentConfiguration: ConfigurationRoot {
    static var defaults: AgentConfiguration {
        var configuration = AgentConfiguration(
            name: DefaultAgentName.value, stateDirectory: "", receivers: [], sources: [])
        configuration.naming.isNameDerived = true
        return configuration
    }

    private var security: TLSClientConfiguration {
        get { self.tls ?? TLSClientConfiguration() }
        set { self.tls = newValue }
    }

    private var identity: CertificateFiles {
        get { self.tls?.identity ?? CertificateFiles(chain: "", key: "") }
        set { self.security.identity = newValue }
    }

    var authorities: String? {
        get { self.security.authorities }
        set { self.security.authorities = newValue }
    }

    var certificate: String? {
        get { self.identity.chain.isEmpty ? nil : self.identity.chain }
        set { self.identity.chain = newValue ?? "" }
    }

    var privateKey: String? {
        get { self.identity.key.isEmpty ? nil : self.identity.key }
        set { self.identity.key = newValue ?? "" }
    }

    var pins: [CertificatePin]? {
        get { self.security.pins.isEmpty ? nil : self.security.pins }
        set { self.security.pins = newValue ?? [] }
    }

    var serverName: String? {
        get { self.security.serverName }
        set { self.security.serverName = newValue }
    }
}

extension ExportOptions: ConfigurationRoot {
    static var defaults: ExportOptions { ExportOptions(provider: .csv) }

    /// The mapping's file and version, for logs.
    var mappingText: String {
        self.mapping.map { "\($0.path) version \($0.version)" } ?? "none"
    }
}
