internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// Verifies each export against the archive, and its manifests against its files.
///
/// The archive is read once for all exports: each line is parsed once and mapped for each of them. Of each day only sums
/// are kept; a day whose sums differ is read again, and then its events are compared one by one.
extension DataVerifier {
    mutating func verifyExports(_ checkpoints: [(name: String, checkpoint: Checkpoint)], archive: Checkpoint?) {
        var checks: [ExportCheck] = []
        for (name, checkpoint) in checkpoints {
            guard let check = self.check(name, checkpoint, archive) else { continue }
            do throws(FileSystemError) {
                try self.readFiles(of: check)
                checks.append(check)
            } catch {
                self.unreadable(error)
            }
            let totals = check.found.values
            self.report.total("\(name)_events", totals.reduce(0) { $0 + $1.exported })
            self.report.total("\(name)_refused", totals.reduce(0) { $0 + $1.refused })
        }
        self.verifyDeliveries(of: checks)
        let compared = checks.filter(\.isCompared)
        guard let archive, !compared.isEmpty else { return }
        do throws(FileSystemError) {
            try self.map(archive, into: compared)
            for check in compared {
                self.report.total("\(check.name)_skipped", check.sink.skippedCount)
                try self.judge(check, archive)
            }
        } catch {
            self.unreadable(error)
        }
    }

    /// Prepares an export's verification; `nil` if nothing can be said about it.
    private mutating func check(
        _ name: String, _ checkpoint: Checkpoint, _ archive: Checkpoint?
    ) -> ExportCheck? {
        guard var options = self.options(ofExport: name) else {
            self.report.note(
                "\(checkpoint.path) belongs to a provider that this version does not know; name custom ones with --config"
            )
            return nil
        }
        let folder = "exports/\(name)/"
        if let alien = checkpoint.lengths.keys.sorted().first(where: { !$0.hasPrefix(folder) }) {
            self.report.add(
                Problem(.disagreement, checkpoint.path, "it is the checkpoint of another export: it lists \(alien)"))
            return nil
        }
        let zone = checkpoint.zone(self.data.files)
        if let zone { options.zone = zone }
        let check = ExportCheck(
            name: name, options: options, checkpointPath: checkpoint.path, position: checkpoint.position.rawValue,
            entries: checkpoint.entries, lengths: checkpoint.lengths)
        if archive == nil {
            self.report.note("\(name) is not compared with the archive, whose checkpoint is missing")
        } else if zone == nil {
            self.report.add(
                Problem(.unreadable, checkpoint.path, "its zone is unknown: no event is compared with the archive"))
        } else if let written = checkpoint.entries["options"], written != options.fingerprint {
            self.report.note(
                "\(name) is not compared with the archive: it was written with other options; name them with --config")
        } else if checkpoint.entries["changed"] != nil {
            self.report.note(
                "\(name) is not compared with the archive: its options changed while it ran; waybill replay regenerates it"
            )
        } else {
            check.isCompared = true
        }
        return check
    }

    private func options(ofExport name: String) -> ExportOptions? {
        if let options = self.exports.first(where: { $0.provider.rawValue == name }) { return options }
        return self.providers.destinations.first { $0.rawValue == name }.map { ExportOptions(provider: $0) }
    }

    // MARK: The files

    private mutating func readFiles(of check: ExportCheck) throws(FileSystemError) {
        for (path, byteCount) in check.lengths.sorted(by: { $0.key < $1.key }) {
            _ = try self.checkedLength(path, byteCount)
            try self.lookPastEnd(of: path, byteCount, check.position)
        }
        guard try self.data.files.status(at: self.absolute(check.folder)) != nil else { return }
        for env in try self.data.files.list(self.absolute(check.folder)) {
            let envPath = Path.join(check.folder, env)
            guard try self.data.files.status(at: self.absolute(envPath))?.kind == .directory else {
                self.report.add(Problem(.stray, envPath, "an export has only folders of environments here"))
                continue
            }
            for date in try self.data.files.list(self.absolute(envPath)) {
                let path = Path.join(envPath, date)
                guard let day = ExportDay(partition: path),
                    try self.data.files.status(at: self.absolute(path))?.kind == .directory
                else {
                    self.report.add(Problem(.stray, path, "an export has only folders of days here"))
                    continue
                }
                try self.readFiles(of: check, day)
            }
        }
    }

