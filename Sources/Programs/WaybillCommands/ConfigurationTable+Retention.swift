import WaybillJournal
import WaybillProjection
import WaybillReceiver
import WaybillSystem
import WaybillYAML

extension ConfigurationTable {
    /// When days end, and how long what is in the data directory is kept.
    @KeyList<ReceiverConfiguration> static var keeping: [ConfigurationKey<ReceiverConfiguration>] {
        ConfigurationKey("zone", in: "archive", .zone, \.archiveZone, "The time zone of the archive's days.")
        ConfigurationKey(
            "cut_off", in: "archive", .timeOfDay, \.archiveCutOffSecond, applies: .reload,
            "When a day of the archive is sealed: this time of the next day.")
        ConfigurationKey(
            "days", in: "retention", .integer(1...36_500), optional: \.retention.dayCountMax, unit: "days",
            applies: .reload, default: "keep all", example: "400",
            "Delete sealed days of archive and exports that are older.")
        ConfigurationKey(
            "gib", in: "retention", .integer(1...1_000_000, factor: 1 << 30), optional: \.retention.byteCountMax,
            unit: "GiB", applies: .reload, default: "keep all",
            example: "500",
            "Delete the oldest sealed days when the archive's sealed days take more.")
        ConfigurationKey(
            "free_gib", in: "retention", .integer(1...1_000_000, factor: 1 << 30),
            optional: \.retention.freeByteCountMin, unit: "GiB", applies: .reload, default: "keep all",
            example: "20",
            "Delete the oldest sealed days while less space than this is free on the disk.")
        ConfigurationKey(
            "only", in: "retention", .choice, optional: \.retention.condition, applies: .reload,
            example: "delivered",
            "Keep a day, whatever its age and size, until `waybill deliver` has sent all of it.")
        ConfigurationKey(
            "apps", in: "retention", .appLimits, optional: \.retention.appLimits, applies: .reload,
            example: "{com.example.noisy: {days: 7}}",
            "Limits for apps, by bundle: `days` in place of the general one, and `gib` for the app's sealed days.")
        ConfigurationKey(
            "unsealed_days", in: "retention", .integer(1...36_500), optional: \.retention.unsealedDayCountMax,
            unit: "days", applies: .reload, default: "keep all", example: "30",
            "Delete a day that is still not sealed so long after it was due; its lines are lost.")
        ConfigurationKey(
            "quarantine", in: "retention", .limit, optional: \.retention.quarantineLimit, applies: .reload,
            default: "keep all",
            example: "{days: 30, gib: 5}", "Delete the oldest days of the quarantine.")
        ConfigurationKey(
            "dead", in: "retention", .limit, optional: \.retention.deadLimit, applies: .reload, default: "keep all",
            example: "{days: 30, gib: 5}",
            "Delete the oldest dead letters of sealed days; the size is of each export.")
        ConfigurationKey(
            "set_aside", in: "retention", .limit, optional: \.retention.setAsideLimit, applies: .reload,
            default: "keep all",
            example: "{days: 90, gib: 5}", "Delete the oldest files that starts have set aside.")
        ConfigurationKey(
            "retention_hours", in: "journal", .duration(0...8760, unit: .seconds(3600)), \.journalRetention,
            unit: "hours", applies: .reload,
            "How long the journal is kept after archive and exports have read it.")
        ConfigurationKey(
            "gib", in: "journal", .integer(1...1_000_000, factor: 1 << 30), optional: \.unreadJournal.byteCountMax,
            unit: "GiB", applies: .reload, default: "keep all", example: "100",
            "Delete the oldest segments that the archive has read when the journal takes more, read by exports or not.")
        ConfigurationKey(
            "hours", in: "journal", .duration(1...87_600, unit: .seconds(3600)), optional: \.unreadJournal.ageMax,
            unit: "hours", applies: .reload, default: "keep all", example: "720",
            "Delete segments that the archive has read and that are older, read by exports or not.")
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
