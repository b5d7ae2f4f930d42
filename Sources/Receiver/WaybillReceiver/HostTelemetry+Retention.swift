internal import Logging
internal import WaybillData
internal import WaybillHost
internal import WaybillProjection
internal import WaybillSystem

/// What retention deletes, for the log and the metrics.
extension HostTelemetry {
    /// What was deleted, and why.
    struct DeletionKey: Hashable {
        let part: RetainedPart
        let reason: Deletion.Reason
    }

    struct DeletionSum {
        var count = 0
        var lineCount = 0
        var byteCount = 0
    }

    private func count(_ deletion: Deletion) {
        let key = DeletionKey(part: deletion.part, reason: deletion.reason)
        self.deletions.withLock { sums in
            sums[key, default: DeletionSum()].count += 1
            sums[key, default: DeletionSum()].lineCount += deletion.lineCount
            sums[key, default: DeletionSum()].byteCount += deletion.byteCount
        }
    }

    func deleted(_ name: String, _ deletion: Deletion) {
        self.count(deletion)
        let metadata: Logger.Metadata = [
            "projection": "\(name)", "part": "\(deletion.part.rawValue)", "day": "\(deletion.path)",
            "why": "\(deletion.reason.rawValue)", "lines": .number(deletion.lineCount),
            "bytes": .number(deletion.byteCount),
        ]
        switch deletion.part {
        case .archive, .exports:
            self.update(name) { $0.deletedDayCount += 1 }
            self.logger.notice("day deleted", metadata: metadata)
        case .unsealed:
            self.logger.warning(.unsealedDayDeleted, "a day was deleted that could not be sealed", metadata: metadata)
        case .quarantine: self.logger.notice("a day of the quarantine was deleted", metadata: metadata)
        case .dead: self.logger.notice("dead letters were deleted", metadata: metadata)
        case .setAside: self.logger.notice("a file that was set aside was deleted", metadata: metadata)
        case .journal: break
        }
    }

    /// Some days are over a limit and stay, because they are not delivered; logged when there are more than before.
    func kept(_ name: String, _ days: [Deletion]) {
        let before = self.projections.withLock { $0[name]?.keptDayCount ?? 0 }
        self.update(name) { $0.keptDayCount = days.count }
        guard days.count > before, let oldest = days.first else { return }
        self.logger.warning(
            .daysNotDelivered,
            "retention keeps days that are not delivered, so its limits are not reached; deliver them, or remove `only`",
            metadata: [
                "projection": "\(name)", "days": .number(days.count), "oldest": "\(oldest.path)",
                "why": "\(oldest.reason.rawValue)", "bytes": .number(days.reduce(0) { $0 + $1.byteCount }),
            ])
    }

    // MARK: The journal

    /// A segment of the journal was deleted that exports have not read.
    ///
    /// - Parameter data: the data directory.
    func freed(_ segment: FreedSegment, unreadBy names: [String], in data: String) {
        let reason: Deletion.Reason =
            switch segment.reason {
            case .age: .age
            case .bytes: .bytes
            }
        self.count(
            Deletion(
                part: .journal, path: segment.start.description, reason: reason, lineCount: 0,
                byteCount: segment.byteCount))
        for name in names.sorted() {
            self.logger.warning(
                .journalFreed,
                "a segment of the journal was deleted that an export has not read; once it works again, add its events",
                metadata: [
                    "projection": "\(name)", "from": "\(segment.start)", "to": "\(segment.end)",
                    "bytes": .number(segment.byteCount), "why": "\(reason.rawValue)",
                    "received": "\(segment.received.map(\.text) ?? "?") to \(segment.written.text)",
                    "command": "\(segment.replay(of: name, in: data))",
                ])
        }
    }

    /// The journal takes so much more than it may, because the archive, or an export that is sent, has not read it.
    func journalKept(beyond byteCount: Int) {
        let before = self.journalExcess.load(ordering: .relaxed)
        self.journalExcess.store(byteCount, ordering: .relaxed)
        guard byteCount > 0, before == 0 else { return }
        self.logger.warning(
            .journalTooLarge,
            "the journal is larger than journal.gib: the archive, or an export that is sent, has not read its beginning",
            metadata: ["bytes": .number(byteCount)])
    }

    /// An export continues after a range of the journal that was deleted before it read it.
    func missed(_ damage: JournalDamage, by names: [String]) {
        let byteCount = damage.end.rawValue - damage.start.rawValue
        for name in names.sorted() {
            self.update(name) { $0.missedByteCount += byteCount }
            self.logger.warning(
                .exportMissed,
                "an export continues after a deleted part of the journal; waybill replay adds its events",
                metadata: [
                    "projection": "\(name)", "from": "\(damage.start)", "to": "\(damage.end)",
                    "bytes": .number(byteCount),
                ])
        }
    }

    // MARK: Metrics

    func addRetention(
        of projections: [(key: String, value: ProjectionStanding)], to page: inout MetricsPage
    ) {
        let sums = self.deletions.withLock { $0 }
        func add(_ metric: Metric, _ value: (DeletionSum) -> Int) {
            page.add(metric) { family in
                for part in RetainedPart.allCases {
                    for reason in Deletion.Reason.allCases where part.isDeleted(for: reason) {
                        let sum = sums[DeletionKey(part: part, reason: reason)] ?? DeletionSum()
                        family.sample(value(sum), part.rawValue, reason.rawValue)
                    }
                }
            }
        }
        add(.retentionDeletions) { $0.count }
        add(.retentionLines) { $0.lineCount }
        add(.retentionBytes) { $0.byteCount }
        page.add(.journalExcess, self.journalExcess.load(ordering: .relaxed))
        page.add(.keptFolders, for: projections) { $0.keptDayCount }
        page.add(.missedBytes, for: projections.filter { $0.key != "archive" }) { $0.missedByteCount }
    }
}

extension RetainedPart {
    /// Whether it may be deleted for this reason.
    fileprivate func isDeleted(for reason: Deletion.Reason) -> Bool {
        switch (self, reason) {
        case (.archive, _), (.exports, .age), (.exports, .free), (.unsealed, .age): true
        case (.exports, .bytes), (.unsealed, _): false
        case (.quarantine, .free), (.dead, .free), (.setAside, .free), (.journal, .free): false
        case (.quarantine, _), (.dead, _), (.setAside, _), (.journal, _): true
        }
    }
}

extension FreedSegment {
    /// The command that makes an export again from the archive, for the days around the segment's time.
    fileprivate func replay(of export: String, in data: String) -> String {
        func day(_ time: WallTime, _ distance: Int64) -> CalendarDay {
            TimeZoneRules.utc.day(of: WallTime(milliseconds: time.milliseconds + distance * 86_400_000))
        }
        let from = self.received.map { " --from \(day($0, -1))" } ?? ""
        return "waybill replay --data \(data) --provider \(export)\(from) --to \(day(self.written, 1))"
    }
}
