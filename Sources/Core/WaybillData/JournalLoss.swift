internal import WaybillSystem

/// How a journal lost its files while it was open: its folder, or one of its segments, is no longer at its path.
///
/// A write to a deleted file succeeds, and so does its sync: a journal that does not look acknowledges into nothing.
/// The path is compared with what was there before, so a folder that was moved away, deleted or replaced is noticed too.
package struct JournalLoss: Hashable, Sendable, CustomStringConvertible {
    /// What was found at the path.
    package enum Finding: Hashable, Sendable {
        /// Nothing: it was deleted, or a folder above it was deleted or moved.
        case nothing
        /// Something else.
        case another
    }

    /// What was lost.
    package enum Part: Hashable, Sendable {
        case folder
        /// The newest segment: the one that is being written, or was written last.
        case lastSegment
        /// An older segment that not every reader has passed.
        case unreadSegment
    }

    package let path: String
    package let finding: Finding
    package let part: Part
    /// The position up to which everything was acknowledged.
    package let end: JournalPosition

    package init(path: String, finding: Finding, part: Part, end: JournalPosition) {
        self.path = path
        self.finding = finding
        self.part = part
        self.end = end
    }

    /// Whether it is the journal's folder, with all that was in it.
    package var isFolder: Bool { self.part == .folder }

    package var description: String {
        let what =
            switch self.part {
            case .folder: "the journal's folder"
            case .lastSegment: "the journal's open segment"
            case .unreadSegment: "a segment of the journal that was not read to its end,"
            }
        let finding = self.finding == .nothing ? "was deleted or moved" : "was replaced by another one"
        return "\(what) \(self.path) \(finding) while the receiver was running"
    }
}

/// Remembers what the journal's files are, and compares them with what is at their paths.
struct JournalWatch<Files: FileSystem> {
    private let directory: String
    private let files: Files
    /// What the folder was at the start.
    private let folder: FileIdentity?
    private var segments: [JournalPosition: FileIdentity] = [:]
    /// The last older segment that was compared.
    private var cursor = JournalPosition(0)

    /// How many older segments one call compares: a journal of a terabyte has thousands.
    private static var comparedCountMax: Int { 16 }

    init(
        directory: String, folder: FileIdentity?, segments: [JournalPosition], files: Files
    ) throws(FileSystemError) {
        self.directory = directory
        self.files = files
        self.folder = folder
        for segment in segments {
            self.segments[segment] = try files.status(at: JournalPath.segment(segment, in: directory))?.identity
        }
    }

    mutating func created(_ segment: JournalPosition, _ identity: FileIdentity) {
        self.segments[segment] = identity
    }

    mutating func retired(_ segment: JournalPosition) {
        self.segments[segment] = nil
    }

    /// Compares the folder, the last of `segments`, and some of those before it that end after `unread`, in turn.
    mutating func findLoss(
        in segments: [JournalPosition], unread: JournalPosition?, end: JournalPosition
    ) throws(FileSystemError) -> JournalLoss? {
        if let folder, let finding = try self.files.finding(at: self.directory, insteadOf: folder) {
            return JournalLoss(path: self.directory, finding: finding, part: .folder, end: end)
        }
        guard let last = segments.last else { return nil }
        if let loss = try self.compare(last, .lastSegment, end) { return loss }
        guard let unread else { return nil }
        let first = max(0, (segments.firstIndex { $0 > unread } ?? segments.count) - 1)
        let older = segments[first...].dropLast()
        let next = older.firstIndex { $0 > self.cursor } ?? older.startIndex
        for segment in (older[next...] + older[..<next]).prefix(Self.comparedCountMax) {
            self.cursor = segment
            if let loss = try self.compare(segment, .unreadSegment, end) { return loss }
        }
        return nil
    }

    private func compare(
        _ segment: JournalPosition, _ part: JournalLoss.Part, _ end: JournalPosition
    ) throws(FileSystemError) -> JournalLoss? {
        guard let known = self.segments[segment] else { return nil }
        let path = JournalPath.segment(segment, in: self.directory)
        guard let finding = try self.files.finding(at: path, insteadOf: known) else { return nil }
        return JournalLoss(path: path, finding: finding, part: part, end: end)
    }
}

extension FileSystem {
    /// Compares what is at a path with what was there before.
    ///
    /// - Returns: `nil` if it is the same.
    fileprivate func finding(at path: String, insteadOf known: FileIdentity) throws(FileSystemError) -> JournalLoss
        .Finding?
    {
        guard let status = try self.status(at: path) else { return .nothing }
        return status.identity == known ? nil : .another
    }
}
