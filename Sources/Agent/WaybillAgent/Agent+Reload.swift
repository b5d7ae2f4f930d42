internal import WaybillHost
package import WaybillSystem

/// What changes while the agent runs.
extension Agent {
    /// Applies what can change while the agent runs; all of it or nothing.
    ///
    /// Certificates, the token and shared spools are opened first, as at a start. When something has changed, the agent
    /// connects again; a file continues where the receiver says that it stands.
    ///
    /// - Parameter changes: compares the new configuration with the one at the start and the one taken last.
    package func reload(
        _ configuration: AgentConfiguration,
        changes: (_ started: AgentConfiguration, _ taken: AgentConfiguration) -> [ConfigurationChange]
    ) {
        let taken = self.live.taken.withLock { $0 }
        let new = taken.taking(configuration)
        var changes = changes(self.configuration, taken)
        let tls: TLSClient?
        let token: Secret?
        do {
            tls = try self.renewed(configuration, &changes)
            token = try new.presentToken(on: POSIXFileSystem())
            try self.createSharedSpools(new)
        } catch {
            return self.refuseReload(["\(error)"])
        }
        let before = self.live.token.withLock { $0 }
        if before != token, new.tokenFile == taken.tokenFile {
            changes.append(
                ConfigurationChange(
                    key: "agent.token_file (token)", old: "former", new: "another one", needsRestart: false))
        }
        if configuration.status.tokenFile == taken.status.tokenFile, configuration.status.token != taken.status.token {
            changes.append(
                ConfigurationChange(
                    key: "agent.status_token_file (token)", old: "former", new: "another one", needsRestart: false))
        }
        switch self.post(new, tls, changes) {
        case .refused(let problem): self.refuseReload([problem])
        case .taken:
            self.live.taken.withLock { $0 = new }
            self.live.token.withLock { $0 = token }
            self.live.statusToken.current = new.status.token
            let counted = changes
            self.live.reloads.withLock { $0.count(counted) }
            self.telemetry.reloaded(counted)
        }
    }

    /// Counts a configuration that cannot be used, and logs why.
    package func refuseReload(_ problems: [String]) {
        self.live.reloads.withLock { $0.count(.refused) }
        self.telemetry.reloadRefused(problems)
    }

    /// Hands a configuration to the pump, and waits for its answer.
    private func post(
        _ new: AgentConfiguration, _ tls: TLSClient?, _ changes: [ConfigurationChange]
    ) -> AgentReload.Outcome {
        guard let inbox = self.live.inbox.withLock({ $0 }) else { return .refused("the agent is starting") }
        let live = self.live
        let answer = Monitor<AgentReload.Outcome?>(nil)
        let reload = AgentReload(
            new, reconnects: changes.contains { !$0.needsRestart }, buffers: self.newBuffers(new, inbox),
            commit: { live.tls.withLock { $0 = tls } },
            reply: { outcome in answer.update { $0 = outcome } })
        inbox.post(.asked(.reload(reload)), generation: 0)
        return answer.wait { $0 } ?? .refused(AgentReload.stopping)
    }

    /// Replaces the threads that compress; `nil` if they can stay.
    private func newBuffers(
        _ new: AgentConfiguration, _ inbox: PumpInbox
    ) -> (@Sendable () -> any BatchBuffers)? {
        let live = self.live
        let former = live.taken.withLock { $0 }
        guard
            new.compressionLevel != former.compressionLevel
                || new.compressionThreadCount != former.compressionThreadCount
                || new.rawByteCountMax != former.rawByteCountMax
        else { return nil }
        return {
            let compression = Compression(new, inbox)
            let replaced = live.compression.withLock { present in
                defer { present = compression }
                return present
            }
            replaced?.end()
            return compression.compressor
        }
    }

    /// Reads the files for TLS again, and adds a change when they have other bytes.
    private func renewed(
        _ configuration: AgentConfiguration, _ changes: inout [ConfigurationChange]
    ) throws(TLSSetupError) -> TLSClient? {
        guard let settings = configuration.tls else { return nil }
        let new = try TLSClient(settings)
        guard let old = self.live.tls.withLock({ $0 }), !new.hasFiles(of: old) else { return new }
        changes.append(
            ConfigurationChange(
                key: "agent.tls (files)", old: Self.text(of: old), new: Self.text(of: new), needsRestart: false))
        return new
    }

    private static func text(of client: TLSClient) -> String {
        client.expiry.map { "certificate valid until \($0.text)" } ?? "no certificate"
    }
}
