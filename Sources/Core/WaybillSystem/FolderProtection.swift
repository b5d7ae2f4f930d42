#if canImport(Darwin)
    internal import Darwin

    /// Protection settings, on Apple's systems, for a folder whose files an app's background work must read.
    package enum FolderProtection {
        /// Makes new files in the folder readable from the first unlock after a boot on, and excludes the folder from
        /// backups.
        ///
        /// Has no effect on systems without these features: a Mac has no data protection, a simulator no backups.
        package static func protect(_ path: String) {
            let folder = open(path, O_RDONLY | O_CLOEXEC)
            guard folder >= 0 else { return }
            defer { close(folder) }
            _ = fcntl(folder, F_SETPROTECTIONCLASS, self.untilFirstUnlock)
            _ = self.backupExclusion.withUnsafeBytes { bytes in
                fsetxattr(folder, self.backupAttribute, bytes.baseAddress, bytes.count, 0, 0)
            }
        }

        /// Class C, which Foundation calls `completeUntilFirstUserAuthentication`; new files inherit it.
        private static let untilFirstUnlock: Int32 = 3
        /// What Foundation's `isExcludedFromBackup` sets.
        private static let backupAttribute = "com.apple.metadata:com_apple_backup_excludeItem"
        /// A binary property list with one string, "com.apple.backupd".
        private static let backupExclusion: [UInt8] =
            Array("bplist00".utf8) + [0x5F, 0x10, 0x11] + Array("com.apple.backupd".utf8)
            // The string is at offset 8; the offset table is at 28 and has one entry of one byte.
            + [8] + [0, 0, 0, 0, 0, 0, 1, 1] + [0, 0, 0, 0, 0, 0, 0, 1] + [0, 0, 0, 0, 0, 0, 0, 0]
            + [0, 0, 0, 0, 0, 0, 0, 28]
    }
#endif
