internal import WaybillSystem

/// Recognises foreign files that are no NDJSON when they are first read, and leaves out those that have no lines at all.
extension Tail {
    /// A file that is left out as long as it does not change.
    struct Unsuitable {
        var byteCount: Int
        var modified: Int64
        var scanSeen: UInt32
    }

    /// Whether a file was left out before and has not changed since; called for each new one that a scan finds.
    mutating func isLeftOut(_ status: FileStatus) -> Bool {
        guard let known = self.unsuitable[status.identity], known.byteCount == status.byteCount,
            known.modified == status.modified
        else { return false }
        self.unsuitable[status.identity]?.scanSeen = self.scanCount
        return true
    }

    /// Forgets the files that no pattern matches any more.
    mutating func forgetUnsuitable() {
        guard !self.unsuitable.isEmpty else { return }
        self.unsuitable = self.unsuitable.filter { $0.value.scanSeen == self.scanCount }
    }

    /// Judges the head of a file whose stream is not known yet; one without lines is refused and forgotten.
    mutating func isSuitable(
        _ key: StreamKey, _ descriptor: FileID, _ head: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> Bool {
        guard let format = ForeignFormat(head: head) else { return true }
        let path = self.table[key].path
        guard format == .compressed else {
            self.report(format, of: path)
            return true
        }
        let status = try self.files.status(descriptor)
        self.unsuitable[status.identity] = Unsuitable(
            byteCount: status.byteCount, modified: status.modified, scanSeen: self.scanCount)
        self.refuse(path, .compressed)
        self.forget(key)
        return false
    }

    private mutating func report(_ format: ForeignFormat, of path: String) {
        guard self.complaints.count < Self.complaintCountMax,
            self.complaints.insert(PathKey("format:\(path)")).inserted
        else { return }
        self.formats[format, default: 0] += 1
        self.notices.append(.recognized(path: path, format))
    }
}
