internal import WaybillArchive
package import WaybillSystem

internal import WaybillJSON

/// How long sealed days are kept; `nil` for no limit.
package struct RetentionPolicy: Hashable, Sendable {
    /// Days that ended more than this many days ago are deleted.
    package var dayCountMax: Int?
    /// The maximum size of the archive's sealed days; the oldest are deleted first.
    package var byteCountMax: Int?
    /// The minimum free space on the disk; while there is less, the oldest days are deleted.
    package var freeByteCountMin: Int?

    package init() {}

    package var keepsAll: Bool {
        self.dayCountMax == nil && self.byteCountMax == nil && self.freeByteCountMin == nil
    }
}

/// A day that was deleted, for logs and the record.
package struct DeletedDay: Hashable, Sendable {
    package enum Reason: String, Hashable, Sendable {
        case age, bytes, free
    }

    /// Its folder, below the data directory.
    package let path: String
    package let reason: Reason
    package let lineCount: Int
    package let byteCount: Int

    init(path: String, reason: Reason, lineCount: Int, byteCount: Int) {
        self.path = path
        self.reason = reason
        self.lineCount = lineCount
        self.byteCount = byteCount
    }
}

/// A sealed day that may be deleted.
struct DeletableDay {
    let path: String
    let day: CalendarDay
    let lineCount: Int
    /// Its approximate size on disk.
    let byteCount: Int
}

/// Decides which sealed days to delete; accesses no disk.
struct RetentionPlan {
    /// The days to delete because of their age or the total size, oldest first.
    private(set) var deletions: [DeletedDay] = []
    /// The days to keep, oldest first.
    private(set) var rest: [DeletableDay] = []

    init(_ policy: RetentionPolicy, _ days: [DeletableDay], now: WallTime, cutOff: CutOff) {
        var byteCount = days.reduce(0) { $0 + $1.byteCount }
        for day in days.sorted(by: { ($0.day, $0.path) < ($1.day, $1.path) }) {
            let age = (now.milliseconds - cutOff.time(of: day.day).milliseconds) / 86_400_000
            if let days = policy.dayCountMax, age >= days {
                self.deletions.append(Self.deletion(of: day, .age))
            } else if let bytes = policy.byteCountMax, byteCount > bytes {
                self.deletions.append(Self.deletion(of: day, .bytes))
            } else {
                self.rest.append(day)
                continue
            }
            byteCount -= day.byteCount
        }
    }

    static func deletion(of day: DeletableDay, _ reason: DeletedDay.Reason) -> DeletedDay {
        DeletedDay(path: day.path, reason: reason, lineCount: day.lineCount, byteCount: day.byteCount)
    }
}

/// The record of deleted days: one JSON object per line, in `archive/_deleted.ndjson`.
struct DeletionRecord<Files: FileSystem> {
    let root: String
    let files: Files

    static var path: String { "archive/_deleted.ndjson" }
    static var keyPrefix: String { "delete:" }

    /// A day's line in the record.
    static func line(_ day: DeletedDay, at time: WallTime) -> String {
        let json = JSONWriter.object { json in
            json.member("day", day.path)
            json.member("lines", day.lineCount)
            json.member("bytes", day.byteCount)
            json.member("why", day.reason.rawValue)
            json.member("at", time.text)
        }
        return String(decoding: json, as: UTF8.self)
    }

    /// Deletes the folders that a checkpoint lists for deletion, and records it; repeating it changes nothing.
    func finish(_ state: inout StateStore<Files>) throws(FileSystemError) {
        for (key, line) in state.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(Self.keyPrefix) {
            let folder = Path.join(self.root, String(key.dropFirst(Self.keyPrefix.utf8.count)))
            // First the files that mark the day as readable.
            for name in [DayFolder.successName, DayFolder.manifestName]
            where try self.files.status(at: Path.join(folder, name)) != nil {
                try self.files.unlink(Path.join(folder, name))
            }
            try self.files.removeTree(folder)
            try self.files.synchronizeDirectory(Path.parent(of: folder))
            try self.append(line)
            try state.commit([key: String?.none])
        }
    }

    private func append(_ line: String) throws(FileSystemError) {
        let path = Path.join(self.root, Self.path)
        let file = try self.files.open(path, .append)
        defer { self.files.close(file) }
        let end = try self.files.status(file).byteCount
        // A crash after the last append left the whole line; a crash during it left part of the line.
        let tailCount = min(end, line.utf8.count + 1)
        var tail: [UInt8] = []
        try self.files.visit(file, (end - tailCount)..<end) { (piece) throws(FileSystemError) in
            tail.append(contentsOf: piece)
        }
        if tail.elementsEqual(Array((line + "\n").utf8)) { return try self.files.synchronize(file) }
        let separator = tail.isEmpty || tail.last == 0x0A ? "" : "\n"
        try self.files.writeAll(file, Array((separator + line + "\n").utf8))
        try self.files.synchronize(file)
        try self.files.synchronizeDirectory(Path.parent(of: path))
    }
}

