#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A pipe on which one thread sleeps, and to which others write a byte.
package final class WakePipe: Sendable {
    private let readEnd: Int32
    private let writeEnd: Int32

    package init() throws(FileSystemError) {
        var ends: [Int32] = [0, 0]
        guard pipe(&ends) == 0 else { throw FileSystemError("pipe", path: "wake", errno: errno) }
        for end in ends {
            _ = fcntl(end, F_SETFL, fcntl(end, F_GETFL) | O_NONBLOCK)
            _ = fcntl(end, F_SETFD, FD_CLOEXEC)
        }
        self.readEnd = ends[0]
        self.writeEnd = ends[1]
    }

    deinit {
        close(self.readEnd)
        close(self.writeEnd)
    }

    /// Wakes the sleeper; a full pipe already wakes it.
    package func signal() {
        var byte: UInt8 = 1
        while write(self.writeEnd, &byte, 1) < 0, errno == EINTR {}
    }

    /// Reads everything that was written.
    package func clear() {
        var bytes = [UInt8](repeating: 0, count: 64)
        while read(self.readEnd, &bytes, bytes.count) > 0 {}
    }

    /// Sleeps until the pipe or `other` can be read, or `timeout` passes (forever when `nil`).
    ///
    /// - Returns: whether `other` can be read.
    package func wait(for other: FileID?, timeout: Duration?) -> Bool {
        var descriptors = [pollfd(fd: self.readEnd, events: Int16(POLLIN), revents: 0)]
        if let other { descriptors.append(pollfd(fd: other.rawValue, events: Int16(POLLIN), revents: 0)) }
        let milliseconds = timeout.map { Int32(clamping: max(0, ($0.nanoseconds + 999_999) / 1_000_000)) } ?? -1
        // EINTR: a signal came; the caller checks for work and sleeps again.
        guard poll(&descriptors, nfds_t(descriptors.count), milliseconds) > 0 else { return false }
        return descriptors.count > 1 && descriptors[1].revents != 0
    }
}
