internal import Logging
internal import WaybillData
internal import WaybillExport
internal import WaybillHost
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Logs what happened to lines that were not simply archived and exported.
extension HostTelemetry {
    func happened(_ reports: [OutcomeReport], in projection: String) {
        for report in reports {
            self.logger.log(
                Self.notice(of: report.outcome), level: Self.level(of: report.outcome),
                Logger.Message(stringLiteral: report.text(of: projection)),
                metadata: ["projection": "\(projection)", "reason": "\(report.outcome.reason)"])
        }
    }

    /// Lines were put into the quarantine; their agents are told now and then.
    func quarantined(_ counts: QuarantineCounts) {
        guard !counts.isEmpty else { return }
        self.quarantined.withLock { $0.add(counts) }
    }

    /// A projection has read the journal up to a position, whether or not its files are durable yet.
    func reached(_ position: JournalPosition, by name: String) {
        self.update(name) { $0.read = position }
    }

    /// A projection has written everything that it has read, and nothing follows.
    func settled(_ name: String) {
        self.resumed(name)
    }

    /// Whether everything below the position that is set aside or refused is counted.
    func hasCounted(upTo end: UInt64) -> Bool {
        self.projections.withLock { $0.values.allSatisfy { $0.read.rawValue >= Int(clamping: end) } }
    }

    /// What was put into the quarantine of an account's lines since the last call.
    func takeQuarantined(of account: Account) -> [QuarantineCount] {
        self.quarantined.withLock { $0.take(of: account) }
    }

    /// What was put into the quarantine since the last call.
    func takeQuarantined() -> QuarantineCounts {
        self.quarantined.withLock { counts in
            defer { counts = QuarantineCounts() }
            return counts
        }
    }

    private static func notice(of outcome: Outcome) -> Notice {
        switch outcome {
        case .quarantined: .linesQuarantined
        case .refused: .eventsRefused
        case .fixed: .eventsChanged
        case .skipped, .held: .eventsSkipped
        }
    }

    private static func level(of outcome: Outcome) -> Logger.Level {
        if outcome.isUsual { return .info }
        return outcome == .held ? .notice : .warning
    }
}

extension OutcomeReport {
    /// One sentence: who, what, how many of how many, why, and what to do.
    func text(of projection: String) -> String {
        let others = self.otherCount > 0 ? " and \(self.otherCount) of others" : ""
        let reason = "(\(self.outcome.reason)); \(self.outcome.remedy)"
        switch self.outcome {
        case .quarantined:
            return "quarantined \(self.count) of \(self.lineCount) lines of \(self.subject)\(others) \(reason)"
        case .fixed:
            return "\(projection) changed \(self.count) values in \(self.lineCount) events of \(self.subject)\(others) "
                + reason
        case .skipped, .held, .refused:
            return "\(projection) \(self.outcome.verb) \(self.count) of \(self.lineCount) events of \(self.subject)"
                + "\(others) \(reason)"
        }
    }
}
