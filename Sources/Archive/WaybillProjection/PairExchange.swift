internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Writes damaged pairs of files again and exchanges them, which a start that dies anywhere leaves to the next.
///
///     1. part-00001.ndjson.repair, .sources.repair are written and synced
///     2. one commit: the new lengths, and that the pair is to be exchanged
///     3. the old pair moves to set-aside/, the new one takes its names
///     4. one commit: the exchange is done
struct PairExchange<Files: FileSystem>: ~Copyable {
    /// What is to be committed in step 2, and the result for each pair, for logs.
    struct Written: Hashable {
        var changes: [String: String?] = [:]
        var notes: [String] = []
    }

    private struct Copy {
        let pair: DamagedPair
        var wanted: Set<RunKey>
        let lines: FileSet<Files>.Index
        let sources: FileSet<Files>.Index
        var text = SourcesText()
        var rebuiltByteCount = 0
    }

    private static var keyPrefix: String { "repair:" }
    private static var suffix: String { ".repair" }

    private let data: DataDirectory<Files>
    private var set: FileSet<Files>
    private var copies: [String: Copy] = [:]

    init(in data: DataDirectory<Files>) {
        self.data = data
        self.set = FileSet(root: data.root, files: data.files)
    }

    /// Begins the new pair with what is kept of the damaged one.
    mutating func begin(_ pair: DamagedPair, _ plan: DamagedPair.Plan) throws(FileSystemError) {
        for suffix in ArchivePair.suffixes {
            let path = Path.join(self.data.root, pair.stem + suffix + Self.suffix)
            if try self.data.files.status(at: path) != nil { try self.data.files.unlink(path) }
        }
        var copy = Copy(
            pair: pair, wanted: plan.wanted, lines: self.set.index(of: pair.stem + ".ndjson" + Self.suffix),
            sources: self.set.index(of: pair.stem + ".sources" + Self.suffix))
        try self.set.append([UInt8](), to: copy.lines)
        try self.set.append([UInt8](), to: copy.sources)
        try self.copy(pair.stem + ".ndjson", upTo: plan.keptByteCount, to: copy.lines)
        for run in plan.keptRuns { try self.set.append(copy.text.line(of: run), to: copy.sources) }
        self.copies[pair.stem] = copy
    }

    private mutating func copy(
        _ path: String, upTo byteCount: Int, to index: FileSet<Files>.Index
    ) throws(FileSystemError) {
        guard byteCount > 0, let file = try self.data.openIfThere(path) else { return }
        defer { self.data.files.close(file) }
        try self.data.files.visit(file, 0..<byteCount) { (piece) throws(FileSystemError) in
            try self.set.append([piece], to: index)
        }
    }

    /// Appends a run of the journal to its pair, if the pair lacks it; call it in the journal's order.
    mutating func append(_ run: RoutedRun, of batch: ProjectedBatch, to stem: String) throws(FileSystemError) {
        guard self.copies[stem]?.wanted.remove(RunKey(run, of: batch)) != nil, let lines = self.copies[stem]?.lines,
            let sources = self.copies[stem]?.sources
        else { return }
        let source = run.source(of: batch, at: self.set.byteCount(of: lines))
        var bytes: [UInt8] = []
        run.pieces(of: batch.raw) { bytes.append(contentsOf: $0) }
        try self.set.append(bytes, to: lines)
        try self.set.append(self.copies[stem]?.text.line(of: source) ?? [], to: sources)
        self.copies[stem]?.rebuiltByteCount += bytes.count
    }

    /// Ends step 1: makes the new pairs durable.
    mutating func synchronize() throws(FileSystemError) -> Written {
        _ = try self.set.synchronize()
        var written = Written()
        for (stem, copy) in self.copies.sorted(by: { $0.key < $1.key }) {
            let byteCount = self.set.byteCount(of: copy.lines)
            written.changes[FileSet<Files>.keyPrefix + stem + ".ndjson"] = String(byteCount)
            written.changes[FileSet<Files>.keyPrefix + stem + ".sources"] = String(
                self.set.byteCount(of: copy.sources))
            written.changes[Self.keyPrefix + stem] = "1"
            let missing = copy.pair.byteCount - copy.pair.leftByteCount
            written.notes.append(
                "\(stem).ndjson: \(missing) bytes were missing, \(copy.rebuiltByteCount) rebuilt from the journal, "
                    + "\(max(0, copy.pair.byteCount - byteCount)) are lost; the rest of it is in "
                    + SetAside<Files>.folder)
        }
        return written
    }

    /// Does steps 3 and 4 for the exchanges recorded in the checkpoint.
    static func finish(
        _ state: inout StateStore<Files>, in data: DataDirectory<Files>
    ) throws(FileSystemError) {
        let aside = SetAside(root: data.root, files: data.files)
        var changes: [String: String?] = [:]
        for key in state.entries.keys.sorted() where key.hasPrefix(Self.keyPrefix) {
            let stem = String(key.dropFirst(Self.keyPrefix.utf8.count))
            for path in ArchivePair.suffixes.map({ stem + $0 }) {
                let new = Path.join(data.root, path + Self.suffix)
                guard try data.files.status(at: new) != nil else { continue }
                if let damaged = try data.openIfThere(path) {
                    defer { data.files.close(damaged) }
                    try Self.narrow(new, like: damaged, data.files)
                    _ = try aside.move(path)
                }
                try data.files.rename(new, to: Path.join(data.root, path))
            }
            try data.files.synchronizeDirectory(Path.parent(of: Path.join(data.root, stem)))
            changes.updateValue(nil, forKey: key)
        }
        try state.commit(changes)
    }

    private static func narrow(_ path: String, like source: FileID, _ files: Files) throws(FileSystemError) {
        let file = try files.open(path, .append)
        defer { files.close(file) }
        try files.narrow(file, like: source)
    }
}
