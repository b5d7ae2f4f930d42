internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// An export's files that get nothing more, from their closing until they are compressed.
///
/// Steps 2 to 5 of ``ExportProjection``'s closing. Step 2 compares what it reads with the manifest: a damaged file is set
/// aside; one that cannot be read is postponed, and the others continue.
struct ClosedFiles<Files: FileSystem>: ~Copyable {
    private let root: String
    private let files: Files
    private let provider: Destination
    /// Of parts.
    private var fileExtension: String
    /// Closed since the last checkpoint.
    private var closing: [(path: String, manifest: String)] = []
    /// Not compressed yet, the work at the first, and the digest of what was compressed of it.
    private var waiting = ClosingQueue()
    private var work: GzipWork<Files>?
    private var workDigest: SHA256Digest?
    /// Files that could not be compressed since the last ``takeFailures()``.
    private(set) var failures: [ClosingFailure] = []
    /// The last time in the journal, and the one when files were tried again.
    private var time = WallTime.unknown
    private var retriedAt = WallTime.unknown

    init(of provider: Destination, fileExtension: String, root: String, files: Files) {
        self.provider = provider
        self.fileExtension = fileExtension
        self.root = root
        self.files = files
    }

    /// The fastest level: the projection waits while it compresses, and its parts are read once.
    private static var level: Int { 1 }
    /// How long a file that cannot be compressed waits for another attempt.
    private static var retryMilliseconds: Int64 { 60_000 }

    /// How many files can be compressed.
    var waitingCount: Int { self.waiting.count }
    var hasPostponed: Bool { self.waiting.hasPostponed }

    /// Whether files of a partition's folder wait to be compressed.
    func contains(folder: String) -> Bool {
        self.waiting.contains(folder: folder)
    }

    // MARK: Checkpoints

    /// Adds a file that gets nothing more.
    ///
    /// - Parameter path: without the extension.
    mutating func add(_ path: String, _ manifest: [UInt8]) {
        self.closing.append((path, String(decoding: manifest, as: UTF8.self)))
    }

    /// The entries that the next checkpoint gets for the files closed since the last one.
    var entries: [String: String] {
        var entries: [String: String] = [:]
        for file in self.closing { entries[ExportCheckpoint.closedPrefix + file.path] = file.manifest }
        return entries
    }

    /// Lets the files wait that the checkpoint records.
    mutating func checkpointed() {
        for file in self.closing { self.waiting.append(file.path) }
        self.closing = []
        self.retryPostponed()
    }

    /// Takes a time from the journal.
    mutating func pass(_ time: WallTime) {
        self.time = time
    }

    /// Forgets the files that no checkpoint records.
    mutating func reset(fileExtension: String) {
        self.closing = []
        self.fileExtension = fileExtension
    }

    /// Finds the files to compress after a recovery.
    mutating func findWaiting(in entries: [String: String]) {
        self.closing = []
        self.work = nil
        self.waiting = ClosingQueue()
        for stem in ExportCheckpoint.closing(in: entries).keys.sorted() { self.waiting.append(stem) }
    }

    // MARK: Compressing

    /// Compresses the next piece of the first file; after the last, does the other steps.
    ///
    /// - Returns: the folder of the file's partition, once the file is done.
    mutating func step(_ state: inout StateStore<Files>) throws(FileSystemError) -> String? {
        guard let stem = self.waiting.first else { return nil }
        if let manifest = state.entries[ExportCheckpoint.closedPrefix + stem] {
            do throws(FileSystemError) {
                guard try self.close(stem, manifest) else { return nil }
            } catch {
                // What was written may end in the middle of a member.
                self.work = nil
                if error.isDiskFull || error.errno == Errno.link { throw error }
                self.postpone(stem, error)
                return nil
            }
            try state.commit([ExportCheckpoint.closedPrefix + stem: String?.none])
        }
        self.waiting.removeFirst()
        return ClosingQueue.folder(of: stem)
    }

    /// Tries all files again that could not be compressed.
    mutating func retry() {
        self.failures = []
        self.waiting.retry()
    }

    mutating func takeFailures() -> [ClosingFailure] {
        defer { self.failures = [] }
        return self.failures
    }

    /// Forgets the failures of partitions that are exchanged for others.
    mutating func forgetFailures(in range: ExportRange) {
        self.failures.removeAll {
            ExportDay(partition: $0.folder).map { range.admits($0.day, $0.env) } ?? false
        }
    }

