internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Makes files of lines again without a person's.
///
///     part-00001.ndjson   line  line  THEIRS  THEIRS  line      .sources   FROM … 5 lines
///     part-00001.ndjson   line  line  line                      .sources   FROM … 2 lines, FROM … 1 line
///     quarantine/date=<day of receipt>/erased.sources                      ERASED … 1 line, ERASED … 1 line
///
/// So every line of a stream is still in one run. A sealed day gets a new revision, whose manifest counts the lines.
extension Eraser {
    /// The lines of one file, made again.
    private struct Remade {
        var lines: NewFile<Files>.Facts
        var sources: NewFile<Files>.Facts
        var lineCount = 0
        var erasedCount = 0
        var first: WallTime?
        var last: WallTime?
        /// By the path of the quarantine's file without extension.
        var erased: [String: [SourceRun]] = [:]
        /// Where the erased lines were.
        var ranges: [Range<Int>] = []
    }

    /// Writes the new files of one pair, next to the old ones.
    mutating func eraseLines(of stem: String, _ people: ErasedPeople) throws(FileSystemError) -> ErasureExchange {
        let entries = try self.entries(of: "archive")
        let lengths = FileSet<Files>.lengths(in: entries)
        let folder = DayFolder(path: Path.parent(of: stem))
        var exchange = ErasureExchange()
        if let byteCount = lengths[stem + ".ndjson"] {
            let remade = try self.remake(stem, byteCount, lengths[stem + ".sources"] ?? 0, people)
            exchange.replace(stem + ".ndjson")
            exchange.replace(stem + ".sources")
            self.setLength(of: stem + ".ndjson", remade.lines.byteCount, in: &exchange)
            self.setLength(of: stem + ".sources", remade.sources.byteCount, in: &exchange)
            try self.moveRequeued(stem + ".ndjson", remade.ranges, in: &exchange)
            try self.addErased(remade.erased, lengths, to: &exchange)
        } else if let folder, let manifest = try DayManifest.read(in: self.absolute(folder.path), files: self.files),
            let index = manifest.files.firstIndex(where: { Path.join(folder.path, $0.stem) == stem })
        {
            let file = manifest.files[index]
            let remade = try self.remake(stem, file.byteCount, file.sourcesByteCount, people)
            try self.renew(manifest, index, remade, folder, lengths, &exchange)
            try self.addErased(remade.erased, lengths, to: &exchange)
        }
        return exchange
    }

    private func absolute(_ path: String) -> String {
        Path.join(self.data.root, path)
    }

    private func setLength(of path: String, _ byteCount: Int?, in exchange: inout ErasureExchange) {
        exchange.set(FileSet<Files>.keyPrefix + path, to: byteCount.map { String($0) }, in: "archive")
    }

