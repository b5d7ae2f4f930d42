import WaybillFleet
import WaybillHost
import WaybillJSON
import WaybillSystem

/// What is in no piece because a receiver took it before it belonged to the fleet.
extension FleetReport {
    struct Before: Hashable {
        let principal: String
        let stream: String
        let ranges: String
        let byteCount: Int
        /// The receivers whose own archives have it, as agents said.
        let holders: [String]
    }

    /// What the merger that is farthest says.
    var beforeFleet: [Before] {
        if let merger = self.farthestMerger {
            return merger.objects("before").map { before in
                Before(
                    principal: before["principal"]?.string ?? "", stream: before["stream"]?.string ?? "?",
                    ranges: before["ranges"]?.string ?? "", byteCount: merger.count("bytes", of: before),
                    holders: (before["holders"]?.elements ?? []).compactMap(\.string))
            }
        }
        return (self.local?.beforeFleet ?? []).map {
            Before(
                principal: $0.principal, stream: $0.stream, ranges: $0.ranges.description,
                byteCount: $0.ranges.byteCount, holders: $0.holders)
        }
    }

    func addBefore(to json: inout JSONWriter) {
        json.member("before", objects: self.beforeFleet) { json, before in
            json.member("principal", before.principal)
            json.member("stream", before.stream)
            json.member("ranges", before.ranges)
            json.member("bytes", before.byteCount)
            json.member("holders", array: before.holders) { $0.string($1) }
        }
    }

    var beforeTable: StatusTable {
        let rows = self.beforeFleet.map { before in
            let principal = before.principal.isEmpty ? "" : before.principal + "/"
            return StatusTable.Row(
                cells: [
                    TerminalText.escaped(principal + before.stream), HumanText.bytes(before.byteCount),
                    TerminalText.escaped(before.holders.joined(separator: ", ")),
                    TerminalText.escaped(before.ranges),
                ], health: .ok)
        }
        return StatusTable(
            columns: [
                .init(name: "STREAM"), .init(name: "BEFORE THE FLEET", isNumber: true),
                .init(name: "IN THE ARCHIVE OF"), .init(name: "OFFSETS"),
            ], rows: rows)
    }
}
