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

    mutating func report() -> AgentReport {
        self.standings.prune { self.tail.contains($0) }
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
                error: self.error(of: path, .unreadable))
        }
        let files = self.tail.fileKeys
        report.fileCount = files.count
        let worst = self.standings.worst(of: files) { self.tail.position(of: $0) }
        for key in worst.prefix(AgentReport.fileCountMax - report.files.count) {
            let file = self.file(key, now)
            if !unreadPaths.contains(file.path) { report.files.append(file) }
        }
        return report
    }

    private func file(_ key: StreamKey, _ now: TailTime) -> AgentReport.File {
        let position = self.tail.position(of: key)
        let behindByteCount = max(0, position.byteCount - position.acked)
        var isRefused = false
        if case .refused = self.streams.state(of: key) { isRefused = true }
        let state = self.standings.state(of: key, position, isRefused: isRefused)
        let alone = self.acceptance.alone(at: now.monotonic)
        return AgentReport.File(
            path: position.path, byteCount: position.byteCount, ackedByteCount: position.acked,
            behindByteCount: behindByteCount,
            behind: behindByteCount > 0 ? self.standings.lag(of: key, position, alone: alone, now) : nil, state: state,
            error: self.error(of: position.path, state, holder: self.tail.awaitedHolder(of: key)))
    }

    private func error(of path: String, _ state: AgentReport.FileState, holder: String? = nil) -> String? {
        self.standings.error(of: path, state, holder: holder, mount: self.hints.hangingMount(of: path))
    }
}
