internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// Verifies the archive and the quarantine against the journal.
extension DataVerifier {
    /// A run of a batch that is still in the journal.
    struct Found {
        let stem: Int
        let range: Range<Int>
        let lineCount: Int
        let emptyLineCount: Int
        let receivedAt: WallTime
        let description: StreamDescription
        /// The checksum of a sealed file's run, whose bytes cannot be read again without decompressing all bytes before
        /// them.
        let checksum: UInt32?
        var isExpected = false
    }

    struct Archived {
        var stems: [String] = []
        var runs: [RunKey: [Found]] = [:]
        /// By the position of a batch: the files with its runs.
        var stemsOfBatches: [JournalPosition: Set<Int>] = [:]
        /// The position up to which each file's lines were compared.
        var ends: [Int: Int] = [:]
        var lineCount = 0
        var olderLineCount = 0
        var erasedLineCount = 0
        /// Lines of the journal whose day or file retention has deleted.
        var deletedLineCount = 0
        var byteCount = 0
    }

    mutating func verifyArchive(_ checkpoint: ProjectionCheckpoint) throws(FileSystemError) {
        var archived = Archived()
        try self.readSealedDays(checkpoint, into: &archived)
        for (path, byteCount) in checkpoint.lengths.sorted(by: { $0.key < $1.key })
        where path.hasSuffix(".ndjson") && self.sealedFiles[path] == nil {
            try self.readPair(String(path.dropLast(7)), byteCount, checkpoint, into: &archived)
        }
        try self.compareWithJournal(checkpoint, &archived)
        let unexpected = archived.runs.filter { $0.value.contains { !$0.isExpected } }
        for (key, founds) in unexpected.sorted(by: { $0.value[0].range.lowerBound < $1.value[0].range.lowerBound }) {
            // A day that was sealed after the checkpoint was read may contain more than the checkpoint covers.
            if let position = self.position(of: key), position >= checkpoint.position { continue }
            for found in founds where !found.isExpected {
                self.report.add(
                    Problem(
                        .repeated, archived.stems[found.stem] + ".ndjson", at: found.range.lowerBound,
                        byteCount: found.range.count,
                        "stream \(key.name) offset \(key.offset.rawValue) is here, but the journal has it elsewhere or "
                            + "only once"))
            }
        }
        try self.lookForStrayParts(checkpoint)
        self.report.total("archive_lines", archived.lineCount)
        self.report.total("archive_bytes", archived.byteCount)
        if archived.erasedLineCount > 0 { self.report.total("erased_lines", archived.erasedLineCount) }
        self.report.total("archive_lines_older_than_journal", archived.olderLineCount)
        guard archived.deletedLineCount > 0 else { return }
        self.report.total("deleted_lines", archived.deletedLineCount)
        self.report.note(
            "\(archived.deletedLineCount) lines of the journal are in days that retention deleted; "
                + "archive/_deleted.ndjson lists them")
    }

    /// Whether retention has deleted the day, or one of its files, that a batch's lines went to.
    private func isDeleted(_ route: ArchiveRouter.Route) -> Bool {
        self.deletedPaths.contains(route.place) || self.deletedPaths.contains(Path.parent(of: route.place))
            || route.isDay && self.deletedPaths.contains { Path.parent(of: $0) == route.place }
    }

    /// The length of a file according to its checkpoint; reports a problem if the file is shorter.
    mutating func checkedLength(_ path: String, _ expected: Int) throws(FileSystemError) -> Int {
        let byteCount = try self.data.files.status(at: self.absolute(path))?.byteCount
        if let problem = FileSet<Files>.verify(path, byteCount, stated: expected) { self.report.add(problem) }
        return min(byteCount ?? 0, expected)
    }

    private mutating func readPair(
        _ stem: String, _ expected: Int, _ checkpoint: ProjectionCheckpoint, into archived: inout Archived
    ) throws(FileSystemError) {
        let check = OpenLinesCheck(stem: stem, root: self.data.root, files: self.data.files)
        let stated = [(check.path, expected), (check.sourcesPath, checkpoint.lengths[check.sourcesPath] ?? 0)]
        var lengths: [Int] = []
        for (path, length) in stated { lengths.append(try self.checkedLength(path, length)) }
        for (path, length) in stated { try self.lookPastEnd(of: path, length, checkpoint.position.rawValue) }
        archived.stems.append(stem)
        archived.byteCount += lengths[0]
        let (contents, problems) = try check.verify(byteCount: lengths[0], sourcesByteCount: lengths[1]) {
            self.note($0, lineCount: $1, checksum: nil, in: &archived)
        }
        self.report.add(problems)
        archived.lineCount += contents.lineCount
        archived.erasedLineCount += contents.erasedLineCount
    }

