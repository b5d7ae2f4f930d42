internal import NIOCore
internal import WaybillExport
internal import WaybillJSON
internal import WaybillJournal
internal import WaybillHost
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// What `GET /status` answers; `Protocol/metrics.md` describes it.
///
/// Everything is looked up when someone asks, without a lock that is held for long: receiving continues.
struct ReceiverStatus: Sendable {
    /// An answer comes after this long, whether or not anything became durable.
    private static let patience = TimeAmount.seconds(8)
    /// More agents are only counted.
    static let agentCountMax = 1000

    let shared: ReceiverShared
    let feed: JournalFeed
    let telemetry: ReceiverTelemetry
    let usage: DiskUsage

    /// The status, at once or when the journal is durable beyond a position; `nil` if too many wait.
    func answer(after position: Int?, on channel: any Channel) -> EventLoopFuture<[UInt8]>? {
        Self.answer(after: position, on: channel, self.feed, self.usage) { self.json($0) }
    }

    /// Who waits for the journal gets the disk's usage as it was measured last.
    ///
    /// - Parameter json: makes the answer.
    static func answer(
        after position: Int?, on channel: any Channel, _ feed: JournalFeed, _ usage: DiskUsage,
        _ json: @escaping @Sendable (DiskUsage.Result?) -> [UInt8]
    ) -> EventLoopFuture<[UInt8]>? {
        guard let position else { return usage.measure(on: channel.eventLoop).map { json($0) } }
        let watch = feed.watch
        let promise = channel.eventLoop.makePromise(of: Void.self)
        let wait = watch.wait(beyond: JournalPosition(position)) { promise.succeed() }
        switch wait {
        case .answered: break
        case .refused:
            promise.succeed()
            return nil
        case .waiting(let number):
            let timeout = channel.eventLoop.scheduleTask(in: Self.patience) { watch.cancel(number) }
            channel.closeFuture.whenComplete { _ in watch.cancel(number) }
            promise.futureResult.whenComplete { _ in timeout.cancel() }
        }
        return promise.futureResult.map { json(usage.last) }
    }

    private func json(_ usage: DiskUsage.Result?) -> [UInt8] {
        let end = self.feed.end
        let now = self.shared.clock.wallTime()
        let projections = self.telemetry.projections.withLock { $0 }.sorted { $0.key < $1.key }
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
            json.member("lines", self.telemetry.lines.load(ordering: .relaxed))
            json.member("bytes", self.telemetry.rawBytes.load(ordering: .relaxed))
            json.member("connected", agents.count)
            json.member("agents", objects: Self.listed(agents)) { self.write($1, now: now, to: &$0) }
            json.member("projections", objects: projections) { json, entry in
                entry.value.write(entry.key, journalEnd: end, self.feed, now: now, to: &json)
            }
            self.telemetry.writeStore(end, to: &json)
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
        // One that came since the status was begun is no later than the status says it is.
        json.member("last_batch", connection.lastBatchTime.map { Int(min($0, now).milliseconds) })
        json.member("last_heard", now.milliseconds - connection.silence.nanoseconds / 1_000_000)
        json.member("lines", connection.lineCount)
        json.member("lines_per_second", connection.linesPerSecond(at: now))
        json.member("clock_difference_ms", connection.clockDifference.map { Int($0.milliseconds) })
    }
}

extension ReceiverTelemetry.ProjectionStanding {
    /// Writes the projection's part of a status.
    func write(
        _ name: String, journalEnd end: JournalPosition, _ feed: JournalFeed, now: WallTime, to json: inout JSONWriter
    ) {
        let tally = self.tally
        let pending = max(0, end.rawValue - self.position.rawValue)
        json.member("name", name)
        json.member("state", self.failure != nil ? "failing" : self.isHeld ? "waiting" : "ok")
        json.member("error", self.failure?.description)
        json.member("behind_bytes", pending)
        json.member("behind_seconds", self.secondsBehind(feed, pending, now))
        json.member("lines", tally.lineCount)
        json.member("archived", tally.archived)
        json.member("exported", tally.exported)
        json.member("held", tally.held)
        let refused = RefusalReason.allCases.map { ($0.rawValue, tally.outcomes[.refused($0)]) }.filter { $0.1 > 0 }
        json.member("refused", Dictionary(uniqueKeysWithValues: refused))
        let skipped = NotExported.allCases.map { ($0.rawValue, tally.skips[$0]) }.filter { $0.1 > 0 }
        json.member("skipped", Dictionary(uniqueKeysWithValues: skipped))
        // An export counts the lines that the archive puts into the quarantine, without their reasons.
        let reasons = QuarantineReason.allCases.map { ($0.rawValue, tally.outcomes[.quarantined($0)]) }
        json.member("quarantined", Dictionary(uniqueKeysWithValues: reasons.filter { $0.1 > 0 }))
        json.member("unaccounted", tally.unaccountedLineCount)
        json.member("open_parts", name == "archive" ? nil : tally.openPartCount)
        json.member("open_records", name == "archive" ? nil : tally.openRecordCount)
        json.member("oldest_open", tally.oldestOpen.map { Int($0.milliseconds) })
        json.member("pending", pending)
    }

    /// How long the oldest batch that is not in the projection's files has been in the journal; `nil` if that is not
    /// known, at most as long as said if it is no longer in memory.
    private func secondsBehind(_ feed: JournalFeed, _ pending: Int, _ now: WallTime) -> Int? {
        guard pending > 0 else { return 0 }
        let since: WallTime
        switch feed.waiting(after: self.position) {
        case .nothing: return 0
        case .since(let time): since = time
        case .unknown:
            guard let time = self.receivedAt else { return nil }
            since = time
        }
        return Int(max(0, now.milliseconds - since.milliseconds) / 1000)
    }

}

extension DiskUsage.Result? {
    /// Writes the disk's part of a status.
    func write(_ conditions: HostConditions, to json: inout JSONWriter) {
        let (usage, reserve) = (self, conditions.reserve.standing)
        json.member("free", reserve?.freeByteCount)
        json.member("total", reserve?.totalByteCount)
        json.member("reserve", reserve?.reservedByteCount)
        json.member("measured", usage.map { Int($0.time.milliseconds) })
        json.member("complete", usage?.isComplete ?? false)
        json.member("parts", objects: usage?.parts ?? []) { json, part in
            json.member("name", part.name)
            json.member("bytes", part.byteCount)
            json.member("files", part.fileCount)
        }
    }
}