    private mutating func readFiles(of check: ExportCheck, _ day: ExportDay) throws(FileSystemError) {
        let folder = Path.join(check.folder, day.description)
        let suffix = "." + check.description.fileExtension
        var tally = ExportTally()
        var stems: Set<String> = []
        let names = try self.data.files.list(self.absolute(folder))
        for name in names {
            switch name {
            case "dead": try self.readDeadLetters(of: check, folder, into: &tally)
            case HeldRecord.fileName: try self.readHeld(of: check, folder, into: &tally)
            case ".generation": check.replayed.insert(day)
            case ".standing": break
            case DayFolder.manifestName, DayFolder.successName: break
            // A crash before the rename leaves it, and the next seal or close overwrites it.
            case _ where name.hasSuffix(DayFolder.manifestName + ".tmp") || name.hasSuffix(suffix + ".gz.tmp"): break
            // Drafts of schemas, which an operator may change and remove.
            case "schemas" where check.options.provider.type.hasSchemas: break
            case _ where PartitionPath.partNumber(of: name) != nil:
                // A part may end in ".json" too.
                let known = [".manifest.json", ".ids", ".delivered", suffix, suffix + ".gz"].first(
                    where: name.hasSuffix)
                if let known {
                    stems.insert(String(name.dropLast(known.utf8.count)))
                } else {
                    self.report.add(Problem(.stray, "\(folder)/\(name)", "exports have no file with this name"))
                }
            default:
                self.report.add(Problem(.stray, "\(folder)/\(name)", "exports have no file with this name"))
            }
        }
        for stem in stems.sorted() { try self.verifyPart("\(folder)/\(stem)", check, into: &tally) }
        try self.verifySeal(of: check, folder, names)
        try self.compareStanding(of: folder, check)
        check.found[day] = tally
    }

    /// Facts about a part from its records and ids.
    private struct PartFacts {
        var recordCount = 0
        var idsCount = 0
        var eventCount = 0
        var first = ""
        var last = ""
        /// The `.ids` line that is cut off.
        var cut: Range<Int>?

        mutating func take(_ line: LineReader<Files>.Line) {
            if !line.isTerminated { self.cut = line.range }
            let ids = line.bytes.split(separator: UInt8(ascii: ","))
            if self.idsCount == 0 { self.first = ids.first.map { String(decoding: $0, as: UTF8.self) } ?? "" }
            self.last = ids.last.map { String(decoding: $0, as: UTF8.self) } ?? ""
            self.idsCount += 1
            self.eventCount += ids.count
        }
    }

