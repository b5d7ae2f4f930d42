internal import WaybillEvent
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// What came by one key since the start; a reload that keeps the key keeps its tally.
final class DoorTally: Sendable {
    struct Counts {
        var events = DoorCounts()
        var refusals: [DoorTelemetry.RefusalReason: Int] = [:]
        /// When something of it was stored last.
        var last: WallTime?
    }

    private let state = Lock(Counts())

    var counts: Counts { self.state.withLock { $0 } }

    func stored(_ counts: DoorCounts, at time: WallTime) {
        self.state.withLock { state in
            state.events += counts
            state.last = time
        }
    }

    func refused(_ reason: DoorTelemetry.RefusalReason) {
        self.state.withLock { $0.refusals[reason, default: 0] += 1 }
    }
}

extension DoorKey {
    /// A key's part of `GET /status`.
    func write(_ counts: DoorTally.Counts, to json: inout JSONWriter) {
        json.member("key", self.source.key)
        json.member("bundle", self.source.bundle)
        json.member("env", self.source.environment.rawValue)
        json.member("stored", counts.events.storedCount)
        json.member("repeated", counts.events.repeatedCount)
        json.member("quarantined", counts.events.quarantinedCount)
        json.member(
            "refused", Dictionary(uniqueKeysWithValues: counts.refusals.map { ($0.key.rawValue, $0.value) }))
        json.member("last", counts.last.map { Int($0.milliseconds) })
    }
}
