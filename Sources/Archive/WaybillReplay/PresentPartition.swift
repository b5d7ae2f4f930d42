internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// An export's partition as recorded in its checkpoint, for reading while the receiver is running.
struct PresentPartition<Files: FileSystem> {
    /// A part, closed or open.
    struct Part: Hashable {
        /// The path without its extension.
        let stem: String
        let byteCount: Int
        let idsByteCount: Int
        let isClosed: Bool
        let isCompressed: Bool
    }

    private let root: String
    private let path: String
    private let fileExtension: String
    private let lengths: [String: Int]
    private let files: Files

    /// - Parameters:
    ///   - path: below the data directory.
    ///   - lengths: the certain lengths of the export's files without a manifest, by path.
    init(
        data: DataDirectory<Files>, path: String, options: ExportOptions, lengths: [String: Int]
    ) {
        self.root = data.root
        self.files = data.files
        self.path = path
        self.fileExtension = Exporter(options).description.fileExtension
        self.lengths = lengths
    }

    /// The certain lengths of an export's files without a manifest.
    static func lengths(
        of options: ExportOptions, in data: DataDirectory<Files>
    ) throws(FileSystemError) -> [String: Int] {
        let path = data.statePath("export-\(options.provider.rawValue)")
        return Self.lengths(of: options, try StateImage.read(path, files: data.files)?.entries ?? [:], data)
    }

    /// The same, from the entries of the export's checkpoint.
    static func lengths(
        of options: ExportOptions, _ entries: [String: String], _ data: DataDirectory<Files>
    ) -> [String: Int] {
        ExportCheckpoint.lengths(
            in: entries, fileExtension: Exporter(options).description.fileExtension, data.files)
    }

    /// The parts, in order.
    func parts() throws(FileSystemError) -> [Part] {
        let folder = Path.join(self.root, self.path)
        guard try self.files.status(at: folder) != nil else { return [] }
        var parts: [Part] = []
        for name in try self.files.list(folder)
        where name.hasSuffix(".ids") && PartitionPath.partNumber(of: name) != nil {
            let stem = "\(self.path)/\(name.dropLast(4))"
            let manifest = try self.manifest(of: stem)
            let isClosed = manifest != nil
            let records = self.lengths["\(stem).\(self.fileExtension)"] ?? (isClosed ? Int.max : 0)
            let ids = self.lengths[stem + ".ids"] ?? (isClosed ? Int.max : 0)
            parts.append(
                Part(
                    stem: stem, byteCount: records, idsByteCount: ids, isClosed: isClosed,
                    isCompressed: manifest.flatMap(PartManifest.init(json:))?.gzipSHA256 != nil))
        }
        return parts
    }

    /// Calls `body` with each record of a part and its events' ids, until it returns `false`.
    func visitRecords(
        of part: Part, _ body: (_ record: [UInt8], _ ids: [ArraySlice<UInt8>]) -> Bool
    ) throws(FileSystemError) {
        guard part.byteCount > 0 else { return }
        var reader = try RecordReader(
            stem: Path.join(self.root, part.stem), fileExtension: self.fileExtension, isCompressed: part.isCompressed,
            byteCount: part.byteCount, idsByteCount: part.idsByteCount, files: self.files)
        while let (record, ids) = try reader.next() {
            guard body(record, ids) else { return }
        }
    }

    /// Calls `body` with each line of an append-only file of the partition.
    ///
    /// - Parameter start: the first line's offset.
    func visitLines(
        of name: String, from start: Int = 0, _ body: (_ line: [UInt8]) -> Void
    ) throws(FileSystemError) {
        let path = "\(self.path)/\(name)"
        guard let byteCount = self.lengths[path], byteCount > 0,
            try self.files.status(at: Path.join(self.root, path)) != nil
        else { return }
        var reader = try LineReader(path: Path.join(self.root, path), byteCount: byteCount, files: self.files)
        while let line = try reader.next() {
            if line.range.lowerBound >= start { body(line.bytes) }
        }
    }

    /// Calls `body` with each line of the events that are refused and not exported after all.
    func visitDeadLetters(_ body: (_ line: [UInt8]) -> Void) throws(FileSystemError) {
        let retaken = try RetakenLetters(of: self.path, root: self.root, lengths: self.lengths, files: self.files)
        for file in try DeadLetterFile.all(of: self.path, root: self.root, files: self.files) {
            var reader = try file.lines(root: self.root, lengths: self.lengths, files: self.files)
            while let line = try reader?.next() {
                if !line.bytes.withUnsafeBytes(retaken.contains) { body(line.bytes) }
            }
        }
    }

    /// A closed part's manifest.
    func manifest(of part: Part) throws(FileSystemError) -> PartManifest? {
        try self.manifest(of: part.stem).flatMap(PartManifest.init(json:))
    }

    private func manifest(of stem: String) throws(FileSystemError) -> [UInt8]? {
        try self.files.contents(of: Path.join(self.root, stem + ".manifest.json"))
    }

    /// The parts that were sent to the provider, each of which has a marker file next to it.
    ///
    ///     part-00000.delivered     the SHA-256 of the part's manifest, or anything else: it was sent
    func deliveredParts() throws(FileSystemError) -> [Part] {
        var delivered: [Part] = []
        for part in try self.parts()
        where try self.files.status(at: Path.join(self.root, part.stem + ".delivered")) != nil {
            delivered.append(part)
        }
        return delivered
    }
}
