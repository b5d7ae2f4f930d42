internal import WaybillSystem

/// How an open journal lost its files: its folder, or the segment that is being written, is no longer at its path.
///
/// A write to a deleted file succeeds, and so does its sync: a journal that does not look acknowledges into nothing.
/// The path is compared with what was opened there, so a folder that was moved away, deleted or replaced is noticed too.
package struct JournalLoss: Hashable, Sendable, CustomStringConvertible {
    /// What was found at the path.
    package enum Finding: Hashable, Sendable {
        /// Nothing: it was deleted, or a folder above it was deleted or moved.
        case nothing
        /// Something else.
        case another
    }

    package let path: String
    package let finding: Finding
    /// Whether it is the journal's folder, and not only the open segment.
    package let isFolder: Bool
    /// The position up to which everything was acknowledged.
    package let end: JournalPosition

    package init(path: String, finding: Finding, isFolder: Bool, end: JournalPosition) {
        self.path = path
        self.finding = finding
        self.isFolder = isFolder
        self.end = end
    }

    package var description: String {
        let what = self.isFolder ? "the journal's folder" : "the journal's open segment"
        let finding = self.finding == .nothing ? "was deleted or moved" : "was replaced by another one"
        return "\(what) \(self.path) \(finding) while the receiver was running"
    }
}

extension FileSystem {
    /// Compares what is at a path with what was there before.
    ///
    /// - Returns: `nil` if it is the same.
    func finding(at path: String, insteadOf known: FileIdentity) throws(FileSystemError) -> JournalLoss.Finding? {
        guard let status = try self.status(at: path) else { return .nothing }
        return status.identity == known ? nil : .another
    }
}
