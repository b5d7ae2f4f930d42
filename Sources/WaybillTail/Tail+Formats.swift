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

    /// Looks at the head of an open file whose stream is not known yet.
    mutating func recognized(_ key: StreamKey, _ descriptor: FileID, _ status: FileStatus?) -> OpenOutcome {
        guard !self.table[key].isSegment, !self.table[key].isIdentified else { return .opened(descriptor) }
        let path = self.table[key].path
        do throws(FileSystemError) {
            let count = try self.files.readFully(descriptor, at: 0, into: self.headBuffer)
            let head = UnsafeRawBufferPointer(rebasing: self.headBuffer[..<count])
            guard let format = ForeignFormat(head: head) else { return .opened(descriptor) }
            guard format == .compressed else {
                self.report(format, of: path)
                return .opened(descriptor)
            }
            let status = if let status { status } else { try self.files.status(descriptor) }
            self.unsuitable[status.identity] = Unsuitable(
                byteCount: status.byteCount, modified: status.modified, scanSeen: self.scanCount)
        } catch {
            // The read that follows fails as well, and reports it.
            return .opened(descriptor)
        }
        self.refuse(path, .compressed)
        self.forget(key)
        return .failed
    }

    private mutating func report(_ format: ForeignFormat, of path: String) {
        guard self.complaints.count < Self.complaintCountMax,
            self.complaints.insert(PathKey("format:\(path)")).inserted
        else { return }
        self.formats[format, default: 0] += 1
        self.notices.append(.recognized(path: path, format))
    }
}
