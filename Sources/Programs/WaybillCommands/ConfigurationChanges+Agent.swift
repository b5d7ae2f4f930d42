import WaybillAgent
import WaybillEvent
import WaybillHost
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

    /// Sources are told apart by their files.
    private static func changes(from old: [AgentSource], to new: [AgentSource]) -> [ConfigurationChange] {
        let (old, new) = (old.map { SourceEntry($0).listed }, new.map { SourceEntry($0).listed })
        return Self.changes(
            of: { _ in Self.source }, from: old, to: new, in: Set((old + new).map(\.name)).sorted()
        ) { "agent.sources[\($0)]" }
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

    /// Named for a log.
    fileprivate var listed: ListedEntry<SourceEntry> {
        ListedEntry(name: self.spool ?? (self.files ?? []).joined(separator: " "), entry: self)
    }
}
