internal import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Seals the archive's days: each step is durable before the next, and a start continues after the last one done.
///
///     1. one commit: `seal:<folder>` = revision, position, time; lines of that day go to `late-0000N` from then on
///     2. part-00001.ndjson.gz.tmp, member by member → sync → part-00001.ndjson.gz
///     3. manifest.json is replaced; from here on it records the file
///     4. part-00001.ndjson is unlinked; _SUCCESS
///     5. one commit: `seal:` and the file's lengths are gone
///
/// After a crash in step 2, the step starts again and writes the same bytes. If a checkpoint is older than a manifest
/// (it was lost, and the previous one is used), lines that are already sealed are read again from the journal: the
/// manifest's position identifies them.
extension ArchiveProjection {
    static var sealPrefix: String { "seal:" }
    /// How many days one checkpoint starts to seal; the others follow with the next.
    private static var sealCountMax: Int { 1000 }

    package var nextDue: WallTime? { self.openDays.nextDue }

    package var isSealing: Bool { !self.seals.isEmpty }

    package mutating func correctDueTimes(now: WallTime) {
        self.openDays.correct(now: now)
    }

    package mutating func takeSealed() -> [SealedDay] {
        defer { self.sealed = [] }
        return self.sealed
    }

    // MARK: Beginning

    /// The seals that a checkpoint at `position` starts.
    func dueSeals(_ moment: SealMoment, at position: JournalPosition) throws(FileSystemError) -> [String: Seal] {
        var seals: [String: Seal] = [:]
        for folder in self.openDays.due(moment).sorted().prefix(Self.sealCountMax) where self.seals[folder] == nil {
            let standing = try DayStanding(of: folder, in: self.data, seal: nil)
            seals[folder] = Seal(
                revision: standing.revision + 1, position: position.rawValue, sealedAt: moment.now)
        }
        return seals
    }

    /// Finds the days with an open file after a recovery.
    mutating func findOpenDays() throws(FileSystemError) {
        self.openDays = OpenDays(self.cutOff)
        for path in self.set.paths.sorted() where path.hasSuffix(".ndjson") {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            let stem = String(path.dropLast(7))
            if let seal = self.seals[folder.path], Path.name(of: stem) == seal.stem { continue }
            let sources = Path.join(self.root, stem + ".sources")
            let opened = try self.firstReceipt(sources) ?? WallTime(milliseconds: 0)
            self.openDays.add(folder.path, folder.day, openedAt: opened)
        }
    }

    /// When the first lines of a file were received.
    private func firstReceipt(_ sources: String) throws(FileSystemError) -> WallTime? {
        guard try self.files.status(at: sources)?.kind == .regular else { return nil }
        var runs = try SourceRuns(path: sources, byteCount: .max, linesByteCount: .max, files: self.files)
        while let item = try runs.next() {
            if case .run(let run, _) = item { return run.receivedAt }
        }
        return nil
    }

    // MARK: Steps

    package mutating func continueSealing() throws(FileSystemError) {
        guard let folder = self.seals.keys.min(), let seal = self.seals[folder] else { return }
        if self.work == nil { self.work = try self.makeWork(folder, seal) }
        guard try self.work?.step() ?? true else { return }
        guard let file = try self.work?.finish() else { return }
        self.work = nil
        guard let day = DayFolder(path: folder) else { return }
        let manifest = try self.manifest(of: day, seal, adding: file)
        try self.files.replace(
            Path.join(Path.join(self.root, folder), DayFolder.manifestName), with: manifest.json)
        try self.finishSeal(folder, seal)
        self.sealed.append(
            SealedDay(
                path: folder, revision: seal.revision, lineCount: manifest.lineCount, byteCount: manifest.byteCount))
    }

    private func makeWork(_ folder: String, _ seal: Seal) throws(FileSystemError) -> SealWork<Files>? {
        guard let day = DayFolder(path: folder) else { return nil }
        let stem = Path.join(folder, seal.stem)
        let lengths = self.checkpointedLengths(of: stem)
        return try SealWork(
            day, seal, root: self.root, byteCount: lengths.lines, sourcesByteCount: lengths.sources, files: self.files)
    }

    private func checkpointedLengths(of stem: String) -> (lines: Int, sources: Int) {
        func length(_ suffix: String) -> Int {
            max(0, self.state.entries[FileSet<Files>.keyPrefix + stem + suffix].flatMap { Int($0) } ?? 0)
        }
        return (length(".ndjson"), length(".sources"))
    }

