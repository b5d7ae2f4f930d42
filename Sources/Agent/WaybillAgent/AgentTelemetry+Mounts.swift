internal import Logging
internal import WaybillHost

/// Mounts that do not answer.
extension AgentTelemetry {
    func hangs(_ mount: String) {
        self.logger.warning(
            .mountHangs, "a file system does not answer; what is on it waits, and everything else continues",
            metadata: ["path": "\(mount)"])
    }

    func answers(_ mount: String, after duration: Duration) {
        self.logger.notice(
            "a file system answers again, or is mounted no more",
            metadata: ["path": "\(mount)", "seconds": .number(Int(duration.components.seconds))])
    }
}
