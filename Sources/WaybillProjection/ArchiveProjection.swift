package import WaybillArchive
internal import WaybillExport
package import WaybillJournal
internal import WaybillProtocol
package import WaybillSystem

/// Writes every line, byte for byte, into the daily file of its event's time, app and environment.
///
///     archive/env=prod/app=com.example.shop/date=2026-11-20/part-00001.ndjson     the lines
///                                                           part-00001.sources    where they came from
///     quarantine/date=2026-11-20/<reason>.ndjson, <reason>.sources                what is no event
///
/// A run introduces each stream anew where it first writes of it, numbered from 1: a number in a sources file means
/// what the last `OPEN` before it says. But for that, what is written depends on the journal alone.
///
/// Neighbouring lines of one partition are written as one range of the batch, without a copy.
///
/// - SeeAlso: `Protocol/formats/archive.md`.
package struct ArchiveProjection<Files: FileSystem>: ~Copyable, Projection {
    /// What became of lines since the start.
    package struct Counts: Hashable, Sendable {
        package var archived = 0
        package var quarantined = 0
    }

    /// The files behind a route.
    private struct Partition {
        let lines: FileSet<Files>.Index
        let sources: FileSet<Files>.Index
        /// Streams that this run has introduced in the sources file.
        var numbers: [StreamDescription: Int] = [:]
    }

    let root: String
    let journal: String
    let files: Files
    private let zone: TimeZoneRules
    var state: StateStore<Files>
    private var set: FileSet<Files>
    var router: ArchiveRouter
    /// By the index of the route.
    private var partitions: [Partition] = []
    package private(set) var counts = Counts()
    /// ``counts`` at the last checkpoint, to which recovery goes back.
    private var checkpointedCounts = Counts()

    package var name: String { "archive" }

    package init(data: DataDirectory<Files>, zone: TimeZoneRules) throws(FileSystemError) {
        self.root = data.root
        self.journal = data.journal
        self.files = data.files
        self.zone = zone
        self.router = ArchiveRouter(zone: zone)
        self.state = try StateStore(path: data.statePath("archive"), files: data.files)
        self.set = FileSet(root: data.root, files: data.files)
    }

    package mutating func recover() throws(FileSystemError) -> ProjectionRecovery {
        self.partitions = []
        self.counts = self.checkpointedCounts
        try self.state.settle()
        var notes = self.state.recovery.notes
        try self.finishRepairs()
        if let note = try self.rebuildCheckpoint() { notes.append(note) }
        self.router = ArchiveRouter(zone: self.zone, apps: ArchiveRouter.apps(in: self.checkpointedLengths.keys))
        var recovery = try self.recoverFiles()
        if !recovery.shortFiles.isEmpty {
            notes += try self.repair(recovery.shortFiles)
            recovery.shortFiles = [:]
            _ = try self.recoverFiles()
        }
        notes.append(recovery.summary)
        return ProjectionRecovery(
            position: self.checkpointedPosition, report: notes.filter { !$0.isEmpty }.joined(separator: ", "))
    }

    private mutating func recoverFiles() throws(FileSystemError) -> FileSet<Files>.Recovery {
        let coverage = JournalCoverage(directory: self.journal, files: self.files)
        let position = self.checkpointedPosition
        return try self.set.recover(
            from: self.state.entries, roots: Self.roots,
            isRebuilt: { () throws(FileSystemError) in try coverage.isWhole(from: position) },
            isKept: { !Self.isOwnName(Path.name(of: $0)) })
    }

    /// Whether a file can have been written by this projection; what others put beside stays.
    static func isOwnName(_ name: String) -> Bool {
        guard name.hasSuffix(".ndjson") || name.hasSuffix(".sources") else { return false }
        let stem = name.prefix { $0 != "." }
        return PartitionPath.partNumber(of: name) != nil || QuarantineReason(rawValue: String(stem)) != nil
    }

    static var roots: [String] { ["archive", "quarantine"] }

    var checkpointedPosition: JournalPosition {
        JournalPosition(Int(self.state.entries["position"] ?? "0") ?? 0)
    }

    package mutating func checkpoint(at position: JournalPosition) throws(FileSystemError) {
        var changes = try self.set.synchronize()
        changes["position"] = .some(String(position.rawValue))
        changes["zone"] = .some(self.zone.name)
        try self.state.commit(changes)
        self.set.checkpointCommitted()
        self.checkpointedCounts = self.counts
    }

    package var report: String {
        "archived \(self.counts.archived), quarantined \(self.counts.quarantined)"
    }

    /// Bytes of each file that the last checkpoint stands for, by path below the data directory.
    package var checkpointedLengths: [String: Int] {
        var lengths: [String: Int] = [:]
        for (key, value) in self.state.entries where key.hasPrefix(FileSet<Files>.keyPrefix) {
            lengths[String(key.dropFirst(FileSet<Files>.keyPrefix.count))] = Int(value)
        }
        return lengths
    }

    package mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) {
        let counts = self.router.route(batch)
        self.counts.archived += counts.archived
        self.counts.quarantined += counts.quarantined
        for route in self.router.routes[self.partitions.count...] {
            self.partitions.append(
                Partition(
                    lines: self.set.index(of: route.path + ".ndjson"),
                    sources: self.set.index(of: route.path + ".sources")))
        }
        for index in self.router.touched {
            let start = self.set.byteCount(of: self.partitions[index].lines)
            try self.append(self.router.routes[index], of: batch.raw, to: self.partitions[index].lines)
            let end = self.set.byteCount(of: self.partitions[index].lines)
            try self.writeSource(of: batch, partition: index, start: start, byteCount: end - start)
        }
        if self.router.finishBatch() { self.partitions.removeAll() }
    }

    private static var newline: [UInt8] { [0x0A] }

    private mutating func append(
        _ route: ArchiveRouter.Route, of raw: UnsafeRawBufferPointer, to file: FileSet<Files>.Index
    ) throws(FileSystemError) {
        let vector = route.ranges.map { UnsafeRawBufferPointer(rebasing: raw[$0]) }
        try self.set.append(vector, to: file)
        if route.isLineFeedMissing(in: raw) { try self.set.append(Self.newline, to: file) }
    }

    /// Records where a run of archived bytes came from.
    private mutating func writeSource(
        of batch: ProjectedBatch, partition index: Int, start: Int, byteCount: Int
    ) throws(FileSystemError) {
        let known = self.partitions[index].numbers[batch.description]
        let number = known ?? self.partitions[index].numbers.count + 1
        self.partitions[index].numbers[batch.description] = number
        let run = SourceRun(
            description: batch.description, offset: batch.offset, receivedAt: batch.receivedAt,
            range: start..<(start + byteCount), lineCount: self.router.routes[index].lineCount)
        try self.set.append(run.text(number: number, isNew: known == nil), to: self.partitions[index].sources)
    }
}

extension SourceRun {
    /// The run's line in a `.sources` file, behind that of its stream where that is new.
    func text(number: Int, isNew: Bool) -> [UInt8] {
        var text = isNew ? "OPEN \(number) \(self.description.json)\n" : ""
        text += "FROM \(number) \(self.offset.rawValue) \(self.receivedAt.milliseconds) \(self.range.lowerBound) "
        text += "\(self.range.count) \(self.lineCount)\n"
        return Array(text.utf8)
    }
}
