import WaybillEvent
import WaybillExport
import WaybillSystem

/// The exports of a receiver.
///
///     exports:
///       - {provider: ga4, zone: Asia/Seoul, env: [prod], mapping: ga4.yaml, options: {too_old: clamp}}
///       - {provider: custom, name: warehouse, file: warehouse.yaml}
///
/// Paths of files are relative to the folder of the configuration file.
extension ConfigurationFile {
    static func exports(_ section: inout ConfigurationSection, directory: String) -> [ExportOptions] {
        var exports: [ExportOptions] = []
        section.each("exports") { section in
            guard var options = Self.export(&section, directory: directory) else { return }
            if exports.contains(where: { $0.provider == options.provider }) {
                section.complain("provider", "is named twice; remove one")
            }
            options.zone = section.zone("zone")
            options.cutOffSecond = section.cutOff("cut_off")
            let environments = section.choices("env", DeploymentEnvironment.self)
            if !environments.isEmpty { options.environments = EnvironmentSet(environments) }
            if var chosen = section.section("options") {
                Self.read(&chosen, into: &options)
                section.take(&chosen)
            }
            exports.append(options)
        }
        return exports
    }

    private static func export(_ section: inout ConfigurationSection, directory: String) -> ExportOptions? {
        if section.isText("provider", "custom") {
            _ = section.text("provider")
            return Self.custom(&section, directory: directory)
        }
        guard let provider = section.provider("provider") else {
            section.forget()
            return nil
        }
        var options = ExportOptions(provider: provider)
        guard let name = section.text("mapping") else { return options }
        let file = MappingFile.read(Self.path(name, in: directory))
        section.add(file.problems)
        if file.custom != nil {
            section.complain(
                "mapping", "has columns, as a custom provider's file has; name it with provider: custom, file:")
        }
        options.mapping = file.mapping
        return options
    }

    private static func custom(_ section: inout ConfigurationSection, directory: String) -> ExportOptions? {
        let name = section.requiredText("name")
        let path = section.requiredText("file")
        if section.text("mapping") != nil {
            section.complain(
                "mapping", "is not for custom providers: take:, leave:, rename: and fields: stand in file:")
        }
        guard !path.isEmpty else { return nil }
        let file = MappingFile.read(Self.path(path, in: directory))
        section.add(file.problems)
        guard let provider = Destination(customName: name) else {
            if !name.isEmpty {
                section.complain(
                    "name", "is a letter a to z and up to 31 of a to z, 0 to 9 and -, and no other provider's name")
            }
            return nil
        }
        guard file.problems.isEmpty else { return nil }
        guard let custom = file.custom, !custom.columns.isEmpty else {
            section.complain("file", "has no columns; add format: and columns:")
            return nil
        }
        var options = ExportOptions(provider: provider)
        options.mapping = file.mapping
        options.custom = custom
        return options
    }

    /// A path that the configuration file names.
    static func path(_ name: String, in directory: String) -> String {
        name.hasPrefix("/") || directory == "." ? name : Path.join(directory, name)
    }

    // MARK: Options of providers

    /// Reads what an operator may choose for a provider; `Protocol/formats/providers.md` has the table.
    private static func read(_ section: inout ConfigurationSection, into options: inout ExportOptions) {
        switch options.provider {
        case .ga4: Self.read(&section, into: &options.ga4)
        case .mixpanel:
            Self.readIdentity(&section, into: &options.mixpanel)
            if let name = section.text("screen_event") { options.mixpanel.screenEventName = name }
        case .mixpanelProfiles: Self.readIdentity(&section, into: &options.mixpanel)
        case .amplitude: options.amplitude.mode = section.choice("mode", AmplitudeOptions.Mode.self) ?? .batch
        case .segment, .flurry, .custom: break
        case .posthog: options.posthog.isPersonless = section.flag("personless") ?? false
        case .snowplow: options.snowplow.vendor = section.vendor("vendor")
        case .csv: Self.read(&section, into: &options.csv)
        case .syslog: Self.read(&section, into: &options.syslog)
        case .journald:
            if let facility = section.integer("facility", in: 0...23) { options.journald.facility = facility }
            options.journald.includesUser = section.flag("user") ?? false
        }
    }

    private static func read(_ section: inout ConfigurationSection, into options: inout GA4Options) {
        options.tooOld = section.choice("too_old", GA4Options.TooOld.self) ?? .reject
        if let name = section.text("user_event") {
            options.userEventName = name
            if !GA4Options.isEventName(name) {
                section.complain(
                    "user_event",
                    "is a letter and up to \(Limits.GA4.nameCharacterCountMax - 1) letters, digits and _, "
                        + "and no name that GA4 keeps for itself")
            }
        }
        options.includesDevice = section.flag("device") ?? false
    }

    private static func readIdentity(_ section: inout ConfigurationSection, into options: inout MixpanelOptions) {
        options.identityMerge = section.choice("id_merge", MixpanelOptions.IdentityMerge.self) ?? .simplified
    }

    private static func read(_ section: inout ConfigurationSection, into options: inout CSVOptions) {
        options.zone = section.choice("zone", CSVOptions.Zone.self) ?? .report
        options.hasMilliseconds = section.flag("millis") ?? false
        options.hasByteOrderMark = section.flag("bom") ?? false
        options.isGuarded = section.flag("guard") ?? true
        options.others = section.choice("others", CSVOptions.Others.self) ?? .cell
        options.includesUsers = section.flag("users") ?? false
        options.hasID = section.flag("id") ?? false
    }

    private static func read(_ section: inout ConfigurationSection, into options: inout SyslogOptions) {
        if let facility = section.integer("facility", in: 0...23) { options.facility = facility }
        if let host = section.text("host") {
            options.hostName = host
            if !SyslogOptions.isHostName(host) {
                section.complain(
                    "host", "has 1 to \(Limits.Syslog.hostNameByteCountMax) printable ASCII characters and no space")
            }
        }
        if let number = section.integer("enterprise", in: 1...4_294_967_295) { options.elementName = "wb@\(number)" }
        if let size = section.integer("max", in: 0...1 << 20) {
            options.messageByteCountMax = size
            // What every receiver must take (RFC 5424, section 6.1).
            if 1..<480 ~= size { section.complain("max", "is 0 for no limit, or at least 480 bytes") }
        }
        options.includesUser = section.flag("user") ?? false
    }
}
