internal import Logging
internal import WaybillHost
internal import WaybillSystem

/// What an agent says about a reload of its configuration.
extension AgentTelemetry {
    func reloaded(_ changes: [ConfigurationChange]) {
        let applied = changes.filter { !$0.needsRestart }.map(\.description)
        let waiting = changes.filter(\.needsRestart).map(\.description)
        self.logger.notice(
            "configuration reloaded",
            metadata: ["changes": "\(applied.isEmpty ? "none" : applied.joined(separator: "; "))"])
        guard !waiting.isEmpty else { return }
        self.logger.warning(
            .agentRestartNeeded, "these changes of the configuration need a restart",
            metadata: ["changes": "\(waiting.joined(separator: "; "))"])
    }

    func reloadRefused(_ problems: [String]) {
        for problem in problems {
            self.logger.error(
                .agentReloadRefused, "the new configuration is refused, the old one stays",
                metadata: ["problem": "\(problem)"])
        }
    }
}