    /// Records where the lines of a run were found.
    func note(_ run: SourceRun, lineCount: Int, checksum: UInt32?, in archived: inout Archived) {
        guard let position = self.position(of: run) else {
            archived.olderLineCount += lineCount
            return
        }
        archived.stemsOfBatches[position, default: []].insert(archived.stems.count - 1)
        archived.runs[RunKey(name: run.description.name, offset: run.offset), default: []].append(
            Found(
                stem: archived.stems.count - 1, range: run.range, lineCount: run.lineCount,
                emptyLineCount: run.emptyLineCount, receivedAt: run.receivedAt, description: run.description,
                checksum: checksum))
    }

    /// Routes every batch covered by the archive's checkpoint again, and looks for its lines where they belong.
    private mutating func compareWithJournal(
        _ checkpoint: ProjectionCheckpoint, _ archived: inout Archived
    ) throws(FileSystemError) {
        guard let zone = checkpoint.zone(self.data.files) else {
            return self.report.add(
                Problem(.unreadable, checkpoint.path, "its zone is unknown: no line is compared with the journal"))
        }
        var router = ArchiveRouter(
            zone: zone, apps: try ArchiveRouter.apps(in: self.data, checkpoint.lengths.keys),
            erased: try ErasedPeople.read(in: self.data), poison: try PoisonedLines.read(in: self.data))
        var reader = BatchReader(
            journalDirectory: self.data.journal, position: self.journalFirst, files: self.data.files)
        var lineCount = 0
        defer { self.closeCompared() }
        while let batch = try reader.next(upTo: min(checkpoint.position, self.journalEnd)) {
            guard !self.handed.contains(where: { $0.contains(batch.position) }) else { continue }
            let stems = archived.stemsOfBatches[batch.position] ?? []
            let places = Set(stems.map { Path.parent(of: archived.stems[$0]) })
            let counts = router.route(batch) { places.contains($0) }
            lineCount += counts.archived + counts.quarantined
            for index in router.touched {
                try self.compare(router.routes[index], of: batch, &archived)
            }
            _ = router.finishBatch()
        }
        self.report.total("journal_lines_compared", lineCount)
    }

    private mutating func compare(
        _ route: ArchiveRouter.Route, of batch: ProjectedBatch, _ archived: inout Archived
    ) throws(FileSystemError) {
        var missing: (offset: StreamOffset, lineCount: Int, byteCount: Int)?
        for run in route.runs where try !self.compare(run, route, of: batch, &archived) {
            missing = (
                missing?.offset ?? batch.offset.advanced(by: run.range.lowerBound),
                (missing?.lineCount ?? 0) + run.lineCount, (missing?.byteCount ?? 0) + run.byteCount(of: batch.raw)
            )
        }
        guard let missing else { return }
        guard !self.isDeleted(route) else {
            archived.deletedLineCount += missing.lineCount
            return
        }
        self.report.add(
            Problem(
                .lost, self.expectedPath(of: route, batch, archived), byteCount: missing.byteCount,
                "\(missing.lineCount) lines of stream \(batch.description.name), the first at offset "
                    + "\(missing.offset.rawValue), journal \(batch.position), are not here according to its .sources"))
    }

