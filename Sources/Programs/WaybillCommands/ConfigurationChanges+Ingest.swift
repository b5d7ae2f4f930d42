import WaybillIngest
import WaybillSystem

extension ConfigurationTable {
    /// What a reload of a door changes, key by key.
    ///
    /// - Parameters:
    ///   - started: the configuration at startup, which still applies to keys that need a restart.
    ///   - taken: the last configuration loaded.
    static func changes(
        from started: DoorConfiguration, _ taken: DoorConfiguration, to new: DoorConfiguration
    ) -> [ConfigurationChange] {
        // Turning TLS on or off needs a restart.
        let isTLSTurned = (started.certificate == nil) != (new.certificate == nil)
        let changes = Self.changes(
            of: Self.ingest, in: "ingest", from: started, taken, to: new, texts: \.writtenTexts,
            isTurned: { $0.section == "tls" && isTLSTurned })
        return changes + Self.changes(from: taken.keys, to: new.keys)
    }

    /// Write keys are told apart by themselves, not by their place in the list.
    private static func changes(from old: [DoorKey], to new: [DoorKey]) -> [ConfigurationChange] {
        let old = Dictionary(old.map { ($0.source.key, KeyEntry($0)) }, uniquingKeysWith: { $1 })
        let new = Dictionary(new.map { ($0.source.key, KeyEntry($0)) }, uniquingKeysWith: { $1 })
        var changes: [ConfigurationChange] = []
        for name in Set(old.keys).union(new.keys).sorted() {
            let path = "ingest.keys[\(name)]"
            if let before = old[name], let after = new[name] {
                changes += Self.ingestKey.compactMap { key in
                    Self.change(
                        key, "\(path).\(key.facts.key)", before, after, needsRestart: false, texts: [:], [:])
                }
            } else {
                changes.append(
                    ConfigurationChange(
                        key: path, old: old[name] == nil ? "absent" : "present",
                        new: new[name] == nil ? "absent" : "present", needsRestart: false))
            }
        }
        return changes
    }
}
