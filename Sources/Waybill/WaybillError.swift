internal import WaybillSystem

/// An error of the client: what happened, where, and what to do.
public struct WaybillError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What kind of error it is, for metrics and for handling it; more may be added.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// A bounded word for metrics, as in "disk-full".
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        init(_ code: FileSystemError.Code) {
            self.init(code.rawValue)
        }

        /// The configuration is incomplete or contradicts the spool.
        public static let configuration = Code("configuration")
        /// The system refuses a thread.
        public static let noThread = Code("no-thread")
        /// The system denies access.
        public static let permission = Code(FileSystemError.Code.permission)
        /// The file system, or the user's quota, is full.
        public static let diskFull = Code(FileSystemError.Code.diskFull)
        /// The disk failed to read or write.
        public static let diskError = Code(FileSystemError.Code.diskError)
        /// The file system is mounted read-only.
        public static let readOnly = Code(FileSystemError.Code.readOnly)
        /// A file or folder does not exist.
        public static let missing = Code(FileSystemError.Code.missing)
        /// A path leads to a file instead of a folder.
        public static let notADirectory = Code(FileSystemError.Code.notADirectory)
        /// A path leads to a folder instead of a file.
        public static let isADirectory = Code(FileSystemError.Code.isADirectory)
        /// The process or the system has too many open files.
        public static let tooManyFiles = Code(FileSystemError.Code.tooManyFiles)
        /// A file or folder exists that must not.
        public static let exists = Code(FileSystemError.Code.exists)
        /// Another process uses the file or folder.
        public static let inUse = Code(FileSystemError.Code.inUse)
        /// Any other error of the system.
        public static let system = Code(FileSystemError.Code.system)
    }

    /// What kind of error it is.
    public let code: Code
    /// What happened, on which path, and what to do.
    public let message: String
    /// The system's error number; 0 when it was not the system.
    public var errno: Int32 { self.fileError?.errno ?? 0 }
    /// The failed file call; `nil` when it was not a file call.
    public var cause: (any Error)? { self.fileError }

    private let fileError: FileSystemError?

    init(_ error: FileSystemError) {
        self.code = Code(error.code)
        self.message = error.description
        self.fileError = error
    }

    init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
        self.fileError = nil
    }

    /// Code and message.
    public var description: String {
        "\(self.code): \(self.message)"
    }
}
