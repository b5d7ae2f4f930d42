internal import WaybillArchive
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillJournal
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Verifies each export against the archive, and its manifests against its files.
extension DataVerifier {
    mutating func verifyExport(
        _ name: String, _ checkpoint: Checkpoint, archive: Checkpoint?
    ) throws(FileSystemError) {
        guard var options = self.options(ofExport: name) else {
            return self.report.note(
                "\(checkpoint.path) belongs to a provider that this version does not know; name custom ones with --config"
            )
        }
        let actual = try self.tallies(of: options, checkpoint)
        self.report.total("\(name)_events", actual.values.reduce(0) { $0 + $1.exported })
        self.report.total("\(name)_refused", actual.values.reduce(0) { $0 + $1.refused })
        guard let archive else {
            return self.report.note("\(name) is not compared with the archive, whose checkpoint is missing")
        }
        guard let zone = checkpoint.zone(self.data.files) else {
            return self.report.add(
                Problem(.unreadable, checkpoint.path, "its zone is unknown: no event is compared with the archive")
            )
        }
        options.zone = zone
        if let written = checkpoint.entries["options"], written != options.fingerprint {
            return self.report.note(
                "\(name) is not compared with the archive: it was written with other options; name them with --config")
        }
        if checkpoint.entries["changed"] != nil {
            return self.report.note(
                "\(name) is not compared with the archive: its options changed while it ran; waybill replay regenerates it"
            )
        }
        var run = ExpectedRun(options: options)
        try self.map(archive, export: checkpoint, into: &run)
        self.report.total("\(name)_skipped", run.sink.skippedCount)
        var differing: Set<String> = []
        var notExported = 0
        for day in Set(run.sink.kept.keys).union(run.sink.older.keys).union(actual.keys).sorted() {
            let (kept, older) = (run.sink.kept[day] ?? Tally(), run.sink.older[day] ?? Tally())
            let own = actual[day] ?? Tally()
            if own == kept.adding(older) { continue }
            // An export that was configured later lacks events that the journal had already deleted.
            if older != Tally(), own.holdsAtLeast(kept), kept.adding(older).holdsAtLeast(own) {
                notExported += kept.eventCount + older.eventCount - own.eventCount
                continue
            }
            differing.insert(day)
        }
        if notExported > 0 {
            self.report.note(
                "\(notExported) archived events are older than the journal and not in \(name): it started later; "
                    + "waybill replay --provider \(name) adds them")
        }
        if !differing.isEmpty { try self.explain(differing, checkpoint, archive, options) }
    }

    private func options(ofExport name: String) -> ExportOptions? {
        if let options = self.exports.first(where: { $0.provider.rawValue == name }) { return options }
        return Destination.allCases.first { $0.rawValue == name }.map { ExportOptions(provider: $0) }
    }

    /// The actual or expected content of the files of an environment's day.
    struct Tally: Hashable {
        var exported = 0
        /// The sum of the ids' hashes: equal sets have equal sums, in any order.
        var ids: UInt64 = 0
        var refused = 0

        var eventCount: Int { self.exported + self.refused }

        func adding(_ other: Tally) -> Tally {
            Tally(
                exported: self.exported + other.exported, ids: self.ids &+ other.ids,
                refused: self.refused + other.refused)
        }

        func holdsAtLeast(_ other: Tally) -> Bool {
            self.exported >= other.exported && self.refused >= other.refused
        }
    }

    // MARK: Expected content

    /// Counts what an exporter makes of the archive.
    struct TallySink: ExportSink, ~Copyable {
        var kept: [String: Tally] = [:]
        var older: [String: Tally] = [:]
        var skippedCount = 0
        /// Whether the following events are older than the journal.
        var isOlder = false
        /// Days whose ids are collected, and how often each id is expected.
        var days: Set<String> = []
        var ids: [String: [UInt64: Int]] = [:]
        var texts: [UInt64: String] = [:]

        private static func day(_ env: DeploymentEnvironment, _ day: CalendarDay) -> String {
            "env=\(env.rawValue)/date=\(day)"
        }

