internal import WaybillProtocol

/// Which connection owns each stream, and for which agent: the last one that opened it.
struct Owners {
    private struct Owner {
        let connection: ConnectionHandle
        /// The connection's agent, or the one that it speaks for.
        let tenant: AdmittedAgent
    }

    private var owners: [StreamName: Owner] = [:]
    private var streams: [ObjectIdentifier: Set<StreamName>] = [:]
    /// Streams whose last line had no LF, or was cut off; only their seal can follow.
    private var ended: Set<StreamName> = []

    func hasEnded(_ name: StreamName) -> Bool {
        self.ended.contains(name)
    }

    mutating func end(_ name: StreamName) {
        self.ended.insert(name)
    }

    mutating func sealed(_ name: StreamName) {
        self.ended.remove(name)
        self.release(name)
    }

    func owner(of name: StreamName) -> ConnectionHandle? {
        self.owners[name]?.connection
    }

    func tenant(of name: StreamName) -> AdmittedAgent? {
        self.owners[name]?.tenant
    }

    mutating func set(_ connection: ConnectionHandle, _ tenant: AdmittedAgent, of name: StreamName) {
        self.release(name)
        self.owners[name] = Owner(connection: connection, tenant: tenant)
        self.streams[ObjectIdentifier(connection), default: []].insert(name)
    }

    mutating func release(_ name: StreamName) {
        guard let owner = self.owners.removeValue(forKey: name) else { return }
        self.streams[ObjectIdentifier(owner.connection)]?.remove(name)
    }

    mutating func release(_ connection: ConnectionHandle) {
        for name in self.streams.removeValue(forKey: ObjectIdentifier(connection)) ?? [] { self.owners[name] = nil }
    }
}
