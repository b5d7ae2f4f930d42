#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import CoreFoundation
    internal import Darwin
#endif

/// The calls that describe the machine and its user; a test answers them as each system does.
package protocol Machine {
    /// The names of the kernel, by `uname(2)`; `nil` if the call fails.
    var kernel: KernelNames? { get }
    /// A text that the kernel keeps, by `sysctlbyname(3)`; `nil` where it keeps none of that name.
    func kernelText(_ name: String) -> String?
    /// A variable of the process.
    func variable(_ name: String) -> String?
    /// The user's languages as BCP 47 tags, with the preferred one first; empty where the system keeps no such list.
    var preferredLanguages: [String] { get }
}

/// What `uname(2)` says.
package struct KernelNames: Hashable, Sendable {
    /// "Linux" or "Darwin".
    package let system: String
    /// The kernel's version, such as "6.1.0-40-amd64"; on Apple's systems it is Darwin's, not the system's.
    package let release: String
    /// "x86_64" or "iPhone16,2".
    package let machine: String

    package init(system: String, release: String, machine: String) {
        self.system = system
        self.release = release
        self.machine = machine
    }
}

/// The machine that the process runs on.
package struct ThisMachine: Machine {
    package init() {}

    package var kernel: KernelNames? {
        var name = utsname()
        guard uname(&name) == 0 else { return nil }
        return KernelNames(
            system: Self.text(of: &name.sysname), release: Self.text(of: &name.release),
            machine: Self.text(of: &name.machine))
    }

    package func kernelText(_ name: String) -> String? {
        #if canImport(Darwin)
            var byteCount = 0
            guard sysctlbyname(name, nil, &byteCount, nil, 0) == 0, byteCount > 0 else { return nil }
            var bytes = [UInt8](repeating: 0, count: byteCount)
            guard sysctlbyname(name, &bytes, &byteCount, nil, 0) == 0 else { return nil }
            return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        #else
            return nil
        #endif
    }

    package func variable(_ name: String) -> String? { ProcessEnvironment[name] }

    package var preferredLanguages: [String] {
        #if canImport(Darwin)
            guard let list = CFLocaleCopyPreferredLanguages() else { return [] }
            return (0..<CFArrayGetCount(list)).compactMap { index in
                guard let item = CFArrayGetValueAtIndex(list, index) else { return nil }
                let tag = Unmanaged<CFString>.fromOpaque(item).takeUnretainedValue()
                // The longest registered tags have 35 bytes.
                var bytes = [CChar](repeating: 0, count: 256)
                guard CFStringGetCString(tag, &bytes, bytes.count, CFStringBuiltInEncodings.UTF8.rawValue) else {
                    return nil
                }
                return String(decoding: bytes.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
            }
        #else
            return []
        #endif
    }

    private static func text<CharacterTuple>(of tuple: inout CharacterTuple) -> String {
        withUnsafeBytes(of: &tuple) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}
