package import WaybillSystem
internal import WaybillTail

/// The spools that this agent ships, each locked: two agents that ship one spool would send its lines twice.
///
/// A spool that does not exist yet is claimed once it does. The folder itself is locked, until the run ends.
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

    /// Claims the spools that exist; a folder with several names is claimed once.
    ///
    /// - Throws: when another agent ships a spool. A spool that cannot be read is neither claimed nor shipped.
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
            // A folder that is a link is not shipped.
            lock = try self.files.open(directory, .folder)
            identity = status.identity
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
