internal import WaybillArchive
internal import WaybillJournal
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// The archive and the quarantine against the journal.
extension DataVerifier {
    /// A run of a batch that the journal still has.
    private struct Found {
        let stem: Int
        let range: Range<Int>
        let lineCount: Int
        let receivedAt: WallTime
        let description: StreamDescription
        var isExpected = false
    }

    private struct Archived {
        var stems: [String] = []
        var runs: [BatchKey: [Found]] = [:]
        /// How far each file's lines were compared.
        var ends: [Int: Int] = [:]
        /// Files in which a run did not hold the lines that it should.
        var moved: Set<String> = []
        var lineCount = 0
        var olderLineCount = 0
        var byteCount = 0
    }

    mutating func verifyArchive(_ checkpoint: Checkpoint) throws(FileSystemError) {
        var archived = Archived()
        for (path, byteCount) in checkpoint.lengths.sorted(by: { $0.key < $1.key }) where path.hasSuffix(".ndjson") {
            try self.readPair(String(path.dropLast(7)), byteCount, checkpoint, into: &archived)
        }
        try self.compareWithJournal(checkpoint, &archived)
        for (key, founds) in archived.runs.sorted(by: { $0.value[0].range.lowerBound < $1.value[0].range.lowerBound }) {
            for found in founds where !found.isExpected {
                self.report.add(
                    Problem(
                        .repeated, archived.stems[found.stem] + ".ndjson", at: found.range.lowerBound,
                        byteCount: found.range.count,
                        "stream \(key.id) offset \(key.offset.rawValue) is here though the journal puts it elsewhere, or "
                            + "once more"))
            }
        }
        try self.lookForStrayParts(checkpoint)
        self.report.total("archive_lines", archived.lineCount)
        self.report.total("archive_bytes", archived.byteCount)
        self.report.total("archive_lines_older_than_journal", archived.olderLineCount)
    }

    /// Length of a file as far as its checkpoint goes; a problem where it is shorter.
    mutating func checkedLength(_ path: String, _ expected: Int) throws(FileSystemError) -> Int {
        guard let status = try self.data.files.status(at: self.absolute(path)) else {
            if expected > 0 {
                self.report.add(Problem(.missing, path, at: 0, byteCount: expected, "the checkpoint says it is there"))
            }
            return 0
        }
        if status.byteCount < expected {
            self.report.add(
                Problem(
                    .short, path, at: status.byteCount, byteCount: expected - status.byteCount,
                    "the checkpoint says \(expected) bytes"))
        }
        return min(status.byteCount, expected)
    }

    private mutating func readPair(
        _ stem: String, _ expected: Int, _ checkpoint: Checkpoint, into archived: inout Archived
    ) throws(FileSystemError) {
        let lines = try self.checkedLength(stem + ".ndjson", expected)
        let sources = try self.checkedLength(stem + ".sources", checkpoint.lengths[stem + ".sources"] ?? 0)
        archived.stems.append(stem)
        archived.byteCount += lines
        guard lines > 0 else { return }
        var reader: LineReader<Files>? = try LineReader(
            path: self.absolute(stem + ".ndjson"), byteCount: lines, files: self.data.files)
        if sources > 0 {
            var runs = try SourceRuns(
                path: self.absolute(stem + ".sources"), byteCount: sources, linesByteCount: lines,
                files: self.data.files)
            while let item = try runs.next() {
                switch item {
                case .open: break
                case .damaged(let range, let reason):
                    self.report.add(
                        Problem(.damaged, stem + ".sources", at: range.lowerBound, byteCount: range.count, reason))
                case .run(let run, _):
                    try self.take(run, stem, &reader, into: &archived)
                }
            }
        }
        guard let position = reader?.position, position < lines else { return }
        self.report.add(
            Problem(
                .unexplained, stem + ".ndjson", at: position, byteCount: lines - position,
                "no run says where it came from"))
        archived.lineCount += try Self.lineCount(&reader, upTo: lines)
    }

    private mutating func take(
        _ run: SourceRun, _ stem: String, _ reader: inout LineReader<Files>?, into archived: inout Archived
    ) throws(FileSystemError) {
        let path = stem + ".ndjson"
        if let position = reader?.position, position < run.range.lowerBound {
            self.report.add(
                Problem(
                    .unexplained, path, at: position, byteCount: run.range.lowerBound - position,
                    "no run says where it came from"))
            archived.lineCount += try Self.lineCount(&reader, upTo: run.range.lowerBound)
        }
        if reader?.position != run.range.lowerBound {
            reader = try LineReader(
                path: self.absolute(path), from: run.range.lowerBound, byteCount: run.range.upperBound,
                files: self.data.files)
        }
        let count = try Self.lineCount(&reader, upTo: run.range.upperBound)
        archived.lineCount += count
        if count != run.lineCount || reader?.position != run.range.upperBound {
            // The lines behind it are moved as well, which says nothing new.
            if archived.moved.insert(stem).inserted {
                self.report.add(
                    Problem(
                        .different, path, at: run.range.lowerBound, byteCount: run.range.count,
                        "the .sources say \(run.lineCount) lines, these are \(count)"
                            + (reader?.position == run.range.upperBound ? "" : ", and the run ends within a line")))
            }
            reader = try LineReader(
                path: self.absolute(path), from: run.range.upperBound,
                byteCount: try self.data.files.status(at: self.absolute(path))?.byteCount ?? 0, files: self.data.files)
        }
        let key = BatchKey(id: run.description.id, offset: run.offset)
        guard self.positions[key] != nil else {
            archived.olderLineCount += count
            return
        }
        archived.runs[key, default: []].append(
            Found(
                stem: archived.stems.count - 1, range: run.range, lineCount: run.lineCount, receivedAt: run.receivedAt,
                description: run.description))
    }

