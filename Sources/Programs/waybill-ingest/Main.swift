import WaybillCommands
import WaybillDoor
import WaybillHost

/// The program `waybill-ingest`: `waybill` with the door.
///
/// A separate program, so that what takes requests from the internet is not in agents and receivers.
@main
enum Main {
    static func main() async {
        DoorProgram.own.register(
            DoorProgram(metrics: Metric.door, tunnelMetrics: Metric.tunnels) { DoorService($0, logger: $1) })
        await WaybillProgram.main()
    }
}

extension DoorService: OpenedDoor {}
