#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

internal import WaybillSystem

extension WaybillClient.Device {
    /// This machine, by `uname(2)`.
    public static var current: WaybillClient.Device {
        var name = utsname()
        guard uname(&name) == 0 else { return WaybillClient.Device(os: "unknown") }
        return WaybillClient.Device(
            os: self.platform ?? self.text(of: &name.sysname), osVersion: self.text(of: &name.release),
            model: self.text(of: &name.machine))
    }

    #if os(iOS)
        private static let platform: String? = "iOS"
    #elseif os(tvOS)
        private static let platform: String? = "tvOS"
    #elseif os(watchOS)
        private static let platform: String? = "watchOS"
    #elseif os(visionOS)
        private static let platform: String? = "visionOS"
    #elseif os(macOS)
        private static let platform: String? = "macOS"
    #else
        /// The platform's name, if it differs from the kernel's.
        private static let platform: String? = nil
    #endif

    /// The language of the process, from `LANG`, as a BCP 47 tag; `nil` if it has none.
    static var currentLanguage: String? {
        guard let value = getenv("LANG") else { return nil }
        return self.languageTag(String(cString: value))
    }

    /// "ko_KR.UTF-8" → "ko-KR"; `nil` for the locales without a language, "C" and "POSIX".
    package static func languageTag(_ locale: String) -> String? {
        let tag = locale.prefix { $0 != "." && $0 != "@" }
        guard !tag.isEmpty, tag != "C", tag != "POSIX" else { return nil }
        return String(tag.map { $0 == "_" ? "-" : $0 })
    }

    private static func text<CharacterTuple>(of tuple: inout CharacterTuple) -> String {
        withUnsafeBytes(of: &tuple) { bytes in
            String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
    }
}

/// The time zone of the process.
enum SystemZone {
    /// The offset from UTC at a time, in minutes east, by `localtime_r(3)`.
    @Sendable
    static func minutesEast(at time: WallTime) -> Int {
        var seconds = time_t(time.milliseconds / 1000)
        var parts = tm()
        guard localtime_r(&seconds, &parts) != nil else { return 0 }
        return Int(parts.tm_gmtoff) / 60
    }
}
