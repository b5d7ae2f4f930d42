internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// Makes an export's files again without a person's records.
///
///     part-00000.ndjson.gz  .ids  .manifest.json  .delivered     one exchange for all files of a day,
///     dead/part-00000.ndjson.gz  held  manifest.json             with the entries of the checkpoint
///
/// The other records keep their parts and their order, and a part that was sent stays one that was sent: its mark gets
/// the new digest in the same exchange, so that nothing is sent again.
extension Eraser {
    /// One partition while its new files are written.
    private struct Work {
        let folder: String
        let provider: String
        let entries: [String: String]
        let lengths: [String: Int]
        var exchange = ErasureExchange()
        var openPart: ErasedPart?
        var held = (count: 0, releasedByteCount: 0)
        /// Of the dead letters that are erased.
        var goneLetters: Set<Digest128> = []
        /// By the name of a part without extension: its new manifest.
        var manifests: [String: PartManifest] = [:]
        /// By the name of a part without extension: how the numbers of its records change.
        var renumberings: [String: Renumbering] = [:]

        var state: String { "export-\(self.provider)" }

        mutating func setLength(of path: String, _ byteCount: Int) {
            self.exchange.set("file:" + path, to: String(byteCount), in: self.state)
        }
    }

    /// Writes the new files of one partition; in a dry run it only counts.
    mutating func eraseExport(_ partition: Partition) throws(FileSystemError) -> ErasureExchange {
        let provider = String(partition.folder.split(separator: "/")[1])
        let entries = try self.entries(of: "export-\(provider)")
        var work = Work(
            folder: partition.folder, provider: provider, entries: entries,
            lengths: FileSet<Files>.lengths(in: entries))
        for stem in partition.stems { try self.erasePart(stem, &work) }
        try self.eraseHeld(&work)
        try self.eraseDead(&work)
        let key = PartStanding.keyPrefix + work.folder
        if let text = entries[key], work.openPart != nil || work.held.count > 0 || work.held.releasedByteCount > 0,
            let standing = PartStanding.erasing(in: text, records: work.openPart, held: work.held)
        {
            work.exchange.set(key, to: standing, in: work.state)
        }
        try self.renewDay(&work)
        return work.exchange
    }

    private func newFile(_ path: String) throws(FileSystemError) -> NewFile<Files> {
        try NewFile(self.isDryRun ? nil : Path.join(self.data.root, path), files: self.files)
    }

    /// Removes new files that are not needed.
    private func discard(_ paths: [String]) throws(FileSystemError) {
        for path in paths {
            let new = Path.join(self.data.root, path + ErasureLog<Files>.newSuffix)
            if try self.files.status(at: new) != nil { try self.files.unlink(new) }
        }
    }

    // MARK: Parts

    private mutating func erasePart(_ stem: String, _ work: inout Work) throws(FileSystemError) {
        let root = Path.join(self.data.root, stem)
        let manifest = try self.files.contents(of: root + ".manifest.json").flatMap(PartManifest.init(json:))
        let idsLength = work.lengths[stem + ".ids"]
        guard manifest != nil || idsLength != nil,
            let fileExtension = try self.fileExtension(of: stem)
        else { return }
        let path = "\(stem).\(fileExtension)"
        var reader = try RecordReader(
            stem: root, fileExtension: fileExtension, isCompressed: manifest?.gzipSHA256 != nil,
            byteCount: manifest == nil ? work.lengths[path] ?? 0 : .max,
            idsByteCount: manifest == nil ? idsLength ?? 0 : .max, files: self.files)
        var records = try self.newFile(path)
        var ids = try self.newFile(stem + ".ids")
        var part = ErasedPart()
        var renumbering = Renumbering(wanted: try self.recordNumbers(inLettersOf: stem))
        let format = RecordFormat(fileExtension: fileExtension)
        while let next = try reader.next() {
            let isGone = self.isPersons(next.record, ids: next.ids)
            renumbering.add(next.ids, isGone: isGone)
            if isGone { continue }
            try records.append(part.recordCount == 0 ? reader.header + format.start : format.separator)
            try records.append(next.record + format.terminator)
            try ids.append(Array(next.ids.joined(separator: [UInt8(ascii: ",")])) + [0x0A])
            part.recordCount += 1
            part.eventCount += next.ids.count
            if part.firstID.isEmpty { part.firstID = next.ids.first.map { String(decoding: $0, as: UTF8.self) } ?? "" }
            part.lastID = next.ids.last.map { String(decoding: $0, as: UTF8.self) } ?? ""
        }
        guard renumbering.goneCount > 0 else { return try self.discard([path, stem + ".ids"]) }
        self.report.recordCount += renumbering.goneCount
        work.renumberings[Path.name(of: stem)] = renumbering
        if manifest != nil, part.recordCount > 0 { try records.append(format.footer) }
        if manifest != nil, part.recordCount == 0 { try records.append(reader.header) }
        part.byteCount = records.byteCount
        let facts = try records.finish()
        let idsFacts = try ids.finish()
        guard !self.isDryRun else { return }
        work.exchange.replace(stem + ".ids")
        guard var manifest else {
            work.exchange.replace(path)
            work.setLength(of: path, facts.byteCount)
            work.setLength(of: stem + ".ids", idsFacts.byteCount)
            work.openPart = part
            return
        }
        let old = manifest.sha256
        manifest.totals.recordCount = part.recordCount
        manifest.totals.eventCount = part.eventCount
        (manifest.firstID, manifest.lastID) = (part.firstID, part.lastID)
        manifest.closedSHA256 = manifest.closedSHA256 ?? old
        manifest.sha256 = facts.sha256
        manifest.erasedCount += renumbering.goneCount
        manifest.gzipSHA256 = try self.store(path, facts, isCompressed: manifest.gzipSHA256 != nil, &work)
        try self.write(ManifestLine.sealed(manifest.json), to: stem + ".manifest.json", &work)
        work.manifests[Path.name(of: stem)] = manifest
        let mark = try self.files.contents(of: root + ".delivered")
        if let mark, mark.starts(with: "\(old)\n".utf8) {
            // What follows says which merger of a fleet sent it.
            let rest = mark.dropFirst(old.utf8.count + 1)
            try self.write(Array("\(facts.sha256)\n".utf8) + rest, to: stem + ".delivered", &work)
        }
    }

