internal import WaybillData
internal import WaybillExport
internal import WaybillSystem

/// Returns an export's files to their state at the checkpoint.
///
/// A file that the checkpoint does not list is closed, or was written after the checkpoint: the partition's standing
/// tells which. What cannot be used is set aside.
extension ExportProjection {
    /// - Returns: also the files of refused events, by path without extension, that are closed but have no manifest.
    mutating func recoverFiles() throws(FileSystemError) -> (FileSet<Files>.Recovery, undescribed: [String]) {
        let standings = self.checkpointedStandings
        let records = ".\(self.description.fileExtension)"
        let suffixes = [records, records + ".gz", records + ".gz.tmp", ".ids", ".manifest.json"]
        let closing = ExportCheckpoint.closing(in: self.state.entries)
        let coverage = JournalCoverage(directory: self.journal, files: self.files)
        let position = self.checkpointedPosition
        let lengths = FileSet<Files>.lengths(in: self.state.entries)
        let (root, files) = (self.root, self.files)
        let aside = SetAside(root: root, files: files)
        var closedPaths: [String: Set<String>] = [:]
        var asidePaths: [String] = []
        var recovery = try self.set.recover(
            from: self.state.entries, roots: [self.directory],
            isRebuilt: { () throws(FileSystemError) in try coverage.isWhole(from: position) }
        ) { path throws(FileSystemError) in
            let name = Path.name(of: path)
            if DeadLetterFile.isDead(path), let number = PartitionPath.partNumber(of: name) {
                guard let key = ExportDay(partition: Path.parent(of: Path.parent(of: path))) else { return true }
                if number < standings[key]?.revision ?? 0 {
                    closedPaths[DeadLetterFile.stem(of: path), default: []].insert(path)
                    return true
                }
                // Open ones are neither compressed nor described: a seal after the checkpoint closed it.
                guard name.hasSuffix(".gz") || name.hasSuffix(".manifest.json") else { return false }
                asidePaths.append(try aside.move(path))
                return true
            }
            if DeadLetterFile.isDead(path), name == RetakenLetters.fileName { return false }
            let isPart = PartitionPath.partNumber(of: name) != nil && suffixes.contains(where: name.hasSuffix)
            if name == DayFolder.manifestName || name == DayFolder.successName,
                let key = ExportDay(partition: Path.parent(of: path))
            {
                return standings[key]?.isLate ?? false
            }
            // Other files, and a generation's name, are kept.
            guard isPart || name == HeldRecord.fileName else { return true }
            // The checkpoint does not list closed parts, but it has the number up to which parts are closed.
            guard suffixes.contains(where: path.hasSuffix),
                let number = PartitionPath.partNumber(of: Path.name(of: path)),
                let key = ExportDay(partition: Path.parent(of: path)), let standing = standings[key]
            else { return false }
            if number < standing.number { return true }
            // The checkpoint continues a part that was closed after it, and the compressed file cannot be inflated.
            let isCompressed = name.hasSuffix(records + ".gz") || name.hasSuffix(".manifest.json")
            let plain = "\(Path.parent(of: path))/\(name.prefix { $0 != "." })\(records)"
            guard isCompressed, lengths[plain] ?? 0 > 0 else { return false }
            return try files.status(at: Path.join(root, plain)) == nil
        }
        recovery.keptPaths += asidePaths
        let undescribed = closedPaths.filter { stem, paths in
            closing[stem] == nil && !paths.contains(stem + ".manifest.json")
                && (paths.contains(stem + ".ndjson") || paths.contains(stem + ".ndjson.gz"))
        }
        return (recovery, undescribed.keys.sorted())
    }

    /// Makes a lost checkpoint again from its copy of the last erasure, if the journal has what came after it.
    ///
    /// From the journal's beginning on, the parts would have other boundaries without the erased events, and those that
    /// were sent would be sent again.
    ///
    /// - Returns: a description of the changes, for logs.
    mutating func restoreLostCheckpoint() throws(FileSystemError) -> String? {
        guard self.state.entries["position"] == nil, self.erased != nil, self.directory == "exports/\(self.name)" else {
            return nil
        }
        let data = DataDirectory(root: self.root, files: self.files)
        let path = ErasureLog.copyPath(of: "export-\(self.name)", in: data)
        guard let entries = try StateImage.read(path, files: self.files)?.entries,
            let position = entries["position"].flatMap({ Int($0) }),
            try JournalCoverage(directory: self.journal, files: self.files).isWhole(from: JournalPosition(position))
        else { return nil }
        try self.state.commit(entries.mapValues { .some($0) })
        return "the export's checkpoint was lost and is made again from that of the last erasure, at \(position)"
    }

