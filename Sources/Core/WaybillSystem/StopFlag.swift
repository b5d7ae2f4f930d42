/// Tells work that a thread has under way that it is not waited for any more.
///
/// Any thread may set it, once; work asks between two calls to the system, and ends as if the process had ended.
package final class StopFlag: Sendable {
    private let flag = Atomic(false)

    package init() {}

    package var isSet: Bool {
        self.flag.load(ordering: .acquiring)
    }

    package func set() {
        self.flag.store(true, ordering: .releasing)
    }
}

extension FileSystemError {
    /// The call was not made, because a ``StopFlag`` was set.
    package static func stopped(_ operation: String, path: String) -> FileSystemError {
        FileSystemError(operation, path: path, errno: Errno.stopped)
    }

    /// Whether a ``StopFlag`` was the cause; nothing is wrong with the disk.
    package var isStop: Bool { self.errno == Errno.stopped }
}