    /// Writes the lines and the runs of a pair that are not the person's.
    private mutating func remake(
        _ stem: String, _ byteCount: Int, _ sourcesByteCount: Int, _ people: ErasedPeople
    ) throws(FileSystemError) -> Remade {
        var runs = try SourceRuns(
            path: self.absolute(stem + ".sources"), byteCount: sourcesByteCount, linesByteCount: byteCount,
            files: self.files)
        var bytes = try PartBytes(path: self.absolute(stem + ".ndjson"), isSealed: false, files: self.files)
        var lines = try NewFile(self.absolute(stem + ".ndjson"), files: self.files)
        var sources = try NewFile(self.absolute(stem + ".sources"), files: self.files)
        var text = SourcesText()
        var readers = EventReaders(erased: people)
        var remade = Remade(lines: NewFile.Facts(), sources: NewFile.Facts())
        let isPoison = Self.isPoison(stem)
        while let item = try runs.next() {
            guard case .run(let run, _) = item else { continue }
            remade.lineCount += try self.copy(&bytes, upTo: run.range.lowerBound, to: &lines)
            let reader = readers.reader(for: run.description)
            let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: max(1, run.range.count), alignment: 16)
            defer { buffer.deallocate() }
            let raw = UnsafeMutableRawBufferPointer(rebasing: buffer[..<run.range.count])
            try Self.onDisk { () throws(PartReadError) in try bytes.readWhole(raw) }
            var pieces = RunPieces(run, isStored: run.range.isEmpty)
            UnsafeRawBufferPointer(raw).forEachLine { range in
                let line = UnsafeRawBufferPointer(rebasing: raw[range])
                let isTheirs = self.isTheirs(line, reader, isPoison: isPoison)
                pieces.add(range.lowerBound..<min(range.upperBound + 1, raw.count), isTheirs)
                guard !isTheirs, !isPoison, case .event(let facts) = reader.read(line) else { return }
                remade.first = min(remade.first ?? facts.time, facts.time)
                remade.last = max(remade.last ?? facts.time, facts.time)
            }
            for piece in pieces.all {
                let part = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(raw)[piece.range])
                let run = piece.run(of: run, at: lines.byteCount)
                if piece.isErased {
                    remade.erased[Self.quarantine(run.receivedAt), default: []].append(run)
                    remade.erasedCount += run.lineCount
                    let start = pieces.run.range.lowerBound
                    remade.ranges.append((start + piece.range.lowerBound)..<(start + piece.range.upperBound))
                } else {
                    try lines.append(part)
                    try sources.append(text.line(of: run))
                    remade.lineCount += run.lineCount - run.absentLineCount
                }
            }
        }
        remade.lineCount += try self.copy(&bytes, upTo: byteCount, to: &lines)
        remade.lines = try lines.finish()
        remade.sources = try sources.finish()
        return remade
    }

    /// Copies bytes that no run covers.
    private mutating func copy(
        _ bytes: inout PartBytes<Files>, upTo end: Int, to lines: inout NewFile<Files>
    ) throws(FileSystemError) -> Int {
        var lineCount = 0
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 64 << 10, alignment: 16)
        defer { buffer.deallocate() }
        while bytes.position < end {
            let piece = UnsafeMutableRawBufferPointer(rebasing: buffer[..<min(buffer.count, end - bytes.position)])
            let count = try Self.onDisk { () throws(PartReadError) in try bytes.read(into: piece) }
            if count == 0 { break }
            let read = UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(piece)[..<count])
            try lines.append(read)
            lineCount += read.count { $0 == 0x0A }
            self.report.unexplainedByteCount += count
        }
        return lineCount
    }

    static func onDisk<Result>(_ body: () throws(PartReadError) -> Result) throws(FileSystemError) -> Result {
        do throws(PartReadError) {
            return try body()
        } catch {
            throw error.onDisk
        }
    }

    /// Where erased lines are counted, by the day of their receipt, without extension.
    private static func quarantine(_ receivedAt: WallTime) -> String {
        let day = CalendarDay(daysSince1970: Int32(clamping: receivedAt.milliseconds / 86_400_000))
        return "quarantine/date=\(day)/\(QuarantineReason.erased.rawValue)"
    }

    /// Adds the erased runs to the files that count them.
    private func addErased(
        _ erased: [String: [SourceRun]], _ lengths: [String: Int], to exchange: inout ErasureExchange
    ) throws(FileSystemError) {
        for (stem, runs) in erased.sorted(by: { $0.key < $1.key }) {
            try self.files.createDirectories(Path.parent(of: self.absolute(stem)))
            if lengths[stem + ".ndjson"] == nil {
                var lines = try NewFile(self.absolute(stem + ".ndjson"), files: self.files)
                _ = try lines.finish()
                exchange.replace(stem + ".ndjson")
                self.setLength(of: stem + ".ndjson", 0, in: &exchange)
            }
            var sources = try NewFile(self.absolute(stem + ".sources"), files: self.files)
            if let known = lengths[stem + ".sources"], known > 0 {
                let old = try self.files.open(self.absolute(stem + ".sources"), .read)
                defer { self.files.close(old) }
                try self.files.visit(old, 0..<known) { (piece) throws(FileSystemError) in try sources.append(piece) }
            }
            var text = SourcesText()
            for run in runs { try sources.append(text.line(of: run)) }
            exchange.replace(stem + ".sources")
            self.setLength(of: stem + ".sources", try sources.finish().byteCount, in: &exchange)
        }
    }

    /// Moves back how far a file of the quarantine was requeued.
    private func moveRequeued(
        _ path: String, _ ranges: [Range<Int>], in exchange: inout ErasureExchange
    ) throws(FileSystemError) {
        guard let taken = try self.entries(of: "requeue")["taken:" + path].flatMap({ Int($0) }) else { return }
        let gone = ranges.reduce(0) { $0 + max(0, min(taken, $1.upperBound) - min(taken, $1.lowerBound)) }
        if gone > 0 { exchange.set("taken:" + path, to: String(taken - gone), in: "requeue") }
    }

    /// Compresses a sealed day's new file, and describes it in the day's next revision.
    private func renew(
        _ old: DayManifest, _ index: Int, _ remade: Remade, _ folder: DayFolder, _ lengths: [String: Int],
        _ exchange: inout ErasureExchange
    ) throws(FileSystemError) {
        var manifest = old
        var file = old.files[index]
        let stem = Path.join(folder.path, file.stem)
        let new = self.absolute(stem + ".ndjson") + ErasureLog<Files>.newSuffix
        var gzip = try GzipWork(path: new, byteCount: remade.lines.byteCount, level: 6, files: self.files)
        file.sha256 = try gzip.run()
        try self.files.unlink(new)
        file.gzipByteCount = gzip.gzipByteCount
        file.lineCount = remade.lineCount
        file.byteCount = remade.lines.byteCount
        file.rawSHA256 = remade.lines.sha256
        file.sourcesByteCount = remade.sources.byteCount
        file.sourcesSHA256 = remade.sources.sha256
        file.first = remade.first
        file.last = remade.last
        manifest.files[index] = file
        manifest.erasedLineCount += remade.erasedCount
        manifest.revision += 1
        try self.addSources(to: &manifest, folder, remade: file.name)
        exchange.pairs.append((stem + ".ndjson" + ErasureLog<Files>.newSuffix + ".gz", stem + ".ndjson.gz"))
        exchange.replace(stem + ".sources")
        let path = Path.join(folder.path, DayFolder.manifestName)
        var text = try NewFile(self.absolute(path), files: self.files)
        try text.append(manifest.json)
        _ = try text.finish()
        exchange.replace(path)
        // The day's next file is named by the revision.
        let open = Path.join(folder.path, DayFolder.openPart(revision: old.revision))
        let next = Path.join(folder.path, DayFolder.openPart(revision: manifest.revision))
        for suffix in [".ndjson", ".sources"] {
            guard let length = lengths[open + suffix] else { continue }
            exchange.pairs.append((open + suffix, next + suffix))
            self.setLength(of: open + suffix, nil, in: &exchange)
            self.setLength(of: next + suffix, length, in: &exchange)
        }
    }

    /// Adds up the runs of a day's files by stream.
    private func addSources(
        to manifest: inout DayManifest, _ folder: DayFolder, remade: String
    ) throws(FileSystemError) {
        manifest.sources = []
        manifest.otherLineCount = 0
        var indexes: [StreamName: Int] = [:]
        for file in manifest.files {
            let path = self.absolute(Path.join(folder.path, file.stem + ".sources"))
            var explained = 0
            let new = file.name == remade ? path + ErasureLog<Files>.newSuffix : path
            try SourceRuns.visit(
                new, byteCount: file.sourcesByteCount, linesByteCount: file.byteCount, files: self.files
            ) { run in
                if manifest.add(run, &indexes) { explained += run.lineCount }
            }
            manifest.otherLineCount += max(0, file.lineCount - explained)
        }
    }
}

