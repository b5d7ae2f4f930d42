import WaybillAgent
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillReceiver
import WaybillSystem
import WaybillHost
import WaybillTail
import WaybillYAML

extension ConfigurationTable {
    /// The section `agent`.
    static var agent: [ConfigurationKey<AgentConfiguration>] {
        self.agentPlaces + self.agentShipping + self.agentKeeping + self.agentTrust
    }

    /// Who it is, and where it ships to.
    @KeyList<AgentConfiguration> private static var agentPlaces: [ConfigurationKey<AgentConfiguration>] {
        ConfigurationKey(
            "state", .text, \.stateDirectory, option: "--state", required: "the state directory",
            example: "/var/lib/waybill-agent",
            "The state directory, for registry and quarantine; created if it is missing.")
        ConfigurationKey(
            "to", .addresses, \.receivers, applies: .reload, option: "--to", required: "a receiver, HOST:PORT",
            example: "[collect.example.com:4390]",
            "Receivers, HOST:PORT, tried in turn.")
        ConfigurationKey(
            "fleet", .text("fleet's id", rule: "32 hexadecimal digits", isValid: { Incarnation($0.utf8) != nil }),
            optional: \.fleet, applies: .reload, example: "7d2a40c5e9b1836f04d8fa6e21c97b53",
            "The id of the receivers' fleet, which is believed without TLS then; waybill check --probe prints it.")
        ConfigurationKey(
            "name", .agentName, \.name, option: "--name", default: "from this machine's id",
            example: "web-1",
            "This agent's name, which must not change.")
        ConfigurationKey(
            "token_file", .file, optional: \.tokenFile, applies: .reload, option: "--token-file",
            default: "the token in `WAYBILL_TOKEN`, or none",
            example: "shop.token",
            "The file with the token that receivers require, read at each connection.")
        Self.status(\.status, of: "agent", port: UsualPort.agent)
    }

    /// How it ships.
    @KeyList<AgentConfiguration> private static var agentShipping: [ConfigurationKey<AgentConfiguration>] {
        ConfigurationKey(
            "tls", type: "on, off, or the section below", applies: .reload, option: "--tls", default: "off",
            standing: "off",
            example: "on", "Use TLS and trust the system's authorities.", show: { $0.tls == nil ? "off" : "on" })
        ConfigurationKey(
            "compression", .integer(AgentCommand.compressionLevels), \.compression.level, applies: .reload,
            option: "--compression",
            "The zlib level.")
        ConfigurationKey(
            "compression_threads", .integer(AgentCommand.compressionThreadCounts), \.compression.threadCount,
            applies: .reload, option: "--compression-threads",
            "Threads that compress.")
        ConfigurationKey(
            "batch_kib", .integer(4...2048, factor: 1 << 10), \.batchByteCountMax, unit: "KiB",
            applies: .reload,
            "The most bytes of a source in one batch.")
        ConfigurationKey(
            "batch_lines", .integer(1...1_000_000), \.tailLimits.batchLineCountMax, applies: .reload,
            "The most lines in one batch.")
        ConfigurationKey(
            "linger_ms", .duration(0...60_000, unit: .milliseconds(1)), \.linger, unit: "milliseconds",
            applies: .reload,
            "How long new lines may wait for more before they are sent.")
        ConfigurationKey(
            "max_connection_age", .duration(10...604_800, unit: .seconds(1)), \.connectionAgeMax, unit: "seconds",
            applies: .reload,
            "How long a connection to a receiver of a fleet lasts, more or less a fifth, until one is chosen again.")
        ConfigurationKey(
            "drain_seconds", .duration(0...3600, unit: .seconds(1)), \.drainPatience, unit: "seconds",
            applies: .reload,
            "How long a stop may take to ship what is left.")
    }

    /// What it keeps of what was shipped, and in the quarantine.
    @KeyList<AgentConfiguration> private static var agentKeeping: [ConfigurationKey<AgentConfiguration>] {
        ConfigurationKey(
            "hours", in: "keep", .duration(1...87_600, unit: .seconds(3600)), optional: \.keep.ageMax, unit: "hours",
            applies: .reload, example: "24",
            "Keep shipped segments so long, and ship them again to a receiver that lost them.")
        ConfigurationKey(
            "gib", in: "keep", .integer(1...1_000_000, factor: 1 << 30), optional: \.keep.byteCountMax, unit: "GiB",
            applies: .reload, example: "5",
            "Keep no more shipped segments than this; the oldest are deleted first.")
        ConfigurationKey(
            "open_files", in: "limits", .integer(1...1_000_000), \.tailLimits.openFileCountMax,
            "Log files held open at most; fewer where the limit of open files (ulimit -Hn) leaves fewer.")
        ConfigurationKey(
            "days", in: "quarantine", .duration(1...36_500, unit: .seconds(86_400)),
            optional: \.tailLimits.quarantine.ageMax, unit: "days",
            applies: .reload, default: "keep all", example: "30",
            "Delete lines that were too long from the quarantine when they are older.")
        ConfigurationKey(
            "gib", in: "quarantine", .integer(1...1_000_000, factor: 1 << 30),
            optional: \.tailLimits.quarantine.byteCountMax, unit: "GiB",
            applies: .reload, default: "keep all", example: "5",
            "Delete the oldest lines of the quarantine when all take more.")
    }

    /// Whom it trusts, and what it ships.
    @KeyList<AgentConfiguration> private static var agentTrust: [ConfigurationKey<AgentConfiguration>] {
        ConfigurationKey(
            "ca", in: "tls", .file, optional: \.authorities, applies: .reload, option: "--tls-ca",
            default: "the system's authorities", example: "ca.pem",
            "Use TLS and trust only these authorities (PEM).")
        ConfigurationKey(
            "pinned", in: "tls", .pins, optional: \.pins, applies: .reload, option: "--tls-pinned",
            example: "['sha256:f99f46d1fb8e09bfa4a7b19b6fca35d69b1ab9fe8de8d6fe7c2bb6d8a68ea3c5']",
            "Use TLS and accept only these certificates, by their SHA-256, whatever their issuer, name and dates.")
        ConfigurationKey(
            "certificate", in: "tls", .file, optional: \.certificate, applies: .reload, option: "--tls-certificate",
            example: "agent.pem",
            "The agent's certificate, for receivers that require one (PEM); needs a key.")
        ConfigurationKey(
            "key", in: "tls", .file, optional: \.privateKey, applies: .reload, option: "--tls-key",
            example: "agent.key",
            "The private key of the certificate (PEM, no passphrase).")
        ConfigurationKey(
            "server_name", in: "tls",
            .text(
                "host name", rule: "a host's name, e.g. collect.example.com",
                isValid: TLSClientConfiguration.isServerName),
            optional: \.serverName, applies: .reload, option: "--tls-server-name", default: "the host of the receiver",
            example: "collect.example.com",
            "The name that the receiver's certificate must have.")
        ConfigurationKey(
            "sources", type: "list of sections", applies: .reload, default: "required", "What to ship; see below.")
    }
}
