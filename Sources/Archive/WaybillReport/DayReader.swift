internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// How lines become rows; together with the files' bytes it decides a ``DayTable``.
struct DayRules: Sendable {
    let options: RowOptions
    /// The report's zone.
    let zone: TimeZoneRules
    /// Whether the folders' days are those of another zone, so that times of receipt decide what is late.
    let isForeignZone: Bool
    /// Whether lines that came after their day's cut-off are left out.
    let isStrict: Bool
    let cutOffSecond: Int
    /// Only this app's lines of a folder that several share.
    let bundle: String?
    let idBudget: IDBudget
    /// The people whose lines are left out; `nil`: no one was erased.
    let erased: ErasedPeople?
}

/// Reads a day's folder into a ``DayTable``.
///
/// Life of a line: it is found in a file, whose `.sources` say how it is to be read and when it was received → one scan
/// finds its members → it is left out if its id was in an earlier file, or in the same file with an earlier time → a row.
/// At the end the rows are put in order: time, writer, number, id; what has none of these comes last.
///
/// Memory: 1 MiB for reading, one line, the rows, each different text once, and ids up to their budget.
struct DayReader<Files: FileSystem>: ~Copyable {
    private let data: DataDirectory<Files>
    private let rules: DayRules
    private var rows: DayRows
    private var idRuns: IDRuns<Files>

    init(_ data: DataDirectory<Files>, _ rules: DayRules) {
        self.data = data
        self.rules = rules
        self.rows = DayRows(rules)
        self.idRuns = IDRuns(data.files, in: rules.idBudget.folder)
    }

    /// Reads a folder.
    ///
    /// - Parameter progressed: called with the number of bytes read since the last call; `false` stops the reading.
    /// - Returns: `nil` if it was stopped.
    mutating func read(
        _ day: DayFiles, progressed: (Int) -> Bool
    ) throws(PartReadError) -> DayTable? {
        let isShared = day.folder.bundle == PartitionPath.overflowBundle && self.rules.bundle != nil
        for file in day.files {
            self.rows.beginFile(file, isShared: isShared)
            guard try self.read(file, progressed) else { return nil }
        }
        return self.rows.finish(repeated: try PartReadError.onDisk(self.idRuns.merge(&self.rows.ids)))
    }

    // MARK: Files

    private mutating func read(
        _ file: DayFile, _ progressed: (Int) -> Bool
    ) throws(PartReadError) -> Bool {
        var bytes = try PartReadError.onDisk(
            PartBytes(path: Path.join(self.data.root, file.path), isSealed: file.isSealed, files: self.data.files))
        var origins = try PartReadError.onDisk(LineOrigins(file, self.data))
        var buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 16)
        defer { buffer.deallocate() }
        let end = file.byteCount ?? .max
        var filled = 0
        /// Where the buffer begins in the file.
        var start = 0
        while true {
            let wanted = min(buffer.count - filled, end - start - filled)
            let count = try bytes.read(
                into: UnsafeMutableRawBufferPointer(rebasing: buffer[filled..<(filled + wanted)]))
            filled += count
            let taken = try self.take(UnsafeRawBufferPointer(rebasing: buffer[..<filled]), at: start, &origins)
            guard progressed(count) else { return false }
            if count < wanted || start + filled == end { break }
            start += taken
            filled -= taken
            buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[taken..<(taken + filled)]))
            // One line is longer than the buffer.
            if filled == buffer.count { Self.grow(&buffer, filled) }
        }
        guard file.byteCount == nil || start + filled == end else {
            throw .damaged(path: file.path, offset: start + filled, .truncated)
        }
        try Self.finish(&bytes, file)
        return true
    }

    /// Checks that a sealed file ends where its manifest says; the last checksum is read here.
    private static func finish(_ bytes: inout PartBytes<Files>, _ file: DayFile) throws(PartReadError) {
        guard file.isSealed, file.byteCount != nil else { return }
        let end = bytes.position
        let rest = UnsafeMutableRawBufferPointer.allocate(byteCount: 64, alignment: 16)
        defer { rest.deallocate() }
        if try bytes.read(into: rest) > 0 { throw .damaged(path: file.path + ".gz", offset: end, .corrupt) }
    }

    private static func grow(_ buffer: inout UnsafeMutableRawBufferPointer, _ filled: Int) {
        let larger = UnsafeMutableRawBufferPointer.allocate(byteCount: buffer.count * 2, alignment: 16)
        larger.copyMemory(from: UnsafeRawBufferPointer(rebasing: buffer[..<filled]))
        buffer.deallocate()
        buffer = larger
    }

    /// - Returns: the bytes of whole lines; a line without an LF is not whole.
    private mutating func take(
        _ bytes: UnsafeRawBufferPointer, at offset: Int, _ origins: inout LineOrigins<Files>
    ) throws(PartReadError) -> Int {
        var position = 0
        while position < bytes.count {
            let stretch = try origins.stretch(at: offset + position, &self.rows)
            let end = self.rows.take(bytes, from: position, to: stretch.end - offset, stretch.origin)
            if self.rows.ids.isOverBudget { try PartReadError.onDisk(self.idRuns.spill(&self.rows.ids)) }
            guard end > position else { break }
            position = end
        }
        return position
    }
}

/// The origins of a file's lines, read along with them.
struct LineOrigins<Files: FileSystem>: ~Copyable {
    private var runs: SourceRuns<Files>?
    private var run: SourceRun?
    private var origin = LineOrigin()
    private let none = LineOrigin()

    init(_ file: DayFile, _ data: DataDirectory<Files>) throws(FileSystemError) {
        guard file.sourcesByteCount > 0 else { return }
        let path = Path.join(data.root, file.sourcesPath)
        guard try data.files.status(at: path)?.kind == .regular else { return }
        self.runs = try SourceRuns(
            path: path, byteCount: file.sourcesByteCount, linesByteCount: file.byteCount ?? .max, files: data.files)
    }

    /// The origin of the line at an offset, which is at or after the last one, and the offset up to which it is that of
    /// the lines that follow.
    mutating func stretch(
        at offset: Int, _ rows: inout DayRows
    ) throws(PartReadError) -> (origin: LineOrigin, end: Int) {
        do throws(FileSystemError) {
            while self.run.map({ $0.range.upperBound <= offset }) ?? true {
                guard let item = try self.runs?.next() else {
                    self.runs = nil
                    self.run = nil
                    return (self.none, .max)
                }
                guard case .run(let run, _) = item else { continue }
                self.take(run, &rows)
                self.run = run
            }
        } catch {
            throw .disk(error)
        }
        guard let run else { return (self.none, .max) }
        return run.range.contains(offset) ? (self.origin, run.range.upperBound) : (self.none, run.range.lowerBound)
    }

    private mutating func take(_ run: SourceRun, _ rows: inout DayRows) {
        let isSame = self.origin.reader != nil && self.run?.description == run.description
        self.origin =
            isSame
            ? LineOrigin(reader: self.origin.reader, agent: self.origin.agent, received: run.receivedAt.milliseconds)
            : rows.origin(of: run)
    }
}
