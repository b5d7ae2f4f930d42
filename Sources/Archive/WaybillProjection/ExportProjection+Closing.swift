internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
package import WaybillSystem

/// Closes parts, and the refused events of sealed days; each step is durable before the next.
///
///     1. one commit: `closed:<part>` = its manifest; the part gets nothing more
///     2. part-00000.ndjson.gz.tmp, member by member → sync → part-00000.ndjson.gz
///     3. part-00000.manifest.json, which has the digest of the compressed file
///     4. part-00000.ndjson is unlinked
///     5. one commit: `closed:` is gone
///
/// After a crash in step 2, the step starts again and writes the same bytes. Where both files exist, the manifest
/// decides which is the part. Steps 2 to 5 are work for the pauses, and the projection continues in between.
///
/// Step 2 compares what it reads with the manifest. A damaged file is set aside; one that cannot be read is postponed,
/// and the others continue.
extension ExportProjection {
    /// A file that gets nothing more, since the last checkpoint.
    struct ClosedFile {
        /// Without the extension.
        let path: String
        let manifest: String
    }

    /// The fastest level: the projection waits while it compresses, and its parts are read once.
    private static var level: Int { 1 }
    /// More files than that do not wait for a pause.
    private static var waitingFileCountMax: Int { 64 }

    /// How long a file that cannot be compressed waits for another attempt.
    private static var retryMilliseconds: Int64 { 60_000 }

    package var isSealing: Bool { self.waiting.count > 0 }
    package var isSealingUrgent: Bool { self.waiting.count > Self.waitingFileCountMax }
    /// A day is sealed while parts are compressed; its manifest is written once those of the day are.
    package var mayBeginSeals: Bool { true }

    /// Closes every open part, at the end of a replay.
    package mutating func closeAll() throws(FileSystemError) {
        for index in self.sink.partitions.indices {
            let partition = self.sink.partitions[index]
            guard let chunk = partition.chunks.last, chunk.part.recordCount > 0 else { continue }
            try self.closePart(chunk.part, partition.key, zone: self.options.zone.name)
            self.sink.closed(index)
            self.touchedKeys.insert(partition.key)
        }
    }

    /// Closes an open part of a day in that time zone.
    mutating func closePart(
        _ part: PartStanding, _ key: ExportDay, zone: String
    ) throws(FileSystemError) {
        let path = "\(self.path(key))/\(PartitionPath.part(part.number))"
        let records = self.set.index(of: "\(path).\(self.description.fileExtension)")
        try self.set.append(self.description.footer, to: records)
        try self.close(part, path, records, self.set.index(of: "\(path).ids"), key: key, zone: zone)
    }

    mutating func close(
        _ part: PartStanding, _ path: String, _ records: FileSet<Files>.Index, _ ids: FileSet<Files>.Index,
        key: ExportDay, zone: String
    ) throws(FileSystemError) {
        let digest = try SHA256Digest.ofFile(self.set.path(of: records), self.files)
        let manifest = PartManifest(
            provider: self.options.provider, zone: zone, env: key.env, day: key.day, part: part, sha256: digest)
        self.closing.append(ClosedFile(path: path, manifest: String(decoding: manifest.json, as: UTF8.self)))
        self.set.release(records)
        self.set.release(ids)
    }

    /// Closes the refused events of a day that is sealed.
    mutating func closeDeadLetters(_ key: ExportDay, revision: Int) throws(FileSystemError) {
        let file = DeadLetterFile(partition: self.path(key), number: revision)
        guard self.set.contains(file.path) else { return }
        let index = self.set.index(of: file.path)
        guard self.set.byteCount(of: index) > 0 else { return }
        let manifest = try DeadLetterManifest(
            of: self.set.path(of: index), provider: self.options.provider, env: key.env, day: key.day, self.files)
        self.closing.append(ClosedFile(path: file.stem, manifest: String(decoding: manifest.json, as: UTF8.self)))
        self.set.release(index)
    }

    // MARK: Compressing

    package mutating func continueSealing() throws(FileSystemError) {
        repeat { try self.continueClosing() } while self.isSealingUrgent
    }

    private mutating func continueClosing() throws(FileSystemError) {
        guard let stem = self.waiting.first else { return }
        if let manifest = self.state.entries[ExportCheckpoint.closedPrefix + stem] {
            do throws(FileSystemError) {
                guard try self.close(stem, manifest) else { return }
            } catch {
                // What was written may end in the middle of a member.
                self.work = nil
                if error.isDiskFull || error.errno == Errno.link { throw error }
                return self.postpone(stem, error)
            }
            try self.state.commit([ExportCheckpoint.closedPrefix + stem: String?.none])
        }
        self.waiting.removeFirst()
        try self.finishSeal(of: ClosingQueue.folder(of: stem))
    }

    /// Does all the work that is left for pauses; throws if a file could not be compressed.
    package mutating func finishSealing() throws(FileSystemError) {
        try self.sealWhatCanBe()
        if let failure = self.failures.first { throw failure.cause }
    }

    /// Does all the work that is left for pauses, except for files that cannot be compressed.
    mutating func sealWhatCanBe() throws(FileSystemError) {
        self.failures = []
        self.waiting.retry()
        while self.isSealing { try self.continueSealing() }
    }

    package mutating func takeFailures() -> [ClosingFailure] {
        defer { self.failures = [] }
        return self.failures
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
    mutating func retryClosing() {
        guard self.waiting.hasPostponed,
            abs(self.time.milliseconds - self.retriedAt.milliseconds) >= Self.retryMilliseconds
        else { return }
        self.retriedAt = self.time
        self.waiting.retry()
    }

    /// The path of a closed file before it is compressed.
    private func recordsPath(of stem: String) -> String {
        Path.join(self.root, "\(stem).\(DeadLetterFile.isDead(stem) ? "ndjson" : self.description.fileExtension)")
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
            closed: stem, key.day, because: isMissing ? "its file is missing" : "it does not match its manifest")
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
            if self.options.provider.type.hasSchemas, !DeadLetterFile.isDead(stem) {
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

    // MARK: Recovery

    /// Finds the files to compress after a recovery.
    mutating func findWaiting() {
        self.work = nil
        self.waiting = ClosingQueue()
        for stem in ExportCheckpoint.closing(in: self.state.entries).keys.sorted() { self.waiting.append(stem) }
    }

    /// Inflates the files that an older checkpoint continues: they were closed after it.
    mutating func restoreOpenFiles() throws(FileSystemError) {
        for path in FileSet<Files>.lengths(in: self.state.entries).keys.sorted() {
            let full = Path.join(self.root, path)
            guard PartitionPath.partNumber(of: Path.name(of: path)) != nil, try self.files.status(at: full) == nil,
                try self.files.status(at: full + ".gz") != nil
            else { continue }
            do throws(PartReadError) {
                try StoredBytes.inflate(full, files: self.files)
            } catch {
                // Damaged: the part is short, and is set aside.
                guard case .disk(let cause) = error else { continue }
                throw cause
            }
        }
    }
}

/// A manifest with the digest of the compressed file, which is made after the rest is committed.
enum CompressedManifest {
    /// - Parameter digest: `nil` if there is no compressed file.
    static func text(_ manifest: String, _ digest: String?) -> String {
        digest.map { "\(manifest.dropLast()),\"gz_sha256\":\"\($0)\"}" } ?? manifest
    }
}
