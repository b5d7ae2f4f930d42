package import WaybillSystem

/// The spools that this agent ships, each locked against others: two that ship one spool would send its lines twice.
///
/// A spool that is not there yet is claimed when it is. It is the folder itself that is locked, until the run ends.
package struct SpoolClaims<Files: FileSystem>: ~Copyable {
    private let files: Files
    private var unclaimed: [String]
    private var locks: [FileID] = []

    package init(_ spools: [String], on files: Files) {
        self.files = files
        self.unclaimed = spools
    }

    deinit {
        for lock in self.locks { self.files.close(lock) }
    }

    /// Claims what is there.
    ///
    /// - Throws: when somebody else ships a spool. One that cannot be read is not claimed, and nothing in it is shipped
    ///   either.
    package mutating func claim() throws(FileSystemError) {
        var rest: [String] = []
        for directory in self.unclaimed {
            guard try !self.claim(directory) else { continue }
            rest.append(directory)
        }
        self.unclaimed = rest
    }

    private mutating func claim(_ directory: String) throws(FileSystemError) -> Bool {
        let lock: FileID
        do throws(FileSystemError) {
            guard try self.files.status(at: directory)?.kind == .directory else { return false }
            lock = try self.files.open(directory, .read)
        } catch {
            return false
        }
        do throws(FileSystemError) {
            guard try self.files.lock(lock, .exclusive) else {
                throw FileSystemError("lock", path: directory, errno: SystemErrorText.inUse)
            }
        } catch {
            self.files.close(lock)
            throw error
        }
        self.locks.append(lock)
        return true
    }
}
