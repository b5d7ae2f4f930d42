internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// A pair of files that is shorter than in the checkpoint: what remains of it, and what the journal has of it.
struct DamagedPair {
    /// A run of the pair in the journal.
    private struct Item {
        /// Counted from where the first item begins.
        let source: SourceRun
        let checksum: UInt32
    }

    /// What the repaired pair has: first bytes of the damaged one, then runs from the journal.
    struct Plan: Hashable {
        /// The number of bytes kept from the file.
        var keptByteCount = 0
        var keptRuns: [SourceRun] = []
        /// The runs taken from the journal.
        var wanted: Set<RunKey> = []
    }

    /// The path below the root, without a suffix.
    let stem: String
    /// The length of the lines in the checkpoint.
    let byteCount: Int
    /// What remains of them, at most ``byteCount``.
    let leftByteCount: Int
    /// The runs in what remains of the `.sources`.
    let runs: [SourceRun]
    /// The pair's runs in the journal, in order.
    private var items: [Item] = []
    private var itemByteCount = 0

    /// Reads what remains of a pair.
    ///
    /// - Parameter lengths: of files in the checkpoint, by path.
    init(
        _ stem: String, in data: DataDirectory<some FileSystem>, lengths: [String: Int]
    ) throws(FileSystemError) {
        let byteCount = lengths[stem + ".ndjson"] ?? 0
        let left = try data.files.status(at: Path.join(data.root, stem + ".ndjson"))?.byteCount ?? 0
        var runs: [SourceRun] = []
        try SourceRuns.visit(
            Path.join(data.root, stem + ".sources"), byteCount: lengths[stem + ".sources"] ?? 0,
            linesByteCount: byteCount, files: data.files
        ) { runs.append($0) }
        self.stem = stem
        self.byteCount = byteCount
        self.leftByteCount = min(left, byteCount)
        self.runs = runs
    }

    /// Says that the journal has a run of the pair; call it in the journal's order.
    mutating func found(_ run: RoutedRun, of batch: ProjectedBatch) {
        var checksum: UInt32 = 0
        run.pieces(of: batch.raw) { checksum = FrameChecksum.checksum(continuing: checksum, $0) }
        let source = run.source(of: batch, at: self.itemByteCount)
        self.items.append(Item(source: source, checksum: checksum))
        self.itemByteCount = source.range.upperBound
    }

    /// Decides which bytes of the pair are kept and which runs are taken from the journal.
    func plan(in data: DataDirectory<some FileSystem>) throws(FileSystemError) -> Plan {
        var plan = Plan()
        let keys = Set(self.items.map { RunKey($0.source) })
        var slots = self.runs
        // A file of empty lines alone has no bytes, and its runs are in the journal or nowhere.
        if self.runs.last?.range.upperBound ?? 0 < self.byteCount || self.byteCount == 0 {
            slots = try self.alignedRuns(in: data) ?? slots
        }
        // The run in which the file now ends, or else the bytes that no run covers.
        let broken = slots.first { $0.range.upperBound > self.leftByteCount }
        if let broken, broken.range.lowerBound <= self.leftByteCount, keys.contains(RunKey(broken)) {
            plan.keptByteCount = broken.range.lowerBound
        } else if self.leftByteCount == self.byteCount {
            plan.keptByteCount = self.byteCount
        } else {
            plan.keptByteCount = try data.files.lineEnd(
                of: Path.join(data.root, self.stem + ".ndjson"), upTo: self.leftByteCount)
        }
        for run in slots {
            if run.range.upperBound <= plan.keptByteCount {
                plan.keptRuns.append(run)
            } else if run.range.lowerBound < plan.keptByteCount {
                let range = run.range.lowerBound..<plan.keptByteCount
                let lineCount = try self.lineCount(in: data, range) + run.absentLineCount
                plan.keptRuns.append(run.with(range: range, lineCount: lineCount))
            } else if keys.contains(RunKey(run)) {
                plan.wanted.insert(RunKey(run))
            }
        }
        return plan
    }

    /// The runs of a file whose sources are damaged, if the journal's are the last in the file.
    ///
    /// - Returns: `nil` if the remaining bytes contradict that.
    private func alignedRuns(in data: DataDirectory<some FileSystem>) throws(FileSystemError) -> [SourceRun]? {
        let start = self.byteCount - self.itemByteCount
        guard start >= 0 else { return nil }
        let items = self.items.map { item in
            let range = (start + item.source.range.lowerBound)..<(start + item.source.range.upperBound)
            return item.source.with(range: range, lineCount: item.source.lineCount)
        }
        guard let file = try data.openIfThere(self.stem + ".ndjson") else { return items }
        defer { data.files.close(file) }
        var known: [RunKey: SourceRun] = [:]
        for run in self.runs { known[RunKey(run)] = run }
        for (run, item) in zip(items, self.items) {
            if let other = known[RunKey(run)], other.range != run.range { return nil }
            guard run.range.upperBound <= self.leftByteCount else { continue }
            if try data.checksum(of: file, run.range) != item.checksum { return nil }
        }
        // Runs without bytes stand at the same place, whether the journal has them or not.
        let found = Set(items.map { RunKey($0) })
        return self.runs.filter { $0.range.upperBound <= start && !found.contains(RunKey($0)) } + items
    }

    private func lineCount(
        in data: DataDirectory<some FileSystem>, _ range: Range<Int>
    ) throws(FileSystemError) -> Int {
        let file = try data.files.open(Path.join(data.root, self.stem + ".ndjson"), .read)
        defer { data.files.close(file) }
        var count = 0
        try data.files.visit(file, range) { (piece) throws(FileSystemError) in count += piece.count { $0 == 0x0A } }
        return count
    }
}

extension SourceRun {
    fileprivate func with(range: Range<Int>, lineCount: Int) -> SourceRun {
        SourceRun(
            description: self.description, offset: self.offset, receivedAt: self.receivedAt, range: range,
            lineCount: lineCount, emptyLineCount: self.emptyLineCount, erasedByteCount: self.erasedByteCount,
            isPoison: self.isPoison, shiftedAt: self.shiftedAt)
    }
}
