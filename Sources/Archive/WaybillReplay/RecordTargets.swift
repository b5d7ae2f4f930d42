internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// Writes one provider's records with the live export's code.
final class PartitionWriter<Files: FileSystem>: RecordTarget {
    private var export: ExportProjection<Files>
    /// Lines since the last write, which wait in memory, and since the last checkpoint, which wait for a sync.
    private var unwrittenByteCount = 0
    private var uncommittedByteCount = 0

    private static var writeByteCount: Int { 1 << 20 }
    private static var commitByteCount: Int { 256 << 20 }

    init(
        _ options: ExportOptions, data: DataDirectory<Files>, directory: String, statePath: String
    ) throws(FileSystemError) {
        // All of a day is there already, so its parts are as large as they may be.
        var options = options
        options.closeAfter = .zero
        self.export = try ExportProjection(
            data: data, directory: directory, statePath: statePath, options: options, isAgeJudged: true)
        _ = try self.export.recover()
    }

    func export(_ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool) {
        self.export.export(line, source, receivedAt: receivedAt, isShifted: isShifted)
        self.unwrittenByteCount += line.bytes.count
    }

    func export(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isShifted: Bool
    ) {
        self.export.export(line, facts, source, at: offset, receivedAt: receivedAt, isShifted: isShifted)
        self.unwrittenByteCount += line.count
    }

    func leaveOut(_ line: ParsedLine, because reason: LeaveOutReason) {}

    func finishRun() throws(FileSystemError) {
        self.export.finishGroup()
        guard self.unwrittenByteCount >= Self.writeByteCount else { return }
        try self.export.writeTouched()
        self.uncommittedByteCount += self.unwrittenByteCount
        self.unwrittenByteCount = 0
        // Closed parts wait in memory for their manifests.
        guard self.uncommittedByteCount >= Self.commitByteCount else { return }
        self.uncommittedByteCount = 0
        try self.export.checkpoint(at: JournalPosition(0))
        try self.export.finishSealing()
    }

    /// Closes all parts; everything is durable when it returns.
    ///
    /// - Returns: the paths of partitions that are not empty.
    func finish() throws(FileSystemError) -> [String] {
        try self.export.finishBatch()
        try self.export.closeAll()
        try self.export.checkpoint(at: JournalPosition(0))
        try self.export.finishSealing()
        return self.export.partitionPaths
    }

    var counts: ExportCounts { self.export.counts }
}

/// Counts what a replay would write.
final class RecordTally: RecordTarget {
    private struct Sink: ExportSink, ~Copyable {
        var events = ExportCounts()
        var records = 0
        var outputBytes = 0
        /// Environments and days that are not empty.
        var units: Set<ExportDay> = []
        var lastUnit: ExportDay?
        let comparison: GenerationComparison?
        let separatorByteCount: Int

        init(comparison: GenerationComparison?, separatorByteCount: Int) {
            self.comparison = comparison
            self.separatorByteCount = separatorByteCount
        }

        private mutating func touch(_ environment: DeploymentEnvironment, _ day: CalendarDay) {
            let unit = ExportDay(env: environment, day: day)
            guard unit != self.lastUnit else { return }
            self.lastUnit = unit
            self.units.insert(unit)
        }

        mutating func write(_ record: ExportRecord) {
            self.touch(record.env, record.day)
            self.events.exported += record.eventCount
            self.records += 1
            self.outputBytes += record.bytes.count + self.separatorByteCount + record.ids.count + 1
            self.comparison?.take(record)
        }

        mutating func refuse(_ refusal: Refusal) {
            self.touch(refusal.env, refusal.day)
            self.events.refused += 1
            self.outputBytes += refusal.deadLetter.count
            self.comparison?.take(refusal)
        }

        mutating func hold(_ event: HeldEvent) {
            self.touch(event.record.env, event.record.day)
            self.events.held += 1
            self.comparison?.take(event)
        }

        mutating func skip(_ reason: NotExported) {
            self.events.skipped += 1
        }
    }

    private var exporter: Exporter
    private var sink: Sink

    /// - Parameter comparison: takes each event separately; records shared by events are then not counted as shared.
    init(_ options: ExportOptions, comparison: GenerationComparison? = nil) {
        let exporter = Exporter(options)
        self.sink = Sink(comparison: comparison, separatorByteCount: exporter.description.separator.count)
        self.exporter = exporter
    }

    func export(_ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool) {
        self.count(line.bytes, line.madeID) { exporter, sink in
            _ = exporter.export(
                line, source: source, receivedAt: receivedAt, isAgeJudged: true, isShifted: isShifted, to: &sink)
        }
    }

    func export(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isShifted: Bool
    ) {
        self.count(line, nil) { exporter, sink in
            exporter.export(
                line, facts, source: source, at: offset, receivedAt: receivedAt, isAgeJudged: true,
                isShifted: isShifted,
                to: &sink)
        }
    }

    private func count(
        _ line: UnsafeRawBufferPointer, _ madeID: UniqueID?, _ export: (inout Exporter, inout Sink) -> Void
    ) {
        let skipped = self.sink.events.skipped
        export(&self.exporter, &self.sink)
        guard let comparison = self.sink.comparison else { return }
        self.exporter.finishGroup(to: &self.sink)
        if self.sink.events.skipped > skipped { comparison.takeSkipped(line, madeID, because: "skipped") }
    }

    func leaveOut(_ line: ParsedLine, because reason: LeaveOutReason) {
        self.sink.comparison?.takeSkipped(line.bytes, line.madeID, because: reason.rawValue)
    }

    func finishRun() throws(FileSystemError) {
        self.exporter.finishGroup(to: &self.sink)
    }

    /// The counts so far.
    var counts: Replay.Counts {
        var counts = Replay.Counts()
        counts.events = self.sink.events
        counts.records = self.sink.records
        counts.outputBytes = self.sink.outputBytes
        counts.partitions = self.sink.units.count
        return counts
    }

    var comparison: GenerationComparison? { self.sink.comparison }
}
