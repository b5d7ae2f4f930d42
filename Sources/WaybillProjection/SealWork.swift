internal import WaybillArchive
internal import WaybillCompression
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJournal
internal import WaybillProtocol
internal import WaybillSystem

/// A seal in progress, as stored in the archive's checkpoint until it is done.
struct Seal: Hashable, Sendable {
    /// The revision of the day's future manifest.
    let revision: Int
    /// Lines of batches before it are in the file that is being sealed or in an earlier one.
    let position: Int
    let sealedAt: WallTime

    init(revision: Int, position: Int, sealedAt: WallTime) {
        self.revision = revision
        self.position = position
        self.sealedAt = sealedAt
    }

    /// `1 4711 1795251600000`.
    var text: String { "\(self.revision) \(self.position) \(self.sealedAt.milliseconds)" }

    /// Parses ``text``; `nil` if it is invalid.
    init?(text: String) {
        let numbers = text.split(separator: " ").map { Int($0) ?? -1 }
        guard numbers.count == 3, numbers.allSatisfy({ (0...(1 << 53)).contains($0) }), numbers[0] > 0 else {
            return nil
        }
        self.init(revision: numbers[0], position: numbers[1], sealedAt: WallTime(milliseconds: Int64(numbers[2])))
    }

    /// The stem of the file that is being sealed.
    var stem: String { DayFolder.openPart(revision: self.revision - 1) }
}

/// Counts lines of a part, in order, and tracks the times of their events.
struct SealTally<Files: FileSystem>: ~Copyable {
    private(set) var lineCount = 0
    private(set) var byteCount = 0
    private(set) var first: WallTime?
    private(set) var last: WallTime?
    private var digest: SHA256Digest
    private var runs: SourceRuns<Files>?
    private var run: SourceRun?
    private var readers = EventReaders()
    /// The reader for lines that no run covers.
    private let otherReader: EventReader

    /// - Parameter stem: an absolute path.
    init(
        _ stem: String, folder: DayFolder, byteCount: Int, sourcesByteCount: Int, files: Files
    ) throws(FileSystemError) {
        let runs = try Self.runs(stem + ".sources", sourcesByteCount, byteCount, files)
        self.runs = runs
        self.digest = SHA256Digest()
        self.otherReader = EventReader(
            source: SourceDescription(
                env: DeploymentEnvironment(rawValue: folder.environment) ?? .dev, bundle: folder.app))
    }

    private static func runs(
        _ path: String, _ byteCount: Int, _ linesByteCount: Int, _ files: Files
    ) throws(FileSystemError) -> SourceRuns<Files>? {
        guard try files.status(at: path)?.kind == .regular else { return nil }
        return try SourceRuns(path: path, byteCount: byteCount, linesByteCount: linesByteCount, files: files)
    }

    /// Adds the next bytes, which end at the end of a line.
    mutating func add(_ bytes: UnsafeRawBufferPointer) throws(FileSystemError) {
        self.digest.update(bytes)
        var start = 0
        while start < bytes.count {
            let end = bytes.firstNewline(from: start) ?? bytes.count
            if end < bytes.count { self.lineCount += 1 }
            try self.look(at: UnsafeRawBufferPointer(rebasing: bytes[start..<end]), offset: self.byteCount + start)
            start = end + 1
        }
        self.byteCount += bytes.count
    }

    private mutating func look(at line: UnsafeRawBufferPointer, offset: Int) throws(FileSystemError) {
        while self.run.map({ $0.range.upperBound <= offset }) ?? true, self.runs != nil {
            self.run = try self.nextRun()
            if self.run == nil { self.runs = nil }
        }
        let reading: EventReading
        if let run, run.range.contains(offset) {
            reading = self.readers.reader(for: run.description).read(line)
        } else {
            reading = self.otherReader.read(line)
        }
        guard case .event(let facts) = reading else { return }
        self.first = min(self.first ?? facts.time, facts.time)
        self.last = max(self.last ?? facts.time, facts.time)
    }

    private mutating func nextRun() throws(FileSystemError) -> SourceRun? {
        while let item = try self.runs?.next() {
            if case .run(let run, _) = item { return run }
        }
        return nil
    }

    /// Returns `file` with the counts, for a manifest; nothing can be added after it.
    mutating func finish(_ file: DayManifest.File) -> DayManifest.File {
        var file = file
        file.lineCount = self.lineCount
        file.byteCount = self.byteCount
        file.rawSHA256 = self.digest.finish()
        file.first = self.first
        file.last = self.last
        return file
    }
}

