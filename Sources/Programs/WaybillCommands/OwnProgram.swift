#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The program that this process runs.
package enum OwnProgram {
    /// The directory that it is in, with a trailing slash: Waybill's programs are installed next to each other.
    package static var directory: String {
        #if canImport(Glibc)
            let own = withUnsafeTemporaryAllocation(byteCount: Int(PATH_MAX), alignment: 1) { buffer in
                let room = buffer.bindMemory(to: CChar.self)
                guard let start = room.baseAddress else { return CommandLine.arguments[0] }
                let count = readlink("/proc/self/exe", start, room.count)
                return count > 0 ? String(decoding: buffer[..<count], as: UTF8.self) : CommandLine.arguments[0]
            }
        #else
            let own = CommandLine.arguments[0]
        #endif
        return own.lastIndex(of: "/").map { String(own[...$0]) } ?? ""
    }
}
