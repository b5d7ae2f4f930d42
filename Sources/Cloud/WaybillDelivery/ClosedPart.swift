package import WaybillSystem

internal import WaybillData
internal import WaybillExport
internal import WaybillProjection

/// One record of a part and the events in it.
package struct PartRecord: Hashable, Sendable {
    package let number: Int
    /// The bytes without separators between records.
    package let content: [UInt8]
    /// The line of the `.ids` file: ids with commas between them, `-` for an event without one.
    let ids: [UInt8]

    package var eventIDs: [String?] {
        self.ids.split(separator: UInt8(ascii: ","), omittingEmptySubsequences: false).map {
            $0.elementsEqual("-".utf8) ? nil : String(decoding: $0, as: UTF8.self)
        }
    }

    package var eventCount: Int {
        self.ids.reduce(1) { $0 + ($1 == UInt8(ascii: ",") ? 1 : 0) }
    }
}

/// Why a part cannot be delivered.
package enum PartError: Error, Hashable, Sendable {
    case disk(FileSystemError)
    /// Its files do not match its manifest.
    case damaged(detail: String)
}

/// A part whose bytes match its manifest; records are read by number.
final class ClosedPart<Files: FileSystem> {
    let manifest: PartManifest
    private let files: Files
    private let records: StoredBytes<Files>
    private let ids: StoredBytes<Files>
    private let format: RecordFormat
    /// The offsets of every 256th record and its ids.
    private var marks: [(record: Int, ids: Int)] = []

    private static var recordsPerMark: Int { 256 }

    /// Opens a part and reads it completely once.
    ///
    /// - Parameter stem: the path up to and including `part-00000`.
    init(
        stem: String, fileExtension: String, manifest: PartManifest, files: Files
    ) throws(PartError) {
        self.manifest = manifest
        self.files = files
        self.format = RecordFormat(fileExtension: fileExtension)
        do throws(FileSystemError) {
            self.records = try StoredBytes(
                path: "\(stem).\(fileExtension)", isCompressed: manifest.gzipSHA256 != nil, files: files)
            self.ids = try StoredBytes(path: "\(stem).ids", isCompressed: false, files: files)
        } catch {
            guard error.errno == Errno.noEntry else { throw .disk(error) }
            throw .damaged(detail: "\(error.path) is missing")
        }
        try self.verify(stem)
    }

    private func verify(_ stem: String) throws(PartError) {
        var digest = SHA256Digest()
        var recordMarks: [Int] = []
        let recordCount = try self.index(self.records, self.format, into: &recordMarks) { digest.update($0) }
        var idMarks: [Int] = []
        let idCount = try self.index(self.ids, .lines, into: &idMarks) { _ in }
        let sha256 = digest.finish()
        guard sha256 == self.manifest.sha256 else {
            throw .damaged(detail: "\(stem) has SHA-256 \(sha256), but its manifest states \(self.manifest.sha256)")
        }
        guard recordCount == self.manifest.recordCount, idCount == recordCount else {
            throw .damaged(
                detail: "\(stem) has \(recordCount) records and \(idCount) lines of ids, but its manifest states "
                    + "\(self.manifest.recordCount) records")
        }
        self.marks = zip(recordMarks, idMarks).map { (record: $0, ids: $1) }
    }

    /// - Returns: how many records the file has; one without a terminator does not count.
    private func index(
        _ file: StoredBytes<Files>, _ format: RecordFormat, into marks: inout [Int],
        _ visit: (UnsafeRawBufferPointer) -> Void
    ) throws(PartError) -> Int {
        var cutter = RecordCutter(format)
        var count = 0
        var found: [Int] = []
        do throws(PartReadError) {
            try file.visit { piece in
                visit(piece)
                cutter.take(piece) { _, range in
                    if count % Self.recordsPerMark == 0 { found.append(range.lowerBound) }
                    count += 1
                }
            }
        } catch {
            switch error {
            case .disk(let cause): throw .disk(cause)
            case .damaged: throw .damaged(detail: "\(error)")
            }
        }
        marks = found
        return count
    }

    /// The number of records from `first` on that fit into one request; at least one.
    func requestRecordCount(from first: Int, recordCountMax: Int, byteCountMax: Int) throws(PartError) -> Int {
        var count = 0
        var byteCount = 0
        try self.visit(RecordSet(first..<min(first + recordCountMax, self.manifest.recordCount))) { record in
            byteCount += record.content.count + 1
            if count > 0, byteCount > byteCountMax { return false }
            count += 1
            return true
        }
        return count
    }

    /// These records, in order.
    func read(_ numbers: RecordSet) throws(PartError) -> [PartRecord] {
        var records: [PartRecord] = []
        try self.visit(numbers) { record in
            records.append(record)
            return true
        }
        return records
    }

    /// - Parameter body: returns whether to continue.
    private func visit(_ numbers: RecordSet, _ body: (PartRecord) -> Bool) throws(PartError) {
        var records = LineReader(self.records, files: self.files)
        var ids = LineReader(self.ids, files: self.files)
        var cutter = RecordCutter(self.format)
        var position = 0
        for number in numbers.numbers {
            let mark = number / Self.recordsPerMark
            if mark > position / Self.recordsPerMark {
                records.seek(to: self.marks[mark].record)
                ids.seek(to: self.marks[mark].ids)
                position = mark * Self.recordsPerMark
            }
            do throws(FileSystemError) {
                while position < number {
                    _ = try cutter.next(in: &records)
                    _ = try ids.next()
                    position += 1
                }
                guard let record = try cutter.next(in: &records), let ids = try ids.next(), record.isTerminated,
                    ids.isTerminated
                else {
                    throw FileSystemError("read", path: self.records.path, errno: Errno.inputOutput)
                }
                position += 1
                guard body(PartRecord(number: number, content: record.bytes, ids: ids.bytes)) else { return }
            } catch {
                throw error.isDamage ? .damaged(detail: "\(error.path) is damaged") : .disk(error)
            }
        }
    }
}
