internal import Logging
internal import WaybillNotices

/// What an agent says of its own state, and of what its process may have.
extension AgentTelemetry {
    /// Spools are claimed in turn, because each takes a descriptor.
    func spoolsTakeTurns(claimed count: Int, waiting: Int) {
        self.logger.warning(
            .fewDescriptors, "there are more spools than this process may have files open; they are shipped in turn",
            metadata: ["claimed": .number(count), "waiting": .number(waiting)])
    }
}