    /// - Returns: whether the run was found.
    private mutating func compare(
        _ run: RoutedRun, _ route: ArchiveRouter.Route, of batch: ProjectedBatch, _ archived: inout Archived
    ) throws(FileSystemError) -> Bool {
        let expected = run.source(of: batch, at: 0)
        let key = RunKey(name: batch.description.name, offset: expected.offset)
        let index = archived.runs[key]?.firstIndex { found in
            !found.isExpected && route.mayBe(in: archived.stems[found.stem])
        }
        guard let index, let found = archived.runs[key]?[index] else { return false }
        let origin = "stream \(key.name) offset \(key.offset.rawValue), journal \(batch.position)"
        archived.runs[key]?[index].isExpected = true
        let stem = found.stem
        let path = archived.stems[stem] + (found.checksum == nil ? ".ndjson" : ".ndjson.gz")
        if found.range.lowerBound < archived.ends[stem, default: 0] {
            self.report.add(
                Problem(
                    .different, path, at: found.range.lowerBound, byteCount: found.range.count,
                    "\(origin) comes before lines that precede it in the journal"))
        }
        archived.ends[stem] = found.range.upperBound
        if found.range.count != expected.range.count || found.lineCount != expected.lineCount
            || found.emptyLineCount != expected.emptyLineCount || found.receivedAt != batch.receivedAt
        {
            self.report.add(
                Problem(
                    .disagreement, archived.stems[stem] + ".sources",
                    "\(origin): \(found.lineCount) lines, \(found.range.count) bytes, received \(found.receivedAt.milliseconds);"
                        + " the journal has \(expected.lineCount), \(expected.range.count), "
                        + "\(batch.receivedAt.milliseconds)"))
        }
        if found.description != batch.description {
            self.report.add(
                Problem(
                    .disagreement, archived.stems[stem] + ".sources",
                    "\(origin): the stream has another description"))
        }
        if let checksum = found.checksum {
            var received: UInt32 = 0
            run.pieces(of: batch.raw) { received = FrameChecksum.checksum(continuing: received, $0) }
            guard checksum != received else { return true }
            self.report.add(
                Problem(
                    .different, path, at: found.range.lowerBound, byteCount: found.range.count,
                    "after decompression, these lines are not what was received for \(origin)"))
        } else if let offset = try self.firstDifference(in: path, from: found.range.lowerBound, run, batch.raw) {
            self.report.add(
                Problem(
                    .different, path, at: offset, byteCount: nil, "differs here from what was received for \(origin)"))
        }
        return true
    }

    /// The file that a batch's lines belong in: the first sealed file of their day that covers the batch, or the open
    /// one.
    private func expectedPath(
        of route: ArchiveRouter.Route, _ batch: ProjectedBatch, _ archived: Archived
    ) -> String {
        let stems = archived.stems.filter { route.mayBe(in: $0) }
        let sealed = stems.first { (self.sealedFiles[$0 + ".ndjson"]?.position).map { batch.position < $0 } ?? false }
        if let sealed { return sealed + ".ndjson.gz" }
        return (stems.last { self.sealedFiles[$0 + ".ndjson"] == nil } ?? route.place) + ".ndjson"
    }

    /// The first byte in a file that differs from the run's lines.
    private mutating func firstDifference(
        in path: String, from start: Int, _ run: RoutedRun, _ raw: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> Int? {
        let file = try self.openCompared(path)
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(1, run.byteCount(of: raw)), alignment: 16)
        defer { buffer.deallocate() }
        let count = try self.data.files.readFully(file, at: start, into: buffer)
        var position = 0
        var difference: Int?
        run.pieces(of: raw) { piece in
            guard difference == nil else { return }
            let own = UnsafeRawBufferPointer(
                rebasing: UnsafeRawBufferPointer(buffer)[
                    min(position, count)..<min(position + piece.count, count)])
            if !own.elementsEqual(piece) {
                let same = zip(own, piece).prefix { $0 == $1 }.count
                difference = start + position + same
            }
            position += piece.count
        }
        return difference
    }

    /// Looks for files in the archive's folders that are not in the checkpoint.
    private mutating func lookForStrayParts(_ checkpoint: ProjectionCheckpoint) throws(FileSystemError) {
        for root in ["archive", "quarantine"] {
            try self.walk(root) { verifier, path in
                guard checkpoint.lengths[path] == nil, !verifier.isOfSealedDay(path) else { return }
                // The next start redoes an unfinished seal.
                let isUnderWay = checkpoint.entries["seal:" + Path.parent(of: path)] != nil
                if isUnderWay, path.hasSuffix(".gz") || path.hasSuffix(".tmp") { return }
                verifier.unknown(path, checkpoint.position.rawValue)
            }
        }
    }

    /// Whether a file is listed in a manifest, or is one of the receiver's records.
    private func isOfSealedDay(_ path: String) -> Bool {
        let name = Path.name(of: path)
        if ["archive", "quarantine"].contains(Path.parent(of: path)) { return name.hasPrefix("_") }
        if name == DayFolder.manifestName || name == DayFolder.successName {
            return DayFolder(path: Path.parent(of: path)) != nil
        }
        for suffix in [".ndjson.gz", ".sources"] where path.hasSuffix(suffix) {
            return self.sealedFiles[path.dropLast(suffix.utf8.count) + ".ndjson"] != nil
        }
        return false
    }

    mutating func walk(
        _ path: String, _ visit: (inout Self, _ path: String) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard let status = try self.data.files.status(at: self.absolute(path)) else { return }
        guard status.kind == .directory else { return try visit(&self, path) }
        for name in try self.data.files.list(self.absolute(path)) { try self.walk(Path.join(path, name), visit) }
    }
}
