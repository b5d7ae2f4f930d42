import WaybillSystem

extension ConfigurationTable {
    /// What a reload of deliveries changes, key by key; deliveries are told apart by their names.
    ///
    /// - Parameters:
    ///   - started: the file at startup, which still applies to keys that need a restart.
    ///   - taken: the last file loaded.
    static func changes(
        from started: DeliverFile, _ taken: DeliverFile, to new: DeliverFile
    ) -> [ConfigurationChange] {
        var changes = Self.deliver.compactMap { key in
            Self.change(
                key, "deliver.\(key.facts.key)", started.deliver, new.deliver,
                needsRestart: key.facts.applies == .restart, texts: started.deliver.writtenTexts,
                new.deliver.writtenTexts)
        }
        let (oldStore, newStore) = (started.store ?? .defaults, new.store ?? .defaults)
        changes += Self.changes(from: oldStore, to: newStore)
        if started.merger != new.merger, started.store != nil || new.store != nil {
            changes.append(
                ConfigurationChange(
                    key: new.mergerKey, old: started.merger, new: new.merger, needsRestart: true))
        }
        let (old, entries) = (taken.deliver.deliveries, new.deliver.deliveries)
        for (index, entry) in entries.enumerated() {
            let path = "deliver.deliveries.\(entry.name)"
            guard let oldIndex = old.firstIndex(where: { $0.name == entry.name }) else {
                changes.append(ConfigurationChange(key: path, old: "absent", new: "present", needsRestart: false))
                continue
            }
            changes += Self.delivery.compactMap { key in
                let name = key.facts.key
                return Self.change(
                    key, "\(path).\(name)", old[oldIndex], entry, needsRestart: false,
                    texts: taken.deliver.written(oldIndex, name, as: path), new.deliver.written(index, name, as: path))
            }
        }
        for entry in old where !entries.contains(where: { $0.name == entry.name }) {
            changes.append(
                ConfigurationChange(
                    key: "deliver.deliveries.\(entry.name)", old: "present", new: "absent", needsRestart: false))
        }
        return changes
    }
}

extension DeliverConfiguration {
    /// What the file has in place of a value from the environment, under the path that changes use.
    fileprivate func written(_ index: Int, _ key: String, as path: String) -> [String: String] {
        self.writtenTexts["deliver.deliveries[\(index)].\(key)"].map { ["\(path).\(key)": $0] } ?? [:]
    }
}