    private mutating func verifyPart(
        _ stem: String, _ check: ExportCheck, into tally: inout ExportTally
    ) throws(FileSystemError) {
        let suffix = "." + check.description.fileExtension
        let manifestPath = stem + ".manifest.json"
        let isOpen = check.lengths[stem + ".ids"] != nil
        let number = PartitionPath.partNumber(of: Path.name(of: stem)) ?? 0
        let standing = check.entries["part:" + Path.parent(of: stem)].flatMap { Self.fields(of: $0)["number"] }
        guard isOpen || number < standing.flatMap({ Int($0) }) ?? 0 else {
            return self.unknown(stem + suffix, check.position)
        }
        let closing = check.entries["closed:" + stem]
        var manifest = isOpen ? nil : try self.data.files.contents(of: self.absolute(manifestPath))
        // A crash before it was written leaves it in the checkpoint, from which the next start writes it.
        if !isOpen, manifest == nil { manifest = closing.map { Array($0.utf8) } }
        if !isOpen, manifest == nil {
            self.report.add(Problem(.missing, manifestPath, "the part is closed, but its manifest does not exist"))
        }
        let facts = manifest.flatMap(PartManifest.init(json:))
        if let manifest, facts == nil {
            self.report.add(
                Problem(.damaged, manifestPath, at: 0, byteCount: manifest.count, "it is not a readable manifest"))
        }
        if let manifest, facts != nil, closing == nil { self.verifyChecksum(of: manifest, manifestPath) }
        let isCompressed = facts?.gzipSHA256 != nil
        if isCompressed, closing == nil, try self.data.files.status(at: self.absolute(stem + suffix)) != nil {
            self.unknown(stem + suffix, .max)
        }
        let stored = try self.stored(stem + suffix, isCompressed: isCompressed)
        if let stored, facts != nil, closing == nil, stored.isCompressed, !isCompressed {
            self.report.add(Problem(.disagreement, manifestPath, "it has no gz_sha256, but its part is compressed"))
        }
        if stored == nil { check.unreadable.insert(Path.parent(of: stem)) }
        if stored == nil, !isOpen {
            let name = isCompressed || facts == nil ? stem + suffix + ".gz" : stem + suffix
            self.report.add(Problem(.missing, name, "its manifest exists, but the file does not"))
        }
        if !isOpen, try self.data.files.status(at: self.absolute(stem + ".ids")) == nil {
            self.report.add(Problem(.missing, stem + ".ids", "its part exists, but the file does not"))
        }
        let found = try self.readPart(stem, stored, facts, check, into: &tally)
        if let facts, let found { self.compare(facts, stem, found) }
        if facts != nil { check.closed[Path.parent(of: stem), default: []].append(stem) }
        try self.verifyDelivered(stem, facts)
    }

    /// Reads the records of a part once, each with the line of its ids.
    ///
    /// - Returns: `nil` if they cannot be read, which is reported.
    private mutating func readPart(
        _ stem: String, _ stored: StoredBytes<Files>?, _ facts: PartManifest?, _ check: ExportCheck,
        into tally: inout ExportTally
    ) throws(FileSystemError) -> PartFacts? {
        let suffix = "." + check.description.fileExtension
        let ids = try self.idLines(stem, check)
        var cutter = RecordCutter(RecordFormat(fileExtension: check.description.fileExtension))
        var digest = SHA256Digest()
        var found = PartFacts()
        var failure: FileSystemError?
        var sum = ExportTally()
        func take(_ record: UnsafeRawBufferPointer, _ range: Range<Int>) {
            found.recordCount += 1
            guard failure == nil else { return }
            do throws(FileSystemError) {
                guard let line = try ids?.next() else { return }
                found.take(line)
                SharedRecord.visit(record, ids: line.bytes) { record, id in
                    sum.exported += 1
                    sum.records &+= EventContent(record, id: id).whole
                }
            } catch {
                failure = error
            }
        }
        if let stored {
            let isRead = try self.visit(stored, stem + suffix, upTo: check.lengths[stem + suffix] ?? .max) { piece in
                if facts != nil { digest.update(piece) }
                cutter.take(piece, take)
            }
            cutter.finish(take)
            if let failure { throw failure }
            guard isRead else {
                check.unreadable.insert(Path.parent(of: stem))
                return nil
            }
        }
        while let line = try ids?.next() { found.take(line) }
        if let cut = found.cut {
            self.report.add(
                Problem(
                    .damaged, stem + ".ids", at: cut.lowerBound, byteCount: cut.count, "the last line is cut off"))
        }
        tally = tally.adding(sum)
        guard let stored else { return found }
        if let facts { try self.compareDigests(of: stored, stem + suffix, facts.sha256, facts.gzipSHA256, &digest) }
        if check.isCompared, facts == nil, found.recordCount > 0, cutter.header != check.description.header,
            check.description.fileExtension == "csv"
        {
            self.report.add(
                Problem(
                    .different, stem + suffix, at: 0, byteCount: cutter.header.count,
                    "its header is not that of the export's columns"))
        }
        if found.recordCount != found.idsCount {
            self.report.add(
                Problem(
                    .disagreement, stem + suffix,
                    "it has \(found.recordCount) records, but its .ids list \(found.idsCount)"))
        }
        return found
    }

