internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
internal import WaybillSystem

/// Reads the records of a part together with the ids of their events.
///
///     .ndjson .log   a line           .csv   a line, where line feeds in quotes end none; the first is the header
///     .json          a line without the punctuation of the array           .export   fields up to an empty line
///
/// Memory is one record.
struct RecordReader<Files: FileSystem>: ~Copyable {
    private let fileExtension: String
    private var lines: LineReader<Files>
    private var ids: LineReader<Files>
    private var isAtHeader: Bool
    /// A CSV part's first row, with its terminator, once a record was read.
    private(set) var header: [UInt8] = []

    /// Longer records are cut, because no provider accepts them.
    private static var recordByteCountMax: Int { 64 << 20 }

    /// Opens a part.
    ///
    /// - Parameters:
    ///   - stem: the part's path without its extension.
    ///   - isCompressed: whether its manifest names the compressed file.
    ///   - byteCount: how many bytes of the records, and of the ids, are valid.
    init(
        stem: String, fileExtension: String, isCompressed: Bool, byteCount: Int, idsByteCount: Int, files: Files
    ) throws(FileSystemError) {
        self.fileExtension = fileExtension
        self.isAtHeader = fileExtension == "csv"
        let lines = LineReader(
            try StoredBytes(path: "\(stem).\(fileExtension)", isCompressed: isCompressed, files: files),
            byteCount: byteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        let ids = try LineReader(
            path: stem + ".ids", byteCount: idsByteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        self.lines = lines
        self.ids = ids
    }

    /// The next record without its terminator, and its events' ids; `nil` at the end.
    mutating func next() throws(FileSystemError) -> (record: [UInt8], ids: [ArraySlice<UInt8>])? {
        if self.isAtHeader {
            self.isAtHeader = false
            self.header = (try self.nextRecord() ?? []) + Array("\r\n".utf8)
        }
        guard let ids = try self.ids.next(), let record = try self.nextRecord() else { return nil }
        return (record, ids.bytes.split(separator: UInt8(ascii: ",")))
    }

    private mutating func nextRecord() throws(FileSystemError) -> [UInt8]? {
        switch self.fileExtension {
        case "csv": try self.nextQuoted()
        case "export": try self.nextEntry()
        case "json": try self.nextElement()
        default: try self.lines.next()?.bytes
        }
    }

    private mutating func nextQuoted() throws(FileSystemError) -> [UInt8]? {
        guard var record = try self.lines.next()?.bytes else { return nil }
        while record.count(where: { $0 == UInt8(ascii: "\"") }) % 2 == 1, let more = try self.lines.next() {
            record += [0x0A] + more.bytes
        }
        if record.last == 0x0D { record.removeLast() }
        return record
    }

    private mutating func nextElement() throws(FileSystemError) -> [UInt8]? {
        guard var record = try self.lines.next()?.bytes else { return nil }
        if record.first == UInt8(ascii: "[") { record.removeFirst() }
        if let last = record.last, last == UInt8(ascii: ",") || last == UInt8(ascii: "]") { record.removeLast() }
        return record
    }

    private mutating func nextEntry() throws(FileSystemError) -> [UInt8]? {
        var record: [UInt8] = []
        while let line = try self.lines.next() {
            if line.bytes.isEmpty { return record }
            record += line.bytes + [0x0A]
            guard !line.bytes.contains(UInt8(ascii: "=")) else { continue }
            // Eight bytes hold the length of the value, which may contain any bytes.
            let start = record.count
            while let more = try self.lines.next() {
                record += more.bytes + [0x0A]
                guard record.count - start > 8 else { continue }
                let length = record[start..<(start + 8)].reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
                if UInt64(record.count - start) >= length.addingReportingOverflow(9).partialValue { break }
            }
        }
        return record.isEmpty ? nil : record
    }
}
