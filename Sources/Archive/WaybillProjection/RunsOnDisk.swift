internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// What pairs of archive files have, as far as the runs in their `.sources` say; a checkpoint need not know them.
struct RunsOnDisk<Files: FileSystem> {
    /// A place in a pair of files, before or after a run.
    struct Place: Hashable {
        var lines = 0
        var sources = 0
    }

    /// A run in a pair of files.
    struct Holder: Hashable {
        let stem: String
        let offset: StreamOffset
        let range: Range<Int>
        /// Where the pair is cut to lose this run and all after it.
        let start: Place
    }

    private let data: DataDirectory<Files>
    private let lengths: [String: Int]
    /// By stem: where the last run of each pair ends.
    private(set) var ends: [String: Place] = [:]
    /// By stream, ascending by offset.
    private var holders: [StreamName: [Holder]] = [:]

    /// Reads the `.sources` of pairs of files.
    ///
    /// - Parameter lengths: of files in the checkpoint, by path; it vouches for these bytes.
    init(
        of stems: [String], in data: DataDirectory<Files>, lengths: [String: Int]
    ) throws(FileSystemError) {
        self.data = data
        self.lengths = lengths
        for stem in stems { self.ends[stem] = try self.read(stem) }
        self.holders = self.holders.mapValues { $0.sorted { $0.offset < $1.offset } }
    }

    private func lineByteCount(of stem: String) throws(FileSystemError) -> Int {
        try self.data.files.status(at: Path.join(self.data.root, stem + ".ndjson"))?.byteCount ?? 0
    }

    /// - Returns: where the last run ends.
    private mutating func read(_ stem: String) throws(FileSystemError) -> Place {
        var place = Place()
        let path = Path.join(self.data.root, stem + ".sources")
        guard let status = try self.data.files.status(at: path) else { return place }
        var reader = try SourceRuns(
            path: path, byteCount: status.byteCount, linesByteCount: try self.lineByteCount(of: stem),
            files: self.data.files)
        while let item = try reader.next() {
            guard case .run(let run, let end) = item else { continue }
            // What a power cut has torn ends the file: the next line would be glued to it.
            guard try self.isWhole(run, in: stem) else { break }
            self.holders[run.description.name, default: []].append(
                Holder(
                    stem: stem, offset: run.offset, range: run.range,
                    start: Place(lines: run.range.lowerBound, sources: place.sources)))
            place = Place(lines: run.range.upperBound, sources: end)
        }
        return place
    }

    /// Whether a run has the bytes that its `.sources` say, as far as no checkpoint vouches for them: its lines, and in the
    /// archive no NUL.
    private func isWhole(_ run: SourceRun, in stem: String) throws(FileSystemError) -> Bool {
        guard run.range.upperBound > self.lengths[stem + ".ndjson"] ?? 0, !run.range.isEmpty else { return true }
        return try self.data.files.hasLines(
            at: Path.join(self.data.root, stem + ".ndjson"), in: run.range, mayHaveNULs: stem.hasPrefix("quarantine"))
    }

    /// Copies the lines after the last run of each file to where they are set aside.
    ///
    /// - Returns: the copies' paths.
    func setAsideRest() throws(FileSystemError) -> [String] {
        let aside = SetAside(root: self.data.root, files: self.data.files)
        var paths: [String] = []
        for (stem, end) in self.ends.sorted(by: { $0.key < $1.key }) {
            guard try end.lines < self.lineByteCount(of: stem) else { continue }
            paths.append(try aside.copyTail(of: stem + ".ndjson", from: end.lines))
        }
        return paths
    }

    /// The runs of a batch, which are those that begin in it.
    func runs(of batch: ProjectedBatch) -> ArraySlice<Holder> {
        let known = self.holders[batch.description.name] ?? []
        let start = known.firstIndex(atOrAfter: batch.offset, of: \.offset)
        let end = known.firstIndex(atOrAfter: batch.offset.advanced(by: batch.raw.count), of: \.offset)
        return known[start..<max(start, end)]
    }

    /// Whether a file has a batch's runs for it, one after the other, and their bytes; unsynced bytes may be arbitrary
    /// after a power cut.
    func has(_ route: ArchiveRouter.Route, of batch: ProjectedBatch) throws(FileSystemError) -> Bool {
        let runs = self.runs(of: batch)
        var stem: String?
        var range = 0..<0
        for run in route.runs {
            let offset = batch.offset.advanced(by: run.range.lowerBound)
            let held = runs[runs.firstIndex(atOrAfter: offset, of: \.offset)...].prefix { $0.offset == offset }
                .first { stem == nil ? route.mayBe(in: $0.stem) : $0.stem == stem }
            guard let held, held.range.count == run.byteCount(of: batch.raw),
                stem == nil || held.range.lowerBound == range.upperBound
            else { return false }
            range = (stem == nil ? held.range.lowerBound : range.lowerBound)..<held.range.upperBound
            stem = held.stem
        }
        guard let stem, let file = try self.data.openIfThere(stem + ".ndjson") else { return false }
        defer { self.data.files.close(file) }
        var checksum: UInt32 = 0
        route.pieces(of: batch.raw) { checksum = FrameChecksum.checksum(continuing: checksum, $0) }
        return try self.data.checksum(of: file, range) == checksum
    }
}