    /// The lines of an `.ids` file: an object, because a local function that captures a value with a `deinit` may keep it.
    final class IDLines {
        private var reader: LineReader<Files>

        init(_ path: String, byteCount: Int, _ files: Files) throws(FileSystemError) {
            self.reader = try LineReader(path: path, byteCount: byteCount, lineByteCountMax: .max, files: files)
        }

        func next() throws(FileSystemError) -> LineReader<Files>.Line? {
            try self.reader.next()
        }
    }

    /// The `.ids` of a part; `nil` if there are none.
    func idLines(_ stem: String, _ check: ExportCheck) throws(FileSystemError) -> IDLines? {
        let path = self.absolute(stem + ".ids")
        guard try self.data.files.status(at: path) != nil else { return nil }
        return try IDLines(path, byteCount: check.lengths[stem + ".ids"] ?? .max, self.data.files)
    }

    private mutating func compare(_ facts: PartManifest, _ stem: String, _ found: PartFacts) {
        let ids = stem + ".ids"
        if facts.recordCount != found.idsCount || facts.eventCount != found.eventCount {
            self.report.add(
                Problem(
                    .disagreement, ids,
                    "it lists \(found.idsCount) records and \(found.eventCount) events, but the part's manifest states "
                        + "\(facts.recordCount) and \(facts.eventCount)"))
        }
        if facts.firstID != found.first || facts.lastID != found.last {
            self.report.add(Problem(.disagreement, ids, "its first and last id are not those in the part's manifest"))
        }
        let folder = Path.parent(of: stem)
        if !folder.hasSuffix("exports/\(facts.provider)/env=\(facts.env)/date=\(facts.day)") {
            self.report.add(
                Problem(
                    .disagreement, stem + ".manifest.json", "it is of \(facts.provider), \(facts.env), \(facts.day)"))
        }
    }

    /// `key=value` fields.
    private static func fields(of text: String) -> [Substring: Substring] {
        var fields: [Substring: Substring] = [:]
        for field in text.split(separator: " ") {
            let parts = field.split(separator: "=", maxSplits: 1)
            if parts.count == 2 { fields[parts[0]] = parts[1] }
        }
        return fields
    }

    /// Verifies the checkpoint's count of an open part against its `.ids`.
    private mutating func compareStanding(of folder: String, _ check: ExportCheck) throws(FileSystemError) {
        guard let text = check.entries["part:" + folder] else { return }
        let suffix = "." + check.description.fileExtension
        let fields = Self.fields(of: text)
        guard let number = fields["number"].flatMap({ Int($0) }), let records = fields["records"].flatMap({ Int($0) }),
            let bytes = fields["bytes"].flatMap({ Int($0) })
        else {
            self.report.add(Problem(.damaged, check.checkpointPath, "part:\(folder) cannot be read"))
            return
        }
        let stem = "\(folder)/\(PartitionPath.part(number))"
        let length = check.lengths[stem + suffix] ?? 0
        if length != bytes {
            self.report.add(
                Problem(
                    .disagreement, check.checkpointPath, "\(stem)\(suffix) has \(length) bytes, part: states \(bytes)"))
        }
        var lines = 0
        try self.visitLines(of: stem + ".ids", check.lengths[stem + ".ids"] ?? 0) { _, _ in lines += 1 }
        if lines != records {
            self.report.add(
                Problem(.disagreement, stem + ".ids", "it lists \(lines) records, but the checkpoint \(records)"))
        }
    }
}
