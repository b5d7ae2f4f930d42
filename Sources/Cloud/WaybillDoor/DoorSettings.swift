internal import WaybillEvent
internal import WaybillHost
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// What a request is judged by, from its head to its answer; a reload replaces it for the requests that come next.
final class DoorSettings: Sendable {
    let configuration: DoorConfiguration
    /// How many connections may be open: as configured, or as many as the process may have files for.
    let places: ConnectionLimits
    private let standings: [String: DoorStanding]

    /// - Parameter former: what applied until now; the rate of a key that stays the same continues.
    init(_ configuration: DoorConfiguration, after former: DoorSettings? = nil, now: MonotonicTime) {
        self.configuration = configuration
        self.places = configuration.places(
            fileCountMax: ProcessLimits.raiseOpenFileCount(
                to: configuration.limits.connectionCountMax + configuration.ownFileCount))
        self.standings = Dictionary(
            configuration.keys.map { key in
                let name = key.source.key
                let standing = former?.standings[name]
                if let standing, standing.key == key { return (name, standing) }
                return (name, DoorStanding(key, standing?.tally ?? DoorTally(), now: now))
            }, uniquingKeysWith: { $1 })
    }

    /// In the configuration's order.
    var all: [DoorStanding] { self.configuration.keys.compactMap { self.standings[$0.source.key] } }

    subscript(key: String) -> DoorStanding? { self.standings[key] }

    /// Whether a page may read the answer: of its key, or of any while the key is not known.
    func allows(_ origin: String, _ standing: DoorStanding?) -> Bool {
        if let standing { return standing.key.allows(origin) }
        return self.configuration.keys.contains { $0.allows(origin) }
    }
}

/// A write key, how much of its quota is used, and what came by it.
final class DoorStanding: Sendable {
    let key: DoorKey
    let tally: DoorTally
    private let quota: Lock<EventQuota>

    init(_ key: DoorKey, _ tally: DoorTally, now: MonotonicTime) {
        self.key = key
        self.tally = tally
        self.quota = Lock(EventQuota(key.rates, now: now))
    }

    /// Takes a request's events out of the quota, or says why not.
    func take(_ events: IngestedEvents, from address: AddressGroup, at now: MonotonicTime) -> EventQuota.Refusal? {
        self.quota.withLock {
            $0.take(events.eventCount, faultCount: events.faults.count, from: address, at: now)
        }
    }

    /// Counts what a request's events became.
    func answered(_ outcome: DoorOutcome, _ events: IngestedEvents, at time: WallTime) {
        switch outcome {
        case .stored(let counts):
            self.tally.stored(counts, at: time)
            if counts.repeatedCount > 0 { self.quota.withLock { $0.giveBack(counts.repeatedCount) } }
        case .full, .failed, .share:
            self.quota.withLock { $0.giveBack(events.eventCount - events.faults.count) }
        }
    }
}

extension DoorConfiguration {
    var room: DoorMemory.Limits {
        DoorMemory.Limits(
            byteCountMax: self.limits.memoryByteCountMax, shareByteCountMax: self.limits.shareByteCountMax)
    }

    /// Files that are not senders' connections: segments and folders of spools, the quarantine, tunnels' connections to the receiver, and those
    /// of those who ask for metrics, the event loops'.
    var ownFileCount: Int { 96 + 2 * self.keys.count + (self.line.receiver == nil ? 0 : self.line.connectionCountMax) }

    /// - Parameter fileCountMax: how many files the process may have open.
    func places(fileCountMax: Int) -> ConnectionLimits {
        let (countMax, shareCountMax) = self.limits.connections(
            fileCountMax: max(fileCountMax / 4, fileCountMax - self.ownFileCount))
        return ConnectionLimits(countMax: countMax, groupCountMax: shareCountMax)
    }
}

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
        json.member("refused", counts.refusals)
        json.member("last", counts.last.map { Int($0.milliseconds) })
    }
}
