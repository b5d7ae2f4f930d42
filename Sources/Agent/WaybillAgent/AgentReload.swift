internal import WaybillSystem
internal import WaybillTail

/// Another configuration for a running agent.
package struct AgentReload: Sendable {
    /// What came of it.
    package enum Outcome: Hashable, Sendable {
        case taken
        /// Nothing has changed, for this reason.
        case refused(String)
    }

    let configuration: AgentConfiguration
    /// Whether something has changed that a connection depends on: then there is a new one.
    let reconnects: Bool
    /// Makes the pool of buffers that takes the place of the present one; `nil` if that stays.
    let buffers: (@Sendable () -> any BatchBuffers)?
    /// Called when the configuration is taken, before the next connection.
    let commit: @Sendable () -> Void
    let reply: @Sendable (Outcome) -> Void

    package init(
        _ configuration: AgentConfiguration, reconnects: Bool, buffers: (@Sendable () -> any BatchBuffers)? = nil,
        commit: @escaping @Sendable () -> Void = {}, reply: @escaping @Sendable (Outcome) -> Void
    ) {
        self.configuration = configuration
        self.reconnects = reconnects
        self.buffers = buffers
        self.commit = commit
        self.reply = reply
    }

    static let stopping = "the agent is stopping"
}

extension AgentConfiguration: ReloadableConfiguration {
    /// This configuration of a running agent with everything of another one that can change while it runs.
    ///
    /// The rest needs a restart: who the agent is, where its state is, and where it answers.
    package func taking(_ new: AgentConfiguration) -> AgentConfiguration {
        var taken = new
        taken.naming = self.naming
        taken.stateDirectory = self.stateDirectory
        taken.status.metrics = self.status.metrics
        taken.status.socket = self.status.socket
        taken.tailLimits.openFileCountMax = self.tailLimits.openFileCountMax
        taken.claimCountMax = self.claimCountMax
        taken.run = self.run
        return taken
    }
}
