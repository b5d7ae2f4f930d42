internal import WaybillCompression
internal import WaybillData
internal import WaybillExport
internal import WaybillProtocol
internal import WaybillSystem

/// The names of the archive's files: `<stem>.ndjson` has lines, and `<stem>.sources` where they came from.
enum ArchivePair {
    static var roots: [String] { ["archive", "quarantine"] }
    static var suffixes: [String] { [".ndjson", ".sources"] }

    /// Whether the archive may have written a file; other files are left alone.
    static func isOwnName(_ name: String) -> Bool {
        guard name.hasSuffix(".ndjson") || name.hasSuffix(".sources") else { return false }
        let stem = name.prefix { $0 != "." }
        return PartitionPath.partNumber(of: name) != nil || PartitionPath.lateNumber(of: name) != nil
            || QuarantineReason(rawValue: String(stem)) != nil
    }

    /// The path of a pair, from that of one of its files; `nil` for other paths.
    static func stem(of path: String) -> String? {
        Self.suffixes.first { path.hasSuffix($0) }.map { String(path.dropLast($0.utf8.count)) }
    }

    /// The pairs of which at least one file exists and which are not sealed, in order.
    static func openStems(in data: DataDirectory<some FileSystem>) throws(FileSystemError) -> [String] {
        var stems: Set<String> = []
        for root in Self.roots { try Self.collectStems(root, data, into: &stems) }
        // Sealed files are recorded in a manifest.
        for stem in stems.sorted() where try Self.isSealed(stem, in: data) { stems.remove(stem) }
        return stems.sorted()
    }

    private static func collectStems(
        _ path: String, _ data: DataDirectory<some FileSystem>, into stems: inout Set<String>
    ) throws(FileSystemError) {
        guard let status = try data.files.status(at: Path.join(data.root, path)) else { return }
        guard status.kind == .directory else {
            if Self.isOwnName(Path.name(of: path)), let stem = Self.stem(of: path) { stems.insert(stem) }
            return
        }
        for name in try data.files.list(Path.join(data.root, path)) {
            try Self.collectStems(Path.join(path, name), data, into: &stems)
        }
    }

    /// Whether a pair was sealed, which leaves only its `.sources` and the compressed lines.
    static func isSealed(_ stem: String, in data: DataDirectory<some FileSystem>) throws(FileSystemError) -> Bool {
        let lines = Path.join(data.root, stem + ".ndjson")
        guard try data.files.status(at: lines) == nil else { return false }
        return try data.files.status(at: lines + ".gz") != nil
    }
}

/// A run as identified in a `.sources` file: its stream, and the offset of its first line.
struct RunKey: Hashable {
    let name: StreamName
    let offset: StreamOffset

    init(_ run: SourceRun) {
        self.name = run.description.name
        self.offset = run.offset
    }

    init(_ run: RoutedRun, of batch: ProjectedBatch) {
        self.name = batch.description.name
        self.offset = batch.offset.advanced(by: run.range.lowerBound)
    }
}

extension DataDirectory {
    /// Opens a file below the root to read it; `nil` if it does not exist.
    func openIfThere(_ path: String) throws(FileSystemError) -> FileID? {
        let absolute = Path.join(self.root, path)
        return try self.files.status(at: absolute) == nil ? nil : try self.files.open(absolute, .read)
    }

    func checksum(of file: FileID, _ range: Range<Int>) throws(FileSystemError) -> UInt32 {
        var checksum: UInt32 = 0
        try self.files.visit(file, range) { (piece) throws(FileSystemError) in
            checksum = FrameChecksum.checksum(continuing: checksum, piece)
        }
        return checksum
    }
}
