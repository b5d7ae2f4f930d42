import WaybillExport
import WaybillHost
import WaybillIngest
import WaybillMerger
import WaybillReceiver

/// An entry of a list in a configuration; a reload tells entries apart by their names, not by their places.
struct ListedEntry<Root> {
    let name: String
    let entry: Root
    /// Where a file has it.
    var path = ""
    /// What that file has in place of values from the environment.
    var texts: [String: String] = [:]

    fileprivate func text(of key: KeyFacts) -> String? { self.texts["\(self.path).\(key.key)"] }
}

extension ConfigurationTable {
    /// What a reload of a receiver changes, key by key; as for every program.
    ///
    /// - Parameters:
    ///   - started: the configuration at startup, which still applies to keys that need a restart.
    ///   - taken: the last configuration loaded.
    static func changes(
        from started: ReceiverConfiguration, _ taken: ReceiverConfiguration, to new: ReceiverConfiguration
    ) -> [ConfigurationChange] {
        Self.changes(
            of: Self.receiver, in: "receiver", from: started, taken, to: new, texts: \.writtenTexts,
            hasTLS: { $0.tls != nil })
            + Self.exportChanges(from: started.host, taken.host, to: new.host, in: "receiver")
    }

    /// What a reload of a merger changes, key by key.
    static func changes(
        from started: MergerConfiguration, _ taken: MergerConfiguration, to new: MergerConfiguration
    ) -> [ConfigurationChange] {
        Self.changes(of: Self.merger, in: "merger", from: started, taken, to: new, texts: \.writtenTexts)
            + Self.exportChanges(from: started.host, taken.host, to: new.host, in: "merger")
    }

    /// What a reload of a merger finds changed in the section `store`, all of which needs a restart.
    static func changes(from started: StoreConfiguration, to new: StoreConfiguration) -> [ConfigurationChange] {
        Self.store.compactMap {
            Self.change($0, "store.\($0.facts.key)", started, new, needsRestart: true)
        }
    }

    /// What a reload of a door changes, key by key.
    static func changes(
        from started: DoorConfiguration, _ taken: DoorConfiguration, to new: DoorConfiguration
    ) -> [ConfigurationChange] {
        let listed = { (key: DoorKey) in ListedEntry(name: key.source.key, entry: key) }
        let (old, entries) = (taken.keys.map(listed), new.keys.map(listed))
        return Self.changes(
            of: Self.ingest, in: "ingest", from: started, taken, to: new, texts: \.writtenTexts,
            hasTLS: { $0.certificate != nil })
            + Self.changes(
                of: { _ in Self.ingestKey }, from: old, to: entries, in: Set((old + entries).map(\.name)).sorted()
            ) { "ingest.keys[\($0)]" }
    }

    /// What a reload of deliveries changes, key by key.
    static func changes(
        from started: DeliverFile, _ taken: DeliverFile, to new: DeliverFile
    ) -> [ConfigurationChange] {
        var changes = Self.changes(
            of: Self.deliver, in: "deliver", from: started.deliver, taken.deliver, to: new.deliver,
            texts: \.writtenTexts)
        changes += Self.changes(from: started.store ?? .defaults, to: new.store ?? .defaults)
        if started.merger != new.merger, started.store != nil || new.store != nil {
            changes.append(
                ConfigurationChange(key: new.mergerKey, old: started.merger, new: new.merger, needsRestart: true))
        }
        let listed = { (file: DeliverConfiguration) in
            file.deliveries.enumerated().map {
                ListedEntry(name: $1.name, entry: $1, path: "deliver.deliveries[\($0)]", texts: file.writtenTexts)
            }
        }
        return changes
            + Self.changes(of: { _ in Self.delivery }, from: listed(taken.deliver), to: listed(new.deliver)) {
                "deliver.deliveries.\($0)"
            }
    }

