package import WaybillData
package import WaybillSystem

/// What a checkpoint copies: the files of a merger's data directory, held as they are at a barrier.
///
/// Files of states are copied into `checkpoint/` below the data directory, since they continue changing. Of files that grow, the
/// length is taken; all others never change but by a new name. So a capture costs a look at each file, and no copy of
/// lines: what is uploaded afterwards is read from where it is, and a file that is gone by then ends the attempt.
package struct CheckpointCapture: Sendable {
    /// A file as it is to be copied.
    package struct Source: Hashable, Sendable {
        /// Below the data directory.
        package let path: String
        /// Where to read it, absolute.
        package let file: String
        package let byteCount: Int
        /// The object that is the same for all mergers; `nil`: none.
        var sharedKey: String?
    }

    package let position: JournalPosition
    package let round: Int
    package let chains: [ChainName: JournalPosition]
    /// In order of their paths.
    package let sources: [Source]

    /// What a merger has in its data directory.
    static let folders = ["archive", "exports", "journal", "quarantine", "state"]
    /// A longer state makes no checkpoint: it is copied through memory.
    private static var stateByteCountMax: Int { 1 << 30 }
    /// The folder of copies, below the data directory.
    static var folder: String { "checkpoint" }

    /// What the merger itself says; taken on its thread.
    package struct Facts: Sendable {
        let position: JournalPosition
        let round: Int
        let end: JournalPosition
        let chains: [ChainName: JournalPosition]
        /// Segments of the merged journal that are still needed.
        let segments: [JournalPosition]
    }

    /// Takes the files.
    ///
    /// - Parameters:
    ///   - root: the data directory.
    ///   - isAtRest: whether the entries of a state (by its name in `state/`) say that its projection stands at the
    ///     barrier and changes no file.
    /// - Returns: `nil` if something is not at rest.
    package init?(
        _ facts: Facts, root: String, files: some FileSystem, isAtRest: (String, [String: String]) -> Bool
    ) throws(FileSystemError) {
        let state = Path.join(root, "state")
        let copies = Path.join(root, Self.folder)
        guard let before = try Self.states(in: state, files, isAtRest) else { return nil }
        try files.removeTree(copies)
        try files.createDirectory(copies)
        var sources: [Source] = []
        var lengths: [String: Int] = [:]
        for name in try files.list(state) where Self.isCopied(name) {
            let path = Path.join(state, name)
            guard let status = try files.status(ofEntry: path), status.kind == .regular else { continue }
            // A part of it would be a state that never was.
            guard status.byteCount <= Self.stateByteCountMax else {
                throw FileSystemError("read", path: path, errno: Errno.damaged)
            }
            guard let bytes = try files.contents(of: path, byteCountMax: Self.stateByteCountMax) else { continue }
            let copy = Path.join(copies, name)
            try Self.write(bytes, to: copy, files)
            sources.append(Source(path: "state/\(name)", file: copy, byteCount: bytes.count))
        }
        for entries in before.values { lengths.merge(FileSet<POSIXFileSystem>.lengths(in: entries)) { max($0, $1) } }
        for folder in ["archive", "exports", "quarantine"] {
            try Self.walk(folder, root: root, files, lengths, &sources)
        }
        for source in sources where lengths[source.path] == source.byteCount { lengths[source.path] = nil }
        // What is left is shorter than its state says, or is not there.
        let isWhole = lengths.values.allSatisfy { $0 == 0 }
        sources += try Self.segments(facts, root: root, files)
        // Whatever was changed meanwhile was announced in a state before.
        guard isWhole, let after = try Self.states(in: state, files, isAtRest), after == before else { return nil }
        self.position = facts.position
        self.round = facts.round
        self.chains = facts.chains
        self.sources = sources.sorted { $0.path < $1.path }
    }

    /// The entries of the projections' states; `nil` if one of them is not at rest.
    private static func states(
        in folder: String, _ files: some FileSystem, _ isAtRest: (String, [String: String]) -> Bool
    ) throws(FileSystemError) -> [String: [String: String]]? {
        var states: [String: [String: String]] = [:]
        for name in try files.list(folder) where Self.isProjections(name) {
            let entries = try StateImage.read(Path.join(folder, name), files: files)?.entries ?? [:]
            guard isAtRest(name, entries) else { return nil }
            states[name] = entries
        }
        return states
    }

    private static func isProjections(_ name: String) -> Bool {
        name == "archive.state" || name == "erasures" || name.hasPrefix("export-") && name.hasSuffix(".state")
    }

    /// Whether a file of `state/` belongs to a checkpoint: a delivery begins another life (`delivery.md`, section 1), and
    /// where this program's readers are concerns no other.
    private static func isCopied(_ name: String) -> Bool {
        !name.hasPrefix("deliver-") && name != "lock" && !name.hasPrefix("readers") && !name.hasSuffix(".lock")
            && !name.hasSuffix(".tmp")
    }

    private static func write(_ bytes: [UInt8], to path: String, _ files: some FileSystem) throws(FileSystemError) {
        let file = try files.open(path, .replace)
        defer { files.close(file) }
        try files.writeAll(file, bytes)
    }

    private static func walk(
        _ path: String, root: String, _ files: some FileSystem, _ lengths: [String: Int], _ sources: inout [Source]
    ) throws(FileSystemError) {
        let absolute = Path.join(root, path)
        guard let status = try files.status(ofEntry: absolute) else { return }
        switch status.kind {
        case .directory:
            for name in try files.list(absolute) {
                let entry = Path.join(path, name)
                // Hidden folders are a replay's that is not finished.
                if name.hasPrefix("."), try files.status(ofEntry: Path.join(root, entry))?.kind == .directory {
                    continue
                }
                try Self.walk(entry, root: root, files, lengths, &sources)
            }
        case .regular:
            guard !path.hasSuffix(".tmp") else { return }
            let byteCount = lengths[path].map { min($0, status.byteCount) } ?? status.byteCount
            sources.append(Source(path: path, file: absolute, byteCount: byteCount))
        case .link, .other: return
        }
    }

    private static func segments(
        _ facts: Facts, root: String, _ files: some FileSystem
    ) throws(FileSystemError) -> [Source] {
        var sources: [Source] = []
        for (index, base) in facts.segments.enumerated() {
            let isFull = index + 1 < facts.segments.count
            let end = isFull ? facts.segments[index + 1] : facts.end
            let file = JournalPath.segment(base, in: Path.join(root, "journal"))
            var source = Source(
                path: "journal/" + Path.name(of: file), file: file, byteCount: end.rawValue - base.rawValue)
            if isFull { source.sharedKey = CheckpointCommit.segmentKey(base) }
            sources.append(source)
        }
        return sources
    }

    /// Deletes the copies.
    package static func discard(root: String, files: some FileSystem) throws(FileSystemError) {
        try files.removeTree(Path.join(root, Self.folder))
    }
}

extension Merger {
    /// What a checkpoint at a barrier records, which every projection has reached.
    package func facts(at barrier: SealBarrier) -> CheckpointCapture.Facts {
        let start = min(self.places.firstPosition ?? barrier.position, barrier.position)
        let first = self.journal.segments.lastIndex { $0 <= start } ?? 0
        return CheckpointCapture.Facts(
            position: barrier.position, round: self.round, end: self.journal.end,
            chains: self.chains.mapValues(\.position), segments: Array(self.journal.segments[first...]))
    }
}
