internal import WaybillJournal
internal import WaybillSystem

/// Determines whether the journal can restore a projection's output after a position.
struct JournalCoverage<Files: FileSystem> {
    let directory: String
    let files: Files

    /// Reads and verifies the journal from `position` to its end, without inflating it.
    func isWhole(from position: JournalPosition) throws(FileSystemError) -> Bool {
        guard let first = try self.first(), first <= position else { return false }
        var reader = JournalReader(directory: self.directory, position: position, files: self.files)
        let end = try self.end()
        while try reader.next(upTo: end) != nil {}
        return reader.takeDamages().isEmpty
    }

    /// The first position that the journal still has; `nil` if it is empty.
    func first() throws(FileSystemError) -> JournalPosition? {
        try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).min()
    }

    /// Where the last segment's file ends.
    func end() throws(FileSystemError) -> JournalPosition {
        guard let last = try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).max() else {
            return JournalPosition(0)
        }
        let status = try self.files.status(at: JournalPath.segment(last, in: self.directory))
        return JournalPosition(last.rawValue + (status?.byteCount ?? 0))
    }
}
