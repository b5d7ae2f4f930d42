internal import WaybillSystem

/// Foreign files that are not followed because they have no lines, for as long as they do not change.
struct LeftOutFiles {
    private struct File {
        let byteCount: Int
        let modified: Int64
        var scanSeen: UInt32
    }

    private var files: [FileIdentity: File] = [:]

    mutating func insert(_ status: FileStatus, inScan scan: UInt32) {
        self.files[status.identity] = File(byteCount: status.byteCount, modified: status.modified, scanSeen: scan)
    }

    /// Whether a file was left out before and has not changed since; called for each new one that a scan finds.
    mutating func contains(_ status: FileStatus, inScan scan: UInt32) -> Bool {
        guard let known = self.files[status.identity], known.byteCount == status.byteCount,
            known.modified == status.modified
        else { return false }
        self.files[status.identity]?.scanSeen = scan
        return true
    }

    /// Forgets the files that no pattern matched in a scan.
    mutating func forgetUnseen(inScan scan: UInt32) {
        guard !self.files.isEmpty else { return }
        self.files = self.files.filter { $0.value.scanSeen == scan }
    }
}
