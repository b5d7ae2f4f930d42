internal import WaybillEvent
internal import WaybillExport
package import WaybillStore
package import WaybillSystem

internal import WaybillJSON

/// The deliveries of one process, as `waybill configuration --deliveries FILE` prints a configuration file: one line of
/// JSON with every value as a text, `none` for a key that is not set.
///
///     {"data":"/var/lib/waybill","metrics":"none","status_socket":"none","status_token_file":"none","deliveries":[{"name":"ga4","provider":"ga4","rate":"none",…}],"written":{}}
///
/// The configuration is read by `waybill`, which has its table of keys; `waybill-deliver` has the HTTP client. So each
/// of them is without the other's libraries, and there is one definition of every key.
package struct DeliverySetup: Sendable {
    /// One entry of `deliveries`.
    package struct Entry: Sendable {
        package let name: String
        package var delivery: DeliveryConfiguration
        /// A file of `NAME=value` lines; `nil` for the environment's variables.
        package let credentialsFile: String?
        /// The timeout of a request.
        package let timeout: Duration
        /// The longest wait before a provider that refused everything is tried again.
        package let retryLongest: Duration
        /// Every key with its value.
        fileprivate let texts: [String: String]
    }

    /// The bucket of a fleet whose mergers share these deliveries.
    package struct Fleet: Sendable {
        package let location: StoreLocation
        /// The name of this merger.
        package let merger: String
        fileprivate let texts: [String: String]
    }

    /// What a new configuration changes.
    package struct Change: Hashable, Sendable {
        package let key: String
        package let old: String
        package let new: String
        package let needsRestart: Bool

        package init(key: String, old: String, new: String, needsRestart: Bool) {
            self.key = key
            self.old = old
            self.new = new
            self.needsRestart = needsRestart
        }
    }

    /// Why a line is not a setup.
    package struct Failure: Error, Hashable, CustomStringConvertible {
        package let detail: String

        package var description: String {
            "waybill printed a configuration that waybill-deliver cannot read (\(self.detail)); install both programs "
                + "from the same release"
        }
    }

    package let data: String
    /// Where metrics are served.
    package let metrics: NetworkAddress?
    /// The path of a socket where the same is served.
    package let statusSocket: String?
    /// The file with the token that other machines must show for the status.
    package let statusTokenFile: String?
    /// `nil` outside a fleet.
    package let fleet: Fleet?
    package let entries: [Entry]
    /// What the file has in place of values from the environment, by the key's path.
    private let written: [String: String]

    package init(json bytes: [UInt8]) throws(Failure) {
        guard let json = JSONValue(bytes), let data = json["data"]?.string, let metrics = json["metrics"]?.string,
            let socket = json["status_socket"]?.string, let tokenFile = json["status_token_file"]?.string,
            let deliveries = json["deliveries"]?.elements
        else { throw Failure(detail: "it is not the expected JSON") }
        self.data = data
        self.metrics = NetworkAddress(metrics)
        self.statusSocket = socket == "none" ? nil : socket
        self.statusTokenFile = tokenFile == "none" ? nil : tokenFile
        self.fleet = try json["store"].map { (store) throws(Failure) in try Fleet(store) }
        var entries: [Entry] = []
        for delivery in deliveries { entries.append(try Entry(delivery, data: data)) }
        self.entries = entries
        var written: [String: String] = [:]
        for (key, value) in json["written"]?.members ?? [] { written[key] = value.string }
        self.written = written
    }

    /// What differs in `new`, key by key.
    ///
    /// - Parameter started: the setup at the start, whose `data`, `metrics` and `status_…` still apply.
    package func changes(to new: DeliverySetup, started: DeliverySetup) -> [Change] {
        var changes: [Change] = []
        func compare(_ key: String, _ old: String, _ value: String, needsRestart: Bool) {
            guard old != value else { return }
            changes.append(Change(key: key, old: old, new: value, needsRestart: needsRestart))
        }
        compare("deliver.data", started.data, new.data, needsRestart: true)
        compare("deliver.metrics", Self.text(started.metrics), Self.text(new.metrics), needsRestart: true)
        compare(
            "deliver.status_socket", started.statusSocket ?? "none", new.statusSocket ?? "none", needsRestart: true)
        compare(
            "deliver.status_token_file", started.statusTokenFile ?? "none", new.statusTokenFile ?? "none",
            needsRestart: true)
        for key in Fleet.keys {
            compare(
                key == "merger" ? "receiver.name" : "store.\(key)", started.fleet?.texts[key] ?? "none",
                new.fleet?.texts[key] ?? "none", needsRestart: true)
        }
        for (index, entry) in new.entries.enumerated() {
            let path = "deliver.deliveries.\(entry.name)"
            guard let oldIndex = self.entries.firstIndex(where: { $0.name == entry.name }) else {
                changes.append(Change(key: path, old: "absent", new: "present", needsRestart: false))
                continue
            }
            let old = self.entries[oldIndex]
            for (key, value) in entry.texts.sorted(by: { $0.key < $1.key }) where old.texts[key] != value {
                changes.append(
                    Change(
                        key: "\(path).\(key)",
                        old: self.written["deliver.deliveries[\(oldIndex)].\(key)"] ?? old.texts[key] ?? "none",
                        new: new.written["deliver.deliveries[\(index)].\(key)"] ?? value, needsRestart: false))
            }
        }
        for old in self.entries where !new.entries.contains(where: { $0.name == old.name }) {
            changes.append(
                Change(key: "deliver.deliveries.\(old.name)", old: "present", new: "absent", needsRestart: false))
        }
        return changes
    }

    private static func text(_ address: NetworkAddress?) -> String {
        address.map { "\($0)" } ?? "none"
    }
}