    private mutating func postpone(_ stem: String, _ cause: FileSystemError) {
        if !self.waiting.hasPostponed { self.retriedAt = self.time }
        self.waiting.postponeFirst()
        let folder = ClosingQueue.folder(of: stem)
        let remedy = self.remedy(from: ExportDay(partition: folder)?.day)
        self.failures.append(
            ClosingFailure(
                folder: folder, cause: cause,
                description: "\(stem) is closed but cannot be compressed: \(cause); \(remedy)"))
    }

    /// Tries postponed files again, once a minute by the journal's clock.
    private mutating func retryPostponed() {
        guard self.waiting.hasPostponed,
            abs(self.time.milliseconds - self.retriedAt.milliseconds) >= Self.retryMilliseconds
        else { return }
        self.retriedAt = self.time
        self.waiting.retry()
    }

    /// The path of a closed file before it is compressed.
    private func recordsPath(of stem: String) -> String {
        Path.join(self.root, "\(stem).\(DeadLetterFile.isDead(stem) ? "ndjson" : self.fileExtension)")
    }

    private func manifestPath(of stem: String) -> String {
        Path.join(self.root, stem + ".manifest.json")
    }

    /// Compresses the next piece of a file; after the last, does steps 3 and 4.
    ///
    /// - Returns: whether the file is done.
    private mutating func close(_ stem: String, _ manifest: String) throws(FileSystemError) -> Bool {
        let sha256 = JSONValue(Array(manifest.utf8))?["sha256"]?.string
        if self.work == nil {
            self.work = try self.makeWork(stem, manifest)
            self.workDigest = SHA256Digest()
        }
        guard let member = try self.work?.step() else {
            try self.finishCompressed(stem, manifest, sha256)
            return true
        }
        self.workDigest?.update(member)
        guard self.work?.isDone ?? true else { return false }
        let found = self.workDigest?.finish()
        self.workDigest = nil
        if found == sha256 {
            let digest = try self.work?.finish()
            self.work = nil
            try self.finishClosing(stem, manifest, digest)
        } else {
            self.work = nil
            try self.files.unlink(self.recordsPath(of: stem) + ".gz.tmp")
            try self.finishCompressed(stem, manifest, sha256)
        }
        return true
    }

    /// - Returns: `nil` if there is nothing to compress.
    private func makeWork(_ stem: String, _ manifest: String) throws(FileSystemError) -> GzipWork<Files>? {
        let path = self.recordsPath(of: stem)
        guard let status = try self.files.status(at: path) else { return nil }
        // A crash came before the file was unlinked.
        if try self.isDescribed(stem, manifest) { return nil }
        return try GzipWork(path: path, byteCount: status.byteCount, level: Self.level, files: self.files)
    }

    /// Whether a file's manifest is written, and describes the compressed file.
    private func isDescribed(_ stem: String, _ manifest: String) throws(FileSystemError) -> Bool {
        let path = self.recordsPath(of: stem) + ".gz"
        let written = try self.files.contents(of: self.manifestPath(of: stem)) ?? []
        guard try self.files.status(at: path) != nil else { return false }
        let digest = try SHA256Digest.ofFile(path, self.files)
        return written == ManifestLine.sealed(Array(CompressedManifest.text(manifest, digest).utf8))
    }

    /// Finishes a file of which only the compressed one may be whole, or sets it aside.
    private mutating func finishCompressed(
        _ stem: String, _ manifest: String, _ sha256: String?
    ) throws(FileSystemError) {
        let path = self.recordsPath(of: stem)
        let isThere = try self.files.status(at: path + ".gz") != nil
        if isThere, try self.compressedDigest(path) == sha256 {
            return try self.finishClosing(stem, manifest, SHA256Digest.ofFile(path + ".gz", self.files))
        }
        guard let key = ExportDay(partition: ClosingQueue.folder(of: stem)) else { return }
        let isMissing = isThere ? false : try self.files.status(at: path) == nil
        let text = try self.setAside(
            stem, key.day, because: isMissing ? "its file is missing" : "it does not match its manifest")
        self.failures.append(
            ClosingFailure(
                folder: ClosingQueue.folder(of: stem),
                cause: FileSystemError("verify", path: path, errno: Errno.inputOutput), description: text))
    }

    /// The digest of the bytes that a file had before it was compressed; `nil` if it is damaged.
    private func compressedDigest(_ path: String) throws(FileSystemError) -> String? {
        var digest = SHA256Digest()
        do throws(PartReadError) {
            try StoredBytes.visit(path, isCompressed: true, files: self.files) { digest.update($0) }
        } catch {
            if case .disk(let cause) = error { throw cause }
            return nil
        }
        return digest.finish()
    }

