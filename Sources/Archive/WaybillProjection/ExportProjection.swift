package import WaybillData
package import WaybillExport
internal import WaybillProtocol
package import WaybillSystem

/// Writes one provider's records to the parts of each environment and day.
///
///     exports/ga4/env=prod/date=2026-11-20/part-00000.ndjson          records, in the order of the journal
///                                          part-00000.ids             the event ids of each record
///                                          part-00000.manifest.json   once the part is closed
///                                          dead/part-00000.ndjson     refused events, whole, with the reason
///                                          …ndjson.gz                 each of them, once it gets nothing more
///                                          held                       records for when the day is sealed
///                                          schemas/…                  Snowplow: draft schemas of closed parts
///
/// A part is closed when it is full, or when the time is over in which it takes records, by the journal's clock.
/// Closing is part of a checkpoint: first the bytes are synced, then the checkpoint records that the part is closed and
/// the content of its manifest. Then the part is compressed and the manifest is written, in the projection's pauses.
///
/// A part has one mapping, one time zone and one header: when the options change, at a start or while running, the open
/// parts are closed with their old options. The change begins with a checkpoint, and recovery does the rest, so a crash
/// at any point leaves the old options or the new ones, and each event in one part.
///
/// - SeeAlso: `Protocol/formats/exports.md`.
package struct ExportProjection<Files: FileSystem>: ~Copyable, Projection {
    /// The output folder; `exports/<provider>` in a live receiver.
    package let directory: String
    let files: Files
    let root: String
    let journal: String
    var options: ExportOptions
    private var fingerprint: String
    private let pending: PendingOptions?
    var state: StateStore<Files>
    var set: FileSet<Files>
    var mapper: BatchMapper<Files>
    var sink: PartSink
    var closed: ClosedFiles<Files>
    var owedSeals: OwedSeals<Files>
    /// Partitions written since the last checkpoint.
    var touchedKeys: Set<ExportDay> = []
    /// Days with unsealed events.
    var openDays: OpenDays<ExportDay>
    /// When the last exported event was received.
    private var receivedAt = WallTime.unknown
    private var lines = LineCounts()

    static var partPrefix: String { PartStanding.keyPrefix }
    static var switchPrefix: String { "switch:" }
    static var adoptedKey: String { "adopted" }
    /// The position up to which other options were used.
    static var changedKey: String { "changed" }

    package static var takesParsedLines: Bool { true }
    package var name: String { self.options.provider.rawValue }
    var description: ProviderDescription { self.mapper.description }
    /// The people whose lines are not exported.
    package var erased: ErasedPeople? { self.mapper.readers.erased }
    package var poison: PoisonedLines? { self.mapper.readers.poison }

    /// Prepares an export.
    ///
    /// - Parameters:
    ///   - pending: new options to continue with, once there are any.
    ///   - directory: below the data directory, `exports/<provider>` for a live export.
    ///   - statePath: the path of its checkpoint.
    ///   - isAgeJudged: off for a replay from an archive that does not know when lines were received.
    package init(
        data: DataDirectory<Files>, directory: String, statePath: String, options: ExportOptions, isAgeJudged: Bool,
        pending: PendingOptions? = nil
    ) throws(FileSystemError) {
        let erased = try ErasedPeople.read(in: data)
        let poison = try PoisonedLines.read(in: data)
        let state = try StateStore(path: statePath, files: data.files)
        self.root = data.root
        self.journal = data.journal
        self.files = data.files
        self.directory = directory
        self.options = options
        self.fingerprint = options.fingerprint
        self.pending = pending
        self.mapper = BatchMapper(
            options, root: data.root, files: data.files, erased: erased, poison: poison, isAgeJudged: isAgeJudged)
        self.openDays = OpenDays(CutOff(zone: options.zone, secondOfDay: options.cutOffSecond))
        self.owedSeals = OwedSeals(root: data.root, files: data.files)
        self.sink = PartSink(self.mapper.exporter)
        self.closed = ClosedFiles(
            of: options.provider, fileExtension: self.mapper.description.fileExtension, root: data.root,
            files: data.files)
        self.state = state
        self.set = FileSet(
            root: data.root, files: data.files, openFileCountMax: data.openFileCountMax, stop: data.stop)
    }

    /// The export of a running receiver.
    package static func live(
        _ options: ExportOptions, data: DataDirectory<Files>, pending: PendingOptions? = nil
    ) throws(FileSystemError) -> ExportProjection {
        let name = options.provider.rawValue
        return try ExportProjection(
            data: data, directory: "exports/\(name)", statePath: data.statePath("export-\(name)"), options: options,
            isAgeJudged: true, pending: pending)
    }

    package var tally: ProjectionTally {
        var tally = self.lines.tally(self.sink.counts)
        (tally.openPartCount, tally.openRecordCount, tally.oldestOpen) = self.sink.open
        return tally
    }

    package var report: String {
        let tally = self.tally
        return "exported \(tally.exported), refused \(tally.refused), held \(tally.held), "
            + "skipped \(tally.skips.total)\(Self.reasons(tally.skips)), quarantined \(tally.quarantined)"
    }

    private static func reasons(_ skips: SkipCounts) -> String {
        let reasons = NotExported.allCases.filter { skips[$0] > 0 }.map { "\($0.rawValue) \(skips[$0])" }
        return reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
    }

    /// Events since the start: exported, refused, held, skipped.
    package var counts: ExportCounts {
        let counts = self.sink.counts
        return ExportCounts(
            exported: counts.exported, refused: counts.refused, held: counts.held,
            skipped: counts.skips.total)
    }

    /// When a day is over.
    var cutOff: CutOff { CutOff(zone: self.options.zone, secondOfDay: self.options.cutOffSecond) }

    package mutating func useCutOff(_ secondOfDay: Int) {
        guard secondOfDay != self.options.cutOffSecond else { return }
        self.options.cutOffSecond = secondOfDay
        self.openDays.use(self.cutOff)
    }

    // MARK: Recovery

    package mutating func recover() throws(FileSystemError) -> ProjectionRecovery {
        self.touchedKeys = []
        self.receivedAt = .unknown
        self.mapper.use(self.options)
        self.closed.reset(fileExtension: self.description.fileExtension)
        try self.state.settle()
        var notes = self.state.recovery.notes
        if let note = try self.restoreLostCheckpoint() { notes.append(note) }
        try self.finishSwitching()
        try DeletionRecord(root: self.root, files: self.files).finish(&self.state)
        if let note = try self.setAsideWithoutCheckpoint() { notes.append(note) }
        try self.restoreOpenFiles()
        var (recovery, undescribed) = try self.recoverFiles()
        if !recovery.shortFiles.isEmpty {
            notes += try self.setAsideShortParts(recovery.shortFiles)
            recovery.shortFiles = [:]
            (_, undescribed) = try self.recoverFiles()
        }
        notes += try self.describe(undescribed)
        if let note = try self.turnOver() { notes.append(note) }
        self.closed.findWaiting(in: self.state.entries)
        self.owedSeals.find(in: self.state.entries)
        try self.finishSeals()
        self.lines.recover()
        self.sink.reset(to: self.checkpointedStandings, self.mapper.exporter)
        try self.findOpenDays()
        notes.append(recovery.summary)
        return ProjectionRecovery(
            position: self.checkpointedPosition, report: notes.filter { !$0.isEmpty }.joined(separator: ", "))
    }

    var checkpointedPosition: JournalPosition {
        JournalPosition(Int(self.state.entries["position"] ?? "0") ?? 0)
    }

    /// Closes the parts that were started with other options, and records the current ones.
    ///
    /// - Returns: a description of the changes, for logs.
    private mutating func turnOver() throws(FileSystemError) -> String? {
        guard self.state.entries["position"] != nil, self.state.entries["options"] != self.fingerprint else {
            return nil
        }
        let zone = self.state.entries["zone"] ?? self.options.zone.name
        var standings: [String: String?] = [:]
        for (key, standing) in self.checkpointedStandings.sorted(by: { self.path($0.key) < self.path($1.key) })
        where standing.recordCount > 0 {
            try self.closePart(standing, key, zone: zone)
            standings[Self.partPrefix + self.path(key)] = standing.next.text
        }
        var changes = try self.set.synchronize()
        for (key, manifest) in self.closed.entries { changes[key] = .some(manifest) }
        changes.merge(standings) { _, new in new }
        if self.state.entries["options"] != nil {
            changes[Self.changedKey] = .some(self.state.entries["position"] ?? "0")
        }
        changes.merge(self.optionEntries) { _, new in new }
        try self.state.commit(changes)
        self.set.checkpointCommitted()
        return "the options changed: \(standings.count) open parts were closed"
    }

    /// The checkpoint entries for the options that are not in the checkpoint yet.
    private var optionEntries: [String: String?] {
        var entries: [String: String?] = ["options": .some(self.fingerprint), "zone": .some(self.options.zone.name)]
        for (key, value) in ExportHistory.entries(of: self.options) { entries[key] = .some(value) }
        return entries.filter { self.state.entries[$0.key] != $0.value }
    }

    var checkpointedStandings: [ExportDay: PartStanding] {
        var standings: [ExportDay: PartStanding] = [:]
        for (key, value) in self.state.entries where key.hasPrefix(Self.partPrefix) {
            guard let partition = ExportDay(partition: String(key.dropFirst(Self.partPrefix.count))),
                let standing = PartStanding(text: value)
            else { continue }
            standings[partition] = standing
        }
        return standings
    }

    // MARK: Batches

    package mutating func project(_ batch: ProjectedBatch) throws(FileSystemError) {
        if let options = self.pending?.take() { try self.goOn(with: options, from: batch.position) }
        self.arrive(at: batch.receivedAt)
        self.lines.addRead(batch.lineCount)
        let refusedCount = self.sink.counts.refused
        let outcomes = self.sink.counts.outcomes
        self.lines.addQuarantined(try self.mapper.map(batch, to: &self.sink))
        if self.sink.counts.refused > refusedCount {
            self.lines.addRefused(of: batch, by: self.name, from: outcomes, to: self.sink.counts.outcomes)
        }
        try self.finishBatch()
    }

    package func rehearse(_ line: ProjectedBatch) {
        self.mapper.rehearse(line)
    }

    package mutating func use(_ poison: PoisonedLines) {
        self.mapper.use(poison)
    }

    /// Closes the parts that take no records of that time.
    mutating func arrive(at time: WallTime) {
        guard time != self.receivedAt else { return }
        self.receivedAt = time
        self.closed.pass(time)
        self.sink.pass(time)
    }

    package mutating func pass(_ time: WallTime) throws(FileSystemError) {
        self.closed.pass(time)
        self.sink.pass(time)
        try self.writeTouched()
    }

    package var needsMarks: Bool { self.sink.hasAgingParts || self.closed.hasPostponed }

    /// Switches to other options for the batches from `position` on.
    private mutating func goOn(with options: ExportOptions, from position: JournalPosition) throws(FileSystemError) {
        do throws(FileSystemError) {
            try self.checkpoint(at: position)
        } catch {
            self.pending?.putBack(options)
            throw error
        }
        self.options = options
        self.fingerprint = options.fingerprint
        let recovery = try self.recover()
        self.pending?.applied(options, recovery.report)
    }

    /// Maps one line that was already parsed; ``finishBatch()`` follows the last of its batch.
    package mutating func export(
        _ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool
    ) {
        self.arrive(at: receivedAt)
        let isEvent = self.mapper.map(line, source, receivedAt: receivedAt, isShifted: isShifted, to: &self.sink)
        if !isEvent { self.lines.addQuarantined(1) }
    }

    /// Maps one line that was already read; ``finishBatch()`` follows the last of its batch.
    package mutating func export(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isShifted: Bool
    ) {
        self.arrive(at: receivedAt)
        self.mapper.map(
            line, facts, source, at: offset, receivedAt: receivedAt, isShifted: isShifted, to: &self.sink)
    }

    /// Closes the request that the batch's last events share, and writes the batch's output.
    package mutating func finishBatch() throws(FileSystemError) {
        self.finishGroup()
        try self.writeTouched()
    }

    /// Closes the request that the last events share.
    package mutating func finishGroup() {
        self.mapper.finishGroup(to: &self.sink)
    }

    /// Writes the output of the batches since the last call; it is not durable before a checkpoint.
    package mutating func writeTouched() throws(FileSystemError) {
        for index in self.sink.touched { try self.write(index) }
        self.sink.allWritten()
    }

    func path(_ key: ExportDay) -> String {
        key.path(below: self.directory)
    }

    mutating func write(_ index: Int) throws(FileSystemError) {
        self.sink.opened(index, at: self.receivedAt)
        self.sink.settle(index)
        try self.write(self.sink.partitions[index])
        self.sink.written(index)
    }

    private mutating func write(_ partition: PartSink.Partition) throws(FileSystemError) {
        let directory = self.path(partition.key)
        self.touchedKeys.insert(partition.key)
        self.openDays.add(partition.key, partition.key.day, openedAt: self.receivedAt)
        for chunk in partition.chunks where !chunk.records.isEmpty || chunk.isClosed {
            let path = "\(directory)/\(PartitionPath.part(chunk.part.number))"
            let records = self.set.index(of: "\(path).\(self.description.fileExtension)")
            let ids = self.set.index(of: "\(path).ids")
            try self.set.append(chunk.records, to: records)
            try self.set.append(chunk.ids, to: ids)
            if chunk.isClosed {
                try self.close(chunk.part, path, records, ids, key: partition.key, zone: self.options.zone.name)
            }
        }
        if !partition.deadLetters.isEmpty {
            try self.set.append(
                partition.deadLetters,
                to: self.set.index(
                    of: DeadLetterFile(partition: directory, number: partition.chunks.last?.part.revision ?? 0).path))
        }
        if !partition.held.isEmpty {
            try self.set.append(partition.held, to: self.set.index(of: "\(directory)/\(HeldRecord.fileName)"))
        }
    }

    // MARK: Checkpoints

    package mutating func checkpoint(
        at position: JournalPosition, sealing moment: SealMoment?
    ) throws(FileSystemError) {
        let former = self.checkpointedPosition
        precondition(position >= former, "a checkpoint moves from \(former) back to \(position)")
        var days: [(key: ExportDay, rest: ExportTotals)] = []
        if let moment { days = try self.closeDueDays(moment) }
        var changes = try self.set.synchronize()
        changes.merge(self.optionEntries) { _, new in new }
        for (key, manifest) in self.closed.entries { changes[key] = .some(manifest) }
        for day in days {
            let manifest = try self.dayManifest(day.key, day.rest, at: moment?.now ?? WallTime(milliseconds: 0))
            changes[Self.sealPrefix + self.path(day.key)] = .some(String(decoding: manifest.json, as: UTF8.self))
        }
        for key in self.touchedKeys {
            guard let standing = self.sink.standing(of: key) else { continue }
            changes[Self.partPrefix + self.path(key)] = .some(standing.text)
        }
        changes["position"] = .some(String(position.rawValue))
        try self.state.commit(changes)
        self.set.checkpointCommitted()
        self.closed.checkpointed()
        self.owedSeals.add(days.map { self.path($0.key) })
        self.touchedKeys = []
        self.sink.checkpointed()
        self.lines.checkpointed(self.mapper.takeCensus())
        self.openDays.remove(days.map(\.key))
        try self.finishSeals()
    }

    package mutating func takeQuarantined() -> QuarantineCounts {
        self.lines.takeQuarantined()
    }

    package mutating func takeOutcomes() -> OutcomeCensus {
        self.lines.takeOutcomes()
    }

    /// Forgets a file of a deleted day.
    mutating func forget(_ path: String) {
        self.set.forget(path)
    }

    /// The partitions that this run has seen.
    var partitionKeys: [ExportDay] {
        self.sink.partitions.map(\.key)
    }
}
