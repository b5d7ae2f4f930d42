package import WaybillData
package import WaybillExport
package import WaybillProtocol
package import WaybillSystem

/// Writes every line, byte for byte, to the daily file of its event's time, app and environment.
///
///     archive/env=prod/bundle=com.example.shop/date=2026-11-20/part-00001.ndjson     the lines
///                                                           part-00001.sources    where they came from
///     quarantine/date=2026-11-20/<reason>.ndjson, <reason>.sources                lines that are not events
///
/// A run introduces each stream again at its first lines, numbered from 1: a number in a sources file refers to the
/// last `OPEN` before it. Apart from that, the output depends on the journal alone.
///
/// Adjacent lines of one partition are written as one range of the batch, without a copy.
///
/// - SeeAlso: `Protocol/formats/archive.md`.
package struct ArchiveProjection<Files: FileSystem>: ~Copyable, Projection {
    /// The files of a route.
    private struct Partition {
        let lines: FileSet<Files>.Index
        let sources: FileSet<Files>.Index
        /// Lines of batches before it are in sealed files; they are read again only after an older checkpoint.
        let sealedBefore: JournalPosition
        /// Streams that this run has introduced in the sources file.
        var numbers: [StreamDescription: Int] = [:]
    }

    let data: DataDirectory<Files>
    private let quotas: PartitionQuotas
    private(set) var cutOff: CutOff
    var state: StateStore<Files>
    var set: FileSet<Files>
    /// The people whose lines are counted and not stored.
    package let erased: ErasedPeople?
    package private(set) var poison: PoisonedLines?
    var router: ArchiveRouter
    /// By the index of the route; `nil` until a batch uses it, and again once its file starts to be sealed.
    private var partitions: [Partition?] = []
    /// Folders whose open file has lines.
    var openDays: OpenDays<String>
    /// By folder: the seals in progress, as in the checkpoint.
    var seals: [String: Seal] = [:]
    var work: SealWork<Files>?
    var sealed: [SealedDay] = []
    private var quarantined = QuarantineCounts()
    /// Quarantined lines by stream since the last checkpoint, and up to it since they were taken.
    private var census = OutcomeCensus()
    private var outcomes = OutcomeCensus()
    package private(set) var tally = ProjectionTally()
    /// ``tally`` at the last checkpoint, which recovery restores.
    private var checkpointedTally = ProjectionTally()

    package static var takesParsedLines: Bool { false }
    package var name: String { "archive" }
    var root: String { self.data.root }
    var files: Files { self.data.files }

    package init(
        data: DataDirectory<Files>, zone: TimeZoneRules, cutOffSecond: Int = CutOff.usualSecondOfDay,
        quotas: PartitionQuotas = PartitionQuotas()
    ) throws(FileSystemError) {
        let erased = try ErasedPeople.read(in: data)
        let poison = try PoisonedLines.read(in: data)
        let state = try StateStore(path: data.statePath("archive"), files: data.files)
        self.erased = erased
        self.poison = poison
        self.data = data
        self.cutOff = CutOff(zone: zone, secondOfDay: cutOffSecond)
        self.openDays = OpenDays(self.cutOff)
        self.quotas = quotas
        self.router = ArchiveRouter(zone: zone, quotas: quotas, erased: erased, poison: poison)
        self.state = state
        self.set = FileSet(
            root: data.root, files: data.files, openFileCountMax: data.openFileCountMax, stop: data.stop)
    }

    package mutating func useCutOff(_ secondOfDay: Int) {
        guard secondOfDay != self.cutOff.secondOfDay else { return }
        self.cutOff = CutOff(zone: self.cutOff.zone, secondOfDay: secondOfDay)
        self.openDays.use(self.cutOff)
    }

    package mutating func recover() throws(FileSystemError) -> ProjectionRecovery {
        self.partitions = []
        self.work = nil
        self.tally = self.checkpointedTally
        self.census = OutcomeCensus()
        try self.state.settle()
        var notes = self.state.recovery.notes
        try PairExchange.finish(&self.state, in: self.data)
        try DeletionRecord(root: self.root, files: self.files).finish(&self.state)
        notes += try self.recoverSeals()
        let lost = LostCheckpoint(
            data: self.data, entries: self.state.entries, seals: self.seals, journal: self.routedJournal)
        if let rebuilt = try lost.rebuilt() {
            try self.state.commit(rebuilt.changes)
            notes.append(rebuilt.note)
        }
        let apps = try ArchiveRouter.apps(in: self.data, self.checkpointedLengths.keys)
        self.router = ArchiveRouter(
            zone: self.cutOff.zone, apps: apps, quotas: self.quotas, entries: self.state.entries, erased: self.erased,
            poison: self.poison)
        var recovery = try self.recoverFiles()
        if !recovery.shortFiles.isEmpty {
            notes += try self.repair(recovery.shortFiles.keys)
            recovery.shortFiles = [:]
            _ = try self.recoverFiles()
        }
        try self.findOpenDays()
        notes.append(recovery.summary)
        return ProjectionRecovery(
            position: self.checkpointedPosition, report: notes.filter { !$0.isEmpty }.joined(separator: ", "))
    }

    private var routedJournal: RoutedJournal<Files> {
        RoutedJournal(
            data: self.data, entries: self.state.entries, zone: self.router.zone, erased: self.erased,
            poison: self.poison)
    }

    /// Repairs files that are missing or shorter than in the checkpoint: the remaining runs are kept, the runs after them
    /// are taken from the journal as far back as it reaches, and the damaged pair is set aside.
    ///
    /// - Returns: the result for each pair, for logs.
    private mutating func repair(_ paths: some Sequence<String>) throws(FileSystemError) -> [String] {
        let lengths = self.checkpointedLengths
        var damaged: [String: DamagedPair] = [:]
        for stem in Set(paths.compactMap(ArchivePair.stem)).sorted() {
            damaged[stem] = try DamagedPair(stem, in: self.data, lengths: lengths)
        }
        let places = try DamagedPlaces(of: damaged, in: self.data, lengths: lengths, seals: self.seals)
        let journal = self.routedJournal
        try journal.visitRuns(upTo: self.checkpointedPosition) { run, route, batch in
            if let stem = places.stem(of: run, route, batch) { damaged[stem]?.found(run, of: batch) }
        }
        var exchange = PairExchange(in: self.data)
        for (_, pair) in damaged.sorted(by: { $0.key < $1.key }) {
            try exchange.begin(pair, try pair.plan(in: self.data))
        }
        try journal.visitRuns(upTo: self.checkpointedPosition) { (run, route, batch) throws(FileSystemError) in
            if let stem = places.stem(of: run, route, batch) { try exchange.append(run, of: batch, to: stem) }
        }
        let written = try exchange.synchronize()
        try self.state.commit(written.changes)
        try PairExchange.finish(&self.state, in: self.data)
        return written.notes
    }

    private mutating func recoverFiles() throws(FileSystemError) -> FileSet<Files>.Recovery {
        let coverage = JournalCoverage(directory: self.data.journal, files: self.files)
        let position = self.checkpointedPosition
        let (root, files) = (self.root, self.files)
        return try self.set.recover(
            from: self.state.entries, roots: ArchivePair.roots,
            isRebuilt: { () throws(FileSystemError) in try coverage.isWhole(from: position) },
            isKept: { (path) throws(FileSystemError) in
                // The rest of an interrupted seal; the seal starts again.
                if path.hasSuffix(".ndjson.gz.tmp") { return false }
                if path.hasSuffix(".ndjson.gz") {
                    try Self.dropUnfinished(Path.join(root, path), files)
                    return true
                }
                guard ArchivePair.isOwnName(Path.name(of: path)) else { return true }
                let sealed = Path.join(root, path[..<(path.lastIndex(of: ".") ?? path.endIndex)] + ".ndjson.gz")
                try Self.dropUnfinished(sealed, files)
                // The checkpoint no longer has those of sealed days.
                guard path.hasSuffix(".sources") else { return false }
                return try files.status(at: sealed) != nil
            })
    }

    /// Removes a compressed file that is next to the lines it was made from, and that no manifest records: the seal starts
    /// again.
    ///
    /// Before the lines, if the checkpoint does not have them, and for good: without them it would be taken for a sealed
    /// file, and they would be archived a second time.
    private static func dropUnfinished(_ path: String, _ files: Files) throws(FileSystemError) {
        guard try files.status(at: path) != nil, try files.status(at: String(path.dropLast(3))) != nil else { return }
        let directory = Path.parent(of: path)
        let manifest = try DayManifest.read(in: directory, files: files)
        guard !(manifest?.files.contains { $0.name == Path.name(of: path) } ?? false) else { return }
        try files.unlink(path)
        try files.synchronizeDirectory(directory)
    }

    var checkpointedPosition: JournalPosition {
        JournalPosition(Int(self.state.entries["position"] ?? "0") ?? 0)
    }

    package mutating func checkpoint(
        at position: JournalPosition, sealing moment: SealMoment?
    ) throws(FileSystemError) {
        let former = self.checkpointedPosition
        precondition(position >= former, "a checkpoint moves from \(former) back to \(position)")
        var changes = try self.set.synchronize()
        let seals =
            try moment.map { (moment) throws(FileSystemError) in try self.dueSeals(moment, at: position) } ?? [:]
        for (folder, seal) in seals { changes[Self.sealPrefix + folder] = .some(seal.text) }
        changes["position"] = .some(String(position.rawValue))
        changes["zone"] = .some(self.cutOff.zone.name)
        changes.merge(self.router.granted.entries) { _, new in new }
        try self.state.commit(changes)
        self.set.checkpointCommitted()
        self.router.committed()
        self.checkpointedTally = self.tally
        self.outcomes.add(self.census.take())
        self.begin(seals)
    }

    /// Starts seals: lines of these days go to their next file from now on.
    private mutating func begin(_ seals: [String: Seal]) {
        guard !seals.isEmpty else { return }
        self.seals.merge(seals) { _, new in new }
        self.openDays.remove(seals.keys)
        for index in self.partitions.indices where seals[self.router.routes[index].place] != nil {
            self.partitions[index] = nil
        }
    }

    package var undecided: JournalPosition? { self.router.granted.undecided }

    package var report: String {
        "archived \(self.tally.archived), quarantined \(self.tally.quarantined)"
    }

    /// The length of each file at the last checkpoint, by path below the data directory.
    package var checkpointedLengths: [String: Int] {
        FileSet<Files>.lengths(in: self.state.entries)
    }

    package func rehearse(_ line: ProjectedBatch) {
        var router = ArchiveRouter(zone: self.cutOff.zone, erased: self.erased)
        _ = router.route(line)
    }

    package mutating func use(_ poison: PoisonedLines) {
        self.poison = poison
        self.router.use(poison)
    }

    package mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) {
        let counts = self.router.route(batch)
        self.tally.lineCount += batch.lineCount
        self.tally.archived += counts.archived
        self.tally.quarantined += counts.quarantined
        self.countQuarantined(of: batch)
        while self.partitions.count < self.router.routes.count { self.partitions.append(nil) }
        for index in self.router.touched {
            if self.router.routes[index].isOverflow { self.tally.overflowed += self.router.routes[index].lineCount }
            // Taken out so that its table of streams has one owner and is modified in place.
            var partition = try self.takePartition(index)
            if batch.position >= partition.sealedBefore {
                if self.router.routes[index].isDay {
                    self.openDay(self.router.routes[index].place, receivedAt: batch.receivedAt)
                }
                let start = self.set.byteCount(of: partition.lines)
                try self.append(self.router.routes[index].runs, of: batch.raw, to: partition.lines)
                try self.writeSources(self.router.routes[index].runs, of: batch, to: &partition, start: start)
            }
            self.partitions[index] = partition
        }
        if self.router.finishBatch() { self.partitions.removeAll() }
    }

    /// Counts the lines of the current batch that are no events, or that their owner may not write.
    private mutating func countQuarantined(of batch: ProjectedBatch) {
        let description = batch.description
        let stream = Array(description.id.text.utf8).withUnsafeBytes {
            self.census.index(of: $0) { Self.name(of: description) }
        }
        self.census.addLines(batch.lineCount, of: stream)
        for index in self.router.touched where !self.router.routes[index].isDay {
            let reason = Path.name(of: self.router.routes[index].place)
            let count = self.router.routes[index].lineCount
            if let known = QuarantineReason(rawValue: reason) {
                self.tally.outcomes.add(count, .quarantined(known))
                self.census.add(count, .quarantined(known), of: stream)
            }
            if reason == QuarantineReason.notAllowed.rawValue {
                self.tally.notAllowed[batch.description.owner.principalName, default: 0] += count
            }
            guard let account = batch.account else { continue }
            self.quarantined.add(
                count, for: QuarantineKey(account: account, stream: batch.description.id, reason: reason))
        }
    }

    /// What people know a stream by: its file, and its id, which tells files of equal names apart.
    private static func name(of description: StreamDescription) -> String {
        "stream \(description.id.text), source \(description.source)"
    }

    package mutating func takeOutcomes() -> OutcomeCensus {
        self.outcomes.take()
    }

    package mutating func takeQuarantined() -> QuarantineCounts {
        defer { self.quarantined = QuarantineCounts() }
        return self.quarantined
    }

    private mutating func openDay(_ folder: String, receivedAt: WallTime) {
        guard !self.openDays.contains(folder), let day = DayFolder(path: folder)?.day else { return }
        self.openDays.add(folder, day, openedAt: receivedAt)
    }

    /// Forgets where lines of a day go, so that it is determined again.
    mutating func forgetPartitions(of folder: String) {
        for index in self.partitions.indices
        where self.router.routes[index].place == folder || Path.parent(of: self.router.routes[index].place) == folder {
            if let partition = self.partitions[index] {
                for file in [partition.lines, partition.sources] { self.set.forget(file) }
            }
            self.partitions[index] = nil
        }
    }

    private mutating func takePartition(_ index: Int) throws(FileSystemError) -> Partition {
        if let known = self.partitions[index].take() { return known }
        return try self.partition(for: self.router.routes[index])
    }

    private mutating func partition(for route: ArchiveRouter.Route) throws(FileSystemError) -> Partition {
        var stem = route.place
        var sealedBefore = JournalPosition(0)
        if route.isDay {
            let standing = try DayStanding(of: route.place, in: self.data, seal: self.seals[route.place])
            stem = Path.join(route.place, DayFolder.openPart(revision: standing.revision))
            sealedBefore = standing.sealedBefore
        }
        return Partition(
            lines: self.set.index(of: stem + ".ndjson"), sources: self.set.index(of: stem + ".sources"),
            sealedBefore: sealedBefore)
    }

    private static var newline: [UInt8] { [0x0A] }

    private mutating func append(
        _ runs: [RoutedRun], of raw: UnsafeRawBufferPointer, to file: FileSet<Files>.Index
    ) throws(FileSystemError) {
        let vector = runs.compactMap { !$0.isStored ? nil : UnsafeRawBufferPointer(rebasing: raw[$0.range]) }
        try self.set.append(vector, to: file)
        if runs.last?.isLineFeedMissing(in: raw) ?? false { try self.set.append(Self.newline, to: file) }
    }

    /// Records where the archived bytes of a batch came from, one entry for each run.
    private mutating func writeSources(
        _ runs: [RoutedRun], of batch: ProjectedBatch, to partition: inout Partition, start: Int
    ) throws(FileSystemError) {
        let known = partition.numbers[batch.description]
        let number = known ?? partition.numbers.count + 1
        if known == nil { partition.numbers[batch.description] = number }
        var text: [UInt8] = []
        if known == nil { SourceRun.introduce(batch.description, as: number, in: &text) }
        var start = start
        for run in runs {
            let source = run.source(of: batch, at: start)
            source.append(to: &text, number: number)
            start = source.range.upperBound
            guard text.count >= Self.sourcesPieceByteCount else { continue }
            try self.set.append(text, to: partition.sources)
            text.removeAll(keepingCapacity: true)
        }
        try self.set.append(text, to: partition.sources)
    }

    /// The entries of a batch that are in memory at a time.
    private static var sourcesPieceByteCount: Int { 64 << 10 }
}

extension SourceRun {
    /// Appends a stream's line of a `.sources` file.
    package static func introduce(_ description: StreamDescription, as number: Int, in text: inout [UInt8]) {
        text += "OPEN \(number) \(description.json)\n".utf8
    }

    /// Appends the run's line of a `.sources` file.
    package func append(to text: inout [UInt8], number: Int) {
        text += self.word.rawValue.utf8
        for field in [
            number, Int(self.offset.rawValue), Int(self.receivedAt.milliseconds), self.range.lowerBound,
            self.erasedByteCount > 0 ? self.erasedByteCount : self.range.count, self.lineCount,
        ] {
            text.append(0x20)
            text += String(field).utf8
        }
        if self.emptyLineCount > 0 { text += " \(self.emptyLineCount)".utf8 }
        if self.word == .shifted, let position = self.shiftedAt { text += " \(position.rawValue)".utf8 }
        text.append(0x0A)
    }
}