        private mutating func change(_ day: String, _ body: (inout Tally) -> Void) {
            if self.isOlder {
                body(&self.older[day, default: Tally()])
            } else {
                body(&self.kept[day, default: Tally()])
            }
        }

        mutating func write(_ record: ExportRecord) {
            let day = Self.day(record.env, record.day)
            var sum: UInt64 = 0
            for id in record.ids.split(separator: UInt8(ascii: ",")) {
                let hash = FNV1a.hash(id)
                sum &+= hash
                guard self.days.contains(day) else { continue }
                self.ids[day, default: [:]][hash, default: 0] += 1
                self.texts[hash] = String(decoding: id, as: UTF8.self)
            }
            self.change(day) {
                $0.exported += record.eventCount
                $0.ids &+= sum
            }
        }

        mutating func refuse(_ refusal: Refusal) {
            self.change(Self.day(refusal.env, refusal.day)) { $0.refused += 1 }
        }

        /// A seal exports held events.
        mutating func hold(_ event: HeldEvent) {
            self.write(event.record)
        }

        mutating func skip(_ reason: NotExported) {
            self.skippedCount += 1
        }
    }

    /// An exporter and its results.
    struct ExpectedRun: ~Copyable {
        var exporter: Exporter
        var sink = TallySink()
        private var readers = EventReaders()

        init(options: ExportOptions) {
            self.exporter = Exporter(options)
        }

        mutating func take(
            _ raw: UnsafeRawBufferPointer, of description: StreamDescription, from offset: StreamOffset,
            receivedAt: WallTime
        ) {
            let reader = self.readers.reader(for: description)
            raw.forEachLine { range in
                let line = UnsafeRawBufferPointer(rebasing: raw[range])
                guard case .event(let facts) = reader.read(line) else { return }
                self.exporter.export(
                    line, facts, source: reader.source, at: offset.rawValue + UInt64(range.lowerBound),
                    receivedAt: receivedAt, isAgeJudged: true, to: &self.sink)
            }
            self.exporter.finishGroup(to: &self.sink)
        }
    }

    /// Maps every line that the export must have received: the archive's up to the export's checkpoint, and the
    /// journal's from the archive's checkpoint on.
    private mutating func map(
        _ archive: Checkpoint, export: Checkpoint, into run: inout ExpectedRun
    ) throws(FileSystemError) {
        for part in self.parts(archive) { try self.map(part, export, into: &run) }
        run.sink.isOlder = false
        guard archive.position < export.position else { return }
        var reader = BatchReader(
            journalDirectory: self.data.journal, position: archive.position, files: self.data.files)
        while let batch = try reader.next(upTo: min(export.position, self.journalEnd)) {
            run.take(batch.raw, of: batch.description, from: batch.offset, receivedAt: batch.receivedAt)
        }
    }

    /// The archive's files with lines, in the order of their paths.
    private func parts(_ archive: Checkpoint) -> [ArchiveIndex<Files>.Part] {
        var parts: [ArchiveIndex<Files>.Part] = []
        for (path, file) in self.sealedFiles {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            parts.append(
                ArchiveIndex.Part(
                    path: path, folder: folder, byteCount: file.byteCount, sourcesByteCount: file.sourcesByteCount,
                    sealed: file))
        }
        for (path, byteCount) in archive.lengths where path.hasSuffix(".ndjson") && self.sealedFiles[path] == nil {
            guard let folder = DayFolder(path: Path.parent(of: path)) else { continue }
            parts.append(
                ArchiveIndex.Part(
                    path: path, folder: folder, byteCount: byteCount,
                    sourcesByteCount: archive.lengths[path.dropLast(7) + ".sources"] ?? 0, sealed: nil))
        }
        return parts.sorted { $0.path < $1.path }
    }

    private mutating func map(
        _ part: ArchiveIndex<Files>.Part, _ export: Checkpoint, into run: inout ExpectedRun
    ) throws(FileSystemError) {
        let name = part.sealed == nil ? part.path : part.path + ".gz"
        guard try self.data.files.status(at: self.absolute(name)) != nil else { return }
        var reader = try PartReader(part, data: self.data)
        while true {
            let next: (run: SourceRun, bytes: UnsafeRawBufferPointer)?
            do throws(PartReadError) {
                next = try reader.next()
            } catch {
                // Damage was reported when the archive was read.
                guard case .disk(let cause) = error else { return }
                throw cause
            }
            guard let (source, bytes) = next else { return }
            let position = self.position(of: source)
            if let position, position >= export.position { continue }
            run.sink.isOlder = position == nil
            run.take(bytes, of: source.description, from: source.offset, receivedAt: source.receivedAt)
        }
    }

