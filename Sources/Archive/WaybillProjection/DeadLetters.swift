package import WaybillData
package import WaybillEvent
package import WaybillExport
internal import WaybillJSON
package import WaybillSystem

/// One file of a partition's refused events.
///
///     dead/part-00000.ndjson       until the day is sealed
///     dead/part-00000.ndjson.gz    then, with dead/part-00000.manifest.json
///     dead/part-00001.ndjson       events refused since then, until the next seal
package struct DeadLetterFile: Hashable, Sendable {
    /// The path without extension.
    package let stem: String

    /// - Parameter number: how often the day was sealed before.
    init(partition: String, number: Int) {
        self.stem = "\(partition)/dead/\(PartitionPath.part(number))"
    }

    private init(stem: String) {
        self.stem = stem
    }

    /// The path before it is compressed.
    package var path: String { self.stem + ".ndjson" }

    /// Whether a path is one of a file of refused events.
    package static func isDead(_ path: String) -> Bool {
        Path.name(of: Path.parent(of: path)) == "dead"
    }

    /// The path without extension of any of its files.
    static func stem(of path: String) -> String {
        "\(Path.parent(of: path))/\(Path.name(of: path).prefix { $0 != "." })"
    }

    /// The files of a partition, oldest first.
    package static func all(
        of partition: String, root: String, files: some FileSystem
    ) throws(FileSystemError) -> [DeadLetterFile] {
        let folder = Path.join(root, "\(partition)/dead")
        guard try files.status(at: folder)?.kind == .directory else { return [] }
        var found: [Int: String] = [:]
        for name in try files.list(folder) where name.hasSuffix(".ndjson") || name.hasSuffix(".ndjson.gz") {
            guard let number = PartitionPath.partNumber(of: name) else { continue }
            found[number] = "\(partition)/dead/\(name.prefix { $0 != "." })"
        }
        return found.sorted { $0.key < $1.key }.map { DeadLetterFile(stem: $0.value) }
    }

    /// Opens it for reading, line by line.
    ///
    /// - Parameter lengths: from ``ExportCheckpoint/lengths(in:files:fileExtension:)``.
    /// - Returns: `nil` if the checkpoint has nothing of it.
    package func lines<Files: FileSystem>(
        root: String, lengths: [String: Int], lineByteCountMax: Int = 4 << 20, files: Files
    ) throws(FileSystemError) -> LineReader<Files>? {
        let isClosed = try files.status(at: Path.join(root, self.stem + ".manifest.json")) != nil
        let path = Path.join(root, self.path)
        let isCompressed = isClosed ? try files.status(at: path + ".gz") != nil : false
        guard let byteCount = lengths[self.path] ?? (isClosed ? Int.max : nil), byteCount > 0 else { return nil }
        let bytes = try StoredBytes(path: path, isCompressed: isCompressed, files: files)
        return LineReader(bytes, byteCount: byteCount, lineByteCountMax: lineByteCountMax, files: files)
    }
}