    /// Gives a closed file its form: compressed, if the old one is.
    ///
    /// - Returns: the digest of the compressed file.
    private func store(
        _ path: String, _ facts: NewFile<Files>.Facts, isCompressed: Bool, _ work: inout Work
    ) throws(FileSystemError) -> String? {
        guard isCompressed else {
            work.exchange.replace(path)
            return nil
        }
        let new = Path.join(self.data.root, path + ErasureLog<Files>.newSuffix)
        var gzip = try GzipWork(path: new, byteCount: facts.byteCount, level: 1, files: self.files)
        let digest = try gzip.run()
        try self.files.unlink(new)
        work.exchange.pairs.append((path + ErasureLog<Files>.newSuffix + ".gz", path + ".gz"))
        return digest
    }

    private func write(_ bytes: [UInt8], to path: String, _ work: inout Work) throws(FileSystemError) {
        var file = try self.newFile(path)
        try file.append(bytes)
        _ = try file.finish()
        work.exchange.replace(path)
    }

    /// The extension of a part's records.
    private func fileExtension(of stem: String) throws(FileSystemError) -> String? {
        let name = Path.name(of: stem)
        for found in try self.files.list(Path.join(self.data.root, Path.parent(of: stem))).sorted()
        where found.hasPrefix(name + ".") {
            var end = String(found.dropFirst(name.utf8.count + 1))
            if end.hasSuffix(".gz") { end = String(end.dropLast(3)) }
            let others = ["ids", "manifest.json", "delivered"]
            if !others.contains(end), !end.hasSuffix(".tmp"), !end.contains(ErasureLog<Files>.newSuffix) { return end }
        }
        return nil
    }

    // MARK: Held and refused events

    private mutating func eraseHeld(_ work: inout Work) throws(FileSystemError) {
        let path = "\(work.folder)/\(HeldRecord.fileName)"
        guard let byteCount = work.lengths[path], byteCount > 0,
            try self.files.status(at: Path.join(self.data.root, path)) != nil
        else { return }
        let released =
            work.entries[PartStanding.keyPrefix + work.folder].flatMap { PartStanding.place(in: $0) }?.releasedByteCount
            ?? 0
        var lines = try LineReader(
            path: Path.join(self.data.root, path), byteCount: byteCount, lineByteCountMax: 64 << 20, files: self.files)
        var kept = try self.newFile(path)
        var goneCount = 0
        while let line = try lines.next() {
            let id = line.bytes.prefix { $0 != 0x20 }
            guard self.isPersons(line.bytes, ids: [id]) else {
                try kept.append(line.bytes + [0x0A])
                continue
            }
            goneCount += 1
            if line.range.lowerBound < released {
                work.held.releasedByteCount += line.range.count
            } else {
                work.held.count += 1
                self.report.heldCount += 1
            }
        }
        let facts = try kept.finish()
        guard goneCount > 0 else { return try self.discard([path]) }
        guard !self.isDryRun else { return }
        work.exchange.replace(path)
        work.setLength(of: path, facts.byteCount)
    }