    // MARK: Actual content

    private mutating func tallies(
        of options: ExportOptions, _ checkpoint: Checkpoint
    ) throws(FileSystemError) -> [String: Tally] {
        let top = "exports/\(options.provider.rawValue)"
        var tallies: [String: Tally] = [:]
        for (path, byteCount) in checkpoint.lengths.sorted(by: { $0.key < $1.key }) {
            _ = try self.checkedLength(path, byteCount)
        }
        guard try self.data.files.status(at: self.absolute(top)) != nil else { return [:] }
        for env in try self.data.files.list(self.absolute(top)) {
            let envPath = Path.join(top, env)
            guard try self.data.files.status(at: self.absolute(envPath))?.kind == .directory else {
                self.report.add(Problem(.stray, envPath, "an export has only folders of environments here"))
                continue
            }
            for date in try self.data.files.list(self.absolute(envPath)) {
                let folder = Path.join(envPath, date)
                tallies["\(env)/\(date)"] = try self.tally(of: folder, options, checkpoint)
            }
        }
        return tallies
    }

    private mutating func tally(
        of folder: String, _ options: ExportOptions, _ checkpoint: Checkpoint
    ) throws(FileSystemError) -> Tally {
        let suffix = "." + Exporter(options).description.fileExtension
        var tally = Tally()
        var stems: Set<String> = []
        for name in try self.data.files.list(self.absolute(folder)) {
            switch name {
            case "dead":
                tally.refused += try self.refusedCount(in: folder, checkpoint)
            case HeldRecord.fileName:
                try self.visitHeld(in: folder, checkpoint) { id in
                    tally.exported += 1
                    tally.ids &+= FNV1a.hash(id)
                }
            case ".generation", ".standing": break
            case DayFolder.manifestName: try self.verifyDay(folder)
            case DayFolder.successName: break
            // A crash before the rename leaves it, and the next seal or close overwrites it.
            case _ where name.hasSuffix(DayFolder.manifestName + ".tmp") || name.hasSuffix(suffix + ".gz.tmp"): break
            // Drafts of schemas, which an operator may change and remove.
            case "schemas" where options.provider == .snowplow: break
            case _ where PartitionPath.partNumber(of: name) != nil:
                let known = [suffix, suffix + ".gz", ".ids", ".manifest.json", ".delivered"].first(
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
        for stem in stems.sorted() {
            try self.verifyPart("\(folder)/\(stem)", suffix, checkpoint, into: &tally)
        }
        try self.compareStanding(of: folder, suffix, checkpoint)
        return tally
    }

    /// Facts about a part from its ids.
    private struct PartIDs {
        var recordCount = 0
        var eventCount = 0
        var first = ""
        var last = ""
    }

    /// Verifies a sealed day's manifest against those of its parts.
    private mutating func verifyDay(_ folder: String) throws(FileSystemError) {
        let path = Path.join(folder, DayFolder.manifestName)
        guard let bytes = try self.data.files.contents(of: self.absolute(path)) else { return }
        guard let manifest = ExportDayManifest(json: bytes) else {
            return self.report.add(
                Problem(.damaged, path, at: 0, byteCount: bytes.count, "it is not a readable manifest"))
        }
        for part in manifest.parts {
            let stem = part.name.prefix { $0 != "." }
            let own = try self.data.files.contents(of: self.absolute("\(folder)/\(stem).manifest.json"))
                .flatMap(PartManifest.init(json:))
            let isThere = try self.data.files.status(at: self.absolute("\(folder)/\(part.name)")) != nil
            if isThere, own.map({ ExportDayManifest.Part(name: part.name, $0) }) == part { continue }
            self.report.add(
                Problem(.disagreement, path, "its entry for \(part.name) differs from the part's own manifest"))
        }
    }

    private mutating func verifyPart(
        _ stem: String, _ suffix: String, _ checkpoint: Checkpoint, into tally: inout Tally
    ) throws(FileSystemError) {
        let manifestPath = stem + ".manifest.json"
        let isOpen = checkpoint.lengths[stem + ".ids"] != nil
        let number = PartitionPath.partNumber(of: Path.name(of: stem)) ?? 0
        let standing = checkpoint.entries["part:" + Path.parent(of: stem)].flatMap { Self.fields(of: $0)["number"] }
        guard isOpen || number < standing.flatMap({ Int($0) }) ?? 0 else { return self.unknown(stem + suffix) }
        var manifest = isOpen ? nil : try self.data.files.contents(of: self.absolute(manifestPath))
        // A crash before it was written leaves it in the checkpoint, from which the next start writes it.
        if !isOpen, manifest == nil { manifest = checkpoint.entries["closed:" + stem].map { Array($0.utf8) } }
        if !isOpen, manifest == nil {
            self.report.add(Problem(.missing, manifestPath, "the part is closed, but its manifest does not exist"))
        }
        var ids = PartIDs()
        let idsLength = checkpoint.lengths[stem + ".ids"] ?? Int.max
        try self.visitLines(of: stem + ".ids", idsLength) { line, _ in
            if ids.recordCount == 0 { ids.first = String(decoding: line, as: UTF8.self) }
            ids.last = String(decoding: line, as: UTF8.self)
            ids.recordCount += 1
            for id in line.split(separator: UInt8(ascii: ",")) {
                ids.eventCount += 1
                tally.ids &+= FNV1a.hash(id)
            }
        }
        tally.exported += ids.eventCount
        let length = checkpoint.lengths[stem + suffix] ?? Int.max
        let facts = manifest.flatMap(PartManifest.init(json:))
        let isCompressed = facts?.gzipSHA256 != nil
        if isCompressed, checkpoint.entries["closed:" + stem] == nil,
            try self.data.files.status(at: self.absolute(stem + suffix)) != nil
        {
            self.unknown(stem + suffix)
        }
        let stored = try self.stored(stem + suffix, isCompressed: isCompressed)
        if let stored, !isOpen, checkpoint.entries["closed:" + stem] == nil, stored.isCompressed, !isCompressed {
            self.report.add(Problem(.disagreement, manifestPath, "it has no gz_sha256, but its part is compressed"))
        }
        if let stored, let records = try self.recordCount(of: stored, stem + suffix, length, isOpen: isOpen),
            records != ids.recordCount
        {
            self.report.add(
                Problem(
                    .disagreement, stem + suffix, "it has \(records) records, but its .ids list \(ids.recordCount)"))
        }
        if let manifest { try self.verify(manifest, manifestPath, stored, stem + suffix, ids) }
    }

    private mutating func verify(
        _ manifest: [UInt8], _ path: String, _ stored: StoredBytes<Files>?, _ part: String, _ ids: PartIDs
    ) throws(FileSystemError) {
        guard let facts = PartManifest(json: manifest) else {
            self.report.add(Problem(.damaged, path, at: 0, byteCount: manifest.count, "it is not a readable manifest"))
            return
        }
        if let stored {
            try self.verifyDigests(of: stored, part, facts.sha256, facts.gzipSHA256)
        } else {
            let name = facts.gzipSHA256 == nil ? part : part + ".gz"
            self.report.add(Problem(.missing, name, "its manifest exists, but the file does not"))
        }
        if facts.recordCount != ids.recordCount || facts.eventCount != ids.eventCount {
            self.report.add(
                Problem(
                    .disagreement, path,
                    "it has \(facts.recordCount) records and \(facts.eventCount) events, but the .ids \(ids.recordCount) and "
                        + "\(ids.eventCount)"))
        }
        let first = ids.first.split(separator: ",").first.map(String.init) ?? ""
        let last = ids.last.split(separator: ",").last.map(String.init) ?? ""
        if facts.firstID != first || facts.lastID != last {
            self.report.add(Problem(.disagreement, path, "first_id and last_id are not those of the .ids"))
        }
        let folder = Path.parent(of: path)
        if !folder.hasSuffix("exports/\(facts.provider)/env=\(facts.env)/date=\(facts.day)") {
            self.report.add(
                Problem(.disagreement, path, "it is of \(facts.provider), \(facts.env), \(facts.day)"))
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
    private mutating func compareStanding(
        of folder: String, _ suffix: String, _ checkpoint: Checkpoint
    ) throws(FileSystemError) {
        guard let text = checkpoint.entries["part:" + folder] else { return }
        let fields = Self.fields(of: text)
        guard let number = fields["number"].flatMap({ Int($0) }), let records = fields["records"].flatMap({ Int($0) }),
            let bytes = fields["bytes"].flatMap({ Int($0) })
        else {
            self.report.add(Problem(.damaged, checkpoint.path, "part:\(folder) cannot be read"))
            return
        }
        let stem = "\(folder)/\(PartitionPath.part(number))"
        let length = checkpoint.lengths[stem + suffix] ?? 0
        if length != bytes {
            self.report.add(
                Problem(.disagreement, checkpoint.path, "\(stem)\(suffix) has \(length) bytes, part: states \(bytes)"))
        }
        var lines = 0
        try self.visitLines(of: stem + ".ids", checkpoint.lengths[stem + ".ids"] ?? 0) { _, _ in lines += 1 }
        if lines != records {
            self.report.add(
                Problem(.disagreement, stem + ".ids", "it lists \(lines) records, but the checkpoint \(records)"))
        }
    }

    // MARK: Explaining differences

    /// Reports the events in which a day's files and the archive differ.
    private mutating func explain(
        _ days: Set<String>, _ checkpoint: Checkpoint, _ archive: Checkpoint, _ options: ExportOptions
    ) throws(FileSystemError) {
        var run = ExpectedRun(options: options)
        run.sink.days = days
        try self.map(archive, export: checkpoint, into: &run)
        for day in days.sorted() {
            let folder = "exports/\(options.provider.rawValue)/\(day)"
            var expected = run.sink.ids[day] ?? [:]
            var isNamed = false
            try self.visitHeld(in: folder, checkpoint) { expected[FNV1a.hash($0)]? -= 1 }
            for stem in try self.stems(in: folder) {
                let length = checkpoint.lengths[stem + ".ids"] ?? Int.max
                var alien: [(text: String, offset: Int)] = []
                try self.visitLines(of: stem + ".ids", length) { line, offset in
                    for id in line.split(separator: UInt8(ascii: ",")) {
                        let hash = FNV1a.hash(id)
                        if let count = expected[hash], count > 0 {
                            expected[hash] = count - 1
                        } else if alien.count < 100 {
                            alien.append((String(decoding: id, as: UTF8.self), offset))
                        }
                    }
                }
                for event in alien {
                    isNamed = true
                    let isKnown = run.sink.texts[FNV1a.hash(event.text.utf8)] != nil
                    self.report.add(
                        Problem(
                            isKnown ? .repeated : .unexplained, stem + ".ids", at: event.offset,
                            isKnown
                                ? "event \(event.text) is exported more often than archived"
                                : "event \(event.text) is not in the archive"))
                }
            }
            for (hash, count) in expected.filter({ $0.value > 0 }).sorted(by: { $0.key < $1.key }).prefix(100) {
                isNamed = true
                self.report.add(
                    Problem(
                        .lost, folder,
                        "event \(run.sink.texts[hash] ?? "?") is archived and not exported (\(count) times)"))
            }
            if !isNamed {
                let own = (run.sink.kept[day] ?? Tally()).adding(run.sink.older[day] ?? Tally())
                self.report.add(
                    Problem(
                        .disagreement, folder,
                        "the archive yields \(own.exported) exported or held and \(own.refused) refused events; the files have "
                            + "a different number of refused events"))
            }
        }
    }

    private func stems(in folder: String) throws(FileSystemError) -> [String] {
        guard try self.data.files.status(at: self.absolute(folder)) != nil else { return [] }
        return try self.data.files.list(self.absolute(folder)).filter {
            $0.hasSuffix(".ids") && PartitionPath.partNumber(of: $0) != nil
        }.map { Path.join(folder, String($0.dropLast(4))) }
    }
}
