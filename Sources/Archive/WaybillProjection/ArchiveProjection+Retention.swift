internal import WaybillData
package import WaybillSystem

/// Deletes what the archive's policy does not keep: sealed days, overdue ones, days of the quarantine, and files that
/// starts set aside.
///
/// One commit takes a day's files out of the checkpoint and lists the folder for deletion; ``DeletionRecord`` does the
/// rest, again after a crash. What arrives for a deleted day begins it again.
extension ArchiveProjection {
    /// Deletes what the policy does not keep; call it after a checkpoint.
    package mutating func retire(
        _ policy: RetentionPolicy, now: WallTime
    ) throws(FileSystemError) -> RetentionReport {
        var days: [String: (folder: DayFolder, position: JournalPosition)] = [:]
        var items = try self.sealedDays(&days)
        if policy.unsealedDayCountMax != nil { items += try self.overdueDays() }
        if !policy.quarantine.keepsAll { items += try self.quarantinedDays() }
        if !policy.setAside.keepsAll { items += try self.filesSetAside() }
        var limits: [String: RetentionLimit] = [:]
        for (bundle, limit) in policy.apps { limits[PartitionPath.component(bundle)] = limit }
        let delivered = policy.condition == .delivered ? DeliveredDays(self.data, exports: policy.sentExports) : nil
        func isDelivered(_ item: RetainedItem) throws(FileSystemError) -> Bool {
            guard let delivered else { return true }
            switch item.part {
            case .archive:
                guard let day = days[item.path] else { return false }
                return try delivered.isDelivered(archive: day.folder, upTo: day.position)
            // The exports may not have all of it.
            case .unsealed: return false
            case .exports, .quarantine, .dead, .setAside, .journal: return true
            }
        }
        let plan = try RetentionPlan(policy, items, apps: limits, now: now, isDelivered: isDelivered)
        var report = RetentionReport()
        report.kept = plan.kept
        for deletion in plan.deletions {
            try self.delete(deletion, now)
            report.deletions.append(deletion)
        }
        for item in plan.rest {
            guard let floor = policy.freeByteCountMin,
                try self.files.space(at: self.root).freeByteCount < floor
            else { break }
            let deletion = RetentionPlan.deletion(of: item, .free)
            guard try isDelivered(item) else {
                report.kept.append(deletion)
                continue
            }
            try self.delete(deletion, now)
            report.deletions.append(deletion)
        }
        return report
    }

    // MARK: What there is

    private func sealedDays(
        _ days: inout [String: (folder: DayFolder, position: JournalPosition)]
    ) throws(FileSystemError) -> [RetainedItem] {
        var items: [RetainedItem] = []
        let open = Set(self.set.paths.map { Path.parent(of: $0) })
        try self.data.visitDays { folder throws(FileSystemError) in
            guard !open.contains(folder.path), self.seals[folder.path] == nil,
                let manifest = try DayManifest.read(in: Path.join(self.root, folder.path), files: self.files)
            else { return }
            let sources = manifest.files.reduce(0) { $0 + $1.sourcesByteCount }
            days[folder.path] = (folder, manifest.position)
            items.append(
                RetainedItem(
                    part: .archive, path: folder.path, end: self.cutOff.time(of: folder.day),
                    lineCount: manifest.lineCount, byteCount: manifest.gzipByteCount + sources,
                    bundle: folder.bundle))
        }
        return items
    }

    /// The days that were due and have an open file, with the time at which they were due.
    ///
    /// A day that was never sealed is deleted as a whole; of another one, the open file.
    private func overdueDays() throws(FileSystemError) -> [RetainedItem] {
        var items: [RetainedItem] = []
        let lengths = self.checkpointedLengths
        for path in self.set.paths where path.hasSuffix(".ndjson") {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            let name = Path.name(of: path)
            let seal = self.seals[folder.path].flatMap { name == $0.stem + ".ndjson" ? $0 : nil }
            guard let due = seal?.sealedAt ?? self.openDays.due(of: folder.path) else { continue }
            let isWhole = PartitionPath.lateNumber(of: name) == nil
            // The lines that came since are in the next file, which cannot remain without this one.
            if self.openDays.contains(folder.path), self.seals[folder.path] != nil { continue }
            let sources = String(path.dropLast(7)) + ".sources"
            items.append(
                RetainedItem(
                    part: .unsealed, path: isWhole ? folder.path : path, end: due,
                    lineCount: try self.lineCount(of: sources, byteCount: lengths[sources] ?? 0),
                    byteCount: (lengths[path] ?? 0) + (lengths[sources] ?? 0)))
        }
        return items
    }

