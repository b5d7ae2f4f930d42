import WaybillProjection
import WaybillReceiver
import WaybillSystem
import WaybillYAML

/// What the keys of a section are read into that says what is written where.
protocol HostRoot: ConfigurationRoot {
    var host: HostConfiguration { get set }
}

extension ConfigurationTable {
    /// The data directory, whose it is, and where it is asked for.
    ///
    /// - Parameters:
    ///   - part: the program's word in the names of sockets.
    ///   - port: its usual port.
    @KeyList<Root> static func data<Root: HostRoot>(of part: String, port: Int) -> [ConfigurationKey<Root>] {
        ConfigurationKey(
            "data", .text, \.host.dataDirectory, option: "--data", required: "the data directory",
            example: "/var/lib/waybill", "The data directory; created if it is missing.")
        ConfigurationKey(
            "name", .text, \.host.name, default: "the host's name", example: "collector-1",
            "Its name, for people and in the fleet; give each receiver and merger another one.")
        Self.status(\Root.host.status, of: part, port: port)
        ConfigurationKey(
            "reserve_mib", .integer(0...1_000_000, factor: 1 << 20), \.host.reserveByteCount, unit: "MiB",
            """
            Disk space for the journal: while less is free, the archive waits; while less than twice as much is free, the \
            exports wait. At most a twentieth of the disk is reserved.
            """)
    }

    /// When days end, and how long what is in the data directory is kept.
    @KeyList<Root> static func keeping<Root: HostRoot>() -> [ConfigurationKey<Root>] {
        ConfigurationKey("zone", in: "archive", .zone, \.host.archiveZone, "The time zone of the archive's days.")
        ConfigurationKey(
            "cut_off", in: "archive", .timeOfDay, \.host.archiveCutOffSecond, applies: .reload,
            "When a day of the archive is sealed: this time of the next day.")
        ConfigurationKey(
            "days", in: "retention", .integer(1...36_500), optional: \.host.retention.dayCountMax, unit: "days",
            applies: .reload, default: "keep all", example: "400",
            "Delete sealed days of archive and exports that are older.")
        ConfigurationKey(
            "gib", in: "retention", .integer(1...1_000_000, factor: 1 << 30), optional: \.host.retention.byteCountMax,
            unit: "GiB", applies: .reload, default: "keep all",
            example: "500",
            "Delete the oldest sealed days when the archive's sealed days take more.")
        ConfigurationKey(
            "free_gib", in: "retention", .integer(1...1_000_000, factor: 1 << 30),
            optional: \.host.retention.freeByteCountMin, unit: "GiB", applies: .reload, default: "keep all",
            example: "20",
            "Delete the oldest sealed days while less space than this is free on the disk.")
        ConfigurationKey(
            "only", in: "retention", .choice, optional: \.host.retention.condition, applies: .reload,
            example: "delivered",
            "Keep a day, whatever its age and size, until `waybill deliver` has sent all of it.")
        ConfigurationKey(
            "apps", in: "retention", .appLimits, optional: \.host.retention.appLimits, applies: .reload,
            example: "{com.example.noisy: {days: 7}}",
            "Limits for apps, by bundle: `days` in place of the general one, and `gib` for the app's sealed days.")
        ConfigurationKey(
            "unsealed_days", in: "retention", .integer(1...36_500), optional: \.host.retention.unsealedDayCountMax,
            unit: "days", applies: .reload, default: "keep all", example: "30",
            "Delete a day that is still not sealed so long after it was due; its lines are lost.")
        ConfigurationKey(
            "quarantine", in: "retention", .limit, optional: \.host.retention.quarantineLimit, applies: .reload,
            default: "keep all",
            example: "{days: 30, gib: 5}", "Delete the oldest days of the quarantine.")
        ConfigurationKey(
            "dead", in: "retention", .limit, optional: \.host.retention.deadLimit, applies: .reload,
            default: "keep all", example: "{days: 30, gib: 5}",
            "Delete the oldest dead letters of sealed days; the size is of each export.")
        ConfigurationKey(
            "set_aside", in: "retention", .limit, optional: \.host.retention.setAsideLimit, applies: .reload,
            default: "keep all",
            example: "{days: 90, gib: 5}", "Delete the oldest files that starts have set aside.")
    }