    /// Does steps 4 and 5; repeating them changes nothing.
    private mutating func finishSeal(_ folder: String, _ seal: Seal) throws(FileSystemError) {
        let directory = Path.join(self.root, folder)
        let stem = Path.join(directory, seal.stem)
        if try self.files.status(at: stem + ".ndjson") != nil { try self.files.unlink(stem + ".ndjson") }
        let success = try self.files.open(Path.join(directory, DayFolder.successName), .append)
        defer { self.files.close(success) }
        try self.files.synchronize(success)
        try self.files.synchronizeDirectory(directory)
        var changes: [String: String?] = [:]
        changes.updateValue(nil, forKey: Self.sealPrefix + folder)
        for suffix in ArchivePair.suffixes {
            let path = Path.join(folder, seal.stem) + suffix
            changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path)
        }
        try self.state.commit(changes)
        for suffix in ArchivePair.suffixes { self.set.forget(Path.join(folder, seal.stem) + suffix) }
        self.seals[folder] = nil
        // After a lost checkpoint, the next file may have existed before this one was sealed.
        let next = Path.join(folder, DayFolder.openPart(revision: seal.revision)) + ".ndjson"
        if self.set.contains(next), let day = DayFolder(path: folder)?.day {
            self.openDays.add(folder, day, openedAt: seal.sealedAt)
        }
    }

    // MARK: Manifests

    /// A day's manifest with one more file.
    private func manifest(
        of folder: DayFolder, _ seal: Seal, adding file: DayManifest.File
    ) throws(FileSystemError) -> DayManifest {
        let directory = Path.join(self.root, folder.path)
        var manifest = DayManifest(
            folder: folder, revision: seal.revision, zone: self.cutOff.zone.name, sealedAt: seal.sealedAt)
        if let old = try DayManifest.read(in: directory, files: self.files) {
            manifest.files = old.files.filter { $0.name != file.name }
            manifest.erasedLineCount = old.erasedLineCount
        } else {
            for revision in 0..<(seal.revision - 1) {
                let stem = DayFolder.openPart(revision: revision)
                if let found = try self.describe(stem, folder, seal) { manifest.files.append(found) }
            }
        }
        manifest.files.append(file)
        try self.addSources(to: &manifest, directory)
        return manifest
    }

    /// Describes a sealed file by reading it, for a day whose manifest is missing.
    private func describe(
        _ stem: String, _ folder: DayFolder, _ seal: Seal
    ) throws(FileSystemError) -> DayManifest.File? {
        let path = Path.join(Path.join(self.root, folder.path), stem)
        guard let status = try self.files.status(at: path + ".ndjson.gz") else { return nil }
        let sources = try self.files.status(at: path + ".sources")?.byteCount ?? 0
        var tally = try SealTally(
            path, folder: folder, byteCount: .max, sourcesByteCount: sources, files: self.files)
        var bytes = try PartBytes(path: path + ".ndjson", isSealed: true, files: self.files)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 4 << 20, alignment: 16)
        defer { buffer.deallocate() }
        while true {
            let count: Int
            do throws(PartReadError) {
                count = try bytes.read(into: buffer)
            } catch {
                guard case .disk(let cause) = error else { break }
                throw cause
            }
            if count == 0 { break }
            try tally.add(UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(buffer)[..<count]))
        }
        var file = DayManifest.File(name: stem + ".ndjson.gz")
        file.gzipByteCount = status.byteCount
        file.sourcesByteCount = sources
        if try self.files.status(at: path + ".sources")?.kind == .regular {
            file.sourcesSHA256 = try SHA256Digest.ofFile(path + ".sources", self.files)
        }
        file.position = JournalPosition(seal.position)
        file.sha256 = try SHA256Digest.ofFile(path + ".ndjson.gz", self.files)
        return tally.finish(file)
    }

    /// Adds up the runs of all files by stream.
    private func addSources(to manifest: inout DayManifest, _ directory: String) throws(FileSystemError) {
        var indexes: [StreamName: Int] = [:]
        for file in manifest.files {
            let path = Path.join(directory, file.stem + ".sources")
            var explained = 0
            if try self.files.status(at: path)?.kind == .regular {
                var runs = try SourceRuns(
                    path: path, byteCount: file.sourcesByteCount, linesByteCount: file.byteCount, files: self.files)
                while let item = try runs.next() {
                    guard case .run(let run, _) = item else { continue }
                    if manifest.add(run, &indexes) { explained += run.lineCount }
                }
            }
            manifest.otherLineCount += max(0, file.lineCount - explained)
        }
    }

    // MARK: Recovery

    /// Finishes seals that lack only the last steps, and drops files that a manifest records.
    ///
    /// - Returns: the findings, for logs.
    mutating func recoverSeals() throws(FileSystemError) -> [String] {
        var notes: [String] = []
        self.seals = [:]
        for (key, value) in self.state.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(Self.sealPrefix) {
            let folder = String(key.dropFirst(Self.sealPrefix.utf8.count))
            guard let seal = Seal(text: value), DayFolder(path: folder) != nil else {
                try self.state.commit([key: String?.none])
                notes.append("\(key) in the checkpoint cannot be read and is ignored")
                continue
            }
            self.seals[folder] = seal
            let manifest = try DayManifest.read(in: Path.join(self.root, folder), files: self.files)
            if let manifest, manifest.revision >= seal.revision { try self.finishSeal(folder, seal) }
        }
        notes += try self.letGoOfSealedFiles()
        return notes
    }

    /// Drops files that were sealed after the checkpoint.
    private mutating func letGoOfSealedFiles() throws(FileSystemError) -> [String] {
        var changes: [String: String?] = [:]
        var notes: [String] = []
        for path in self.checkpointedLengths.keys.sorted() where path.hasSuffix(".ndjson") {
            guard let folder = DayFolder(path: Path.parent(of: path)),
                try self.files.status(at: Path.join(self.root, path + ".gz")) != nil,
                let manifest = try DayManifest.read(in: Path.join(self.root, folder.path), files: self.files),
                manifest.files.contains(where: { $0.name == Path.name(of: path) + ".gz" })
            else { continue }
            if try self.files.status(at: Path.join(self.root, path)) != nil {
                try self.files.unlink(Path.join(self.root, path))
            }
            for suffix in ArchivePair.suffixes {
                changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path.dropLast(7) + suffix)
            }
            notes.append("\(path) was sealed after the checkpoint in use")
        }
        try self.state.commit(changes)
        return notes
    }
}
