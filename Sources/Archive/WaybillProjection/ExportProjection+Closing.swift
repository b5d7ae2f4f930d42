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
/// decides which is the part. Steps 2 to 5 are work of ``ClosedFiles`` for the pauses, and the projection continues in
/// between.
extension ExportProjection {
    /// More files than that do not wait for a pause.
    private static var waitingFileCountMax: Int { 64 }

    package var isSealing: Bool { self.closed.waitingCount > 0 }
    package var isSealingUrgent: Bool { self.closed.waitingCount > Self.waitingFileCountMax }
    /// A day is sealed while parts are compressed; its manifest is written once those of the day are.
    package var mayBeginSeals: Bool { true }

    /// Closes every open part, at the end of a replay.
    package mutating func closeAll() throws(FileSystemError) {
        for key in self.partitionKeys { try self.closeOpenPart(of: key) }
    }

    /// Closes a day's open part, if it has records.
    mutating func closeOpenPart(of key: ExportDay) throws(FileSystemError) {
        guard let part = self.sink.standing(of: key), part.recordCount > 0 else { return }
        try self.closePart(part, key, zone: self.options.zone.name)
        self.sink.closed(self.sink.index(known: key))
        self.touchedKeys.insert(key)
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
        self.closed.add(path, manifest.json)
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
        self.closed.add(file.stem, manifest.json)
        self.set.release(index)
    }

    // MARK: Compressing

    package mutating func continueSealing() throws(FileSystemError) {
        repeat { try self.continueClosing() } while self.isSealingUrgent
    }

    private mutating func continueClosing() throws(FileSystemError) {
        guard let folder = try self.closed.step(&self.state) else { return }
        try self.finishSeal(of: folder)
    }

    /// Does all the work that is left for pauses; throws if a file could not be compressed.
    package mutating func finishSealing() throws(FileSystemError) {
        try self.sealWhatCanBe()
        if let failure = self.closed.failures.first { throw failure.cause }
    }

    /// Does all the work that is left for pauses, except for files that cannot be compressed.
    mutating func sealWhatCanBe() throws(FileSystemError) {
        self.closed.retry()
        while self.isSealing { try self.continueSealing() }
    }

    package mutating func takeFailures() -> [ClosingFailure] {
        self.closed.takeFailures()
    }

    // MARK: Recovery

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