/// A run, cut where a person's lines begin and end.
private struct RunPieces {
    struct Piece {
        /// In the run's bytes.
        var range: Range<Int>
        var lineCount: Int
        let isErased: Bool

        func run(of run: SourceRun, at start: Int) -> SourceRun {
            if self.range.isEmpty {
                return SourceRun(
                    description: run.description, offset: run.offset, receivedAt: run.receivedAt, range: start..<start,
                    lineCount: run.lineCount, emptyLineCount: run.emptyLineCount, erasedByteCount: run.erasedByteCount,
                    isPoison: run.isPoison, shiftedAt: run.shiftedAt)
            }
            return SourceRun(
                description: run.description, offset: run.offset.advanced(by: self.range.lowerBound),
                receivedAt: run.receivedAt,
                range: self.isErased ? 0..<0 : start..<(start + self.range.count), lineCount: self.lineCount,
                erasedByteCount: self.isErased ? self.range.count : 0, isPoison: run.isPoison && !self.isErased,
                shiftedAt: self.isErased ? nil : run.shiftedAt)
        }
    }

    let run: SourceRun
    private(set) var all: [Piece] = []

    /// - Parameter isStored: whether the run has no bytes and stays as it is.
    init(_ run: SourceRun, isStored: Bool) {
        self.run = run
        if isStored { self.all = [Piece(range: 0..<0, lineCount: run.lineCount, isErased: false)] }
    }

