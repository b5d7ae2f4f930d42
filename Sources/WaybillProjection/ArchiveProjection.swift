package import WaybillArchive
internal import WaybillExport
package import WaybillJournal
internal import WaybillProtocol
package import WaybillSystem

internal import WaybillJSON

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

    private struct Partition {
        let lines: FileSet<Files>.Index
        let sources: FileSet<Files>.Index
        /// Streams that this run has introduced in the sources file.
        var numbers: [StreamID: Int] = [:]
        /// Ranges of the current batch, in order.
        var ranges: [Range<Int>] = []
        var lineCount = 0
    }

    private struct Key: Hashable {
        let env: DeploymentEnvironment
        let app: String
        let day: CalendarDay
    }

    private let root: String
    private let journal: String
    private let files: Files
    private var zone: DayCursor
    private var state: StateStore<Files>
    private var set: FileSet<Files>
    private var partitions: [Partition] = []
    private var keys: [Key: Int] = [:]
    private var quarantines: [String: Int] = [:]
    /// Partitions that the current batch has touched.
    private var touched: [Int] = []
    private var readers = EventReaders()
    package private(set) var counts = Counts()
    /// ``counts`` at the last checkpoint, to which recovery goes back.
    private var checkpointedCounts = Counts()

    /// Distinct partitions in memory before the table is begun anew; about 300 bytes each.
    private static var partitionCountMax: Int { 10_000 }
    /// Distinct apps before further ones share a folder.
    private static var appCountMax: Int { 1_000 }
    private var apps: Set<String> = []

    package var name: String { "archive" }

    package init(data: DataDirectory<Files>, zone: TimeZoneRules) throws(FileSystemError) {
        self.root = data.root
        self.journal = data.journal
        self.files = data.files
        self.zone = DayCursor(zone)
        self.state = try StateStore(path: data.statePath("archive"), files: data.files)
        self.set = FileSet(root: data.root, files: data.files)
    }

    package mutating func recover() throws(FileSystemError) -> ProjectionRecovery {
        self.partitions = []
        self.keys = [:]
        self.quarantines = [:]
        self.touched = []
        self.counts = self.checkpointedCounts
        try self.state.settle()
        let aside = try self.setAsideWhatCannotBeRebuilt()
        self.apps = self.checkpointedApps
        let recovery = try self.set.recover(from: self.state.entries, roots: Self.roots) { path in
            !Self.isOwnName(Path.name(of: path))
        }
        let report = ([recovery.summary] + aside.map { "set aside \($0)" }).filter { !$0.isEmpty }
        return ProjectionRecovery(position: self.checkpointedPosition, report: report.joined(separator: ", "))
    }

    /// Whether a file can have been written by this projection; what others put beside stays.
    private static func isOwnName(_ name: String) -> Bool {
        guard name.hasSuffix(".ndjson") || name.hasSuffix(".sources") else { return false }
        let stem = name.prefix { $0 != "." }
        return PartitionPath.partNumber(of: name) != nil || QuarantineReason(rawValue: String(stem)) != nil
    }

    private static var roots: [String] { ["archive", "quarantine"] }

    private var checkpointedPosition: JournalPosition {
        JournalPosition(Int(self.state.entries["position"] ?? "0") ?? 0)
    }

    /// The apps that have a folder, so that a restart gives no other one to those beyond the limit.
    private var checkpointedApps: Set<String> {
        var apps: Set<String> = []
        for path in self.checkpointedLengths.keys where path.hasPrefix("archive/") {
            for component in path.split(separator: "/") where component.hasPrefix("app=") {
                apps.insert(String(component.dropFirst(4)))
            }
        }
        return apps.subtracting([PartitionPath.overflowApp])
    }

    /// Moves the archive out of the way when its checkpoint is lost or too old for the journal to make up for it:
    /// cutting the files back to it would lose lines that are nowhere else.
    ///
    /// - Returns: where it went.
    private mutating func setAsideWhatCannotBeRebuilt() throws(FileSystemError) -> [String] {
        let segments = try self.files.list(self.journal).compactMap(JournalPath.position(ofSegment:))
        guard let first = segments.min(), first > self.checkpointedPosition else { return [] }
        var aside: [String] = []
        for root in Self.roots where try self.files.status(at: Path.join(self.root, root)) != nil {
            var number = 1
            while try self.files.status(at: Path.join(self.root, "\(root).kept-\(number)")) != nil { number += 1 }
            try self.files.rename(Path.join(self.root, root), to: Path.join(self.root, "\(root).kept-\(number)"))
            aside.append("\(root).kept-\(number)")
        }
        try self.files.synchronizeDirectory(self.root)
        var changes: [String: String?] = ["position": String(first.rawValue)]
        for path in self.checkpointedLengths.keys { changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path) }
        try self.state.commit(changes)
        return aside
    }

    package mutating func checkpoint(at position: JournalPosition) throws(FileSystemError) {
        var changes = try self.set.synchronize()
        changes["position"] = .some(String(position.rawValue))
        changes["zone"] = .some(self.zone.rules.name)
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
        let reader = self.readers.reader(for: batch.description)
        let source = batch.description.sourceDescription
        var last = -1
        var lastFacts: EventFacts?
        var lastLine = UnsafeRawBufferPointer(start: nil, count: 0)
        batch.raw.forEachLine { range in
            let line = UnsafeRawBufferPointer(rebasing: batch.raw[range])
            // With its LF; a stream's last line may lack one and gets it when it is written.
            let bytes = range.lowerBound..<min(range.upperBound + 1, batch.raw.count)
            switch reader.read(line, receivedAt: batch.receivedAt) {
            case .event(let facts):
                if last < 0 || !self.isSamePartition(facts, line, lastFacts, lastLine) {
                    last = self.partition(of: facts, line, source)
                }
                lastFacts = facts
                lastLine = line
                self.add(bytes, to: last)
                self.counts.archived += 1
            case .quarantine(let reason):
                self.add(bytes, to: self.quarantine(reason, receivedAt: batch.receivedAt))
                self.counts.quarantined += 1
            }
        }
        try self.write(batch)
    }

    /// Whether an event lies where the one before it did; asked for every line, so it compares bytes.
    private mutating func isSamePartition(
        _ facts: EventFacts, _ line: UnsafeRawBufferPointer, _ last: EventFacts?, _ lastLine: UnsafeRawBufferPointer
    ) -> Bool {
        guard let last, facts.env == last.env, self.zone.day(of: facts.time) == self.zone.day(of: last.time) else {
            return false
        }
        switch (facts.bundle, last.bundle) {
        case (nil, nil): return true
        case (let bundle?, let lastBundle?):
            return JSONText.equals(
                UnsafeRawBufferPointer(rebasing: line[bundle]), UnsafeRawBufferPointer(rebasing: lastLine[lastBundle]))
        case (nil, _?), (_?, nil): return false
        }
    }

    private mutating func partition(
        of facts: EventFacts, _ line: UnsafeRawBufferPointer, _ source: SourceDescription
    ) -> Int {
        var app = PartitionPath.component(facts.bundleText(in: line, source: source))
        if !self.apps.contains(app) {
            if self.apps.count < Self.appCountMax { self.apps.insert(app) } else { app = PartitionPath.overflowApp }
        }
        let key = Key(env: facts.env, app: app, day: self.zone.day(of: facts.time))
        if let index = self.keys[key] { return index }
        let directory = "archive/env=\(key.env.rawValue)/app=\(app)/date=\(key.day)"
        let index = self.addPartition("\(directory)/\(PartitionPath.part(1))")
        self.keys[key] = index
        return index
    }

    private mutating func quarantine(_ reason: QuarantineReason, receivedAt: WallTime) -> Int {
        let day = CalendarDay(daysSince1970: Int32(clamping: receivedAt.milliseconds / 86_400_000))
        let path = "quarantine/date=\(day)/\(reason.rawValue)"
        if let index = self.quarantines[path] { return index }
        let index = self.addPartition(path)
        self.quarantines[path] = index
        return index
    }

    private mutating func addPartition(_ path: String) -> Int {
        self.partitions.append(
            Partition(lines: self.set.index(of: path + ".ndjson"), sources: self.set.index(of: path + ".sources")))
        return self.partitions.count - 1
    }

    private mutating func add(_ range: Range<Int>, to index: Int) {
        if self.partitions[index].ranges.isEmpty { self.touched.append(index) }
        self.partitions[index].lineCount += 1
        if let last = self.partitions[index].ranges.indices.last,
            self.partitions[index].ranges[last].upperBound == range.lowerBound
        {
            self.partitions[index].ranges[last] = self.partitions[index].ranges[last].lowerBound..<range.upperBound
        } else {
            self.partitions[index].ranges.append(range)
        }
    }

    private static var newline: [UInt8] { [0x0A] }

    private mutating func write(_ batch: ProjectedBatch) throws(FileSystemError) {
        for index in self.touched {
            let ranges = self.partitions[index].ranges
            let start = self.set.byteCount(of: self.partitions[index].lines)
            try self.append(ranges, of: batch.raw, to: self.partitions[index].lines)
            let end = self.set.byteCount(of: self.partitions[index].lines)
            try self.writeSource(of: batch, partition: index, start: start, byteCount: end - start)
            self.partitions[index].ranges.removeAll(keepingCapacity: true)
            self.partitions[index].lineCount = 0
        }
        self.touched.removeAll(keepingCapacity: true)
        if self.partitions.count > Self.partitionCountMax {
            self.partitions.removeAll()
            self.keys.removeAll()
            self.quarantines.removeAll()
        }
    }

    private mutating func append(
        _ ranges: [Range<Int>], of raw: UnsafeRawBufferPointer, to file: FileSet<Files>.Index
    ) throws(FileSystemError) {
        let vector = ranges.map { UnsafeRawBufferPointer(rebasing: raw[$0]) }
        try self.set.append(vector, to: file)
        if ranges.last?.upperBound == raw.count, raw.last != 0x0A {
            try self.set.append(Self.newline, to: file)
        }
    }

    /// Records where a run of archived bytes came from.
    private mutating func writeSource(
        of batch: ProjectedBatch, partition index: Int, start: Int, byteCount: Int
    ) throws(FileSystemError) {
        var text = ""
        let number: Int
        if let known = self.partitions[index].numbers[batch.description.id] {
            number = known
        } else {
            number = self.partitions[index].numbers.count + 1
            self.partitions[index].numbers[batch.description.id] = number
            text = "OPEN \(number) \(batch.description.json)\n"
        }
        text += "FROM \(number) \(batch.offset.rawValue) \(batch.receivedAt.milliseconds) \(start) \(byteCount) "
        text += "\(self.partitions[index].lineCount)\n"
        try self.set.append(Array(text.utf8), to: self.partitions[index].sources)
    }
}
