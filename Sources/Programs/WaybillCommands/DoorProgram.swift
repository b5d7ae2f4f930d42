package import Logging
package import ServiceLifecycle
package import WaybillHost
package import WaybillIngest

/// A door that is open until its service ends.
package protocol OpenedDoor: Service, ReloadableService where Configuration == DoorConfiguration {}

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
