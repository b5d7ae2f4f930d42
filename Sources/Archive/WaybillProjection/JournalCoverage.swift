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
        guard let first = try self.first(), first <= position else { return false }
        if position == JournalPosition(0), try self.continuesOlderStreams(first) { return false }
        var reader = JournalReader(directory: self.directory, position: position, files: self.files)
        let end = try self.end()
        while try reader.next(upTo: end) != nil {}
        return reader.takeDamages().isEmpty
    }

    /// Whether the head of the first segment has streams with bytes: a journal that was lost had them.
    private func continuesOlderStreams(_ first: JournalPosition) throws(FileSystemError) -> Bool {
        var scanner = try SegmentScanner(
            segment: first, in: self.directory, limit: try self.end(), files: self.files)
        while case .message(let message) = try scanner.next() {
            switch message {
            case .at(_, let offset, _, _) where offset > StreamOffset(0): return true
            case .resting: return true
            case .mark: return false
            default: continue
            }
        }
        return false
    }

    /// The first position that the journal still has; `nil` if it is empty.
    package func first() throws(FileSystemError) -> JournalPosition? {
        try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).min()
    }

    /// Where the last segment's file ends.
    package func end() throws(FileSystemError) -> JournalPosition {
        guard let last = try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).max() else {
            return JournalPosition(0)
        }
        let status = try self.files.status(at: JournalPath.segment(last, in: self.directory))
        return JournalPosition(last.rawValue + (status?.byteCount ?? 0))
    }
}
