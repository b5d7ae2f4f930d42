internal import WaybillSystem

/// An error of the client, with the cause, the path and a remedy.
public struct WaybillError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, for handling it and for metrics; later versions may add more.
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name in metrics and logs, such as "disk-full".
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        init(_ code: FileSystemError.Code) {
            self.init(code.rawValue)
        }

        /// The configuration is incomplete or contradicts the spool.
        public static let configuration = Code("configuration")
        /// The system refused a thread.
        public static let noThread = Code("no-thread")
        /// The system denied access.
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
        /// A file or folder already exists.
        public static let exists = Code(FileSystemError.Code.exists)
        /// A path leads through a symbolic link where none is followed.
        public static let link = Code(FileSystemError.Code.link)
        /// Another process uses the file or folder.
        public static let inUse = Code(FileSystemError.Code.inUse)
        /// Any other error of the system.
        public static let system = Code(FileSystemError.Code.system)
    }

    /// The kind of error.
    public let code: Code
    /// The cause, the path and a remedy.
    public let message: String
    /// The system's error number; 0 if the error did not come from the system.
    public var errno: Int32 { self.fileError?.errno ?? 0 }
    /// The underlying error of a failed file operation; `nil` for any other error.
    public var cause: (any Error)? { self.fileError }

    private let fileError: FileSystemError?

    init(_ error: FileSystemError) {
        self.code = Code(error.code)
        self.message = error.description
        self.fileError = error
    }

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
        self.fileError = nil
    }

    /// The code and the message.
    public var description: String {
        "\(self.code): \(self.message)"
    }
}
