internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// What the pump answers about itself, made when someone asks.
extension Pump where Hints: ~Copyable {
    mutating func answer(_ question: AgentQuestion) {
        switch question {
        case .life(let reply): reply(true)
        case .standing(let reply): reply(self.standing)
        case .report(let reply): reply(self.report())
        case .reload(let reload): reload.reply(self.reload(reload))
        }
    }

    /// Remembers why a file is not shipped, for as long as it takes.
    mutating func noteError(_ text: String, of path: String) {
        guard self.fileErrors.count < AgentReport.fileCountMax || self.fileErrors[path] != nil else { return }
        self.fileErrors[path] = String(text.prefix(AgentReport.errorCharacterCountMax))
    }

    mutating func report() -> AgentReport {
        self.lags.prune { self.tail.contains($0) }
        let now = self.now
        var report = AgentReport()
        report.name = self.configuration.name.description
        report.standing = self.standing
        report.time = now.wall
        report.started = self.tally.start.wall
        self.acceptance.describe(&report)
        let unread = self.tail.notices.unreadable.prefix(AgentReport.fileCountMax).map(\.text).sorted()
        let unreadPaths = Set(unread)
        report.files = unread.map { path in
            AgentReport.File(
                path: path, byteCount: nil, ackedByteCount: 0, behindByteCount: 0, behind: nil, state: .unreadable,
                error: self.error(of: path))
        }
        let files = self.tail.fileKeys
        report.fileCount = files.count
        for key in self.worst(files).prefix(AgentReport.fileCountMax - report.files.count) {
            let file = self.file(key, now)
            if !unreadPaths.contains(file.path) { report.files.append(file) }
        }
        return report
    }

    /// Those with a problem, then those that are furthest behind, then the others in no order.
    private func worst(_ files: [StreamKey]) -> [StreamKey] {
        var late: [(rank: Int, key: StreamKey)] = []
        var others: [StreamKey] = []
        for key in files {
            let position = self.tail.position(of: key)
            let behind = max(0, position.byteCount - position.acked)
            if position.isFaulty || position.isGone || self.disputes.contains(key) {
                late.append((.max, key))
            } else if behind > 0 {
                late.append((behind, key))
            } else if others.count < AgentReport.fileCountMax {
                others.append(key)
            }
        }
        late.sort { ($1.rank, $0.key.rawValue) < ($0.rank, $1.key.rawValue) }
        return late.map(\.key) + others
    }

    private func file(_ key: StreamKey, _ now: TailTime) -> AgentReport.File {
        let position = self.tail.position(of: key)
        let path = position.path
        let behindByteCount = max(0, position.byteCount - position.acked)
        let state = self.state(of: key, position, behindByteCount)
        var error: String?
        switch state {
        case .disputed:
            error =
                self.tail.awaitedHolder(of: key).map { "waits for \($0), whose own archive has its first bytes" }
                ?? "the receiver holds other bytes of this file; see: waybill reship --help"
        case .unreadable, .refused, .waiting, .gone: error = self.error(of: path)
        case .shipped, .sending, .unfinished: break
        }
        return AgentReport.File(
            path: path, byteCount: position.byteCount, ackedByteCount: position.acked,
            behindByteCount: behindByteCount,
            behind: behindByteCount > 0 ? self.lag(of: key, position, now) : nil, state: state, error: error)
    }

    private func state(
        of key: StreamKey, _ position: StreamPosition, _ behindByteCount: Int
    ) -> AgentReport.FileState {
        if position.isFaulty { return .unreadable }
        if position.isGone { return .gone }
        if self.disputes.contains(key) { return .disputed }
        if case .refused = self.streams.state(of: key) { return .refused }
        if behindByteCount == 0 { return .shipped }
        if position.cursor > position.acked { return .sending }
        return position.isDrained ? .unfinished : .waiting
    }

    /// How long the oldest byte that is not acknowledged has waited: as noted, else since the file was written last, or
    /// for as long as no receiver was there.
    func lag(of key: StreamKey, _ position: StreamPosition, _ now: TailTime) -> Duration {
        if let since = self.lags.since(key) { return max(.zero, now.monotonic - since) }
        // A file may say any time.
        let written = Duration.milliseconds(now.wall.milliseconds) - .nanoseconds(position.modified)
        let alone = self.acceptance.unreadySince.map { now.monotonic - $0 } ?? .zero
        return max(.zero, written, alone)
    }
}
