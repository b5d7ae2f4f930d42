internal import WaybillSystem

/// The result of a round of dispatch.
public enum DispatchResult: Hashable, Sendable {
    /// This many events became durable at the receiver; `remaining` were tracked meanwhile or not reached in time.
    case delivered(Int, remaining: Int)
    /// Everything was already durable; no receiver was contacted, unless a segment was waiting to be sealed.
    case nothingToSend
    /// Not everything could be delivered; the rest is still on disk and is sent in the next round.
    case failed(DispatchFailure)
}

/// The reason why a round did not deliver everything.
public struct DispatchFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of failure, for handling it and for metrics; later versions may add more.
    ///
    /// Other errors of files have codes without a name here, such as "read-only".
    public struct Code: Hashable, Sendable, CustomStringConvertible {
        /// The code's name in metrics and logs, such as "disk-full".
        public let description: String

        private init(_ description: String) {
            self.description = description
        }

        init(_ code: FileSystemError.Code) {
            self.init(code.rawValue)
        }

        /// The configuration is incomplete.
        public static let configuration = Code("configuration")
        /// No receiver could be reached, or none accepted the events.
        public static let unreachable = Code("unreachable")
        /// A certificate or key cannot be used.
        public static let tls = Code("tls")
        /// The deadline passed before everything was delivered.
        public static let deadline = Code("deadline")
        /// The round was cancelled.
        public static let stopped = Code("stopped")
        /// The dispatcher is suspended.
        public static let suspended = Code("suspended")
        /// The system denied access.
        public static let permission = Code(FileSystemError.Code.permission)
        /// The file system, or the user's quota, is full.
        public static let diskFull = Code(FileSystemError.Code.diskFull)
        /// Another process uses the file or folder.
        public static let inUse = Code(FileSystemError.Code.inUse)
        /// Any other error of the system.
        public static let system = Code(FileSystemError.Code.system)
    }

    /// The kind of failure.
    public let code: Code
    /// The cause and a remedy.
    public let message: String
    /// The number of events that became durable nevertheless.
    public let deliveredCount: Int
    /// The number of events still waiting; 0 if the round ended before it counted them.
    public let remainingCount: Int
    /// The underlying error of a failed file operation; `nil` for any other failure.
    public var cause: (any Error)? { self.fileError }

    private let fileError: FileSystemError?

    /// Creates a failure, for tests of an app that displays failures.
    public init(code: Code, message: String, deliveredCount: Int = 0, remainingCount: Int = 0) {
        self.code = code
        self.message = message
        self.deliveredCount = deliveredCount
        self.remainingCount = remainingCount
        self.fileError = nil
    }

    init(_ error: FileSystemError) {
        self.code = Code(error.code)
        self.message =
            error.code == .inUse
            ? "an agent or another dispatcher ships this spool (\(error.path) is locked); stop one of them" : "\(error)"
        self.deliveredCount = 0
        self.remainingCount = 0
        self.fileError = error
    }

    /// The code and the message.
    public var description: String {
        "\(self.code): \(self.message)"
    }
}