    private mutating func eraseDead(_ work: inout Work) throws(FileSystemError) {
        let folder = "\(work.folder)/dead"
        let absolute = Path.join(self.data.root, folder)
        guard try self.files.status(at: absolute)?.kind == .directory else { return }
        var stems: Set<String> = []
        for name in try self.files.list(absolute) where name.hasSuffix(".ndjson") || name.hasSuffix(".ndjson.gz") {
            stems.insert("\(folder)/\(name.prefix { $0 != "." })")
        }
        for stem in stems.sorted() { try self.eraseDead(stem, &work) }
        try self.eraseRetaken(&work)
    }

    /// Removes the digests of erased letters.
    private func eraseRetaken(_ work: inout Work) throws(FileSystemError) {
        let path = RetakenLetters.path(in: work.folder)
        guard let byteCount = work.lengths[path], byteCount > 0, !work.goneLetters.isEmpty else { return }
        var lines = try LineReader(
            path: Path.join(self.data.root, path), byteCount: byteCount, lineByteCountMax: 64, files: self.files)
        var kept = try self.newFile(path)
        while let line = try lines.next() {
            guard let digest = Digest128(text: line.bytes), !work.goneLetters.contains(digest) else { continue }
            try kept.append(RetakenLetters.line(of: digest))
        }
        let facts = try kept.finish()
        guard facts.byteCount < byteCount else { return try self.discard([path]) }
        guard !self.isDryRun else { return }
        work.exchange.replace(path)
        work.setLength(of: path, facts.byteCount)
    }

    private mutating func eraseDead(_ stem: String, _ work: inout Work) throws(FileSystemError) {
        let path = stem + ".ndjson"
        let root = Path.join(self.data.root, stem)
        let manifest = try self.files.contents(of: root + ".manifest.json").flatMap(DeadLetterManifest.init(json:))
        guard manifest != nil || work.lengths[path] ?? 0 > 0 else { return }
        let bytes = try StoredBytes(
            path: Path.join(self.data.root, path), isCompressed: manifest?.gzipSHA256 != nil, files: self.files)
        var lines = LineReader(
            bytes, byteCount: manifest == nil ? work.lengths[path] ?? 0 : .max, lineByteCountMax: 64 << 20,
            files: self.files)
        var kept = try self.newFile(path)
        var counts = (kept: 0, gone: 0, renumbered: 0)
        let part = Self.part(ofLetters: Path.name(of: stem))
        while let line = try lines.next() {
            if self.isPersons(letter: line.bytes) {
                counts.gone += 1
                work.goneLetters.insert(line.bytes.withUnsafeBytes { RetakenLetters.digest(of: $0) })
                continue
            }
            counts.kept += 1
            if let renumbered = part.flatMap({ work.renumberings[$0] })?.renumber(letter: line.bytes) {
                counts.renumbered += 1
                try kept.append(renumbered + [0x0A])
            } else {
                try kept.append(line.bytes + [0x0A])
            }
        }
        let facts = try kept.finish()
        guard counts.gone + counts.renumbered > 0 else { return try self.discard([path]) }
        self.report.deadCount += counts.gone
        guard !self.isDryRun else { return }
        guard var manifest else {
            work.exchange.replace(path)
            return work.setLength(of: path, facts.byteCount)
        }
        manifest.recordCount = counts.kept
        manifest.sha256 = facts.sha256
        manifest.gzipSHA256 = try self.store(path, facts, isCompressed: manifest.gzipSHA256 != nil, &work)
        try self.write(ManifestLine.sealed(manifest.json), to: stem + ".manifest.json", &work)
    }

    /// The part whose delivery wrote dead letters; `nil` if the export did.
    private static func part(ofLetters name: String) -> String? {
        name.hasPrefix("delivery-") ? "part-" + name.dropFirst("delivery-".utf8.count) : nil
    }

    /// The records of a part that are named in the dead letters of its delivery.
    private func recordNumbers(inLettersOf stem: String) throws(FileSystemError) -> Set<Int> {
        let number = Path.name(of: stem).dropFirst("part-".utf8.count)
        let letters = "\(Path.parent(of: stem))/dead/delivery-\(number)"
        let root = Path.join(self.data.root, letters)
        let facts = try self.files.contents(of: root + ".manifest.json")
        guard let manifest = facts.flatMap(DeadLetterManifest.init(json:)) else { return [] }
        let bytes = try StoredBytes(
            path: root + ".ndjson", isCompressed: manifest.gzipSHA256 != nil, files: self.files)
        var lines = LineReader(bytes, lineByteCountMax: 64 << 20, files: self.files)
        var numbers: Set<Int> = []
        while let line = try lines.next() {
            if let number = JSONValue(line.bytes)?["record"]?.count { numbers.insert(number) }
        }
        return numbers
    }

