package import Logging
package import ServiceLifecycle
import WaybillConsole
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

/// How the commands of this program open a door.
///
/// Only `waybill-ingest` has one; `waybill ingest` replaces the process of `waybill` by that program.
package enum DoorProgram {
    package typealias Opening =
        @Sendable (_ configuration: DoorConfiguration, _ logger: Logger) -> any OpenedDoor

    package static let own = ProgramPart<Opening>(of: "waybill-ingest")
}
