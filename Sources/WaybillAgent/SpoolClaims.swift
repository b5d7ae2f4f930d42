package import WaybillSystem
internal import WaybillTail

/// The spools that this agent ships, each locked: two agents that ship one spool would send its lines twice.
///
/// A spool that does not exist yet is claimed once it does. The folder itself is locked, until the run ends.
package struct SpoolClaims<Files: FileSystem>: ~Copyable {
    private let files: Files
    private var spools: [GlobPattern]
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

    /// Claims these spools instead of the former ones; those of both stay claimed throughout.
    ///
    /// - Throws: when another agent ships a new one; then nothing changes.
    package mutating func replace(with spools: [String]) throws(FileSystemError) {
        let former = (spools: self.spools, locks: self.locks)
        self.spools = spools.map { GlobPattern($0) }
        do throws(FileSystemError) {
            try self.claim()
        } catch {
            self.release { former.locks[$0] == nil }
            self.spools = former.spools
            throw error
        }
        var kept: Set<FileIdentity> = []
        for spool in self.spools {
            var expansion = GlobPattern.Expansion()
            spool.expand(on: self.files, into: &expansion)
            for path in expansion.paths {
                do throws(FileSystemError) {
                    if let status = try self.files.status(at: path) { kept.insert(status.identity) }
                } catch {
                    // Which folder this is cannot be told now: every claim stays.
                    return
                }
            }
        }
        self.release { !kept.contains($0) }
    }

    private mutating func release(where isReleased: (FileIdentity) -> Bool) {
        for (identity, lock) in self.locks where isReleased(identity) {
            self.files.close(lock)
            self.locks[identity] = nil
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
            // Nothing of it is read either, before another look.
            if error.code == .hanging { return }
            throw error
        }
        self.locks[identity] = lock
    }
}