    /// Whether a dead letter is of an event of the person: by the place of its line, else by its id.
    private func isPersons(letter: [UInt8]) -> Bool {
        guard let json = JSONValue(letter) else { return false }
        if let stream = json["stream"]?.string, let offset = json["offset"]?.count {
            let place = Place(
                principal: json["principal"]?.string ?? "", stream: stream, offset: UInt64(offset))
            if self.places.contains(place) { return true }
            // The line of someone else's event with the same id.
            if let id = json["id"]?.string, self.isShared(id.utf8) { return false }
        }
        guard let id = json["id"]?.string else { return false }
        return self.isPersons(letter, ids: [Array(id.utf8)[...]])
    }

    // MARK: Days and generations

    /// Writes the manifest of a sealed day again, as a new revision.
    private func renewDay(_ work: inout Work) throws(FileSystemError) {
        guard !work.manifests.isEmpty, !self.isDryRun else { return }
        let path = Path.join(work.folder, DayFolder.manifestName)
        guard
            var day = try self.files.contents(of: Path.join(self.data.root, path))
                .flatMap(ExportDayManifest.init(json:))
        else { return }
        for index in day.parts.indices {
            let name = String(day.parts[index].name.prefix { $0 != "." })
            guard let part = work.manifests[name] else { continue }
            day.totals.recordCount -= day.parts[index].recordCount - part.recordCount
            day.totals.eventCount -= day.parts[index].eventCount - part.eventCount
            day.erasedCount += day.parts[index].recordCount - part.recordCount
            day.parts[index].recordCount = part.recordCount
            day.parts[index].eventCount = part.eventCount
            day.parts[index].sha256 = part.sha256
        }
        day.revision += 1
        day.erasureCount += 1
        try self.write(ManifestLine.sealed(day.json), to: path, &work)
    }

    /// Removes the days of kept generations that have records of the person: a rollback then leaves these days alone.
    mutating func removeGenerations() throws(FileSystemError) {
        for folder in try self.exportFolders(where: { $0.hasPrefix(".") }) {
            guard let partition = try self.partition(folder), try self.hasPersons(partition) else { continue }
            self.report.removedGenerations.append(folder)
            guard !self.isDryRun else { continue }
            try self.files.removeTree(Path.join(self.data.root, folder))
            try self.files.synchronizeDirectory(Path.parent(of: Path.join(self.data.root, folder)))
        }
    }

    private func hasPersons(part stem: String) throws(FileSystemError) -> Bool {
        let root = Path.join(self.data.root, stem)
        guard let fileExtension = try self.fileExtension(of: stem) else { return false }
        let manifest = try self.files.contents(of: root + ".manifest.json").flatMap(PartManifest.init(json:))
        var reader = try RecordReader(
            stem: root, fileExtension: fileExtension, isCompressed: manifest?.gzipSHA256 != nil, byteCount: .max,
            idsByteCount: .max, files: self.files)
        while let next = try reader.next() {
            if self.isPersons(next.record, ids: next.ids) { return true }
        }
        return false
    }

    private func hasPersons(_ partition: Partition) throws(FileSystemError) -> Bool {
        for stem in partition.stems where try self.hasPersons(part: stem) { return true }
        for name in ["dead", HeldRecord.fileName] {
            let path = Path.join(self.data.root, Path.join(partition.folder, name))
            guard let kind = try self.files.status(at: path)?.kind else { continue }
            let paths = kind == .directory ? try self.files.list(path).map { Path.join(path, $0) } : [path]
            for path in paths where !path.hasSuffix(".manifest.json") {
                let isCompressed = path.hasSuffix(".gz")
                let bytes = try StoredBytes(
                    path: isCompressed ? String(path.dropLast(3)) : path, isCompressed: isCompressed, files: self.files)
                var lines = LineReader(bytes, lineByteCountMax: 64 << 20, files: self.files)
                while let line = try lines.next() {
                    let id = line.bytes.prefix { $0 != 0x20 }
                    if self.isPersons(letter: line.bytes) || self.isPersons(line.bytes, ids: [id]) { return true }
                }
            }
        }
        return false
    }

    /// Copies the exports' checkpoints, from which one that is lost is made again.
    ///
    /// From an empty checkpoint, the journal's lines would be put into parts with other boundaries, which would be sent.
    func copyCheckpoints() throws(FileSystemError) {
        for projection in try self.data.stateNames() where projection.hasPrefix("export-") {
            let entries = try self.entries(of: projection)
            var lines = StateLines()
            for (key, value) in entries.sorted(by: { $0.key < $1.key }) { lines.set(key, value) }
            var log = try StateLog(path: ErasureLog.copyPath(of: projection, in: self.data), files: self.files)
            var rewrite = try log.beginRewrite()
            try log.write(lines, to: &rewrite)
            try log.finish(rewrite)
        }
    }
}
