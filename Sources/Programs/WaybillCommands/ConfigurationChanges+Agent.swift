import WaybillAgent
import WaybillEvent
import WaybillSystem
import WaybillTail

extension ConfigurationTable {
    /// What a reload of an agent changes, key by key.
    ///
    /// - Parameters:
    ///   - started: the configuration at startup, which still applies to keys that need a restart.
    ///   - taken: the last configuration loaded.
    static func changes(
        from started: AgentConfiguration, _ taken: AgentConfiguration, to new: AgentConfiguration
    ) -> [ConfigurationChange] {
        Self.changes(of: Self.agent, in: "agent", from: started, taken, to: new, texts: \.writtenTexts)
            + Self.changes(from: taken.sources, to: new.sources)
    }

    /// Sources are told apart by their files, not by their place in the list.
    private static func changes(from old: [AgentSource], to new: [AgentSource]) -> [ConfigurationChange] {
        let old = Dictionary(grouping: old.map { SourceEntry($0) }, by: \.label)
        let new = Dictionary(grouping: new.map { SourceEntry($0) }, by: \.label)
        var changes: [ConfigurationChange] = []
        for label in Set(old.keys).union(new.keys).sorted() {
            let path = "agent.sources[\(label)]"
            let (before, after) = (old[label] ?? [], new[label] ?? [])
            for (one, other) in zip(before, after) {
                changes += Self.source.compactMap { key in
                    Self.change(key, "\(path).\(key.facts.key)", one, other, needsRestart: false, texts: [:], [:])
                }
            }
            if before.count != after.count {
                changes.append(
                    ConfigurationChange(
                        key: path, old: Self.presence(before.count), new: Self.presence(after.count),
                        needsRestart: false))
            }
        }
        return changes
    }

    private static func presence(_ count: Int) -> String {
        switch count {
        case 0: "absent"
        case 1: "present"
        default: "\(count) times"
        }
    }
}

extension SourceEntry {
    /// What a file has for a source.
    init(_ source: AgentSource) {
        switch source.files {
        case .spool(let directory): self.spool = directory
        case .files(let patterns): self.files = patterns
        }
        self.environment = DeploymentEnvironment(rawValue: source.environment)
        self.bundle = source.bundle
        self.timeMember = source.timeMember
        self.nameMember = source.nameMember
        self.userMember = source.userMember
        self.anonymousMember = source.anonymousMember
        self.followsLinks = source.followsLinks
        self.excludes = source.excludes.isEmpty ? nil : source.excludes
        self.isPolled = source.isPolled
        self.group = source.group
    }

    /// Names the source in a log.
    fileprivate var label: String { self.spool ?? (self.files ?? []).joined(separator: " ") }
}
