internal import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// The record of what retention deleted: one JSON object per line, in `archive/_deleted.ndjson`.
///
/// - SeeAlso: `Protocol/formats/archive.md`, section 6.
package struct DeletionRecord<Files: FileSystem> {
    private let root: String
    private let files: Files

    package init(root: String, files: Files) {
        self.root = root
        self.files = files
    }

    static var path: String { "archive/_deleted.ndjson" }
    static var keyPrefix: String { "delete:" }

    /// The record is read up to this length.
    private static var readByteCountMax: Int { 1 << 30 }

    /// The paths in the record; lines that a crash tore are left out.
    package func paths() throws(FileSystemError) -> Set<String> {
        let path = Path.join(self.root, Self.path)
        guard let bytes = try self.files.contents(of: path, byteCountMax: Self.readByteCountMax) else { return [] }
        return Set(bytes.split(separator: 0x0A).compactMap { JSONValue(Array($0))?["day"]?.string })
    }

    /// A line of the record.
    static func line(_ day: Deletion, at time: WallTime) -> String {
        JSONWriter.text { json in
            json.member("day", day.path)
            json.member("lines", day.lineCount)
            json.member("bytes", day.byteCount)
            json.member("why", day.reason.rawValue)
            json.member("at", time.text)
        }
    }

    /// Deletes the folders and files that a checkpoint lists for deletion, and records it; repeating it changes nothing.
    func finish(_ state: inout StateStore<Files>) throws(FileSystemError) {
        for (key, line) in state.entries.sorted(by: { $0.key < $1.key }) where key.hasPrefix(Self.keyPrefix) {
            let path = Path.join(self.root, String(key.dropFirst(Self.keyPrefix.utf8.count)))
            if try self.files.status(ofEntry: path)?.kind == .directory {
                // First the files that mark the day as readable.
                for name in [DayFolder.successName, DayFolder.manifestName]
                where try self.files.status(at: Path.join(path, name)) != nil {
                    try self.files.unlink(Path.join(path, name))
                }
                try self.files.removeTree(path)
            } else {
                for name in Self.names(of: path) where try self.files.status(ofEntry: name) != nil {
                    try self.files.unlink(name)
                }
            }
            if try self.files.status(at: Path.parent(of: path)) != nil {
                try self.files.synchronizeDirectory(Path.parent(of: path))
            }
            try self.append(line)
            try state.commit([key: String?.none])
        }
    }

    /// A file and those that only describe it: of open lines, where they came from; of dead letters, their manifest.
    private static func names(of path: String) -> [String] {
        let stem = Path.join(Path.parent(of: path), String(Path.name(of: path).prefix { $0 != "." }))
        if DeadLetterFile.isDead(path) { return [path, stem + ".manifest.json"] }
        guard path.hasSuffix(".ndjson"), PartitionPath.lateNumber(of: Path.name(of: path)) != nil else {
            return [path]
        }
        return [path, stem + ".sources", stem + ".ndjson.gz.tmp"]
    }

    private func append(_ line: String) throws(FileSystemError) {
        let path = Path.join(self.root, Self.path)
        let file = try self.files.open(path, .append)
        defer { self.files.close(file) }
        let end = try self.files.status(file).byteCount
        // A crash after the last append left the whole line; a crash during it left part of the line.
        let tailCount = min(end, line.utf8.count + 1)
        var tail: [UInt8] = []
        try self.files.visit(file, (end - tailCount)..<end) { (piece) throws(FileSystemError) in
            tail.append(contentsOf: piece)
        }
        if tail.elementsEqual(Array((line + "\n").utf8)) { return try self.files.synchronize(file) }
        let separator = tail.isEmpty || tail.last == 0x0A ? "" : "\n"
        try self.files.writeAll(file, Array((separator + line + "\n").utf8))
        try self.files.synchronize(file)
        try self.files.synchronizeDirectory(Path.parent(of: path))
    }
}
