import WaybillEvent
import WaybillExport
import WaybillSystem

/// The section `deliver` of a configuration file: what `waybill deliver --config FILE` runs.
///
///     deliver:
///       data: /var/lib/waybill
///       deliveries:
///         - {provider: mixpanel, env: prod, credentials_file: mixpanel.keys}
///         - {provider: ga4, env: prod, credentials_file: ga4.keys, rate: 200}
struct DeliverConfiguration: ConfigurationRoot {
    var dataDirectory = ""
    var status = StatusPlaces()
    var deliveries: [DeliveryEntry] = []
    /// What the file has in place of values from the environment.
    var writtenTexts: [String: String] = [:]

    static var defaults: DeliverConfiguration { DeliverConfiguration() }
}

/// An entry of `deliveries`.
struct DeliveryEntry: ConfigurationRoot {
    var name = ""
    var provider: DeliverableProvider?
    var environment: DeploymentEnvironment?
    var region: ProviderRegion?
    var endpoint: String?
    var credentialsFile: String?
    var ambiguity = AmbiguityPolicy.skip
    var eventsPerSecond: Int?
    var timeout = Duration.seconds(30)
    var backoffLongest = Duration.seconds(60)
    var retryLongest = Duration.seconds(600)
    var isForced = false

    static var defaults: DeliveryEntry { DeliveryEntry() }

    /// Names are labels of metrics.
    static func isName(_ name: String) -> Bool {
        (1...32).contains(name.utf8.count)
            && name.utf8.allSatisfy { 0x61...0x7A ~= $0 || 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "-") }
    }

    static let nameRule = "1 to 32 of a to z, 0 to 9 and -"
}

extension ConfigurationTable {
    @KeyList<DeliverConfiguration> static var deliver: [ConfigurationKey<DeliverConfiguration>] {
        ConfigurationKey(
            "data", .text, \.dataDirectory, required: "the receiver's data directory", example: "/var/lib/waybill",
            "The receiver's data directory, with the exports.")
        Self.status(\.status, of: "deliver", port: UsualPort.deliver)
        ConfigurationKey(
            "deliveries", type: "list of sections", applies: .reload, default: "none", standing: "[]",
            "What to send where; see below.")
    }

    /// Each entry of `deliveries`.
    @KeyList<DeliveryEntry> static var delivery: [ConfigurationKey<DeliveryEntry>] {
        ConfigurationKey(
            "provider", .choice, optional: \.provider, applies: .reload, default: "required", example: "ga4",
            "The export to send; each provider once.")
        ConfigurationKey(
            "name", .text(rule: DeliveryEntry.nameRule, isValid: DeliveryEntry.isName), \.name, applies: .reload,
            default: "the provider", example: "ga4",
            "The name in logs, metrics and the status.")
        ConfigurationKey(
            "env", .choice, optional: \.environment, applies: .reload, default: "all with credentials",
            example: "prod", "Only this environment.")
        ConfigurationKey(
            "credentials_file", .file, optional: \.credentialsFile, applies: .reload,
            default: "environment variables", example: "/etc/waybill/ga4.keys",
            "A file of `NAME=value` lines with the credentials, which only its owner may read.")
        ConfigurationKey(
            "region", .choice, optional: \.region, applies: .reload, default: "us", example: "eu",
            "The provider's data centre.")
        ConfigurationKey(
            "endpoint", .text(rule: "an address such as https://collector.example.com", isValid: Self.isEndpoint),
            optional: \.endpoint, applies: .reload, default: "the provider's own",
            example: "https://collector.example.com",
            "Send to this address; required for \(Self.collectors.map { "`\($0)`" }.joined(separator: ", ")).")
        ConfigurationKey(
            "ambiguous", .choice, \.ambiguity, applies: .reload,
            "What would count twice and may or may not have arrived: `skip` (to the dead letters) or `resend`.")
        ConfigurationKey(
            "rate", .integer(1...86_400_000), optional: \.eventsPerSecond, applies: .reload,
            default: "the provider's documented limit", example: "200", "The most events per second.")
        ConfigurationKey(
            "timeout_seconds", .duration(1...3600, unit: .seconds(1)), \.timeout, unit: "seconds", applies: .reload,
            "The timeout of a request.")
        ConfigurationKey(
            "backoff_seconds", .duration(0...3600, unit: .seconds(1)), \.backoffLongest, unit: "seconds",
            applies: .reload, "The longest wait between two attempts of a request, unless the provider asks for more.")
        ConfigurationKey(
            "retry_seconds", .duration(1...86_400, unit: .seconds(1)), \.retryLongest, unit: "seconds",
            applies: .reload,
            "The longest wait before a delivery is tried again whose provider refuses credentials, address or quota.")
        ConfigurationKey(
            "force", .flag, \.isForced, applies: .reload,
            "Also send days that were regenerated after some of their events were sent.")
    }

    /// The providers that have no address but an operator's.
    private static var collectors: [String] {
        DeliverableProvider.allCases.filter { $0.facts.hosts == nil }.map(\.rawValue)
    }

    private static func isEndpoint(_ text: String) -> Bool {
        let isLoopback = ["http://127.", "http://localhost", "http://[::1]"].contains { text.hasPrefix($0) }
        return (text.hasPrefix("https://") && text.count > 8 || isLoopback) && !text.contains("@")
    }
}

extension ConfigurationFile {
    static func deliver(_ section: inout ConfigurationSection) -> DeliverConfiguration {
        var configuration = DeliverConfiguration.defaults
        section.read(ConfigurationTable.deliver, into: &configuration)
        section.each("deliveries") { section in
            section.require("provider", choiceList(DeliverableProvider.self))
            var entry = DeliveryEntry.defaults
            section.read(ConfigurationTable.delivery, into: &entry)
            guard let provider = entry.provider else { return }
            if entry.name.isEmpty { entry.name = provider.rawValue }
            if configuration.deliveries.contains(where: { $0.provider == provider }) {
                section.complain("provider", "appears twice: each export is sent by one delivery; remove one")
            } else if configuration.deliveries.contains(where: { $0.name == entry.name }) {
                section.complain("name", "appears twice; choose another one")
            }
            if provider.facts.hosts == nil, entry.endpoint == nil {
                section.complain("endpoint", "is missing: \(provider.rawValue) has no endpoint but your collector's")
            }
            configuration.deliveries.append(entry)
        }
        return configuration
    }
}