/// Compresses one file of lines, step by step, to a file next to it.
///
///     part-00001.ndjson ── members of at most 4 MiB, cut at line ends ──▶ part-00001.ndjson.gz.tmp
///
/// Output is provisional until ``finish()``: after a crash or an error, the work starts again and writes the same
/// bytes. Memory: one member, inflated and compressed.
struct SealWork<Files: FileSystem>: ~Copyable {
    let folder: DayFolder
    let seal: Seal
    private let stem: String
    private let byteCount: Int
    private let sourcesByteCount: Int
    private let files: Files
    private let input: FileID
    private let output: FileID
    private var tally: SealTally<Files>
    private var deflater: GzipDeflater
    private var digest: SHA256Digest
    private var gzipByteCount = 0
    private let raw: UnsafeMutableRawBufferPointer
    private let compressed: UnsafeMutableRawBufferPointer
    private var isStarted = false

    /// - Parameters:
    ///   - root: the data directory.
    ///   - byteCount: the size of the lines, from the checkpoint.
    init(
        _ folder: DayFolder, _ seal: Seal, root: String, byteCount: Int, sourcesByteCount: Int, files: Files
    ) throws(FileSystemError) {
        let stem = Path.join(Path.join(root, folder.path), seal.stem)
        let tally = try SealTally(
            stem, folder: folder, byteCount: byteCount, sourcesByteCount: sourcesByteCount, files: files)
        let (input, output) = try Self.open(stem + ".ndjson", files)
        self.folder = folder
        self.seal = seal
        self.stem = stem
        self.byteCount = byteCount
        self.sourcesByteCount = sourcesByteCount
        self.files = files
        self.tally = tally
        self.input = input
        self.output = output
        let count = max(1, min(byteCount, Gzip.memberByteCountMax))
        let deflater = GzipDeflater(level: 6)
        self.raw = .allocate(byteCount: count, alignment: 16)
        self.compressed = .allocate(byteCount: deflater.byteCountMax(of: count), alignment: 16)
        self.deflater = deflater
        self.digest = SHA256Digest()
    }

    private static func open(_ path: String, _ files: Files) throws(FileSystemError) -> (FileID, FileID) {
        let input = try files.open(path, .read)
        do throws(FileSystemError) {
            let output = try files.open(path + ".gz.tmp", .replace)
            do throws(FileSystemError) {
                try files.narrow(output, like: input)
            } catch {
                files.close(output)
                throw error
            }
            return (input, output)
        } catch {
            files.close(input)
            throw error
        }
    }

    deinit {
        self.files.close(self.input)
        self.files.close(self.output)
        self.raw.deallocate()
        self.compressed.deallocate()
    }

    /// Compresses one member.
    ///
    /// - Returns: whether that was the last.
    mutating func step() throws(FileSystemError) -> Bool {
        let position = self.tally.byteCount
        let wanted = min(self.raw.count, self.byteCount - position)
        let count = try self.files.readFully(
            self.input, at: position, into: UnsafeMutableRawBufferPointer(rebasing: self.raw[..<wanted]))
        guard count == wanted else {
            // The file was cut since the start; the next start repairs it.
            throw FileSystemError("read", path: self.stem + ".ndjson", errno: Errno.inputOutput)
        }
        var member = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.raw)[..<count])
        if position + count < self.byteCount, let last = member.lastIndex(of: 0x0A) {
            member = UnsafeRawBufferPointer(rebasing: member[...last])
        }
        // A file without lines becomes an empty member, because a gzip file needs at least one member.
        if !member.isEmpty || !self.isStarted {
            let compressedCount = self.deflater.deflate(member, into: self.compressed)
            let bytes = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.compressed)[..<compressedCount])
            try self.files.writeAll(self.output, bytes)
            self.digest.update(bytes)
            self.gzipByteCount += compressedCount
            try self.tally.add(member)
            self.isStarted = true
        }
        return self.tally.byteCount == self.byteCount
    }

    /// Makes the sealed file durable under its name; the file of lines is kept.
    mutating func finish() throws(FileSystemError) -> DayManifest.File {
        try self.files.synchronize(self.output)
        try self.files.rename(self.stem + ".ndjson.gz.tmp", to: self.stem + ".ndjson.gz")
        try self.files.synchronizeDirectory(Path.parent(of: self.stem))
        var file = self.tally.finish(DayManifest.File(name: self.seal.stem + ".ndjson.gz"))
        file.gzipByteCount = self.gzipByteCount
        file.sha256 = self.digest.finish()
        file.sourcesByteCount = self.sourcesByteCount
        file.position = JournalPosition(self.seal.position)
        return file
    }
}