    /// What a reload changes in the list of exports; one that was added or removed needs a restart.
    ///
    /// - Parameter section: of the configuration file.
    static func exportChanges(
        from started: HostConfiguration, _ taken: HostConfiguration, to new: HostConfiguration, in section: String
    ) -> [ConfigurationChange] {
        let latest = Self.exports(of: taken, in: section)
        let running = Self.exports(of: started, in: section).map { export in
            latest.first { $0.name == export.name } ?? export
        }
        return Self.changes(
            of: { Self.export + Self.options(of: $0.provider) }, from: running, to: Self.exports(of: new, in: section),
            needsRestart: true
        ) { "\(section).exports.\($0)" }
    }

    private static func exports(of host: HostConfiguration, in section: String) -> [ListedEntry<ExportOptions>] {
        host.exports.enumerated().map {
            ListedEntry(
                name: $1.provider.rawValue, entry: $1, path: "\(section).exports[\($0)]", texts: host.writtenTexts)
        }
    }

    /// What a reload changes in the keys of a section outside its lists.
    ///
    /// - Parameters:
    ///   - texts: what a file contains in place of values from the environment.
    ///   - hasTLS: turning TLS on or off needs a restart.
    static func changes<Root>(
        of keys: [ConfigurationKey<Root>], in section: String, from started: Root, _ taken: Root, to new: Root,
        texts: KeyPath<Root, [String: String]>, hasTLS: (Root) -> Bool = { _ in false }
    ) -> [ConfigurationChange] {
        keys.compactMap { key in
            let isTLS = key.facts.section == "tls"
            let needsRestart = key.facts.applies == .restart || isTLS && hasTLS(started) != hasTLS(new)
            let isWaiting = needsRestart || isTLS && hasTLS(started) != hasTLS(taken)
            let (base, path) = (isWaiting ? started : taken, "\(section).\(key.facts.key)")
            return Self.change(
                key, path, base, new, needsRestart: needsRestart,
                texts: (base[keyPath: texts][path], new[keyPath: texts][path]))
        }
    }

    /// What a reload changes in a list.
    ///
    /// - Parameters:
    ///   - names: the order of the changes; `nil`: as in the list, then what is absent.
    ///   - needsRestart: whether an entry that was added or removed does.
    ///   - path: of the entry with this name, as changes show it.
    static func changes<Root>(
        of keys: (Root) -> [ConfigurationKey<Root>], from old: [ListedEntry<Root>], to new: [ListedEntry<Root>],
        in names: [String]? = nil, needsRestart: Bool = false, at path: (_ name: String) -> String
    ) -> [ConfigurationChange] {
        let before = Dictionary(grouping: old, by: \.name)
        let after = Dictionary(grouping: new, by: \.name)
        let order = names ?? new.map(\.name) + old.map(\.name).filter { after[$0] == nil }
        return order.flatMap { name in
            let (before, after) = (before[name] ?? [], after[name] ?? [])
            var changes = zip(before, after).flatMap { one, other in
                keys(other.entry).compactMap { key in
                    Self.change(
                        key, "\(path(name)).\(key.facts.key)", one.entry, other.entry, needsRestart: false,
                        texts: (one.text(of: key.facts), other.text(of: key.facts)))
                }
            }
            if before.count != after.count {
                changes.append(
                    ConfigurationChange(
                        key: path(name), old: Self.presence(before.count), new: Self.presence(after.count),
                        needsRestart: needsRestart))
            }
            return changes
        }
    }

    private static func presence(_ count: Int) -> String {
        switch count {
        case 0: "absent"
        case 1: "present"
        default: "\(count) times"
        }
    }

    /// - Parameter texts: what the files contain in place of values from the environment.
    static func change<Root>(
        _ key: ConfigurationKey<Root>, _ path: String, _ old: Root, _ new: Root, needsRestart: Bool,
        texts: (old: String?, new: String?) = (nil, nil)
    ) -> ConfigurationChange? {
        let (oldValue, newValue) = (key.show(old), key.show(new))
        guard oldValue != newValue else { return nil }
        return ConfigurationChange(
            key: path, old: texts.old ?? oldValue, new: texts.new ?? newValue, needsRestart: needsRestart)
    }
}
