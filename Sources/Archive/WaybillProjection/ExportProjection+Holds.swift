internal import WaybillData
package import WaybillExport
internal import WaybillSystem

/// A record that its provider does not accept yet, as a line of `held` in the day's folder.
///
///     0199a1b2-c3d4-7e5f-8a6b-7c8d9e0f1a2b 1795251600000 1795255200000 {"event":"Product Tapped",…}
///
/// The id, the time from which the provider accepts it and the event's time, in milliseconds since 1970; then the
/// record.
package enum HeldRecord {
    package static let fileName = "held"

    package static func line(of event: HeldEvent) -> [UInt8] {
        Array(event.id) + " \(event.notBefore.milliseconds) \(event.record.oldest.milliseconds) ".utf8
            + event.record.bytes
    }

    /// The id, time and record with its line feed; `nil` if the line is invalid.
    static func fields(
        of line: UnsafeRawBufferPointer
    ) -> (id: UnsafeRawBufferPointer, time: WallTime, record: UnsafeRawBufferPointer)? {
        let fields = Self.split(line)
        guard fields.count == 4, let time = Int64(String(decoding: fields[2], as: UTF8.self)) else { return nil }
        return (fields[0], WallTime(milliseconds: time), fields[3])
    }

    /// The id and the record, whatever the times are; `nil` if the line does not have them.
    package static func event(
        of line: UnsafeRawBufferPointer
    ) -> (id: UnsafeRawBufferPointer, record: UnsafeRawBufferPointer)? {
        let fields = Self.split(line)
        return fields.count == 4 ? (fields[0], fields[3]) : nil
    }

    private static func split(_ line: UnsafeRawBufferPointer) -> [UnsafeRawBufferPointer] {
        line.split(separator: 0x20, maxSplits: 3, omittingEmptySubsequences: false).map {
            UnsafeRawBufferPointer(rebasing: $0)
        }
    }

    /// How much of a partition's file was released, from the entries of its export's checkpoint.
    package static func releasedByteCount(of partition: String, in entries: [String: String]) -> Int {
        entries[PartStanding.keyPrefix + partition].flatMap(PartStanding.init(text:))?.releasedByteCount ?? 0
    }

    /// The number of held records in a partition's folder.
    static func count(in folder: String, files: some FileSystem) throws(FileSystemError) -> Int {
        let path = Path.join(folder, Self.fileName)
        guard try files.status(at: path) != nil else { return 0 }
        let file = try files.open(path, .read)
        defer { files.close(file) }
        var count = 0
        try files.visit(file, 0..<Int.max) { (piece) throws(FileSystemError) in count += piece.count { $0 == 0x0A } }
        return count
    }
}

/// Holds events that a provider does not accept yet.
///
/// They wait in a file of their day, as finished records. Once their time has passed, a seal writes them to the day's
/// open part, and its commit records how much of the file was released. The file is kept, so that an older checkpoint
/// finds all of it.
extension ExportProjection {
    private static var pieceByteCount: Int { 256 << 10 }

    /// Writes a day's held records to its parts.
    mutating func release(_ index: Int, _ key: ExportDay) throws(FileSystemError) {
        let path = "\(self.path(key))/\(HeldRecord.fileName)"
        guard self.set.contains(path) else { return }
        let held = self.set.index(of: path)
        let byteCount = self.set.byteCount(of: held)
        let file = try self.files.open(self.set.path(of: held), .read)
        defer { self.files.close(file) }
        var size = Self.pieceByteCount
        var offset = self.sink.releasedByteCount(index)
        while offset < byteCount {
            let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: min(size, byteCount - offset), alignment: 16)
            defer { piece.deallocate() }
            let count = try self.files.readFully(file, at: offset, into: piece)
            guard let end = piece[..<count].lastIndex(of: 0x0A) else {
                guard size < byteCount else { break }
                size *= 2
                continue
            }
            size = Self.pieceByteCount
            self.release(UnsafeRawBufferPointer(rebasing: piece[...end]), key)
            offset += end + 1
            try self.write(index)
        }
        self.sink.released(index, upTo: byteCount)
    }

    private mutating func release(_ lines: UnsafeRawBufferPointer, _ key: ExportDay) {
        var start = 0
        while let end = lines.firstNewline(from: start) {
            defer { start = end + 1 }
            // Only damage can make the line invalid; its event is in the archive.
            guard let line = HeldRecord.fields(of: UnsafeRawBufferPointer(rebasing: lines[start...end])) else {
                continue
            }
            // Its fixes are already counted, and an early event is not late.
            self.sink.release(
                ExportRecord(
                    bytes: line.record, ids: line.id, eventCount: 1, env: key.env, day: key.day, oldest: line.time,
                    fixes: FixCounts(), firstID: line.id, lastID: line.id, late48HoursCount: 0, late24HoursCount: 0))
        }
    }
}
