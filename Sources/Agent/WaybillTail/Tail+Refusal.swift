internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// Opens files without being led to others by a link, and refuses those that another user put in place.
///
/// A segment is opened from its folder, which is opened first and is not a link itself; its status and the folder's are
/// those of the open descriptors, so that nothing can be exchanged in between. A foreign file is opened from the folder
/// that precedes the first wildcard of its pattern: up to there the operator wrote the path, and links are followed.
extension Tail {
    /// Opens a file for reading; `nil` if it is refused.
    mutating func openUntrusted(_ path: String, _ file: TailedFile) throws(FileSystemError) -> FileID? {
        guard !file.isSegment else { return try self.openSegment(path) }
        // What was found outside the patterns is opened from its folder.
        if self.sources[file.source].followsLinks, self.source(of: path) != nil {
            return try self.files.open(path, .read)
        }
        let base = self.patterns[file.source].literalFolder(of: path) ?? Path.parent(of: path)
        do throws(FileSystemError) {
            let folder = try self.files.open(base.isEmpty ? "." : base, .read)
            defer { self.files.close(folder) }
            let rest = base.isEmpty ? path : String(Substring(path.utf8.dropFirst(Path.join(base, "").utf8.count)))
            return try self.withoutForeignNames(try self.files.open(rest, in: folder), path)
        } catch  where error.errno == Errno.link {
            self.notices.refuse(path, .link)
            return nil
        }
    }

    /// Refuses a log that has another name and belongs to another user than its folder.
    private mutating func withoutForeignNames(_ file: FileID, _ path: String) throws(FileSystemError) -> FileID? {
        try self.closing(file, path) { (tail, status) throws(FileSystemError) in
            guard status.linkCount > 1, let folder = try tail.files.status(at: Path.parent(of: path)) else {
                return nil
            }
            return FileRefusal(ofLog: status, in: folder)
        }
    }

    /// Closes a file that is refused, or cannot be judged.
    private mutating func closing(
        _ file: FileID, _ path: String,
        ifRefused judge: (inout Self, FileStatus) throws(FileSystemError) -> FileRefusal?
    ) throws(FileSystemError) -> FileID? {
        do throws(FileSystemError) {
            guard let refusal = try judge(&self, try self.files.status(file)) else { return file }
            self.notices.refuse(path, refusal)
        } catch {
            self.files.close(file)
            throw error
        }
        self.files.close(file)
        return nil
    }

    private mutating func openSegment(_ path: String) throws(FileSystemError) -> FileID? {
        guard let folder = try self.openSpool(of: path) else { return nil }
        defer { self.files.close(folder) }
        let file: FileID
        do throws(FileSystemError) {
            file = try self.files.open(Path.name(of: path), in: folder)
        } catch  where error.errno == Errno.link {
            self.notices.refuse(path, .link)
            return nil
        }
        return try self.closing(file, path) { (tail, status) throws(FileSystemError) in
            FileRefusal(ofSegment: status, in: try tail.files.status(folder))
        }
    }

    /// Opens the folder of a segment; `nil` if it is a link.
    mutating func openSpool(of path: String) throws(FileSystemError) -> FileID? {
        let folder = Path.parent(of: path)
        do throws(FileSystemError) {
            return try self.files.open(folder, .folder)
        } catch  where error.errno == Errno.link {
            self.notices.refuse(folder, .folderLink)
            return nil
        }
    }

    /// The status of a new segment, or of one that its writer has not named yet; `nil` if it is refused or gone.
    mutating func judgeSegment(_ path: String) throws(FileSystemError) -> FileStatus? {
        guard let folder = try self.openSpool(of: path) else { return nil }
        defer { self.files.close(folder) }
        guard let status = try self.files.status(of: Path.name(of: path), in: folder) else { return nil }
        guard let refusal = FileRefusal(ofSegment: status, in: try self.files.status(folder)) else { return status }
        self.notices.refuse(path, refusal)
        return nil
    }

    /// What is at a path; a link itself, unless the source follows links.
    func status(at path: String, source: Int) throws(FileSystemError) -> FileStatus? {
        self.sources[source].followsLinks ? try self.files.status(at: path) : try self.files.status(ofEntry: path)
    }
}

extension SourceConfiguration {
    var linkRule: GlobPattern.LinkRule {
        switch self.kind {
        case .spool: .spool
        case .files: self.followsLinks ? .followed : .ownPart
        }
    }
}