    /// Sets the export aside if its checkpoint is lost and the journal cannot restore all of it.
    ///
    /// - Returns: a description of the changes, for logs.
    func setAsideWithoutCheckpoint() throws(FileSystemError) -> String? {
        guard self.state.entries["position"] == nil,
            try self.files.status(at: Path.join(self.root, self.directory)) != nil,
            try !self.files.list(Path.join(self.root, self.directory)).isEmpty
        else { return nil }
        let coverage = JournalCoverage(directory: self.journal, files: self.files)
        if try coverage.isWhole(from: JournalPosition(0)) { return nil }
        let aside = try SetAside(root: self.root, files: self.files).move(self.directory)
        try self.files.synchronizeDirectory(Path.parent(of: Path.join(self.root, self.directory)))
        return
            "the export's checkpoint is lost and the journal does not reach back to its beginning: set aside \(aside); "
            + "\(self.closed.remedy(from: nil))"
    }

    // MARK: Short files

    /// Sets aside parts that are shorter than in the checkpoint; other short files are kept.
    ///
    /// - Returns: a description of the changes, for logs.
    mutating func setAsideShortParts(_ shortFiles: [String: Int]) throws(FileSystemError) -> [String] {
        let suffixes = [".\(self.description.fileExtension)", ".ids"]
        var changes: [String: String?] = [:]
        var notes: [String] = []
        var stems: Set<String> = []
        for (path, missing) in shortFiles.sorted(by: { $0.key < $1.key }) {
            if let suffix = suffixes.first(where: path.hasSuffix),
                PartitionPath.partNumber(of: Path.name(of: path)) != nil, !DeadLetterFile.isDead(path)
            {
                stems.insert(String(path.dropLast(suffix.utf8.count)))
                continue
            }
            let length = Int(self.state.entries[FileSet<Files>.keyPrefix + path] ?? "") ?? 0
            let end = try self.files.lineEnd(of: Path.join(self.root, path), upTo: max(0, length - missing))
            changes[FileSet<Files>.keyPrefix + path] = String(end)
            notes.append("\(path) lacked \(missing) bytes and continues after the remaining \(end)")
        }
        let standings = self.checkpointedStandings
        for stem in stems.sorted() {
            for suffix in suffixes { changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + stem + suffix) }
            changes.updateValue(nil, forKey: ExportCheckpoint.closedPrefix + stem)
            let partition = Path.parent(of: stem)
            guard let key = ExportDay(partition: partition),
                let number = PartitionPath.partNumber(of: Path.name(of: stem))
            else { continue }
            let standing = standings[key]
            if standing.map({ $0.number <= number }) ?? true {
                var next = standing?.next ?? PartStanding(number: 0)
                next.number = number + 1
                // The refused events are in a file of their own.
                next.dead = standing?.dead ?? [:]
                changes[Self.partPrefix + partition] = next.text
            }
            notes.append(try self.closed.setAside(stem, key.day, because: "it is shorter than in the checkpoint"))
        }
        try self.state.commit(changes)
        return notes
    }

    // MARK: Lost manifests

    /// Closes files of refused events again, which only lack their manifest.
    ///
    /// - Returns: a description of the changes, for logs.
    mutating func describe(_ stems: [String]) throws(FileSystemError) -> [String] {
        var notes: [String] = []
        var changes: [String: String?] = [:]
        for stem in stems {
            guard let key = ExportDay(partition: Path.parent(of: Path.parent(of: stem))) else { continue }
            do throws(PartReadError) {
                let manifest = try DeadLetterManifest(
                    ofStored: Path.join(self.root, stem + ".ndjson"), provider: self.options.provider, env: key.env,
                    day: key.day, self.files)
                changes[ExportCheckpoint.closedPrefix + stem] = String(decoding: manifest.json, as: UTF8.self)
                notes.append("\(stem) had lost its manifest, which is written again")
            } catch {
                notes.append("\(stem) has no manifest and cannot be read: \(error)")
            }
        }
        try self.state.commit(changes)
        return notes
    }
}
