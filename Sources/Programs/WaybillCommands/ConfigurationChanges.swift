import WaybillExport
import WaybillReceiver
import WaybillSystem

extension ConfigurationTable {
    /// What a reload changes, key by key.
    ///
    /// - Parameters:
    ///   - started: the configuration at startup, which still applies to keys that need a restart.
    ///   - taken: the last configuration loaded.
    static func changes(
        from started: ReceiverConfiguration, _ taken: ReceiverConfiguration, to new: ReceiverConfiguration
    ) -> [ConfigurationChange] {
        let changes = Self.receiver.compactMap { key in
            var needsRestart = key.facts.applies == .restart
            var base = needsRestart ? started : taken
            if key.facts.section == "tls" {
                // Turning TLS on or off needs a restart.
                needsRestart = started.tls == nil || new.tls == nil
                if needsRestart || taken.tls == nil { base = started }
            }
            return Self.change(
                key, "receiver.\(key.facts.key)", base, new, needsRestart: needsRestart, texts: base.writtenTexts,
                new.writtenTexts)
        }
        return changes + Self.exportChanges(from: started.host, taken.host, to: new.host, in: "receiver")
    }

    /// What a reload changes in the list of exports.
    ///
    /// - Parameter section: of the configuration file.
    static func exportChanges(
        from started: HostConfiguration, _ taken: HostConfiguration, to new: HostConfiguration, in section: String
    ) -> [ConfigurationChange] {
        var changes: [ConfigurationChange] = []
        for (index, options) in new.exports.enumerated() {
            let path = "\(section).exports.\(options.provider.rawValue)"
            guard started.exports.contains(where: { $0.provider == options.provider }) else {
                changes.append(ConfigurationChange(key: path, old: "absent", new: "present", needsRestart: true))
                continue
            }
            let base = taken.exports.contains { $0.provider == options.provider } ? taken : started
            for (oldIndex, old) in base.exports.enumerated() where old.provider == options.provider {
                changes += (Self.export + Self.options(of: options.provider)).compactMap { key in
                    Self.change(
                        key, "\(path).\(key.facts.key)", old, options, needsRestart: false,
                        texts: Self.texts(of: base, section, export: oldIndex, key.facts.key, path),
                        Self.texts(of: new, section, export: index, key.facts.key, path))
                }
            }
        }
        for old in started.exports where !new.exports.contains(where: { $0.provider == old.provider }) {
            let path = "\(section).exports.\(old.provider.rawValue)"
            changes.append(ConfigurationChange(key: path, old: "present", new: "absent", needsRestart: true))
        }
        return changes
    }

    /// What a reload changes in the keys of a section outside its lists.
    ///
    /// - Parameters:
    ///   - texts: what a file contains in place of values from the environment.
    ///   - isTurned: whether a key needs a restart this time, though it usually does not.
    static func changes<Root>(
        of keys: [ConfigurationKey<Root>], in section: String, from started: Root, _ taken: Root, to new: Root,
        texts: KeyPath<Root, [String: String]>, isTurned: (KeyFacts) -> Bool = { _ in false }
    ) -> [ConfigurationChange] {
        keys.compactMap { key in
            let needsRestart = key.facts.applies == .restart || isTurned(key.facts)
            let base = needsRestart ? started : taken
            return Self.change(
                key, "\(section).\(key.facts.key)", base, new, needsRestart: needsRestart, texts: base[keyPath: texts],
                new[keyPath: texts])
        }
    }

    /// - Parameter texts: what the files contain in place of values from the environment.
    static func change<Root>(
        _ key: ConfigurationKey<Root>, _ path: String, _ old: Root, _ new: Root, needsRestart: Bool,
        texts oldTexts: [String: String], _ newTexts: [String: String]
    ) -> ConfigurationChange? {
        let (oldValue, newValue) = (key.show(old), key.show(new))
        guard oldValue != newValue else { return nil }
        return ConfigurationChange(
            key: path, old: oldTexts[path] ?? oldValue, new: newTexts[path] ?? newValue, needsRestart: needsRestart)
    }

    /// The written text of an export's key, under the path that changes use.
    private static func texts(
        of configuration: HostConfiguration, _ section: String, export index: Int, _ key: String, _ path: String
    ) -> [String: String] {
        configuration.writtenTexts["\(section).exports[\(index)].\(key)"].map { ["\(path).\(key)": $0] } ?? [:]
    }
}
