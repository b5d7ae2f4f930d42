import WaybillReceiver
import WaybillSystem

extension ConfigurationTable {
    /// What a merger reads of the section `receiver`: it has no connections, and no pieces of its own.
    static var merger: [ConfigurationKey<ReceiverConfiguration>] {
        let unread = [
            "listen", "connections", "projections", "stop_seconds", "insecure", "audit", "agents", "agents_file",
            "limits.silent_connections", "limits.streams",
        ]
        let sections = ["tls", "memory", "piece"]
        return Self.receiver.filter { !unread.contains($0.facts.key) && !sections.contains($0.facts.section) }
    }

    /// What a reload of a merger changes: keys of the bucket need a restart.
    static func changes(from started: StoreConfiguration, to new: StoreConfiguration) -> [ConfigurationChange] {
        Self.store.compactMap {
            Self.change($0, "store.\($0.facts.key)", started, new, needsRestart: true, texts: [:], [:])
        }
    }
}
