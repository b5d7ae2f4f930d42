internal import WaybillData
internal import WaybillExport
internal import WaybillProtocol
internal import WaybillSystem

/// Maps the lines of batches to one provider's records, which it passes to a sink.
///
/// Lines that were not parsed for all exports are read here. What the archive decided about a batch's days holds for its
/// lines, too (``ShiftedLines``).
struct BatchMapper<Files: FileSystem>: ~Copyable {
    private(set) var exporter: Exporter
    /// The format of the provider's files.
    private(set) var description: ProviderDescription
    private(set) var readers: EventReaders
    private var shifted: ShiftedLines<Files>
    private let isAgeJudged: Bool

    /// - Parameter isAgeJudged: off for a replay from an archive that does not know when lines were received.
    init(
        _ options: ExportOptions, root: String, files: Files, erased: ErasedPeople?, poison: PoisonedLines?,
        isAgeJudged: Bool
    ) {
        self.exporter = Exporter(options)
        self.description = self.exporter.description
        self.readers = EventReaders(erased: erased, poison: poison)
        self.shifted = ShiftedLines(root: root, files: files)
        self.isAgeJudged = isAgeJudged
    }

    /// Starts again with these options, and forgets an open group and what was counted.
    mutating func use(_ options: ExportOptions) {
        self.exporter = Exporter(options)
        self.description = self.exporter.description
    }

    mutating func use(_ poison: PoisonedLines) {
        self.readers.use(poison)
    }

    /// Reads lines that ended a version of the program.
    mutating func readPoison() {
        self.readers = EventReaders(erased: self.readers.erased)
    }

    /// Maps a batch's lines; ``finishGroup(to:)`` follows the last.
    ///
    /// - Returns: how many are not events.
    mutating func map<Sink: ExportSink & ~Copyable>(
        _ batch: ProjectedBatch, to sink: inout Sink
    ) throws(FileSystemError) -> Int {
        let reader = self.readers.reader(for: batch.description)
        let shifted = try self.shifted.lines(of: batch)
        var quarantinedCount = 0
        var parsedEnd = 0
        if let parse = batch.parse {
            parse.lines.forEach(in: batch.raw) {
                let isEvent = self.exporter.export(
                    $0, source: reader.source, receivedAt: batch.receivedAt, isAgeJudged: self.isAgeJudged,
                    isShifted: shifted.contains($0.streamOffset), to: &sink)
                if !isEvent { quarantinedCount += 1 }
            }
            parsedEnd = parse.lines.end
        }
        batch.raw.forEachLine(from: parsedEnd) { range in
            let line = UnsafeRawBufferPointer(rebasing: batch.raw[range])
            let offset = batch.offset.rawValue + UInt64(range.lowerBound)
            let isEvent = self.exporter.export(
                line, reader, at: offset, receivedAt: batch.receivedAt, isAgeJudged: self.isAgeJudged,
                isShifted: shifted.contains(offset), to: &sink)
            if !isEvent { quarantinedCount += 1 }
        }
        return quarantinedCount
    }

    /// Maps one line that was already parsed.
    ///
    /// - Returns: whether it is an event.
    mutating func map<Sink: ExportSink & ~Copyable>(
        _ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool, to sink: inout Sink
    ) -> Bool {
        self.exporter.export(
            line, source: source, receivedAt: receivedAt, isAgeJudged: self.isAgeJudged, isShifted: isShifted,
            to: &sink)
    }

    /// Maps one line of a stream.
    ///
    /// - Returns: whether it is an event.
    mutating func map<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, of description: StreamDescription, at offset: UInt64, receivedAt: WallTime,
        isShifted: Bool, to sink: inout Sink
    ) -> Bool {
        self.exporter.export(
            line, self.readers.reader(for: description), at: offset, receivedAt: receivedAt,
            isAgeJudged: self.isAgeJudged, isShifted: isShifted, to: &sink)
    }

    /// Maps one line that was already read.
    mutating func map<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isShifted: Bool, to sink: inout Sink
    ) {
        self.exporter.export(
            line, facts, source: source, at: offset, receivedAt: receivedAt, isAgeJudged: self.isAgeJudged,
            isShifted: isShifted, to: &sink)
    }

    /// Closes the request that the last events share.
    mutating func finishGroup<Sink: ExportSink & ~Copyable>(to sink: inout Sink) {
        self.exporter.finishGroup(to: &sink)
    }

    /// Returns what happened to the events of each app since the last call.
    mutating func takeCensus() -> OutcomeCensus {
        self.exporter.takeCensus()
    }

    /// Maps a line as ``map(_:to:)`` does, and keeps nothing of it.
    func rehearse(_ line: ProjectedBatch) {
        var exporter = Exporter(self.exporter.options)
        var sink = PartSink(exporter)
        var readers = EventReaders(erased: self.readers.erased)
        let reader = readers.reader(for: line.description)
        line.raw.forEachLine { range in
            _ = exporter.export(
                UnsafeRawBufferPointer(rebasing: line.raw[range]), reader,
                at: line.offset.rawValue + UInt64(range.lowerBound), receivedAt: line.receivedAt,
                isAgeJudged: self.isAgeJudged, to: &sink)
        }
        exporter.finishGroup(to: &sink)
    }
}
