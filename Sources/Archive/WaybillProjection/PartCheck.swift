package import WaybillData
package import WaybillExport
package import WaybillSystem

/// Verifies the files of a part of an export against each other.
///
///     part-00000.ndjson or .ndjson.gz  ◀──▶  part-00000.ids  ◀──▶  part-00000.manifest.json
///
/// Memory: one record, and one member of a compressed part.
package struct PartCheck<Files: FileSystem> {
    /// What the export's checkpoint says of a part.
    package enum Standing {
        /// It grows, and so much of its records and of its ids is certain.
        case open(byteCount: Int, idsByteCount: Int)
        /// It is being compressed; its manifest is in the checkpoint.
        case closing(manifest: [UInt8])
        case closed
    }

    /// Its path below the data directory, without extension.
    private let stem: String
    private let standing: Standing
    private let description: ProviderDescription
    private let root: String
    private let files: Files

    package init(
        _ stem: String, _ standing: Standing, _ description: ProviderDescription, root: String, files: Files
    ) {
        self.stem = stem
        self.standing = standing
        self.description = description
        self.root = root
        self.files = files
    }

    /// The file of records before it is compressed.
    package var path: String { "\(self.stem).\(self.description.fileExtension)" }
    private var idsPath: String { self.stem + ".ids" }
    private var manifestPath: String { self.stem + ".manifest.json" }

    /// Verifies the manifest by itself.
    ///
    /// - Returns: `nil` for a part without one that can be read; and what is wrong.
    package func verifyManifest() throws(FileSystemError) -> (manifest: PartManifest?, problems: [Problem]) {
        if case .open = self.standing { return (nil, []) }
        var bytes = try self.files.contents(of: Path.join(self.root, self.manifestPath))
        var isChecked = true
        // A crash before it was written leaves it in the checkpoint, from which the next start writes it.
        if case .closing(let manifest) = self.standing {
            bytes = bytes ?? manifest
            isChecked = false
        }
        guard let bytes else {
            return (
                nil, [Problem(.missing, self.manifestPath, "the part is closed, but its manifest does not exist")]
            )
        }
        guard let manifest = PartManifest(json: bytes) else {
            return (nil, [ManifestLine.unreadable(bytes, at: self.manifestPath)])
        }
        return (manifest, isChecked ? ManifestLine.problems(in: bytes, at: self.manifestPath) : [])
    }

    /// Verifies the records and their ids, by themselves and against the manifest.
    ///
    /// - Parameters:
    ///   - header: what an open part begins with; `nil` if that is unknown.
    ///   - body: gets each event as if its record were its own, valid during the call.
    /// - Returns: whether the records can be read; and what is wrong.
    package func verifyContents(
        _ manifest: PartManifest?, header: [UInt8]?,
        _ body: (_ record: UnsafeRawBufferPointer, _ id: UnsafeRawBufferPointer) -> Void
    ) throws(FileSystemError) -> (isReadable: Bool, problems: [Problem]) {
        let stored = try StoredBytes.ifThere(
            path: Path.join(self.root, self.path), isCompressed: manifest?.gzipSHA256 != nil, files: self.files)
        var problems = try self.verifyFiles(manifest, stored)
        let found = try PartFacts(
            ids: Path.join(self.root, self.idsPath), byteCount: self.byteCounts.ids, self.files)
        var cutter = RecordCutter(RecordFormat(fileExtension: self.description.fileExtension))
        if let stored {
            let digests = manifest.map { ($0.sha256, $0.gzipSHA256) }
            func take(_ record: UnsafeRawBufferPointer, _ range: Range<Int>) { found.take(record, body) }
            let read = try stored.verify(as: self.path, upTo: self.byteCounts.records, digests) {
                cutter.take($0, take)
            }
            cutter.finish(take)
            if let failure = found.failure { throw failure }
            guard read.isWhole else { return (false, problems + read.problems) }
            try found.finish()
            problems += found.cut.map { self.isCut($0) } ?? []
            problems += read.problems
            problems += self.verifyRecords(found, cutter.header, expected: manifest == nil ? header : nil)
        } else {
            try found.finish()
            problems += found.cut.map { self.isCut($0) } ?? []
        }
        if let manifest { problems += self.compare(manifest, found) }
        return (stored != nil, problems)
    }
}

extension PartCheck {
    private var byteCounts: (records: Int, ids: Int) {
        if case .open(let records, let ids) = self.standing { (records, ids) } else { (.max, .max) }
    }

