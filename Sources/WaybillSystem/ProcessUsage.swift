internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The resources that this process uses.
package enum ProcessUsage {
    /// User and system time since the process began.
    package static var processorTime: Duration {
        var time = timespec()
        guard clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return .zero }
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Resident bytes, including pages of files; `nil` without `/proc`.
    package static var residentByteCount: Int? {
        let files = POSIXFileSystem()
        // Without this file there is no value.
        guard let file = try? files.open("/proc/self/statm", .read) else { return nil }
        defer { files.close(file) }
        let text = withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            let count = (try? files.readFully(file, at: 0, into: buffer)) ?? 0
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
        let fields = text.split(separator: " ")
        return fields.count > 1 ? Int(fields[1]).map { $0 * Int(getpagesize()) } : nil
    }

    /// Returns freed memory to the system; takes milliseconds for each 100 MB in use.
    package static func trimMemory() {
        waybill_trim_memory()
    }

    /// Open descriptors; `nil` without `/proc`.
    package static var openFileCount: Int? {
        (try? POSIXFileSystem().list("/proc/self/fd"))?.count
    }
}