    /// Does steps 3 and 4; repeating them changes nothing.
    ///
    /// - Parameter digest: of the compressed file.
    private func finishClosing(_ stem: String, _ manifest: String, _ digest: String?) throws(FileSystemError) {
        let path = self.recordsPath(of: stem)
        let text = ManifestLine.sealed(Array(CompressedManifest.text(manifest, digest).utf8))
        if try self.files.contents(of: self.manifestPath(of: stem)) != text {
            if self.provider.type.hasSchemas, !DeadLetterFile.isDead(stem) {
                try self.writeSchemas(ofPart: path)
            }
            try self.files.createDirectories(Path.parent(of: path))
            try self.files.replace(self.manifestPath(of: stem), with: text)
        }
        if try self.files.status(at: path) != nil { try self.files.unlink(path) }
        // Also if the unlink is of an earlier attempt, which failed after it.
        try self.files.synchronizeDirectory(Path.parent(of: path))
    }

    /// Adds the schemas of a closed part's events to the drafts next to it; repeating it changes nothing.
    private func writeSchemas(ofPart part: String) throws(FileSystemError) {
        var schemas = SnowplowSchemas()
        schemas.add(part: try self.files.contents(of: part) ?? [])
        let folder = Path.join(Path.parent(of: part), "schemas")
        // Counted once there is a new one.
        var room: Int?
        for name in schemas.paths {
            let target = Path.join(folder, name)
            let old = try self.files.contents(of: target)
            if let old {
                schemas.add(draft: old, at: name)
            } else {
                if room == nil { room = Limits.Snowplow.draftCountMax - (try self.schemaCount(in: folder)) }
                guard let left = room, left > 0 else { continue }
                room = left - 1
            }
            let draft = schemas.draft(at: name)
            // The usual case: most parts add nothing new.
            if draft == old { continue }
            try self.files.createDirectories(Path.parent(of: target))
            try self.files.replace(target, with: draft)
        }
    }

    /// How many drafts a day has, `<vendor>/<name>/jsonschema/<version>`.
    private func schemaCount(in folder: String) throws(FileSystemError) -> Int {
        guard try self.files.status(at: folder) != nil else { return 0 }
        var count = 0
        for vendor in try self.files.list(folder) {
            for name in try self.files.list(Path.join(folder, vendor)) {
                let versions = Path.join(folder, "\(vendor)/\(name)/jsonschema")
                if try self.files.status(at: versions) != nil { count += try self.files.list(versions).count }
            }
        }
        return count
    }

    // MARK: Damage

    /// How the operator restores an export's lost events, which are in the archive.
    func remedy(from day: CalendarDay?) -> String {
        let days = day.map { " --from \($0) --to \($0)" } ?? ""
        return "the archive has its events: waybill replay --data \(self.root) "
            + "--provider \(self.provider.rawValue)\(days)"
    }

    /// Sets aside all files of a part, or of refused events.
    ///
    /// - Returns: a description of the changes, for logs.
    func setAside(_ stem: String, _ day: CalendarDay, because cause: String) throws(FileSystemError) -> String {
        let aside = SetAside(root: self.root, files: self.files)
        let records = DeadLetterFile.isDead(stem) ? ".ndjson" : ".\(self.fileExtension)"
        var moved: [String] = []
        for path in [records, records + ".gz", ".ids", ".manifest.json"].map({ stem + $0 })
        where try self.files.status(at: Path.join(self.root, path)) != nil {
            moved.append(try aside.move(path))
        }
        // Also if an earlier attempt failed after it had moved them.
        let directory = Path.parent(of: Path.join(self.root, stem))
        if try self.files.status(at: directory) != nil { try self.files.synchronizeDirectory(directory) }
        var note = "\(stem) is damaged (\(cause)) and was set aside (\(moved.joined(separator: ", ")))"
        if try self.files.status(at: Path.join(self.root, stem + ".delivered")) != nil {
            note += ", after it was sent to the provider"
        }
        return "\(note); \(self.remedy(from: day))"
    }
}

/// A manifest with the digest of the compressed file, which is made after the rest is committed.
enum CompressedManifest {
    /// - Parameter digest: `nil` if there is no compressed file.
    static func text(_ manifest: String, _ digest: String?) -> String {
        digest.map { "\(manifest.dropLast()),\"gz_sha256\":\"\($0)\"}" } ?? manifest
    }
}
