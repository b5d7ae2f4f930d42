import WaybillFleet
import WaybillReceiver
import WaybillSystem

/// What `waybill store check --config` finds out about one receiver among the others.
extension StoreCheckCommand {
    /// - Returns: nothing if the file has no receiver.
    static func findings(
        of receiver: ReceiverConfiguration?, in store: any ObjectStore, now: WallTime
    ) -> [StoreProbe.Finding] {
        guard let receiver, ChainName.isReceiver(receiver.name) else { return [] }
        return [Self.agents(of: receiver, in: store), Self.name(of: receiver, in: store, now)]
    }

    /// Whether `agents:` is the same on all receivers; one that lacks it among those that have it is refused.
    private static func agents(of receiver: ReceiverConfiguration, in store: any ObjectStore) -> StoreProbe.Finding {
        do throws(StoreError) {
            let others = try AgentsRecord.all(in: store)
            let comparison = receiver.agentsRecord.comparison(with: others)
            let count = others.count { $0.receiver != receiver.name }
            guard !comparison.isEqual else {
                return StoreProbe.Finding(
                    name: "agents", outcome: .good,
                    detail: count == 0 ? "no other receiver has started yet" : "the same as on \(count) other receivers"
                )
            }
            let remedy =
                "give all receivers one agents: (agents_file); for a receiver that is gone delete agents/NAME.json"
            guard !comparison.having.isEmpty else {
                return StoreProbe.Finding(
                    name: "agents", outcome: .warned, detail: "\(comparison.text); \(remedy)")
            }
            let error = StoreError(.configuration, code: "agents", detail: comparison.text, remedy: remedy)
            return StoreProbe.Finding(name: "agents", outcome: .bad, detail: error.description, error: error)
        } catch {
            return StoreProbe.Finding(name: "agents", outcome: .warned, detail: "cannot be compared: \(error)")
        }
    }

    /// Whether another receiver writes under the same name.
    private static func name(
        of receiver: ReceiverConfiguration, in store: any ObjectStore, _ now: WallTime
    ) -> StoreProbe.Finding {
        do throws(StoreError) {
            let isTwin = try FleetSurvey.hasTwin(receiver.name, in: store, now: now)
            return StoreProbe.Finding(
                name: "name", outcome: isTwin ? .warned : .good,
                detail: isTwin
                    ? "two receivers are named \(receiver.name): give each a receiver.name of its own; nothing is lost or twice"
                    : "\(receiver.name) is one receiver's")
        } catch {
            return StoreProbe.Finding(name: "name", outcome: .warned, detail: "cannot be compared: \(error)")
        }
    }
}
