internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// The events that a day of an export has, for reading while the receiver is running: what a comparison finds, of a replay
/// or of a verification.
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

    /// An event in a part.
    struct Event {
        /// As if it shared none.
        let record: UnsafeRawBufferPointer
        let id: UnsafeRawBufferPointer
        /// The part's path without its extension, and its file's as it is stored.
        let stem: String
        let path: String
        /// The record's place in the part's bytes.
        let range: Range<Int>
        /// Where its line of `.ids` begins.
        let idsOffset: Int
    }

    /// What is read of a file that neither the checkpoint lists nor a manifest describes.
    enum Unlisted {
        /// It is not there yet.
        case nothing
        /// It lacks its manifest.
        case everything
    }

    private let root: String
    private let path: String
    private let fileExtension: String
    private let lengths: [String: Int]
    private let unlisted: Unlisted
    private let files: Files

    /// - Parameters:
    ///   - path: below the data directory.
    ///   - lengths: the certain lengths of the export's files without a manifest, by path.
    init(
        data: DataDirectory<Files>, path: String, options: ExportOptions, lengths: [String: Int],
        unlisted: Unlisted = .nothing
    ) {
        self.unlisted = unlisted
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
            let byteCount = isClosed || self.unlisted == .everything ? Int.max : 0
            let records = self.lengths["\(stem).\(self.fileExtension)"] ?? byteCount
            let ids = self.lengths[stem + ".ids"] ?? byteCount
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
        var reader = try self.records(of: part)
        while let entry = try reader.next() {
            guard body(entry.record, entry.ids) else { return }
        }
    }

    private func records(of part: Part) throws(FileSystemError) -> RecordReader<Files> {
        try RecordReader(
            stem: Path.join(self.root, part.stem), fileExtension: self.fileExtension, isCompressed: part.isCompressed,
            byteCount: part.byteCount, idsByteCount: part.idsByteCount, files: self.files)
    }

    /// Calls `body` with each event of a part, valid during the call.
    func visitEvents(of part: Part, _ body: (Event) -> Void) throws(FileSystemError) {
        guard part.byteCount > 0 else { return }
        var reader = try self.records(of: part)
        let path = "\(part.stem).\(self.fileExtension)" + (reader.isCompressed ? ".gz" : "")
        while let entry = try reader.next() {
            entry.record.withUnsafeBytes { record in
                SharedRecord.visit(record, ids: entry.line) { record, id in
                    body(
                        Event(
                            record: record, id: id, stem: part.stem, path: path, range: entry.range,
                            idsOffset: entry.lineOffset))
                }
            }
        }
    }

    /// Calls `body` with each line of the events that are held: those that an export's checkpoint does not release.
    func visitHeld(in entries: [String: String], _ body: (_ line: [UInt8]) -> Void) throws(FileSystemError) {
        let path = "\(self.path)/\(HeldRecord.fileName)"
        guard let byteCount = self.lengths[path], byteCount > 0,
            try self.files.status(at: Path.join(self.root, path)) != nil
        else { return }
        let released = HeldRecord.releasedByteCount(of: self.path, in: entries)
        var reader = try LineReader(path: Path.join(self.root, path), byteCount: byteCount, files: self.files)
        while let line = try reader.next() {
            if line.range.lowerBound >= released { body(line.bytes) }
        }
    }

    /// Calls `body` with each line of the events that are refused and not exported after all, its file as it is stored,
    /// and its place in the lines.
    func visitDeadLetters(
        _ body: (_ line: [UInt8], _ path: String, _ range: Range<Int>) -> Void
    ) throws(FileSystemError) {
        let retaken = try RetakenLetters(of: self.path, root: self.root, lengths: self.lengths, files: self.files)
        for file in try DeadLetterFile.all(of: self.path, root: self.root, files: self.files) {
            var lengths = self.lengths
            if self.unlisted == .everything { lengths = [file.path: self.lengths[file.path] ?? .max] }
            var reader = try file.lines(root: self.root, lengths: lengths, files: self.files)
            let isThere = try self.files.status(at: Path.join(self.root, file.path)) != nil
            let path = isThere ? file.path : file.path + ".gz"
            while let line = try reader?.next() {
                if line.bytes.withUnsafeBytes(retaken.digest(ofTaken:)) == nil { body(line.bytes, path, line.range) }
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
