#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The variables this process was started with.
package enum ProcessEnvironment {
    package static subscript(name: String) -> String? {
        getenv(name).map { String(cString: $0) }
    }
}