extension DeliverySetup.Fleet {
    fileprivate static let keys = ["url", "endpoint", "region", "addressing", "checksum", "ca", "merger"]

    fileprivate init(_ json: JSONValue) throws(DeliverySetup.Failure) {
        var texts: [String: String] = [:]
        for (key, value) in json.members ?? [] {
            if let text = value.string, text != "none" || key == "checksum" { texts[key] = text }
        }
        guard let merger = texts["merger"], ClaimIdentity.isName(merger), let url = texts["url"],
            let addressing = texts["addressing"].flatMap(StoreLocation.Addressing.init(rawValue:)),
            let checksum = texts["checksum"].flatMap(StoreLocation.Checksum.init(rawValue:))
        else { throw DeliverySetup.Failure(detail: "the store lacks a key") }
        do throws(StoreError) {
            var location = try StoreLocation(url)
            (location.endpoint, location.region) = (texts["endpoint"], texts["region"])
            (location.addressing, location.checksum) = (addressing, checksum)
            location.authorities = texts["ca"]
            self.location = location
        } catch {
            throw DeliverySetup.Failure(detail: "\(error)")
        }
        self.merger = merger
        self.texts = texts
    }
}

extension DeliverySetup.Entry {
    fileprivate init(_ json: JSONValue, data: String) throws(DeliverySetup.Failure) {
        var texts: [String: String] = [:]
        for (key, value) in json.members ?? [] {
            if let text = value.string { texts[key] = text }
        }
        func text(_ key: String) -> String? { texts[key].flatMap { $0 == "none" ? nil : $0 } }
        func seconds(_ key: String) -> Duration? { text(key).flatMap { Int64($0) }.map { .seconds($0) } }
        guard let name = text("name"), let provider = text("provider").flatMap(DeliverableProvider.init(rawValue:)),
            let timeout = seconds("timeout_seconds"), let backoff = seconds("backoff_seconds"),
            let retry = seconds("retry_seconds"),
            let ambiguity = text("ambiguous").flatMap(AmbiguityPolicy.init(rawValue:))
        else { throw DeliverySetup.Failure(detail: "a delivery lacks a key") }
        self.name = name
        self.texts = texts
        self.credentialsFile = text("credentials_file")
        self.timeout = timeout
        self.retryLongest = retry
        self.delivery = DeliveryConfiguration(dataDirectory: data, provider: provider)
        self.delivery.env = text("env").flatMap(DeploymentEnvironment.init(rawValue:))
        self.delivery.region = text("region").flatMap(ProviderRegion.init(rawValue:))
        self.delivery.endpoint = text("endpoint")
        self.delivery.ambiguity = ambiguity
        self.delivery.eventsPerSecond = text("rate").flatMap { Double($0) }
        self.delivery.isForced = text("force") == "on"
        self.delivery.isFollowing = true
        self.delivery.backoffLongest = backoff
    }

    /// Whether a delivery that runs with these options need not start again.
    func isEqual(to other: DeliverySetup.Entry) -> Bool {
        self.texts == other.texts
    }
}
