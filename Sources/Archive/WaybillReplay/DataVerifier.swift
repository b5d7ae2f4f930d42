package import WaybillData
package import WaybillExport
internal import WaybillFleet
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Verifies that a receiver's data directory is consistent: nothing acknowledged is lost, and nothing is stored twice.
///
///     journal that is still kept ──▶ every batch, decompressed and routed again ──▶ compared with archive ∪ quarantine,
///         byte for byte, through .sources
///     archive ──▶ every line mapped again ──▶ compared with each export's records, dead letters and held events
///     manifests, checkpoints ──▶ compared with the files
///
/// What is wrong with the bytes of one format is said next to what writes it: ``ProjectionCheckpoint``, ``DayManifest``,
/// ``OpenLinesCheck``, ``SealedFileCheck``, ``PartCheck``, ``DeadLetterManifest``, ``ExportDayManifest``. Here is the walk,
/// what the files say of each other, and the report.
///
/// It writes nothing and takes no lock. It verifies up to the last checkpoints, so a receiver may be running. Memory:
/// about 200 bytes for each batch of the kept journal and for each of its runs in the archive, and 32 for each event of a
/// day whose export differs.
package struct DataVerifier<Files: FileSystem> {
    /// A run as identified in a `.sources` file: its stream, and the offset of its first line.
    struct RunKey: Hashable {
        let name: StreamName
        let offset: StreamOffset
    }

    /// A batch of a stream in the journal.
    struct JournalBatch {
        let offset: StreamOffset
        let end: StreamOffset
        let position: JournalPosition
    }

    let data: DataDirectory<Files>
    var report: VerifyReport
    /// The journal's batches of each stream, ascending by offset.
    private var batches: [StreamName: [JournalBatch]] = [:]
    var journalFirst = JournalPosition(0)
    var journalEnd = JournalPosition(0)
    /// What the mergers of a fleet have of the journal, and this archive has not.
    private(set) var handed: [Range<JournalPosition>] = []
    /// The file whose lines are compared, which stays open for the runs that follow.
    private var compared: (path: String, file: FileID)?
    /// Sealed files by the path that they had while open.
    var sealedFiles: [String: DayManifest.File] = [:]
    private(set) var isInUse = false
    /// How many files are not in their checkpoint yet, by projection.
    private var newFileCounts: [String: Int] = [:]
    /// Files with bytes that a crash may have left after the end that the checkpoint states.
    var unfinishedFileCount = 0
    private var lastSegment: String?
    private var lastSegmentStart = JournalPosition(0)
    /// The position of the journal's last batch.
    private(set) var lastBatch = JournalPosition(0)
    private var states: [String: [UInt8]] = [:]
    /// What retention has deleted, by the path below the data directory.
    var deletedPaths: Set<String> = []
    /// The exports in the receiver's configuration; others have their defaults.
    let exports: [ExportOptions]
    let providers: ProviderRegistry

    package init(
        data: DataDirectory<Files>, exports: [ExportOptions] = [], providers: ProviderRegistry = .standard,
        problemCountMax: Int = 100
    ) {
        self.data = data
        self.exports = exports
        self.providers = providers
        self.report = VerifyReport(
            problemCountMax: problemCountMax, adviser: RepairAdviser(root: data.root))
    }

    /// Reads everything; an unreadable file is reported as a problem and does not stop the rest.
    package mutating func verify() -> VerifyReport {
        self.isInUse = self.lockOwner() != nil
        // The checkpoints come first: what they cover is in the journal by then, even if a receiver adds more.
        let names = self.projectionNames()
        for name in names { self.states[name] = self.state(name) }
        do throws(FileSystemError) {
            self.deletedPaths = try DeletionRecord(root: self.data.root, files: self.data.files).paths()
            try self.indexJournal()
        } catch {
            self.unreadable(error)
        }
        let archive = self.checkpoint("archive")
        do throws(FileSystemError) {
            if let archive { try self.verifyArchive(archive) }
        } catch {
            self.unreadable(error)
        }
        var exports: [(name: String, checkpoint: ProjectionCheckpoint)] = []
        for name in names where name.hasPrefix("export-") {
            guard let checkpoint = self.checkpoint(name) else { continue }
            exports.append((String(name.dropFirst(7)), checkpoint))
        }
        self.verifyNames(ofExports: names)
        self.verifyExports(exports, archive: archive)
        self.verifyState(except: ["archive"] + names.filter { $0.hasPrefix("export-") })
        self.lookForStrays()
        for (projection, count) in self.newFileCounts.sorted(by: { $0.key < $1.key }) {
            self.report.note("\(projection): files that are newer than the checkpoint and are not verified: \(count)")
        }
        if self.unfinishedFileCount > 0 {
            self.report.note(
                "\(self.unfinishedFileCount) files have bytes after the end that their checkpoint states, as a crash leaves "
                    + "them: a start cuts them off and writes them again")
        }
        return self.report
    }

    private func lockOwner() -> Int? {
        do throws(FileSystemError) {
            return try Inspector(files: self.data.files) { _ in }.owner(ofLock: Path.join(self.data.state, "lock"))
        } catch {
            // Without the kernel's table, the directory is treated as unused.
            return nil
        }
    }

    /// Reports a file that is not in its projection's checkpoint, which stands at `position`.
    ///
    /// While a receiver runs, the file belongs to the next checkpoint. A crash leaves files of that kind as well.
    mutating func unknown(_ path: String, _ position: Int) {
        if self.isInUse || self.isBehind(position) {
            let depth = path.hasPrefix("exports/") ? 2 : 1
            self.newFileCounts[path.split(separator: "/").prefix(depth).joined(separator: "/"), default: 0] += 1
        } else {
            self.report.add(
                Problem(
                    .stray, path,
                    "it is not in the checkpoint: a start recreates it from the journal, or it is not Waybill's"
                ))
        }
    }

    /// Whether the journal has batches after a checkpoint's position, so that a crash may have left what they gave.
    func isBehind(_ position: Int) -> Bool {
        position <= self.lastBatch.rawValue && self.journalEnd != self.journalFirst
    }

    mutating func unreadable(_ error: FileSystemError) {
        self.report.add(Problem(.unreadable, self.relative(error.path), "\(error)"))
    }

    func absolute(_ path: String) -> String {
        Path.join(self.data.root, path)
    }

    func relative(_ path: String) -> String {
        path.hasPrefix(self.data.root + "/") ? String(path.dropFirst(self.data.root.utf8.count + 1)) : path
    }

    // MARK: Checkpoints

    /// The names of the checkpoints of the archive and the exports.
    private mutating func projectionNames() -> [String] {
        do throws(FileSystemError) {
            guard try self.data.files.status(at: self.data.state) != nil else { return [] }
            return try self.data.files.list(self.data.state).filter { $0.hasSuffix(".state") }.map {
                String($0.dropLast(6))
            }
        } catch {
            self.unreadable(error)
            return []
        }
    }

    /// The bytes of a checkpoint; read again if a receiver was just writing it.
    private mutating func state(_ name: String) -> [UInt8]? {
        let path = self.absolute("state/\(name).state")
        var bytes: [UInt8]?
        for _ in 0..<3 {
            do throws(FileSystemError) {
                bytes = try self.data.files.contents(of: path, byteCountMax: 1 << 30) ?? bytes
            } catch {
                self.unreadable(error)
                return nil
            }
            if let bytes, StateImage(bytes: bytes)?.validByteCount == bytes.count { return bytes }
            if !self.isInUse { return bytes }
        }
        return bytes
    }

    private mutating func checkpoint(_ name: String) -> ProjectionCheckpoint? {
        let path = "state/\(name).state"
        let bytes = self.states[name]
        guard let bytes else {
            guard self.journalFirst.rawValue > 0 else {
                self.report.note("\(path) does not exist: a start projects the whole journal")
                return nil
            }
            self.report.add(Problem(.missing, path, "the checkpoint is gone; a start recreates it as far as possible"))
            return nil
        }
        let (checkpoint, problems) = ProjectionCheckpoint.verify(bytes, at: path)
        self.report.add(problems)
        guard let checkpoint, checkpoint.position > self.journalEnd else { return checkpoint }
        if name == "archive" { self.reportJournalEnd(before: checkpoint.position) }
        self.report.add(
            Problem(
                .disagreement, path,
                "it is at \(checkpoint.position), but the journal ends at \(self.journalEnd): a part of the journal is gone"
            ))
        return checkpoint
    }

    // MARK: Journal

    /// Sorts each stream's batches, and reports those that begin at the same offset.
    private mutating func sortBatches(_ last: JournalPosition) {
        for name in self.batches.keys.sorted(by: { $0.description < $1.description }) {
            let sorted = (self.batches[name] ?? []).sorted { ($0.offset, $0.position) < ($1.offset, $1.position) }
            self.batches[name] = sorted
            for (earlier, later) in zip(sorted, sorted.dropFirst()) where earlier.offset == later.offset {
                self.report.add(
                    Problem(
                        .repeated, self.segmentPath(last), at: nil,
                        "stream \(name) offset \(later.offset.rawValue) is at \(earlier.position) and at "
                            + "\(later.position)"))
            }
        }
    }

    /// Opens a file to compare its lines, unless it is still open from the comparison before.
    mutating func openCompared(_ path: String) throws(FileSystemError) -> FileID {
        if let compared, compared.path == path { return compared.file }
        self.closeCompared()
        let file = try self.data.files.open(self.absolute(path), .read)
        self.compared = (path, file)
        return file
    }

    mutating func closeCompared() {
        if let compared { self.data.files.close(compared.file) }
        self.compared = nil
    }

    /// The position of the batch that brought a run's lines; `nil` if the journal no longer has it.
    func position(of run: SourceRun) -> JournalPosition? {
        self.position(of: RunKey(name: run.description.name, offset: run.offset))
    }

    func position(of run: RunKey) -> JournalPosition? {
        let known = self.batches[run.name] ?? []
        var low = 0
        var high = known.count
        while low < high {
            let middle = (low + high) / 2
            if known[middle].offset <= run.offset { low = middle + 1 } else { high = middle }
        }
        guard low > 0, run.offset < known[low - 1].end else { return nil }
        return known[low - 1].position
    }

    /// Verifies every checksum of the journal and records the position of each batch.
    private mutating func indexJournal() throws(FileSystemError) {
        let names = try self.data.files.list(self.data.journal)
        let segments = names.compactMap(JournalPath.position(ofSegment:)).sorted()
        guard let first = segments.first, let last = segments.last else {
            self.report.note("the journal is empty")
            return
        }
        let lastPath = JournalPath.segment(last, in: self.data.journal)
        let fileEnd = last.rawValue + (try self.data.files.status(at: lastPath)?.byteCount ?? 0)
        self.journalFirst = first
        self.lastSegment = self.segmentPath(last)
        self.lastSegmentStart = last
        self.journalEnd = JournalPosition(fileEnd)
        self.handed = try UploadState.handed(in: self.data.root, files: self.data.files)
        var handedCount = 0
        var reader = JournalReader(directory: self.data.journal, position: first, files: self.data.files)
        var count = 0
        var rawByteCount = 0
        while let record = try reader.next(upTo: self.journalEnd) {
            let offset = record.header.offset
            if self.handed.contains(where: { $0.contains(record.position) }) {
                handedCount += record.header.lineCount
                continue
            }
            self.batches[record.description.name, default: []].append(
                JournalBatch(
                    offset: offset, end: offset.advanced(by: record.header.rawByteCount), position: record.position))
            count += 1
            self.lastBatch = record.position
            rawByteCount += record.header.rawByteCount
        }
        if handedCount > 0 { self.report.total("journal_lines_of_mergers", handedCount) }
        self.sortBatches(last)
        for (segment, next) in zip(segments, segments.dropFirst()) {
            let path = JournalPath.segment(segment, in: self.data.journal)
            let count = next.rawValue - segment.rawValue
            guard let status = try self.data.files.status(at: path), status.byteCount > count else { continue }
            let leftover = JournalLeftover(path: path, segment: segment, files: self.data.files)
            guard try !leftover.isExplained(from: count, to: status.byteCount) else {
                self.report.note(
                    "\(self.segmentPath(segment)): the last \(status.byteCount - count) bytes are not part of the journal: "
                        + "the disk failed before they were durable, and they were never acknowledged")
                continue
            }
            self.report.add(
                Problem(
                    .unexplained, self.segmentPath(segment), at: count, byteCount: status.byteCount - count,
                    "bytes after the start of the next segment, which no reader takes for the journal's"))
        }
        self.reportDamages(reader.takeDamages())
        for name in names where JournalPath.position(ofSegment: name) == nil {
            self.report.note("journal/\(name) was set aside by an earlier start")
        }
        self.report.total("journal_segments", segments.count)
        self.report.total("journal_batches", count)
        self.report.total("journal_raw_bytes", rawByteCount)
        if first.rawValue > 0 {
            self.report.note("the journal starts at \(first): older lines cannot be compared")
        }
    }

    /// Reports unreadable ranges; one that reaches the journal's end is its new end.
    private mutating func reportDamages(_ damages: [JournalDamage]) {
        for damage in damages {
            guard damage.end < self.journalEnd else {
                self.report.note(
                    "\(self.segmentPath(damage.segment)): the journal's last \(damage.end.rawValue - damage.start.rawValue) bytes are not a complete group "
                        + "(\(damage.reason)): it is being written, or was torn by a crash; a start cuts it off and keeps it"
                )
                self.journalEnd = damage.start
                continue
            }
            self.report.add(
                Problem(
                    .damaged, self.segmentPath(damage.segment), at: damage.start.rawValue - damage.segment.rawValue,
                    byteCount: damage.end.rawValue - damage.start.rawValue, damage.reason))
        }
    }

    /// Reports that bytes are missing at the journal's end.
    private mutating func reportJournalEnd(before position: JournalPosition) {
        let end = self.journalEnd.rawValue
        self.report.add(
            Problem(
                .short, self.lastSegment ?? Path.name(of: self.data.journal), at: end - self.lastSegmentStart.rawValue,
                byteCount: position.rawValue - end,
                "the journal ends here, but the archive was written up to \(position)"))
    }

    private func segmentPath(_ segment: JournalPosition) -> String {
        "journal/" + Path.name(of: JournalPath.segment(segment, in: "journal"))
    }

    // MARK: Strays

    private mutating func lookForStrays() {
        let known: Set<String> = [
            "journal", "archive", "quarantine", "exports", "state", SetAside<Files>.folder,
        ]
        do throws(FileSystemError) {
            for name in try self.data.files.list(self.data.root) where !known.contains(name) {
                self.report.add(Problem(.stray, name, "receivers do not create this file or folder"))
            }
            if try self.data.files.status(at: self.absolute(SetAside<Files>.folder)) != nil {
                self.report.note("\(SetAside<Files>.folder)/ contains what an earlier start could not use")
            }
        } catch {
            self.unreadable(error)
        }
    }
}

extension ProjectionCheckpoint {
    /// `nil` if the machine does not know it.
    func zone(_ files: some FileSystem) -> TimeZoneRules? {
        guard let name = self.entries["zone"], name != TimeZoneRules.utc.name else { return .utc }
        return try? TimeZoneRules(named: name, from: files)
    }
}
