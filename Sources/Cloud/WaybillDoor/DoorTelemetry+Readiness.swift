internal import WaybillHost

extension DoorTelemetry {
    /// Whether events are taken, and what an operator must look at.
    ///
    /// A receiver that no tunnel reaches makes the door no less ready: it takes the events of SDKs.
    func readiness(of door: Door) -> Readiness {
        let own = self.readiness
        return Readiness(isReady: own.isReady, problems: own.problems + (door.tunnels?.problems ?? []))
    }
}

extension Readiness {
    /// As `GET /status` says it.
    var health: Health {
        guard self.isReady else { return .down }
        return self.problems.isEmpty ? .ok : .degraded
    }
}