extension ArchiveProjection {
    /// Deletes the sealed days that the policy does not keep; call it after a checkpoint.
    package mutating func retire(
        _ policy: RetentionPolicy, now: WallTime
    ) throws(FileSystemError) -> [DeletedDay] {
        var days: [DeletableDay] = []
        let data = DataDirectory(root: self.root, files: self.files)
        let open = Set(self.set.paths.map { Path.parent(of: $0) })
        try data.visitDays { folder throws(FileSystemError) in
            guard !open.contains(folder.path), self.seals[folder.path] == nil,
                let manifest = try DayManifest.read(in: Path.join(self.root, folder.path), files: self.files)
            else { return }
            let sources = manifest.files.reduce(0) { $0 + $1.sourcesByteCount }
            days.append(
                DeletableDay(
                    path: folder.path, day: folder.day, lineCount: manifest.lineCount,
                    byteCount: manifest.gzipByteCount + sources))
        }
        let plan = RetentionPlan(policy, days, now: now, cutOff: self.cutOff)
        var deletions: [DeletedDay] = []
        for day in plan.deletions {
            try self.delete(day, now)
            deletions.append(day)
        }
        for day in plan.rest {
            guard let floor = policy.freeByteCountMin,
                try self.files.space(at: self.root).freeByteCount < floor
            else { break }
            let deletion = RetentionPlan.deletion(of: day, .free)
            try self.delete(deletion, now)
            deletions.append(deletion)
        }
        return deletions
    }

    private mutating func delete(_ day: DeletedDay, _ now: WallTime) throws(FileSystemError) {
        typealias Record = DeletionRecord<Files>
        try self.state.commit([Record.keyPrefix + day.path: Record.line(day, at: now)])
        try Record(root: self.root, files: self.files).finish(&self.state)
        self.forgetPartitions(of: day.path)
    }
}

extension ExportProjection {
    /// Deletes sealed days because of their age or a lack of disk space; call it after a checkpoint.
    package mutating func retire(
        _ policy: RetentionPolicy, now: WallTime
    ) throws(FileSystemError) -> [DeletedDay] {
        var policy = policy
        // This limit is only for the archive.
        policy.byteCountMax = nil
        var days: [DeletableDay] = []
        for (key, value) in self.state.entries where key.hasPrefix(Self.partPrefix) {
            let path = String(key.dropFirst(Self.partPrefix.utf8.count))
            guard let partition = ExportDay(partition: path), let standing = PartStanding(text: value),
                standing.revision > 0, !standing.isUnsealed, !self.openDays.contains(partition),
                !self.waiting.contains(folder: path), !self.owedSeals.contains(path)
            else { continue }
            days.append(DeletableDay(path: path, day: partition.day, lineCount: 0, byteCount: 0))
        }
        let plan = RetentionPlan(policy, days, now: now, cutOff: self.cutOff)
        var deletions: [DeletedDay] = []
        for day in plan.deletions { deletions.append(try self.delete(day, now)) }
        for day in plan.rest {
            guard let floor = policy.freeByteCountMin,
                try self.files.space(at: self.root).freeByteCount < floor
            else { break }
            deletions.append(try self.delete(RetentionPlan.deletion(of: day, .free), now))
        }
        return deletions
    }

    private mutating func delete(_ day: DeletedDay, _ now: WallTime) throws(FileSystemError) -> DeletedDay {
        typealias Record = DeletionRecord<Files>
        let records = try self.dayManifest(in: Path.join(self.root, day.path))?.totals.recordCount ?? 0
        let deletion = DeletedDay(path: day.path, reason: day.reason, lineCount: records, byteCount: 0)
        var changes: [String: String?] = [Record.keyPrefix + day.path: Record.line(deletion, at: now)]
        changes.updateValue(nil, forKey: Self.partPrefix + day.path)
        let files = self.state.entries.keys.filter { $0.hasPrefix(FileSet<Files>.keyPrefix + day.path + "/") }
        for key in files { changes.updateValue(nil, forKey: key) }
        try self.state.commit(changes)
        for key in files { self.forget(String(key.dropFirst(FileSet<Files>.keyPrefix.utf8.count))) }
        if let partition = ExportDay(partition: day.path) { self.sink.forget(partition) }
        try Record(root: self.root, files: self.files).finish(&self.state)
        return deletion
    }
}
