internal import WaybillArchive
internal import WaybillExport
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
/// decides which is the part. Steps 2 to 5 are work for the pauses, and the projection goes on in between.
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

    package var isSealing: Bool { !self.waiting.isEmpty }
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
        _ part: PartStanding, _ key: PartSink.Key, zone: String
    ) throws(FileSystemError) {
        let path = "\(self.path(key))/\(PartitionPath.part(part.number))"
        let records = self.set.index(of: "\(path).\(self.description.fileExtension)")
        try self.set.append(self.description.footer, to: records)
        try self.close(part, path, records, self.set.index(of: "\(path).ids"), key: key, zone: zone)
    }

    mutating func close(
        _ part: PartStanding, _ path: String, _ records: FileSet<Files>.Index, _ ids: FileSet<Files>.Index,
        key: PartSink.Key, zone: String
    ) throws(FileSystemError) {
        let digest = try SHA256Digest.ofFile(self.set.path(of: records), self.files)
        let manifest = PartManifest(
            provider: self.options.provider, zone: zone, env: key.env, day: key.day, part: part, sha256: digest)
        self.closing.append(ClosedFile(path: path, manifest: String(decoding: manifest.json, as: UTF8.self)))
        self.set.release(records)
        self.set.release(ids)
    }

    /// Closes the refused events of a day that is sealed.
    mutating func closeDeadLetters(_ key: PartSink.Key, revision: Int) throws(FileSystemError) {
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
        guard let stem = self.waiting.first, let manifest = self.state.entries[ExportCheckpoint.closedPrefix + stem]
        else { return }
        do throws(FileSystemError) {
            if self.work == nil { self.work = try self.makeWork(stem, manifest) }
            _ = try self.work?.step()
            guard self.work?.isDone ?? true else { return }
            let digest = try self.work?.finish()
            self.work = nil
            try self.finishClosing(stem, manifest, digest)
        } catch {
            // What was written may end in the middle of a member.
            self.work = nil
            throw error
        }
        self.waiting.removeFirst()
        try self.finishSeals()
    }

    /// Does all the work that is left for pauses.
    package mutating func finishSealing() throws(FileSystemError) {
        while self.isSealing { try self.continueSealing() }
    }

    /// The path of a closed file before it is compressed.
    private func recordsPath(of stem: String) -> String {
        Path.join(self.root, "\(stem).\(DeadLetterFile.isDead(stem) ? "ndjson" : self.description.fileExtension)")
    }

    private func manifestPath(of stem: String) -> String {
        Path.join(self.root, stem + ".manifest.json")
    }

    /// - Returns: `nil` if there is nothing to compress.
    private func makeWork(_ stem: String, _ manifest: String) throws(FileSystemError) -> GzipWork<Files>? {
        let path = self.recordsPath(of: stem)
        guard let status = try self.files.status(at: path) else { return nil }
        let written = try self.files.contents(of: self.manifestPath(of: stem)) ?? []
        // A crash came before the file was unlinked.
        if CompressedManifest.matches(written, manifest), try self.files.status(at: path + ".gz") != nil { return nil }
        return try GzipWork(path: path, byteCount: status.byteCount, level: Self.level, files: self.files)
    }

    /// Does steps 3 to 5; repeating them changes nothing.
    ///
    /// - Parameter digest: of the compressed file; `nil` if it was not made now.
    private mutating func finishClosing(
        _ stem: String, _ manifest: String, _ digest: String?
    ) throws(FileSystemError) {
        let path = self.recordsPath(of: stem)
        let written = try self.files.contents(of: self.manifestPath(of: stem)) ?? []
        if digest != nil || !CompressedManifest.matches(written, manifest) {
            if self.options.provider == .snowplow, !DeadLetterFile.isDead(stem) { try self.writeSchemas(ofPart: path) }
            try self.files.createDirectories(Path.parent(of: path))
            var own = digest
            if own == nil, try self.files.status(at: path + ".gz") != nil {
                own = try SHA256Digest.ofFile(path + ".gz", self.files)
            }
            try self.files.replace(
                self.manifestPath(of: stem),
                with: ManifestLine.sealed(Array(CompressedManifest.text(manifest, own).utf8)))
        }
        if try self.files.status(at: path) != nil {
            try self.files.unlink(path)
            try self.files.synchronizeDirectory(Path.parent(of: path))
        }
        try self.state.commit([ExportCheckpoint.closedPrefix + stem: String?.none])
    }

    /// Adds the schemas of a closed part's events to the drafts next to it; repeating it changes nothing.
    private func writeSchemas(ofPart part: String) throws(FileSystemError) {
        var schemas = SnowplowSchemas()
        schemas.add(part: try self.files.contents(of: part) ?? [])
        for name in schemas.paths {
            let target = Path.join(Path.parent(of: part), "schemas/\(name)")
            let old = try self.files.contents(of: target)
            if let old { schemas.add(draft: old, at: name) }
            let draft = schemas.draft(at: name)
            // The usual case: most parts add nothing new.
            if draft == old { continue }
            try self.files.createDirectories(Path.parent(of: target))
            try self.files.replace(target, with: draft)
        }
    }

    // MARK: Recovery

    /// Finds the files to compress after a recovery.
    mutating func findWaiting() {
        self.work = nil
        self.waiting = ExportCheckpoint.closing(in: self.state.entries).keys.sorted()
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

    /// Whether this is the content of a manifest's file, with whatever digest.
    static func matches(_ written: [UInt8], _ manifest: String) -> Bool {
        let start = Array("\(manifest.dropLast()),\"gz_sha256\":\"".utf8)
        let count = start.count + 64 + 3
        return written.starts(with: start)
            && (written.count == count || written.count == count + ManifestLine.checksumByteCount)
    }
}