    /// What one account may create in the archive.
    @KeyList<Root> static func partitions<Root: HostRoot>() -> [ConfigurationKey<Root>] {
        ConfigurationKey(
            "apps", in: "limits", .integer(1...1000), \.host.partitionQuotas.appCountMax,
            "New apps of one agent on a day that get a folder of their own; further ones share `_overflow`.")
        ConfigurationKey(
            "days", in: "limits", .integer(1...1_000_000), \.host.partitionQuotas.dayCountMax,
            """
            Days of apps, but for the last ones, that one principal may write to on a day; lines of others count on the day of \
            receipt.
            """)
    }

    static func exports<Root: HostRoot>(option: String?, default fallback: String) -> ConfigurationKey<Root> {
        ConfigurationKey(
            "exports", type: "list of sections", option: option, default: fallback, standing: "[]",
            "The exports to write; see below.")
    }
}

/// What a file leaves out is `nil` here.
extension RetentionPolicy {
    fileprivate var quarantineLimit: RetentionLimit? {
        get { self.quarantine.keepsAll ? nil : self.quarantine }
        set { self.quarantine = newValue ?? RetentionLimit() }
    }

    fileprivate var deadLimit: RetentionLimit? {
        get { self.dead.keepsAll ? nil : self.dead }
        set { self.dead = newValue ?? RetentionLimit() }
    }

    fileprivate var setAsideLimit: RetentionLimit? {
        get { self.setAside.keepsAll ? nil : self.setAside }
        set { self.setAside = newValue ?? RetentionLimit() }
    }

    fileprivate var appLimits: [String: RetentionLimit]? {
        get { self.apps.isEmpty ? nil : self.apps }
        set { self.apps = newValue ?? [:] }
    }
}

extension RetentionLimit {
    /// The keys in a file.
    fileprivate static let rule = "{days: 30}, {gib: 5}, or both"
    private static let maxima = ["days": 36_500, "gib": 1_000_000]

    /// Reads `{days: 30, gib: 5}`; `nil` for anything else.
    fileprivate init?(_ node: YAMLNode) {
        guard let mapping = node.mapping, !mapping.isEmpty else { return nil }
        self.init()
        for (key, value) in mapping {
            guard let name = key.string, let max = Self.maxima[name], let number = value.int, (1...max).contains(number)
            else { return nil }
            if name == "days" { self.dayCountMax = number } else { self.byteCountMax = number << 30 }
        }
    }

    fileprivate var text: String {
        let parts = [self.dayCountMax.map { "days: \($0)" }, self.byteCountMax.map { "gib: \($0 >> 30)" }]
        return "{" + parts.compactMap(\.self).joined(separator: ", ") + "}"
    }
}

extension ValueType<RetentionLimit> {
    fileprivate static var limit: ValueType {
        .scalar("section of days and gib", rule: RetentionLimit.rule) {
            $0.text
        } read: {
            RetentionLimit($0)
        }
    }
}

extension ValueType<[String: RetentionLimit]> {
    fileprivate static var appLimits: ValueType {
        let rule = "a section of apps, each with \(RetentionLimit.rule)"
        return ValueType(name: "section of apps") { node, reading in
            guard let mapping = node.mapping else {
                reading.problems.append(ValueProblem(text: "must be \(rule)"))
                return nil
            }
            var limits: [String: RetentionLimit] = [:]
            for (key, value) in mapping {
                guard let bundle = key.string, let limit = RetentionLimit(value) else {
                    reading.problems.append(ValueProblem(line: key.line, text: "must be \(rule)"))
                    continue
                }
                limits[bundle] = limit
            }
            return limits
        } show: { limits in
            "{" + limits.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.text)" }.joined(separator: ", ") + "}"
        }
    }
}
