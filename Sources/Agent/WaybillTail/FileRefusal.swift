package import WaybillSystem

/// Why a file is not followed: its path or its owner suggests that another user has put it in place, or it has no lines.
///
/// An agent often runs as root. A user who can write to a spool or a log folder could otherwise have it read, ship and
/// delete files that only root may read.
package enum FileRefusal: String, Hashable, Sendable, CaseIterable {
    /// The path is a symbolic link.
    case link
    /// The folder is a symbolic link.
    case folderLink = "folder-link"
    /// The segment has a second name, or a log of another user than its folder has one.
    case hardLink = "hard-link"
    /// The segment belongs to another user than its folder, and no group shares the folder.
    case owner
    /// The file is compressed, so that its bytes are no lines.
    case compressed

    /// Judges a segment by its own status and that of its folder; `nil` if it is followed.
    ///
    /// Its owner must be the folder's. In a folder with the set-group-ID bit it may also be another member of the folder's
    /// group: then it must have that group, which only a member can give it, and the group must be able to read it.
    package init?(ofSegment file: FileStatus, in folder: FileStatus) {
        if file.kind == .link {
            self = .link
        } else if file.linkCount > 1 {
            self = .hardLink
        } else if !Self.isOwn(file, folder) {
            self = .owner
        } else {
            return nil
        }
    }

    /// Judges a log with several names, by its own status and that of its folder; `nil` if it is followed.
    ///
    /// Where the system lets any user link a file (`fs.protected_hardlinks` is 0), the second name may be that of a file that
    /// only the agent may read. A log that belongs to its folder was linked by its owner, as a backup does.
    package init?(ofLog file: FileStatus, in folder: FileStatus) {
        guard file.linkCount > 1, !Self.isOwn(file, folder) else { return nil }
        self = .hardLink
    }

    /// Whether a file belongs to its folder's owner, or to the group that shares the folder.
    static func isOwn(_ file: FileStatus, _ folder: FileStatus) -> Bool {
        let isShared =
            folder.permissions & 0o2000 != 0 && file.group == folder.group && file.permissions & 0o040 != 0
        return file.owner == folder.owner || isShared
    }

    /// What the operator can do.
    package var remedy: String {
        switch self {
        case .link: "remove the link; for a log file, set follow_links: true on its source if links are intended"
        case .folderLink: "name the folder itself, or mount it; for log files, set follow_links: true on their source"
        case .hardLink: "remove its other name; for a log file, set follow_links: true on its source if it is intended"
        case .owner:
            "give it the owner of its folder, or share the folder by a group: chgrp GROUP and chmod 2770 on the folder"
        case .compressed: ForeignFormat.compressed.remedy
        }
    }
}
