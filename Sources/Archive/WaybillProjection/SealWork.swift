internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
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

/// The state of a day that decides where a batch's lines go.
struct DayStanding: Hashable, Sendable {
    /// How often the day was sealed, including a seal in progress.
    private(set) var revision = 0
    /// Lines of batches before it are in files of the manifest.
    private(set) var sealedBefore = JournalPosition(0)

    /// Reads it from a day's folder.
    ///
    /// - Parameter seal: the day's seal in progress.
    init(
        of folder: String, in data: DataDirectory<some FileSystem>, seal: Seal?
    ) throws(FileSystemError) {
        let path = Path.join(data.root, folder)
        if try data.files.status(at: path) != nil {
            if let manifest = try DayManifest.read(in: path, files: data.files) {
                self.revision = manifest.revision
                self.sealedBefore = manifest.position
            } else {
                // The manifest was removed; the sealed files still show their number.
                while try ArchivePair.isSealed(
                    Path.join(folder, DayFolder.openPart(revision: self.revision)), in: data)
                { self.revision += 1 }
            }
        }
        if let seal { self.revision = seal.revision }
    }
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
                env: DeploymentEnvironment(rawValue: folder.environment) ?? .dev, bundle: folder.bundle))
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

/// Compresses one file of lines, step by step, and counts its lines.
struct SealWork<Files: FileSystem>: ~Copyable {
    let folder: DayFolder
    let seal: Seal
    private let sourcesByteCount: Int
    private let sourcesSHA256: String?
    private var tally: SealTally<Files>
    private var gzip: GzipWork<Files>

    /// - Parameters:
    ///   - root: the data directory.
    ///   - byteCount: the size of the lines, from the checkpoint.
    init(
        _ folder: DayFolder, _ seal: Seal, root: String, byteCount: Int, sourcesByteCount: Int, files: Files
    ) throws(FileSystemError) {
        let stem = Path.join(Path.join(root, folder.path), seal.stem)
        let tally = try SealTally(
            stem, folder: folder, byteCount: byteCount, sourcesByteCount: sourcesByteCount, files: files)
        let gzip = try GzipWork(path: stem + ".ndjson", byteCount: byteCount, level: 6, files: files)
        let hasSources = try files.status(at: stem + ".sources")?.kind == .regular
        self.sourcesSHA256 =
            hasSources ? try SHA256Digest.ofFile(stem + ".sources", upTo: sourcesByteCount, files) : nil
        self.folder = folder
        self.seal = seal
        self.sourcesByteCount = sourcesByteCount
        self.tally = tally
        self.gzip = gzip
    }

    /// Compresses one member.
    ///
    /// - Returns: whether that was the last.
    mutating func step() throws(FileSystemError) -> Bool {
        let member = try self.gzip.step()
        if !member.isEmpty { try self.tally.add(member) }
        return self.gzip.isDone
    }

    /// Makes the sealed file durable under its name; the file of lines is kept.
    mutating func finish() throws(FileSystemError) -> DayManifest.File {
        let sha256 = try self.gzip.finish()
        var file = self.tally.finish(DayManifest.File(name: self.seal.stem + ".ndjson.gz"))
        file.gzipByteCount = self.gzip.gzipByteCount
        file.sha256 = sha256
        file.sourcesByteCount = self.sourcesByteCount
        file.sourcesSHA256 = self.sourcesSHA256
        file.position = JournalPosition(self.seal.position)
        return file
    }
}
