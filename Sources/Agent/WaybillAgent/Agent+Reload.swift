package import WaybillHost
internal import WaybillSystem

/// What changes while the agent runs.
extension Agent: ReloadableService {
    /// Applies what can change while the agent runs; all of it or nothing.
    ///
    /// Certificates, the token and shared spools are opened first, as at a start. When something has changed, the agent
    /// connects again; a file continues where the receiver says that it stands.
    package func apply(_ new: AgentConfiguration, _ changes: inout [ConfigurationChange]) throws {
        let taken = self.reloader.taken
        let tls = try self.renewed(new, &changes)
        let token = try new.presentToken(on: POSIXFileSystem())
        try self.createSharedSpools(new)
        if self.live.token.withLock({ $0 }) != token, new.tokenFile == taken.tokenFile {
            changes.append(.token(in: "agent.token_file"))
        }
        changes += taken.status.tokenChanges(to: new.status, in: "agent")
        if case .refused(let problem) = self.post(new, tls, changes) { throw ConfigurationProblems([problem]) }
        self.live.token.withLock { $0 = token }
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
        let former = self.reloader.taken
        guard
            new.compression != former.compression || new.rawByteCountMax != former.rawByteCountMax
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