    private func lineCount(of sources: String, byteCount: Int) throws(FileSystemError) -> Int {
        guard byteCount > 0, try self.files.status(at: Path.join(self.root, sources))?.kind == .regular else {
            return 0
        }
        var runs = try SourceRuns(
            path: Path.join(self.root, sources), byteCount: byteCount, linesByteCount: .max, files: self.files)
        var count = 0
        while let item = try runs.next() {
            if case .run(let run, _) = item { count += run.lineCount }
        }
        return count
    }

    /// The days of the quarantine; the age of one begins after its last line, and not before it is over.
    private func quarantinedDays() throws(FileSystemError) -> [RetainedItem] {
        var items: [RetainedItem] = []
        let lengths = self.checkpointedLengths
        for (folder, paths) in Dictionary(grouping: lengths.keys, by: { Path.parent(of: $0) })
        where Path.parent(of: folder) == "quarantine" {
            guard let day = CalendarDay(String(Path.name(of: folder).dropFirst("date=".utf8.count))) else { continue }
            var end = (Int64(day.daysSince1970) + 1) * 86_400_000
            var lineCount = 0
            for path in paths.sorted() {
                if let status = try self.files.status(at: Path.join(self.root, path)) {
                    end = max(end, status.modified / 1_000_000)
                }
                guard path.hasSuffix(".sources") else { continue }
                lineCount += try self.lineCount(of: path, byteCount: lengths[path] ?? 0)
            }
            items.append(
                RetainedItem(
                    part: .quarantine, path: folder, end: WallTime(milliseconds: end), lineCount: lineCount,
                    byteCount: paths.reduce(0) { $0 + (lengths[$1] ?? 0) }))
        }
        return items
    }

    /// How many files that were set aside one round looks at.
    private static var asideCountMax: Int { 100_000 }

    /// The files that were set aside.
    ///
    /// A rename leaves a file's time as it is and changes the folder's, so the later of the two counts.
    private func filesSetAside() throws(FileSystemError) -> [RetainedItem] {
        var items: [RetainedItem] = []
        var folders = [SetAside<Files>.folder]
        while let folder = folders.popLast(), items.count < Self.asideCountMax {
            guard let status = try self.files.status(ofEntry: Path.join(self.root, folder)),
                status.kind == .directory
            else { continue }
            for name in try self.files.list(Path.join(self.root, folder)).sorted() {
                let path = Path.join(folder, name)
                guard let file = try self.files.status(ofEntry: Path.join(self.root, path)) else { continue }
                guard file.kind != .directory else {
                    folders.append(path)
                    continue
                }
                items.append(
                    RetainedItem(
                        part: .setAside, path: path,
                        end: WallTime(milliseconds: max(file.modified, status.modified) / 1_000_000), lineCount: 0,
                        byteCount: file.byteCount))
            }
        }
        return items
    }

    // MARK: Deleting

    private mutating func delete(_ deletion: Deletion, _ now: WallTime) throws(FileSystemError) {
        typealias Record = DeletionRecord<Files>
        var changes: [String: String?] = [Record.keyPrefix + deletion.path: Record.line(deletion, at: now)]
        let stem = deletion.path.hasSuffix(".ndjson") ? String(deletion.path.dropLast(7)) : nil
        let folder = stem.map { Path.parent(of: $0) } ?? deletion.path
        let paths = self.checkpointedLengths.keys.filter { path in
            stem.map { path == $0 + ".ndjson" || path == $0 + ".sources" } ?? path.hasPrefix(folder + "/")
        }
        for path in paths { changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path) }
        let seal = self.seals[folder].flatMap { stem == nil || stem == Path.join(folder, $0.stem) ? $0 : nil }
        if seal != nil {
            changes.updateValue(nil, forKey: Self.sealPrefix + folder)
            self.work = nil
        }
        try self.state.commit(changes)
        if seal != nil {
            self.seals[folder] = nil
        } else if deletion.part == .unsealed {
            self.openDays.remove([folder])
        }
        try Record(root: self.root, files: self.files).finish(&self.state)
        self.forgetPartitions(of: folder)
        for path in paths { self.set.forget(path) }
    }
}
