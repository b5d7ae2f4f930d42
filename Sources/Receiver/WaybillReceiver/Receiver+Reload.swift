internal import WaybillHost
package import WaybillSystem

/// What changes while the receiver runs: its configuration, and what its trust rests on.
extension Receiver {
    /// Applies what can change while the receiver runs; all or nothing.
    ///
    /// Export options apply from each export's next batch, retention and cut-offs within a minute, certificates to new
    /// connections. When an export cannot continue with its options, or a certificate cannot be used, nothing changes.
    ///
    /// - Parameter changes: compares the new configuration with the one at the start and the one applied last.
    package func reload(
        _ configuration: ReceiverConfiguration,
        changes: (_ started: ReceiverConfiguration, _ taken: ReceiverConfiguration) -> [ConfigurationChange]
    ) {
        let taken = self.taken.withLock { $0 }
        var changed = changes(self.configuration, taken)
        if let change = ProjectionHost.tokenChange(from: taken.host, to: configuration.host, in: "receiver") {
            changed.append(change)
        }
        var server: TLSServer?
        do throws(TLSSetupError) {
            if self.configuration.tls != nil, let tls = configuration.tls { server = try self.renewed(tls, &changed) }
        } catch {
            return self.telemetry.host.reloadRefused([error.description])
        }
        guard self.host.reload(configuration.host) else { return }
        self.trust(configuration, server)
        self.taken.withLock { $0 = configuration }
        self.telemetry.host.reloaded(changed)
    }

    /// Applies changed certificates, revocation lists, agents and tokens, and nothing else.
    ///
    /// Connections of agents that are not let in any more end. When a file cannot be used, nothing changes.
    package func reloadTrust(_ configuration: ReceiverConfiguration) {
        var new = self.taken.withLock { $0 }
        let hadAgents = new.agents != nil
        new.agents = configuration.agents
        new.agentsFiles = configuration.agentsFiles
        var server: TLSServer?
        var changes: [ConfigurationChange] = []
        do throws(TLSSetupError) {
            if self.configuration.tls != nil, let tls = new.tls { server = try self.renewed(tls, &changes) }
        } catch {
            return self.telemetry.host.reloadRefused([error.description])
        }
        guard hadAgents == (new.agents != nil) else {
            return self.telemetry.host.reloadRefused(["agents: is added or removed by SIGHUP or a restart"])
        }
        self.trust(new, server)
        self.taken.withLock { $0 = new }
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
        var stamps = self.taken.withLock { $0 }.trustFiles.map { FileStamp($0, on: files) }
        while isStopping.wait(until: clock.monotonicTime() + .seconds(2), { $0 ? true : nil }) == nil {
            shared.agents.recheck(isChanged: false)
            shared.agents.tell(self.telemetry.host.takeQuarantined())
            let found = self.taken.withLock { $0 }.trustFiles.map { FileStamp($0, on: files) }
            if found != stamps { self.onTrustChange?(self) }
            stamps = found
        }
    }

    /// Reads the certificate's files again, and adds a change when the certificate is different.
    private func renewed(
        _ configuration: TLSServerConfiguration, _ changes: inout [ConfigurationChange]
    ) throws(TLSSetupError) -> TLSServer {
        let server = try TLSServer(configuration, isSigned: RevocationSignature.isValid)
        let old = self.tls.withLock { $0 }
        if let old, server.hasCertificate(of: old) { return server }
        guard server.start <= POSIXClock().wallTime() else {
            throw TLSSetupError(
                "TLS: the new certificate in \(configuration.identity.chain) is not valid before \(server.start.text); "
                    + "set this host's clock, or renew it")
        }
        guard server.expiry > POSIXClock().wallTime() else {
            throw TLSSetupError(
                "TLS: the new certificate in \(configuration.identity.chain) expired at \(server.expiry.text); renew it"
            )
        }
        changes.append(
            ConfigurationChange(
                key: "receiver.tls (certificate)", old: old.map { "valid until \($0.expiry.text)" } ?? "none",
                new: "valid until \(server.expiry.text)", needsRestart: false))
        return server
    }

    /// Counts a configuration that could not be read, and logs why.
    package func refuseReload(_ problems: [String]) {
        self.telemetry.host.reloadRefused(problems)
    }
}
