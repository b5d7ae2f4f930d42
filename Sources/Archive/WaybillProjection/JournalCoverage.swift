package import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Determines whether the journal can restore a projection's output after a position.
package struct JournalCoverage<Files: FileSystem> {
    let directory: String
    let files: Files

    package init(directory: String, files: Files) {
        self.directory = directory
        self.files = files
    }

    /// Reads and verifies the journal from `position` to its end, without inflating it.
    package func isWhole(from position: JournalPosition) throws(FileSystemError) -> Bool {
        let segments = try self.segments()
        guard let first = segments.first, first <= position else { return false }
        let end = try self.end(of: segments)
        if position == JournalPosition(0), try self.hasLostRecords(segments, upTo: end) { return false }
        var reader = JournalReader(directory: self.directory, position: position, files: self.files)
        while try reader.next(upTo: end) != nil {}
        return reader.takeDamages().isEmpty
    }

    /// Whether a journal was lost before the first segment began, or an end of it since: a lost end leaves no gap.
    private func hasLostRecords(
        _ segments: [JournalPosition], upTo end: JournalPosition
    ) throws(FileSystemError) -> Bool {
        let first = try self.head(of: segments[0], upTo: end)
        if first.continuesOlderStreams { return true }
        for segment in segments.dropFirst().reversed() {
            // A head that a crash has torn says nothing.
            guard let incarnation = try self.head(of: segment, upTo: end).incarnation else { continue }
            return incarnation != first.incarnation
        }
        return false
    }

    private struct Head {
        /// The last one.
        var incarnation: Incarnation?
        /// Whether it has streams with bytes.
        var continuesOlderStreams = false
    }

    /// What a segment's first group says.
    private func head(of segment: JournalPosition, upTo end: JournalPosition) throws(FileSystemError) -> Head {
        var scanner = try SegmentScanner(segment: segment, in: self.directory, limit: end, files: self.files)
        var head = Head()
        while case .message(let message) = try scanner.next() {
            switch message {
            case .start(_, let incarnation): head.incarnation = incarnation
            case .at(_, let offset, _, _) where offset > StreamOffset(0): head.continuesOlderStreams = true
            case .resting: head.continuesOlderStreams = true
            case .mark: return head
            default: continue
            }
        }
        return head
    }

    /// The first position that the journal still has; `nil` if it is empty.
    package func first() throws(FileSystemError) -> JournalPosition? {
        try self.segments().first
    }

    /// Where the last segment's file ends.
    package func end() throws(FileSystemError) -> JournalPosition {
        try self.end(of: self.segments())
    }

    private func end(of segments: [JournalPosition]) throws(FileSystemError) -> JournalPosition {
        guard let last = segments.last else { return JournalPosition(0) }
        let status = try self.files.status(at: JournalPath.segment(last, in: self.directory))
        return JournalPosition(last.rawValue + (status?.byteCount ?? 0))
    }

    /// Where the segments begin, in their order.
    private func segments() throws(FileSystemError) -> [JournalPosition] {
        try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).sorted()
    }
}
