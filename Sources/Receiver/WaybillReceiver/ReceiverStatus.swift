internal import NIOCore
internal import WaybillData
internal import WaybillHost
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillSystem

/// What `GET /status` answers; `Protocol/metrics.md` describes it.
///
/// Everything is looked up when someone asks, without a lock that is held for long: receiving continues.
struct ReceiverStatus: Sendable {
    /// More agents are only counted.
    static let agentCountMax = 1000

    let shared: ReceiverShared
    let feed: JournalFeed
    let telemetry: ReceiverTelemetry
    let usage: DiskUsage

    /// The status, at once or when the journal is durable past a position; `nil` if too many wait.
    func answer(after position: Int?, on channel: any Channel) -> EventLoopFuture<[UInt8]>? {
        HostStatus.answer(after: position, on: channel, self.feed, self.usage) { self.json($0) }
    }

    private func json(_ usage: DiskUsage.Result?) -> [UInt8] {
        let end = self.feed.end
        let now = self.shared.clock.wallTime()
        let projections = self.telemetry.host.projections.withLock { $0 }.sorted { $0.key < $1.key }
        let readiness = self.telemetry.readiness(self.shared)
        let isDown = self.telemetry.commitProblem(self.shared) != nil
        let health: Health = isDown ? .down : readiness == .ready ? .ok : .degraded
        let agents = self.shared.agents.connections
        return JSONWriter.object { json in
            json.member("part", "receiver")
            json.member("name", self.shared.identity.name)
            json.member("software", self.shared.software)
            json.member("time", now.milliseconds)
            json.member("started", self.shared.started.milliseconds)
            json.member("health", health.rawValue)
            json.member("problems", array: readiness.problems) { $0.string($1) }
            json.member("journal_end", end.rawValue)
            json.member("lines", self.telemetry.journal.lines.load(ordering: .relaxed))
            json.member("bytes", self.telemetry.journal.rawBytes.load(ordering: .relaxed))
            json.member("connected", agents.count)
            json.member("agents", objects: Self.listed(agents)) { self.write($1, now: now, to: &$0) }
            json.member("projections", objects: projections) { json, entry in
                entry.value.write(entry.key, journalEnd: end, self.feed, now: now, to: &json)
            }
            self.telemetry.uploads.write(end, to: &json)
            json.member("disk") { usage.write(self.shared.conditions, to: &$0) }
        }
    }

    // MARK: Agents

    /// The agents to list, those that were silent longest first; they come sorted by name.
    static func listed(_ agents: [ConnectionHandle]) -> [ConnectionHandle] {
        // In steps, so that agents that are heard every few seconds keep their places.
        let ranked = agents.map { (agent: $0, silence: $0.silence.nanoseconds / 60_000_000_000) }.enumerated()
        let sorted = ranked.sorted { ($1.element.silence, $0.offset) < ($0.element.silence, $1.offset) }
        return sorted.prefix(Self.agentCountMax).map(\.element.agent)
    }

    private func write(_ connection: ConnectionHandle, now: WallTime, to json: inout JSONWriter) {
        json.member("name", connection.admitted.fullName)
        json.member("principal", connection.admitted.principal.name)
        json.member("peer", connection.peer)
        json.member("address", connection.address)
        json.member("software", connection.software)
        json.member("since", connection.since.milliseconds)
        json.member("streams", self.shared.streams.streamCount(of: connection))
        // One that came since the status was begun is not later than the status says it is.
        json.member("last_batch", connection.lastBatchTime.map { Int(min($0, now).milliseconds) })
        json.member("last_heard", now.milliseconds - connection.silence.nanoseconds / 1_000_000)
        json.member("lines", connection.lineCount)
        json.member("lines_per_second", connection.linesPerSecond(at: now))
        json.member("clock_difference_ms", connection.clockDifference.map { Int($0.milliseconds) })
    }
}
