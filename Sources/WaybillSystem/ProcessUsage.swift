internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What this process uses of the machine.
package enum ProcessUsage {
    /// User and system time since the process began.
    package static var processorTime: Duration {
        var time = timespec()
        guard clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0 else { return .zero }
        return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
    }

    /// Bytes in RAM, pages of files among them; `nil` where there is no `/proc`.
    package static var residentByteCount: Int? {
        let files = POSIXFileSystem()
        // A platform without this file has no figure.
        guard let file = try? files.open("/proc/self/statm", .read) else { return nil }
        defer { files.close(file) }
        let text = withUnsafeTemporaryAllocation(byteCount: 256, alignment: 1) { buffer in
            let count = (try? files.readFully(file, at: 0, into: buffer)) ?? 0
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
        let fields = text.split(separator: " ")
        return fields.count > 1 ? Int(fields[1]).map { $0 * Int(getpagesize()) } : nil
    }

    /// Gives memory that was freed back to the system; takes milliseconds for each 100 MB that there are.
    package static func trimMemory() {
        waybill_trim_memory()
    }

    /// Descriptors that are open; `nil` where there is no `/proc`.
    package static var openFileCount: Int? {
        (try? POSIXFileSystem().list("/proc/self/fd"))?.count
    }
}
