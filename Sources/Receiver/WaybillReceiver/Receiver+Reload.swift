package import WaybillHost
internal import WaybillSystem

/// What changes while the receiver runs: its configuration, and what its trust rests on.
extension Receiver: ReloadableService {
    /// Applies what can change while the receiver runs; all or nothing.
    ///
    /// Export options apply from each export's next batch, retention and cut-offs within a minute, certificates to new
    /// connections. When an export cannot continue with its options, or a certificate cannot be used, nothing changes.
    package func apply(_ new: ReceiverConfiguration, _ changes: inout [ConfigurationChange]) throws {
        changes += self.reloader.taken.status.tokenChanges(to: new.status, in: "receiver")
        let server = try self.renewed(new, &changes)
        try self.host.reload(new.host)
        self.trust(new, server)
    }

    /// Applies changed certificates, revocation lists, agents and tokens, and nothing else.
    ///
    /// Connections of agents that are not let in any more end. When a file cannot be used, nothing changes.
    package func reloadTrust(_ configuration: ReceiverConfiguration) {
        var new = self.reloader.taken
        let hadAgents = new.agents != nil
        new.agents = configuration.agents
        new.agentsFiles = configuration.agentsFiles
        var changes: [ConfigurationChange] = []
        do {
            let server = try self.renewed(new, &changes)
            guard hadAgents == (new.agents != nil) else {
                throw ConfigurationProblems(["agents: is added or removed by SIGHUP or a restart"])
            }
            self.trust(new, server)
        } catch {
            return self.refuseReload(error)
        }
        self.reloader.taken = new
        self.telemetry.trustReloaded(changes)
    }

    private func trust(_ configuration: ReceiverConfiguration, _ server: TLSServer?) {
        if let server {
            self.tls.withLock { $0 = server }
            self.telemetry.certificateUsed(until: server.expiry)
        }
        if self.store != nil { self.announcement.set(configuration.agentsRecord) }
        let revocations = self.tls.withLock { $0?.revocations ?? .empty }
        self.serving.withLock { $0 }?.replace(configuration.register(revocations: revocations))
    }

    /// Judges open connections again every few seconds, as certificates expire, and watches the files of trust.
    func watch(_ shared: ReceiverShared, until isStopping: Monitor<Bool>) {
        let clock = POSIXClock()
        let files = POSIXFileSystem()
        var stamps = self.reloader.taken.trustFiles.map { FileStamp($0, on: files) }
        while isStopping.wait(until: clock.monotonicTime() + .seconds(2), { $0 ? true : nil }) == nil {
            shared.agents.recheck(isChanged: false)
            shared.agents.tell(self.telemetry.host.takeQuarantined())
            let found = self.reloader.taken.trustFiles.map { FileStamp($0, on: files) }
            if found != stamps { self.onTrustChange?(self) }
            stamps = found
        }
    }

    /// Reads the certificate's files again, and adds a change when the certificate is different; `nil` without TLS.
    private func renewed(
        _ configuration: ReceiverConfiguration, _ changes: inout [ConfigurationChange]
    ) throws(TLSSetupError) -> TLSServer? {
        guard self.configuration.tls != nil, let tls = configuration.tls else { return nil }
        let server = try TLSServer(tls, isSigned: RevocationSignature.isValid)
        let former = self.tls.withLock { $0 }
        if let change = try server.change(from: former, chain: tls.identity.chain, in: "receiver") {
            changes.append(change)
        }
        return server
    }
}
