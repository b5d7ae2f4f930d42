package import Logging
package import ServiceLifecycle
package import WaybillHost
package import WaybillIngest
package import WaybillSystem

/// A door that is open until its service ends.
package protocol OpenedDoor: Service {
    /// Applies what can change while the door is open; all or nothing.
    ///
    /// - Parameter changes: compares the new configuration with the one at the start and the one applied last.
    func reload(
        _ configuration: DoorConfiguration,
        changes: (_ started: DoorConfiguration, _ taken: DoorConfiguration) -> [ConfigurationChange])
    /// Counts a configuration that could not be read, and logs why.
    func refuseReload(_ problems: [String])
}

/// What only the program `waybill-ingest` knows: how a door is opened, and what it counts.
///
/// A command that needs it, such as `waybill ingest`, replaces the process of `waybill` by that program.
package struct DoorProgram: Sendable {
    package static let own = ProgramPart<DoorProgram>(of: "waybill-ingest")

    let metrics: [Metric]
    /// With `ingest.line`.
    let tunnelMetrics: [Metric]
    let open: @Sendable (_ configuration: DoorConfiguration, _ logger: Logger) -> any OpenedDoor

    package init(
        metrics: [Metric], tunnelMetrics: [Metric],
        open: @escaping @Sendable (_ configuration: DoorConfiguration, _ logger: Logger) -> any OpenedDoor
    ) {
        (self.metrics, self.tunnelMetrics, self.open) = (metrics, tunnelMetrics, open)
    }
}