    /// Lines up to `end`; stands behind the line that reaches it.
    private static func lineCount(
        _ reader: inout LineReader<Files>?, upTo end: Int
    ) throws(FileSystemError) -> Int {
        var count = 0
        while let position = reader?.position, position < end, try reader?.next() != nil { count += 1 }
        return count
    }

    /// Routes every batch that the archive's checkpoint stands for anew, and looks for its lines where they belong.
    private mutating func compareWithJournal(
        _ checkpoint: Checkpoint, _ archived: inout Archived
    ) throws(FileSystemError) {
        guard let zone = checkpoint.zone(self.data.files) else {
            return self.report.add(
                Problem(.unreadable, checkpoint.path, "its zone is unknown here: no line is compared with the journal"))
        }
        var stems: [String: Int] = [:]
        for (index, stem) in archived.stems.enumerated() { stems[stem] = index }
        var router = ArchiveRouter(zone: zone, apps: ArchiveRouter.apps(in: checkpoint.lengths.keys))
        var reader = BatchReader(
            journalDirectory: self.data.journal, position: self.journalFirst, files: self.data.files)
        var lineCount = 0
        while let batch = try reader.next(upTo: min(checkpoint.position, self.journalEnd)) {
            let counts = router.route(batch)
            lineCount += counts.archived + counts.quarantined
            for index in router.touched {
                try self.compare(router.routes[index], of: batch, stems, &archived)
            }
            _ = router.finishBatch()
        }
        self.report.total("journal_lines_compared", lineCount)
    }

    private mutating func compare(
        _ route: ArchiveRouter.Route, of batch: ProjectedBatch, _ stems: [String: Int], _ archived: inout Archived
    ) throws(FileSystemError) {
        let path = route.path + ".ndjson"
        let key = BatchKey(id: batch.description.id, offset: batch.offset)
        let origin = "stream \(key.id) offset \(key.offset.rawValue), journal \(batch.position)"
        guard let stem = stems[route.path],
            let index = archived.runs[key]?.firstIndex(where: { $0.stem == stem && !$0.isExpected }),
            let found = archived.runs[key]?[index]
        else {
            self.report.add(
                Problem(
                    .lost, path, byteCount: route.byteCount(of: batch.raw),
                    "\(route.lineCount) lines of \(origin) are not here by its .sources"))
            return
        }
        archived.runs[key]?[index].isExpected = true
        if found.range.lowerBound < archived.ends[stem, default: 0] {
            self.report.add(
                Problem(
                    .different, path, at: found.range.lowerBound, byteCount: found.range.count,
                    "\(origin) stands before what the journal has before it"))
        }
        archived.ends[stem] = found.range.upperBound
        if found.range.count != route.byteCount(of: batch.raw) || found.lineCount != route.lineCount
            || found.receivedAt != batch.receivedAt
        {
            self.report.add(
                Problem(
                    .disagreement, route.path + ".sources",
                    "\(origin): \(found.lineCount) lines, \(found.range.count) bytes, received \(found.receivedAt.milliseconds);"
                        + " the journal says \(route.lineCount), \(route.byteCount(of: batch.raw)), "
                        + "\(batch.receivedAt.milliseconds)"))
        }
        if found.description != batch.description {
            self.report.add(
                Problem(.disagreement, route.path + ".sources", "\(origin): the stream is described as another one"))
        }
        if let offset = try self.firstDifference(in: path, from: found.range.lowerBound, route, batch.raw) {
            self.report.add(
                Problem(
                    .different, path, at: offset, byteCount: nil, "differs here from what was received of \(origin)"))
        }
    }

    /// The first byte of a file that is not the route's.
    private func firstDifference(
        in path: String, from start: Int, _ route: ArchiveRouter.Route, _ raw: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> Int? {
        let file = try self.data.files.open(self.absolute(path), .read)
        defer { self.data.files.close(file) }
        let buffer = UnsafeMutableRawBufferPointer.allocate(
            byteCount: max(1, route.byteCount(of: raw)), alignment: 16)
        defer { buffer.deallocate() }
        let count = try self.data.files.readFully(file, at: start, into: buffer)
        var position = 0
        var difference: Int?
        route.pieces(of: raw) { piece in
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

    /// Files in the archive's folders that the checkpoint does not know.
    private mutating func lookForStrayParts(_ checkpoint: Checkpoint) throws(FileSystemError) {
        for root in ["archive", "quarantine"] {
            try self.walk(root) { verifier, path in
                if checkpoint.lengths[path] == nil { verifier.unknown(path) }
            }
        }
    }

    mutating func walk(
        _ path: String, _ visit: (inout Self, _ path: String) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        guard let status = try self.data.files.status(at: self.absolute(path)) else { return }
        guard status.kind == .directory else { return try visit(&self, path) }
        for name in try self.data.files.list(self.absolute(path)) { try self.walk(Path.join(path, name), visit) }
    }
}
