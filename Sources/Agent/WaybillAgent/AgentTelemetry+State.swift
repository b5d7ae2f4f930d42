internal import Logging
internal import WaybillHost

/// What an agent says of its own state, and of what its process may have.
extension AgentTelemetry {
    /// Spools are claimed in turn, because each takes a descriptor.
    func spoolsTakeTurns(claimed count: Int, waiting: Int) {
        self.logger.warning(
            .fewDescriptors, "there are more spools than this process may have files open; they are shipped in turn",
            metadata: ["claimed": .number(count), "waiting": .number(waiting)])
    }

    func locksUnseen(_ folder: String, _ grace: Duration) {
        self.logger.warning(
            .locksUnseen,
            "this spool is on a network mount or on FUSE: locks of its writers may not be seen, and segments stay longer",
            metadata: ["path": "\(folder)", "grace_seconds": "\(grace.components.seconds)"])
    }

    /// The machine would have another name now.
    func keptName(_ change: AgentNameChange) {
        self.logger.notice(
            "this machine's id or name has changed; the agent continues under the name of its state",
            metadata: ["name": "\(change.former)", "derived": "\(change.name)"])
    }

    func renamed(_ change: AgentNameChange) {
        self.logger.notice(
            change.logCount > 0
                ? "the agent has another name; every log is shipped again under it" : "the agent has another name",
            metadata: [
                "from": "\(change.former)", "to": "\(change.name)", "logs": .number(change.logCount),
            ])
    }
}
