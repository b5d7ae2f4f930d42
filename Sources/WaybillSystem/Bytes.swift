#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

extension UnsafeRawBufferPointer {
    /// Where the next LF stands (`memchr(3)`: 32 GB/s where a loop does 2).
    package func firstNewline(from position: Int) -> Int? {
        guard position < self.count, let start = self.baseAddress else { return nil }
        guard let found = memchr(start + position, 0x0A, self.count - position) else { return nil }
        return UnsafeRawPointer(found) - start
    }
}
