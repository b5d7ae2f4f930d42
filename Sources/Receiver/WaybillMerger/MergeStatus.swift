internal import NIOCore
internal import WaybillData
internal import WaybillFleet
internal import WaybillHost
internal import WaybillJSON
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// What a merger says about itself; `Protocol/metrics.md` describes it.
struct MergeStatus: Sendable {
    /// More chains are only counted.
    static let chainCountMax = 10_000
    /// More streams with missing bytes are only counted.
    static let missingCountMax = 1000

    let configuration: HostConfiguration
    let fleet: Incarnation
    let patience: Duration
    let board: MergeProgress
    let telemetry: HostTelemetry
    let conditions: HostConditions
    let feed: JournalFeed
    let usage: DiskUsage
    let started: WallTime

    // MARK: Readiness

    var readiness: Readiness {
        let standing = self.board.standing
        var failures = [standing.failure?.problem].compactMap(\.self)
        var problems = [self.conditions.clock.problem(self.telemetry.clock)].compactMap(\.self)
        self.telemetry.addDiskProblems(self.conditions, &failures, &problems)
        if let code = standing.publishFailure {
            problems.append("sealed days cannot be put into the bucket (\(code)): it is tried again")
        }
        if standing.missingByteCount > 0 {
            problems.append("\(standing.missingByteCount) bytes of streams are missing: waybill fleet names them")
        }
        let stale = standing.staleChains(patience: self.patience).count
        if stale > 0 { problems.append("receivers that have been silent for long: \(stale)") }
        return Readiness(isReady: failures.isEmpty, problems: failures + problems)
    }

    // MARK: Metrics

    func page(_ usage: DiskUsage.Result?) -> MetricsPage {
        var page = MetricsPage()
        page.addBuild(self.configuration.software, protocol: LineProtocol.versions)
        let standing = self.board.standing
        self.addRounds(standing, to: &page)
        Self.addTally(standing.tally, to: &page)
        Self.addPublished(standing, to: &page)
        page.addRequests(self.telemetry.storeRequests)
        self.telemetry.reloads.add(to: &page)
        let end = self.feed.end
        page.add(.journalEnd, end.rawValue)
        self.telemetry.addFiles(self.conditions, usage, end, to: &page)
        page.addProcess()
        return page
    }

    private func addRounds(_ standing: MergeProgress.Standing, to page: inout MetricsPage) {
        page.add(.rounds, standing.roundCount)
        page.add(.round, standing.round)
        page.add(.lag, Double(standing.lag(at: self.telemetry.clock.wallTime()).nanoseconds) / 1e9)
        page.add(.chains, standing.chains.count)
        page.add(.staleChains, standing.staleChains(patience: self.patience).count)
        page.add(.missingBytes, standing.missingByteCount)
        page.add(.failing, by: MergeFailure.Code.self) { standing.failure?.code == $0 ? 1 : 0 }
    }

    private static func addTally(_ tally: MergeTally, to page: inout MetricsPage) {
        page.add(.frames, by: Metric.FrameOutcome.self) { outcome in
            switch outcome {
            case .copied: tally.copiedFrameCount
            case .trimmed: tally.trimmedFrameCount
            case .dropped: tally.droppedFrameCount
            }
        }
        page.add(.mergedLines, tally.lineCount)
        page.add(.droppedLines, tally.droppedLineCount)
        page.add(.droppedBytes, tally.droppedByteCount)
        page.add(.conflictLines, tally.conflictLineCount)
        page.add(.unprovenLines, tally.unprovenLineCount)
        page.add(.damagedBytes, tally.damagedByteCount)
    }

    private static func addPublished(_ standing: MergeProgress.Standing, to page: inout MetricsPage) {
        page.add(.published, by: Metric.PublishOutcome.self) { outcome in
            switch outcome {
            case .created: standing.createdCount
            case .present: standing.presentCount
            case .different: standing.differentCount
            case .failed: standing.publishFailureCount
            }
        }
        page.add(.publishedBytes, standing.publishedByteCount)
    }

    // MARK: Status

    private static func addBefore(_ streams: [BytesBefore], to json: inout JSONWriter) {
        json.member("before_streams", streams.count)
        json.member("before", objects: streams.prefix(Self.missingCountMax)) { json, stream in
            json.member("principal", stream.principal)
            json.member("stream", stream.stream)
            json.member("ranges", stream.ranges.description)
            json.member("bytes", stream.ranges.byteCount)
            json.member("holders", array: stream.holders) { $0.string($1) }
        }
    }

    func json(_ usage: DiskUsage.Result?) -> [UInt8] {
        let (end, now, standing) = (self.feed.end, self.telemetry.clock.wallTime(), self.board.standing)
        let readiness = self.readiness
        let health: Health = standing.failure != nil ? .down : readiness == .ready ? .ok : .degraded
        let projections = self.telemetry.projections.withLock { $0 }.sorted { $0.key < $1.key }
        let chains = standing.chains.sorted { $0.key < $1.key }
        let stale = Set(standing.staleChains(patience: self.patience))
        return JSONWriter.object { json in
            json.member("part", "merger")
            json.member("name", self.configuration.name)
            json.member("software", self.configuration.software)
            json.member("time", now.milliseconds)
            json.member("started", self.started.milliseconds)
            json.member("health", health.rawValue)
            json.member("problems", array: readiness.problems) { $0.string($1) }
            json.member("fleet", self.fleet.text)
            json.member("error", standing.failure?.description)
            json.member("round", standing.round)
            json.member("rounds", standing.roundCount)
            json.member("through", standing.through.milliseconds)
            json.member("lag_seconds", Int(standing.lag(at: now).nanoseconds / 1_000_000_000))
            json.member("journal_end", end.rawValue)
            json.member("lines", standing.tally.lineCount)
            json.member("dropped_lines", standing.tally.droppedLineCount)
            json.member("conflict_lines", standing.tally.conflictLineCount)
            json.member("unproven_lines", standing.tally.unprovenLineCount)
            json.member("damaged_bytes", standing.tally.damagedByteCount)
            json.member("missing_bytes", standing.missingByteCount)
            json.member("missing_streams", standing.missing.count)
            json.member("missing", objects: standing.missing.prefix(Self.missingCountMax)) { json, missing in
                json.member("principal", missing.principal)
                json.member("stream", missing.stream)
                json.member("ranges", missing.rangesText)
                json.member("bytes", missing.byteCount)
                json.member("told", array: missing.receivers) { $0.string($1) }
            }
            Self.addBefore(standing.beforeFleet, to: &json)
            json.member("published") { json in
                json.member("created", standing.createdCount)
                json.member("present", standing.presentCount)
                json.member("different", standing.differentCount)
                json.member("failed", standing.publishFailureCount)
            }
            json.member("chain_count", chains.count)
            json.member("chains", objects: chains.prefix(Self.chainCountMax)) { json, entry in
                json.member("chain", entry.key.description)
                json.member("position", entry.value.position.rawValue)
                json.member("heard", entry.value.lastMark == .unknown ? nil : Int(entry.value.lastMark.milliseconds))
                json.member("stale", stale.contains(entry.key))
            }
            json.member("projections", objects: projections) { json, entry in
                entry.value.write(entry.key, journalEnd: end, self.feed, now: now, to: &json)
            }
            json.member("disk") { usage.write(self.conditions, to: &$0) }
        }
    }
}
