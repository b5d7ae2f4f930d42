internal import WaybillData
internal import WaybillExport
package import WaybillSystem

/// Deletes what an export's policy does not keep: sealed days, overdue ones, and dead letters of sealed days.
extension ExportProjection {
    /// Deletes what the policy does not keep; call it after a checkpoint.
    package mutating func retire(
        _ policy: RetentionPolicy, now: WallTime
    ) throws(FileSystemError) -> RetentionReport {
        var items = self.sealedDays
        if policy.unsealedDayCountMax != nil { items += self.overdueDays }
        if !policy.dead.keepsAll { items += try self.deadLetters(ofDays: items.filter { $0.part == .exports }) }
        let isSent = policy.condition == .delivered && policy.sentExports.contains(self.name)
        let delivered = DeliveredDays(DataDirectory(root: self.root, files: self.files), exports: [])
        func isDelivered(_ item: RetainedItem) throws(FileSystemError) -> Bool {
            guard isSent else { return true }
            switch item.part {
            case .exports: return try delivered.isDelivered(export: item.path)
            case .unsealed: return false
            case .archive, .quarantine, .dead, .setAside, .journal: return true
            }
        }
        let plan = try RetentionPlan(policy, items, now: now, isDelivered: isDelivered)
        var report = RetentionReport()
        report.kept = plan.kept
        // Dead letters come before the day that has them.
        for deletion in plan.deletions.filter({ $0.part == .dead }) {
            try self.deleteDead(deletion, now)
            report.deletions.append(deletion)
        }
        for deletion in plan.deletions where deletion.part != .dead {
            report.deletions.append(try self.delete(deletion, now))
        }
        for item in plan.rest {
            guard let floor = policy.freeByteCountMin,
                try self.files.space(at: self.root).freeByteCount < floor
            else { break }
            let deletion = RetentionPlan.deletion(of: item, .free)
            if try isDelivered(item) {
                report.deletions.append(try self.delete(deletion, now))
            } else {
                report.kept.append(deletion)
            }
        }
        return report
    }

    /// The sealed days with nothing open.
    private var sealedDays: [RetainedItem] {
        var items: [RetainedItem] = []
        for (key, value) in self.state.entries where key.hasPrefix(Self.partPrefix) {
            let path = String(key.dropFirst(Self.partPrefix.utf8.count))
            guard let partition = ExportDay(partition: path), let standing = PartStanding(text: value),
                standing.revision > 0, !standing.isUnsealed, !self.openDays.contains(partition),
                !self.closed.contains(folder: path), !self.owedSeals.contains(path)
            else { continue }
            items.append(
                RetainedItem(
                    part: .exports, path: path, end: self.cutOff.time(of: partition.day), lineCount: 0, byteCount: 0))
        }
        return items
    }

    /// The days that were due and are not sealed; those whose closed parts wait to be compressed are left out.
    private var overdueDays: [RetainedItem] {
        var items: [RetainedItem] = []
        let lengths = FileSet<Files>.lengths(in: self.state.entries)
        for (key, value) in self.state.entries where key.hasPrefix(Self.partPrefix) {
            let path = String(key.dropFirst(Self.partPrefix.utf8.count))
            guard let partition = ExportDay(partition: path), let standing = PartStanding(text: value),
                let due = self.openDays.due(of: partition), !self.closed.contains(folder: path),
                !self.owedSeals.contains(path)
            else { continue }
            let byteCount = lengths.filter { $0.key.hasPrefix(path + "/") }.reduce(0) { $0 + $1.value }
            items.append(
                RetainedItem(
                    part: .unsealed, path: path, end: due, lineCount: standing.recordCount, byteCount: byteCount))
        }
        return items
    }

    /// The closed files of dead letters.
    private func deadLetters(ofDays days: [RetainedItem]) throws(FileSystemError) -> [RetainedItem] {
        var items: [RetainedItem] = []
        for day in days {
            for file in try DeadLetterFile.all(of: day.path, root: self.root, files: self.files) {
                let isCompressed = try self.files.status(at: Path.join(self.root, file.path)) == nil
                let path = isCompressed ? file.path + ".gz" : file.path
                guard let status = try self.files.status(at: Path.join(self.root, path)) else { continue }
                let manifest = try self.files.contents(
                    of: Path.join(self.root, file.stem + ".manifest.json"), byteCountMax: 1 << 20
                ).flatMap(DeadLetterManifest.init(json:))
                items.append(
                    RetainedItem(
                        part: .dead, path: path, end: day.end, lineCount: manifest?.recordCount ?? 0,
                        byteCount: status.byteCount))
            }
        }
        return items
    }

    private mutating func deleteDead(_ deletion: Deletion, _ now: WallTime) throws(FileSystemError) {
        typealias Record = DeletionRecord<Files>
        try self.state.commit([Record.keyPrefix + deletion.path: Record.line(deletion, at: now)])
        try Record(root: self.root, files: self.files).finish(&self.state)
    }

    private mutating func delete(_ day: Deletion, _ now: WallTime) throws(FileSystemError) -> Deletion {
        typealias Record = DeletionRecord<Files>
        let sealed = try self.dayManifest(in: Path.join(self.root, day.path))?.totals.recordCount ?? 0
        let deletion = Deletion(
            part: day.part, path: day.path, reason: day.reason, lineCount: day.lineCount + sealed,
            byteCount: day.byteCount)
        var changes: [String: String?] = [Record.keyPrefix + day.path: Record.line(deletion, at: now)]
        for prefix in [Self.partPrefix, Self.unmarkedPrefix] { changes.updateValue(nil, forKey: prefix + day.path) }
        let files = self.state.entries.keys.filter { $0.hasPrefix(FileSet<Files>.keyPrefix + day.path + "/") }
        for key in files { changes.updateValue(nil, forKey: key) }
        try self.state.commit(changes)
        for key in files { self.forget(String(key.dropFirst(FileSet<Files>.keyPrefix.utf8.count))) }
        if let partition = ExportDay(partition: day.path) {
            self.openDays.remove([partition])
            self.sink.forget(partition)
        }
        try Record(root: self.root, files: self.files).finish(&self.state)
        return deletion
    }
}