    private func isCut(_ line: Range<Int>) -> [Problem] {
        [Problem(.damaged, self.idsPath, at: line.lowerBound, byteCount: line.count, "the last line is cut off")]
    }

    /// Whether the files of a closed part are there.
    private func verifyFiles(
        _ manifest: PartManifest?, _ stored: StoredBytes<Files>?
    ) throws(FileSystemError) -> [Problem] {
        if case .open = self.standing { return [] }
        var problems: [Problem] = []
        let isCompressed = manifest?.gzipSHA256 != nil
        if case .closed = self.standing, let stored, manifest != nil, stored.isCompressed, !isCompressed {
            problems.append(
                Problem(.disagreement, self.manifestPath, "it has no gz_sha256, but its part is compressed"))
        }
        if stored == nil {
            let path = isCompressed || manifest == nil ? self.path + ".gz" : self.path
            problems.append(Problem(.missing, path, "its manifest exists, but the file does not"))
        }
        if try self.files.status(at: Path.join(self.root, self.idsPath)) == nil {
            problems.append(Problem(.missing, self.idsPath, "its part exists, but the file does not"))
        }
        return problems
    }

    private func verifyRecords(_ found: PartFacts<Files>, _ header: [UInt8], expected: [UInt8]?) -> [Problem] {
        var problems: [Problem] = []
        if let expected, found.recordCount > 0, header != expected, self.description.fileExtension == "csv" {
            problems.append(
                Problem(
                    .different, self.path, at: 0, byteCount: header.count,
                    "its header is not that of the export's columns"))
        }
        if found.recordCount != found.idsCount {
            problems.append(
                Problem(
                    .disagreement, self.path,
                    "it has \(found.recordCount) records, but its .ids list \(found.idsCount)"))
        }
        return problems
    }

    private func compare(_ manifest: PartManifest, _ found: PartFacts<Files>) -> [Problem] {
        var problems: [Problem] = []
        if manifest.recordCount != found.idsCount || manifest.eventCount != found.eventCount {
            problems.append(
                Problem(
                    .disagreement, self.idsPath,
                    "it lists \(found.idsCount) records and \(found.eventCount) events, but the part's manifest states "
                        + "\(manifest.recordCount) and \(manifest.eventCount)"))
        }
        if manifest.firstID != found.first || manifest.lastID != found.last {
            problems.append(
                Problem(.disagreement, self.idsPath, "its first and last id are not those in the part's manifest"))
        }
        let place = "exports/\(manifest.provider)/env=\(manifest.env)/date=\(manifest.day)"
        if !Path.parent(of: self.stem).hasSuffix(place) {
            problems.append(
                Problem(
                    .disagreement, self.manifestPath, "it is of \(manifest.provider), \(manifest.env), \(manifest.day)"
                ))
        }
        return problems
    }
}

/// What the records of a part and its `.ids` have; an object, because a local function that captures a value with a
/// `deinit` may keep it.
private final class PartFacts<Files: FileSystem> {
    private var lines: LineReader<Files>?
    private(set) var recordCount = 0
    private(set) var idsCount = 0
    private(set) var eventCount = 0
    private(set) var first = ""
    private(set) var last = ""
    /// The line that is cut off.
    private(set) var cut: Range<Int>?
    /// Why the ids cannot be read.
    private(set) var failure: FileSystemError?

    init(ids path: String, byteCount: Int, _ files: Files) throws(FileSystemError) {
        guard try files.status(at: path) != nil else { return }
        self.lines = try LineReader(path: path, byteCount: byteCount, lineByteCountMax: .max, files: files)
    }

    /// Counts a record and the line of its ids.
    func take(_ record: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer, UnsafeRawBufferPointer) -> Void) {
        self.recordCount += 1
        guard self.failure == nil else { return }
        do throws(FileSystemError) {
            guard let line = try self.nextLine() else { return }
            SharedRecord.visit(record, ids: line, body)
        } catch {
            self.failure = error
        }
    }

    /// Counts the lines without a record.
    func finish() throws(FileSystemError) {
        while try self.nextLine() != nil {}
    }

    private func nextLine() throws(FileSystemError) -> [UInt8]? {
        guard let line = try self.lines?.next() else { return nil }
        if !line.isTerminated { self.cut = line.range }
        let ids = line.bytes.split(separator: UInt8(ascii: ","))
        if self.idsCount == 0 { self.first = ids.first.map { String(decoding: $0, as: UTF8.self) } ?? "" }
        self.last = ids.last.map { String(decoding: $0, as: UTF8.self) } ?? ""
        self.idsCount += 1
        self.eventCount += ids.count
        return line.bytes
    }
}
