#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The limits that the system sets for this process.
package enum ProcessLimits {
    /// Raises the limit of open files, and returns how many of them each projection may keep.
    ///
    /// - Parameters:
    ///   - wanted: the limit for the whole process.
    ///   - needed: with a lower limit for the whole process, each projection has few.
    package static func projectionFileCount(ofOpenFiles wanted: Int, needed: Int) -> Int {
        self.raiseOpenFileCount(to: wanted) >= needed ? 512 : 64
    }

    /// How many files the archive may keep open: those that all projections together do not need, at most 4096.
    ///
    /// It has two files for each day of each app; one that is closed for another is synced first.
    package static func archiveFileCount(ofOpenFiles wanted: Int, needed: Int) -> Int {
        let spare = self.raiseOpenFileCount(to: wanted) - needed
        return max(self.projectionFileCount(ofOpenFiles: wanted, needed: needed), min(4096, spare))
    }

    /// Raises the limit as far as possible without privileges.
    ///
    /// - Returns: how many files may be open now.
    package static func raiseOpenFileCount(to wanted: Int) -> Int {
        var limit = rlimit()
        #if canImport(Glibc)
            let resource = __rlimit_resource_t(RLIMIT_NOFILE.rawValue)
        #else
            let resource = RLIMIT_NOFILE
        #endif
        guard getrlimit(resource, &limit) == 0 else { return 256 }
        #if canImport(Glibc)
            let raised = min(rlim_t(wanted), limit.rlim_max)
        #else
            // More is refused, whatever the hard limit is (OPEN_MAX).
            let raised = min(rlim_t(wanted), limit.rlim_max, 10_240)
        #endif
        if limit.rlim_cur < raised {
            var new = limit
            new.rlim_cur = raised
            if setrlimit(resource, &new) == 0 { limit = new }
        }
        return Int(clamping: limit.rlim_cur)
    }

    /// How many descriptors the process has open; `nil` if the system does not say.
    package static func openFileCount(on files: POSIXFileSystem) -> Int? {
        do throws(FileSystemError) {
            // One of them is that of the folder itself.
            return max(0, try files.list("/dev/fd").count - 1)
        } catch {
            return nil
        }
    }
}
