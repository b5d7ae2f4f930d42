package import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Finds up to where the journal's newest segment is whole, where no receiver says up to where it is durable.
///
/// A torn end is one that is still being written: it does not count yet. What it returns may be lost at a power cut,
/// because the receiver may not have synced it.
package struct JournalTip<Files: FileSystem>: ~Copyable {
    private struct Segment: ~Copyable {
        let base: JournalPosition
        var scanner: SegmentScanner<Files>
        /// After the last whole batch or mark.
        var whole: JournalPosition
    }

    private let directory: String
    private let files: Files
    private var segment: Segment?

    package init(journal directory: String, files: Files) {
        self.directory = directory
        self.files = files
    }

    /// The oldest and the newest segment; `nil` without any.
    package static func segments(
        of directory: String, files: Files
    ) throws(FileSystemError) -> ClosedRange<JournalPosition>? {
        guard try files.status(at: directory)?.kind == .directory else { return nil }
        let segments = try JournalPath.segments(in: directory, files)
        guard let first = segments.first, let last = segments.last else { return nil }
        return first...last
    }

    /// Where the newest segment's file ends; `nil` without a segment.
    package static func fileEnd(of directory: String, files: Files) throws(FileSystemError) -> JournalPosition? {
        guard let last = try self.segments(of: directory, files: files)?.upperBound,
            let status = try files.status(at: JournalPath.segment(last, in: directory))
        else { return nil }
        return JournalPosition(last.rawValue + status.byteCount)
    }

    /// The end of what is whole now; `nil` without a segment.
    package mutating func find() throws(FileSystemError) -> JournalPosition? {
        guard let base = try Self.segments(of: self.directory, files: self.files)?.upperBound,
            let status = try self.files.status(at: JournalPath.segment(base, in: self.directory))
        else {
            self.segment = nil
            return nil
        }
        let limit = JournalPosition(base.rawValue + status.byteCount)
        var open = self.segment.take()
        // A file that became shorter was cut by the receiver, whose disk refused the rest.
        if open?.base != base || (open?.scanner.limit ?? limit) > limit {
            open = Segment(
                base: base,
                scanner: try SegmentScanner(segment: base, in: self.directory, limit: limit, files: self.files),
                whole: base)
        }
        guard var segment = open.take() else { return nil }
        segment.scanner.extend(to: limit)
        segment.scanner.isReadingPayloads = false
        scan: while true {
            switch try segment.scanner.next() {
            case .message(.mark(_, _, _)), .batch: segment.whole = segment.scanner.position
            case .message: break
            case .end: break scan
            case .damaged: guard try segment.scanner.resynchronize() else { break scan }
            }
        }
        let whole = segment.whole
        self.segment = consume segment
        return whole
    }
}
