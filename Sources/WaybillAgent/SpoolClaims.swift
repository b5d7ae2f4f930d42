package import WaybillSystem
internal import WaybillTail

/// The spools that this agent ships, each locked against others: two that ship one spool would send its lines twice.
///
/// A spool that is not there yet is claimed when it is. It is the folder itself that is locked, until the run ends.
package struct SpoolClaims<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let spools: [GlobPattern]
    private var locks: [FileIdentity: FileID] = [:]

    /// - Parameter spools: folders, or patterns of folders.
    package init(_ spools: [String], on files: Files) {
        self.files = files
        self.spools = spools.map { GlobPattern($0) }
    }

    deinit {
        for lock in self.locks.values { self.files.close(lock) }
    }

    /// Claims what is there; a folder that several names lead to once.
    ///
    /// - Throws: when somebody else ships a spool. One that cannot be read is not claimed, and nothing in it is shipped
    ///   either.
    package mutating func claim() throws(FileSystemError) {
        for spool in self.spools {
            var expansion = GlobPattern.Expansion()
            spool.expand(on: self.files, into: &expansion)
            for path in expansion.paths { try self.claim(path) }
        }
    }

    private mutating func claim(_ directory: String) throws(FileSystemError) {
        let identity: FileIdentity
        let lock: FileID
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: directory), status.kind == .directory,
                self.locks[status.identity] == nil
            else { return }
            identity = status.identity
            lock = try self.files.open(directory, .read)
        } catch {
            return
        }
        do throws(FileSystemError) {
            guard try self.files.lock(lock, .exclusive) else {
                throw FileSystemError("lock", path: directory, errno: Errno.inUse)
            }
        } catch {
            self.files.close(lock)
            throw error
        }
        self.locks[identity] = lock
    }
}