    mutating func add(_ line: Range<Int>, _ isErased: Bool) {
        // Each erased line has a run of its own, in whichever file the line before it was.
        if let last = self.all.indices.last, !isErased, !self.all[last].isErased {
            self.all[last].range = self.all[last].range.lowerBound..<line.upperBound
            self.all[last].lineCount += 1
        } else {
            self.all.append(Piece(range: line, lineCount: 1, isErased: isErased))
        }
    }
}

/// A file that is written next to an old one, whose name it takes later.
struct NewFile<Files: FileSystem>: ~Copyable {
    struct Facts {
        var byteCount = 0
        var sha256 = ""
    }

    private let file: FileID?
    private let files: Files
    private var buffer: [UInt8] = []
    private var digest: SHA256Digest
    private(set) var byteCount = 0

    /// Creates the file.
    ///
    /// - Parameter path: the old file's; `nil`: nothing is written, and only counted.
    init(_ path: String?, files: Files) throws(FileSystemError) {
        let file = try path.map { (path) throws(FileSystemError) in try Self.create(path, files) }
        self.digest = SHA256Digest()
        self.files = files
        self.file = file
    }

    private static func create(_ path: String, _ files: Files) throws(FileSystemError) -> FileID {
        let file = try files.open(path + ErasureLog<Files>.newSuffix, .replace)
        do throws(FileSystemError) {
            if try files.status(at: path) != nil {
                let old = try files.open(path, .read)
                defer { files.close(old) }
                try files.narrow(file, like: old)
            }
            return file
        } catch {
            files.close(file)
            throw error
        }
    }

    deinit {
        if let file { self.files.close(file) }
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) throws(FileSystemError) {
        self.digest.update(bytes)
        self.byteCount += bytes.count
        guard self.file != nil else { return }
        self.buffer.append(contentsOf: bytes)
        if self.buffer.count >= 256 << 10 { try self.flush() }
    }

    mutating func append(_ bytes: [UInt8]) throws(FileSystemError) {
        try bytes.withBytes { (buffer) throws(FileSystemError) in try self.append(buffer) }
    }

    private mutating func flush() throws(FileSystemError) {
        guard let file else { return }
        try self.files.writeAll(file, self.buffer)
        self.buffer.removeAll(keepingCapacity: true)
    }

    /// Makes the bytes durable; nothing can be added after it.
    mutating func finish() throws(FileSystemError) -> Facts {
        try self.flush()
        if let file { try self.files.synchronize(file) }
        return Facts(byteCount: self.byteCount, sha256: self.digest.finish())
    }
}
