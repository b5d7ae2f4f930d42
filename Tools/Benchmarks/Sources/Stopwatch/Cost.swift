#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// What the process holds of the machine's memory.
public struct Resident: Sendable {
    /// Bytes, those of programs and libraries among them.
    public var byteCount: Int
    /// Of these, bytes that stand in no file: what the process has made itself.
    public var anonymousByteCount: Int

    /// As it is now, by `proc(5)`, `/proc/self/smaps_rollup`; `nil` where there is none.
    public static func now() -> Resident? {
        let file = open("/proc/self/smaps_rollup", O_RDONLY)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var bytes = [UInt8](repeating: 0, count: 8192)
        let count = read(file, &bytes, bytes.count)
        guard count > 0 else { return nil }
        var found: [Substring: Int] = [:]
        for line in String(decoding: bytes[..<count], as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 3, words[2] == "kB", let size = Int(words[1]) { found[words[0]] = size << 10 }
        }
        guard let all = found["Rss:"], let anonymous = found["Anonymous:"] else { return nil }
        return Resident(byteCount: all, anonymousByteCount: anonymous)
    }
}

/// Counts how often the process asks for memory, where a counter was loaded before the C library.
public struct Allocations: Sendable {
    private let count: @convention(c) () -> UInt64

    /// `nil` when the program was started without a counter.
    public init?() {
        // The null handle is RTLD_DEFAULT, whose definition Swift does not import.
        #if canImport(Glibc)
            guard let symbol = dlsym(nil, "waybill_allocation_count") else { return nil }
            self.count = unsafeBitCast(symbol, to: (@convention(c) () -> UInt64).self)
        #else
            return nil
        #endif
    }

    /// Since the start of the process.
    public var soFar: UInt64 {
        self.count()
    }
}
