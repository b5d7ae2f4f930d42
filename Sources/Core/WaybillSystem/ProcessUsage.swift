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
        guard let text = Self.text(of: "/proc/self/statm") else { return nil }
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

    /// When this process started; `nil` without `/proc`.
    package static let startTime: WallTime? = {
        // Field 22, in ticks since the machine started; the program's name before it may have spaces and brackets.
        guard let status = Self.text(of: "/proc/self/stat"), let uptime = Self.text(of: "/proc/uptime"),
            let name = status.lastIndex(of: ")"),
            let running = uptime.split(separator: " ").first.flatMap({ Double($0) })
        else { return nil }
        let fields = status[name...].split(separator: " ")
        let ticksPerSecond = Double(sysconf(Int32(_SC_CLK_TCK)))
        guard fields.count > 20, let ticks = Double(fields[20]), ticksPerSecond > 0 else { return nil }
        let age = running - ticks / ticksPerSecond
        return WallTime(milliseconds: POSIXClock().wallTime().milliseconds - Int64(age * 1000))
    }()

    /// The beginning of a file of `/proc`; `nil` if there is none.
    private static func text(of path: String) -> String? {
        let files = POSIXFileSystem()
        // Without this file there is no value.
        guard let file = try? files.open(path, .read) else { return nil }
        defer { files.close(file) }
        return withUnsafeTemporaryAllocation(byteCount: 1024, alignment: 1) { buffer in
            let count = (try? files.readFully(file, at: 0, into: buffer)) ?? 0
            return String(decoding: buffer[..<count], as: UTF8.self)
        }
    }
}
