/// The permissions of the files and folders that a program creates.
///
///     journal, archive, exports, quarantine     0640, folders 0750      whatever the process's mask is
///     registry, cursors, copies of long lines   0600, folders 0700      whatever the process's mask is
///     a spool                                   0640, folders 0750      the mask may take more away
///     a spool that a group shares               0640, folders 2770      whatever the process's mask is
///
/// A new folder also keeps the set-group-ID bit that it inherits. Nothing that exists already is changed. A file that is
/// written is never opened through a link in its path's last component, except with ``usual``.
package struct FilePermissions: Hashable, Sendable {
    package let file: UInt16
    package let folder: UInt16
    /// The group of what is created; `nil` for the system's choice.
    package let group: UserGroup?
    /// Whether the process's mask (`umask`) may take permissions away.
    let isMasked: Bool
    let followsLinks: Bool

    private init(
        file: UInt16, folder: UInt16, group: UserGroup? = nil, isMasked: Bool = false, followsLinks: Bool = false
    ) {
        self.file = file
        self.folder = folder
        self.group = group
        self.isMasked = isMasked
        self.followsLinks = followsLinks
    }

    /// What other programs use; for files that an operator names.
    package static let usual = FilePermissions(file: 0o644, folder: 0o755, isMasked: true, followsLinks: true)
    /// Events at rest: the operator may share them with a group.
    package static let data = FilePermissions(file: 0o640, folder: 0o750)
    /// State of one program, which no one else needs.
    package static let state = FilePermissions(file: 0o600, folder: 0o700)
    /// The app's own spool.
    package static let spool = FilePermissions(file: 0o640, folder: 0o750, isMasked: true)

    /// A spool whose writers and agent are different users of one group.
    package static func spool(sharedBy group: UserGroup) -> FilePermissions {
        FilePermissions(file: 0o640, folder: 0o2770, group: group)
    }
}
