internal import WaybillData
internal import WaybillExport
internal import WaybillSystem

/// Reads the records of a part together with the ids of their events.
///
/// Memory is one record.
struct RecordReader<Files: FileSystem>: ~Copyable {
    private var records: LineReader<Files>
    private var ids: LineReader<Files>
    private var cutter: RecordCutter
    /// A CSV part's first row, with its terminator, once a record was read.
    var header: [UInt8] { self.cutter.header }

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
        self.cutter = RecordCutter(RecordFormat(fileExtension: fileExtension))
        let records = LineReader(
            try StoredBytes(path: "\(stem).\(fileExtension)", isCompressed: isCompressed, files: files),
            byteCount: byteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        let ids = try LineReader(
            path: stem + ".ids", byteCount: idsByteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        self.records = records
        self.ids = ids
    }

    /// The next record without its terminator, and its events' ids; `nil` at the end.
    mutating func next() throws(FileSystemError) -> (record: [UInt8], ids: [ArraySlice<UInt8>])? {
        guard let ids = try self.ids.next(), let record = try self.cutter.next(in: &self.records) else { return nil }
        return (record.bytes, ids.bytes.split(separator: UInt8(ascii: ",")))
    }
}