/// The contents of `dead/part-00000.manifest.json`.
package struct DeadLetterManifest: Hashable, Sendable {
    package let provider: String
    package let env: String
    package let day: String
    package var recordCount: Int
    /// The digest of the lines, 64 hexadecimal digits.
    package var sha256: String
    /// The digest of the compressed file.
    package var gzipSHA256: String?

    /// Describes a file by reading it.
    package init(
        of path: String, provider: Destination, env: DeploymentEnvironment, day: CalendarDay, _ files: some FileSystem
    ) throws(FileSystemError) {
        let file = try files.open(path, .read)
        defer { files.close(file) }
        var lines = LineDigest()
        try files.visit(file, 0..<Int.max) { (piece) throws(FileSystemError) in lines.add(piece) }
        self.init(lines, provider: provider, env: env, day: day)
    }

    /// Describes a file that may be compressed.
    ///
    /// - Parameter path: without `.gz`.
    init(
        ofStored path: String, provider: Destination, env: DeploymentEnvironment, day: CalendarDay,
        _ files: some FileSystem
    ) throws(PartReadError) {
        var lines = LineDigest()
        try StoredBytes.visit(path, files: files) { lines.add($0) }
        self.init(lines, provider: provider, env: env, day: day)
    }

    private init(
        _ lines: consuming LineDigest, provider: Destination, env: DeploymentEnvironment, day: CalendarDay
    ) {
        self.provider = provider.rawValue
        self.env = env.rawValue
        self.day = day.description
        self.recordCount = lines.count
        self.sha256 = lines.finish()
        self.gzipSHA256 = nil
    }

    /// Verifies a file of dead letters against its manifest.
    ///
    ///     exports/ga4/env=prod/date=2026-11-20/dead/part-00000.ndjson
    ///
    /// - Parameters:
    ///   - path: below the data directory, before it is compressed.
    ///   - byteCount: how much of it is certain; `nil` for all of it.
    ///   - manifest: `nil` while it grows. Its own checksum is verified if it is `written`, and not in a checkpoint.
    ///   - body: gets each letter, valid during the call; the file as it is stored; and the letter's place in the lines.
    /// - Returns: whether all could be read, `nil` if it is not there; and what is wrong.
    package static func verify<Files: FileSystem>(
        _ path: String, upTo byteCount: Int?, manifest: (bytes: [UInt8], isWritten: Bool)?, root: String, files: Files,
        _ body: (_ letter: UnsafeRawBufferPointer, _ path: String, _ range: Range<Int>) -> Void
    ) throws(FileSystemError) -> (isWhole: Bool?, problems: [Problem]) {
        let manifestPath = String(path.dropLast(".ndjson".utf8.count)) + ".manifest.json"
        let facts = manifest.flatMap { DeadLetterManifest(json: $0.bytes) }
        var problems: [Problem] = []
        if let facts { problems += facts.verifyPlace(of: manifestPath) }
        if let manifest, facts == nil { problems.append(ManifestLine.unreadable(manifest.bytes, at: manifestPath)) }
        let stored = try StoredBytes.ifThere(
            path: Path.join(root, path), isCompressed: facts?.gzipSHA256 != nil, files: files)
        guard let stored else {
            let name = facts?.gzipSHA256 == nil ? path : path + ".gz"
            return (nil, problems + [Problem(.missing, name, "its manifest exists, but the file does not")])
        }
        if let manifest, manifest.isWritten, facts != nil {
            problems += ManifestLine.problems(in: manifest.bytes, at: manifestPath)
        }
        let storedPath = stored.isCompressed ? path + ".gz" : path
        var cutter = RecordCutter(.lines)
        var count = 0
        func take(_ letter: UnsafeRawBufferPointer, _ range: Range<Int>) {
            count += 1
            body(letter, storedPath, range)
        }
        let read = try stored.verify(as: path, upTo: byteCount ?? .max, facts.map { ($0.sha256, $0.gzipSHA256) }) {
            cutter.take($0, take)
        }
        cutter.finish(take)
        problems += read.problems
        if let facts, read.isWhole, facts.recordCount != count {
            problems.append(
                Problem(
                    .disagreement, manifestPath, "it states \(facts.recordCount) records, but there are \(count)"))
        }
        return (read.isWhole, problems)
    }

    private func verifyPlace(of path: String) -> [Problem] {
        let folder = Path.parent(of: Path.parent(of: path))
        if folder.hasSuffix("exports/\(self.provider)/env=\(self.env)/date=\(self.day)") { return [] }
        return [Problem(.disagreement, path, "it is of \(self.provider), \(self.env), \(self.day)")]
    }

    /// One line without an LF, members in a fixed order.
    package var json: [UInt8] {
        JSONWriter.object { json in
            json.member("provider", self.provider)
            json.member("env", self.env)
            json.member("day", self.day)
            json.member("records", self.recordCount)
            json.member("sha256", self.sha256)
            if let gzipSHA256 { json.member("gz_sha256", gzipSHA256) }
        }
    }

    /// Parses a manifest; `nil` if it is invalid.
    package init?(json bytes: [UInt8]) {
        guard let json = JSONValue(bytes), let provider = json["provider"]?.string, let env = json["env"]?.string,
            let day = json["day"]?.string, let records = json["records"]?.count,
            let sha256 = json["sha256"]?.string, SHA256Digest.isText(sha256), json["zone"] == nil
        else { return nil }
        self.provider = provider
        self.env = env
        self.day = day
        self.recordCount = records
        self.sha256 = sha256
        self.gzipSHA256 = json["gz_sha256"]?.string
        if json["gz_sha256"] != nil, !(self.gzipSHA256.map(SHA256Digest.isText) ?? false) { return nil }
    }
}

/// Counts lines and digests them.
private struct LineDigest: ~Copyable {
    private var digest = SHA256Digest()
    private(set) var count = 0

    mutating func add(_ piece: UnsafeRawBufferPointer) {
        self.digest.update(piece)
        self.count += piece.count { $0 == 0x0A }
    }

    mutating func finish() -> String {
        self.digest.finish()
    }
}
