internal import WaybillData
internal import WaybillExport
internal import WaybillSystem

/// Reads the records of a part together with the ids of their events.
///
/// Memory is one record.
struct RecordReader<Files: FileSystem>: ~Copyable {
    struct Entry {
        /// Without its terminator.
        let record: [UInt8]
        /// Where it is in the part's bytes, including what is around it.
        let range: Range<Int>
        /// The line of `.ids`, and where it begins.
        let line: [UInt8]
        let lineOffset: Int

        /// The ids of its events.
        let ids: [ArraySlice<UInt8>]
    }

    private var records: LineReader<Files>
    private var ids: LineReader<Files>
    private var cutter: RecordCutter
    /// Whether the compressed file is read.
    let isCompressed: Bool
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
        let stored = try StoredBytes(path: "\(stem).\(fileExtension)", isCompressed: isCompressed, files: files)
        let records = LineReader(
            stored, byteCount: byteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        let ids = try LineReader(
            path: stem + ".ids", byteCount: idsByteCount, lineByteCountMax: Self.recordByteCountMax, files: files)
        self.isCompressed = stored.isCompressed
        self.records = records
        self.ids = ids
    }

    /// The next record and its events' ids; `nil` at the end.
    mutating func next() throws(FileSystemError) -> Entry? {
        guard let ids = try self.ids.next(), let record = try self.cutter.next(in: &self.records) else { return nil }
        return Entry(
            record: record.bytes, range: record.range, line: ids.bytes, lineOffset: ids.range.lowerBound,
            ids: ids.bytes.split(separator: UInt8(ascii: ",")))
    }
}
