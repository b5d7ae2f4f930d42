import WaybillProjection
import WaybillReceiver

extension ConfigurationTable {
    /// Each entry of `agents`.
    @KeyList<AgentEntry> static var agentEntry: [ConfigurationKey<AgentEntry>] {
        ConfigurationKey(
            "name", .text(rule: Principal.nameRule, isValid: Principal.isName), \.principal.name,
            applies: .reload, required: "the principal's name", example: "web",
            "The principal's name; its streams belong to it.")
        ConfigurationKey(
            "tokens", .tokens, \.tokens, applies: .reload, default: "required, or `certificates`",
            example: "[\"sha256:\(String(repeating: "0", count: 64))\"]",
            "At most two tokens, valid at once: `sha256:` and the digest, or a file that holds the token.")
        ConfigurationKey(
            "certificates", .certificates, \.principal.certificates, applies: .reload,
            default: "required with `tls.client_ca`", example: "[web.example.com]",
            "Its certificates: a subject alternative name, or `sha256:` and the fingerprint.")
        ConfigurationKey(
            "envs", .linePatterns, \.principal.environments, applies: .reload, default: "all", example: "[prod]",
            "The environments that its lines may name; `*` stands for any characters.")
        ConfigurationKey(
            "bundles", .linePatterns, \.principal.bundles, applies: .reload, default: "all",
            example: "[com.example.*]", "The apps that its lines may name; other lines go to the quarantine.")
        ConfigurationKey(
            "formerly", .principalNames, \.principal.formerly, applies: .reload, default: "none",
            example: "[old-name]", "Names that it had before; it continues their streams.")
        ConfigurationKey(
            "adopt", .flag, \.principal.adopts, applies: .reload,
            "It continues streams from before there were `agents`, if its agents have the files.")
        ConfigurationKey(
            "devices", .flag, \.principal.hasDevices, applies: .reload,
            "It stands for many installs of an app; each proves its own name with its key.")
        ConfigurationKey(
            "share", .integer(1...1000), \.principal.share, applies: .reload,
            "How many single agents it counts as when turns are taken.")
        ConfigurationKey(
            "skip_mib", .skippedByteCount, \.principal.skippedByteCountMax, unit: "MiB", applies: .reload,
            "The most bytes that its agents may skip on one day (UTC).")
        ConfigurationKey(
            "connections", in: "quotas", .integer(1...1_000_000), optional: \.principal.quotas.connectionCountMax,
            applies: .reload, default: "none", example: "100", "Connections of all its agents at once.")
        ConfigurationKey(
            "kib_second", in: "quotas", .integer(1...1 << 30, factor: 1 << 10),
            optional: \.principal.quotas.byteRateMax, unit: "KiB", applies: .reload, default: "none",
            example: "4096", "What all its agents may send in a second, inflated; above that they wait.")
        ConfigurationKey(
            "agent_kib_second", in: "quotas", .integer(1...1 << 30, factor: 1 << 10),
            optional: \.principal.quotas.agentByteRateMax, unit: "KiB", applies: .reload, default: "none",
            example: "256", "What one of its agents, or devices, may send in a second, inflated.")
        ConfigurationKey(
            "day_mib", in: "quotas", .skippedByteCount, optional: \.principal.quotas.dayByteCountMax, unit: "MiB",
            applies: .reload, default: "none", example: "10240",
            "What is stored for it on one day (UTC), inflated; more waits for the next day.")
        ConfigurationKey(
            "streams", in: "quotas", .integer(1...10_000_000), optional: \.principal.quotas.ofAgent.streamCountMax,
            applies: .reload, default: "`limits.streams`", example: "1000", "As `limits.streams`, for its agents.")
        ConfigurationKey(
            "apps", in: "quotas", .integer(1...1000), optional: \.principal.quotas.ofAgent.appCountMax,
            applies: .reload, default: "`limits.apps`", example: "5", "As `limits.apps`, for its agents.")
        ConfigurationKey(
            "days", in: "quotas", .integer(1...1_000_000), optional: \.principal.quotas.ofAgent.dayCountMax,
            applies: .reload, default: "`limits.days`", example: "30", "As `limits.days`.")
    }

    /// The names, for what a reload reports.
    static func agentsText(_ configuration: ReceiverConfiguration) -> String {
        configuration.agents.map { $0.map(\.name).joined(separator: ", ") } ?? "none"
    }
}

extension ValueType<UInt64> {
    fileprivate static var skippedByteCount: ValueType {
        ValueType<Int>.integer(0...1 << 30, factor: 1 << 20).map {
            UInt64($0)
        } back: {
            Int($0)
        }
    }
}
