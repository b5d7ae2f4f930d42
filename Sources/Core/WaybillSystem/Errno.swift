#if canImport(Glibc)
    internal import Glibc
#else
    internal import Darwin
#endif

/// The system's error numbers that Waybill distinguishes, and what each means.
package enum Errno {
    package static let noSpace = ENOSPC
    package static let inputOutput = EIO
    package static let noEntry = ENOENT
    package static let notADirectory = ENOTDIR
    package static let exists = EEXIST
    package static let notEmpty = ENOTEMPTY
    package static let inUse = EBUSY
    package static let tooManyFiles = EMFILE
    /// A link is where none is followed.
    package static let link = ELOOP
    package static let notPermitted = EPERM
    /// No file operation of any system reports it.
    package static let stopped = ECANCELED
    /// A file was read, and its content cannot be used.
    package static let damaged = EBADMSG
    /// Bytes that are no text.
    package static let notText = EILSEQ
    /// A file system has not answered in time.
    package static let unanswered = ETIMEDOUT

    /// The system's text for a number.
    package static func message(_ errno: Int32) -> String {
        String(cString: strerror(errno))
    }
}

extension FileSystemError {
    /// One of a fixed set of words, for metrics and logs; contains no input.
    package enum Code: String, Hashable, Sendable, CaseIterable, CustomStringConvertible {
        case diskFull = "disk-full"
        case diskError = "disk-error"
        case readOnly = "read-only"
        case permission
        case missing
        case notADirectory = "not-a-directory"
        case isADirectory = "is-a-directory"
        case tooManyFiles = "too-many-files"
        case exists
        case inUse = "in-use"
        case link
        case damaged
        case name = "bad-name"
        case hanging
        case system

        package init(errno: Int32) {
            self =
                switch errno {
                case ENOSPC, EDQUOT: .diskFull
                case EIO: .diskError
                case EROFS: .readOnly
                case EACCES, EPERM: .permission
                case ENOENT: .missing
                case ENOTDIR: .notADirectory
                case EISDIR: .isADirectory
                case EMFILE, ENFILE: .tooManyFiles
                case EEXIST: .exists
                case EBUSY: .inUse
                case ELOOP: .link
                case EBADMSG: .damaged
                case EILSEQ: .name
                case ETIMEDOUT: .hanging
                default: .system
                }
        }

        package var description: String {
            self.rawValue
        }
    }

    /// What the operator can do.
    package var remedy: String {
        switch self.code {
        case .diskFull: "free space on this file system; writing resumes automatically"
        case .diskError: "check the disk and its kernel messages"
        case .readOnly: "remount the file system for writing"
        case .permission: "grant this user access"
        case .missing: "create it or correct the path"
        case .notADirectory: "name a directory"
        case .isADirectory: "name a file"
        case .tooManyFiles: "raise the limit of open files (ulimit -n)"
        case .exists: "remove it or choose another path"
        case .inUse: "stop the other process that uses it, or choose another path"
        case .link: "remove the symbolic link; put a folder or a mount in its place"
        case .name: "give it a name in UTF-8, or let `exclude` leave it out"
        case .damaged: "restore it from a backup, and check the disk"
        case .hanging: "see why its server or program does not answer; it is asked again when it does"
        case .system: "see errno \(self.errno)"
        }
    }

    /// Whether waiting can help; otherwise an operator must follow the ``remedy``.
    package var isTransient: Bool {
        switch self.code {
        case .diskFull, .diskError, .tooManyFiles, .hanging, .system: true
        case .readOnly, .permission, .missing, .notADirectory, .isADirectory, .exists, .inUse, .link, .damaged,
            .name:
            false
        }
    }
}
