#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

package import WaybillSystem

extension WaybillClient.Device {
    /// This machine, as its operating system describes it.
    ///
    /// | Build | `os` | `osVersion` | `model` |
    /// | --- | --- | --- | --- |
    /// | iOS, tvOS, watchOS, visionOS | the platform | "18.5" | "iPhone16,2" |
    /// | their simulators | the platform | the simulated system's | the simulated device's |
    /// | an iOS app on a Mac | "iOS" | the iOS version that the Mac supports | "Mac14,2" |
    /// | macOS and Mac Catalyst | "macOS" | "15.5" | "Mac14,2" |
    /// | Linux | "Linux" | the kernel's, such as "6.1.0-40-amd64" | "x86_64" |
    ///
    /// On Linux it is the kernel's version, because in a container `/etc/os-release` describes the image.
    public static var current: WaybillClient.Device { DeviceReader(ThisMachine(), for: .current).device }

    /// The preferred language of the user as a BCP 47 tag; `nil` if there is none.
    static var currentLanguage: String? { DeviceReader(ThisMachine(), for: .current).language }
}

/// The kind of system that the code was compiled for.
package enum BuildTarget: Hashable, Sendable {
    /// A device of Apple's with this system, or an iOS app on a Mac.
    case device(String)
    /// A simulator of such a device, which is a process on a Mac.
    case simulator(String)
    /// A Mac, with Mac Catalyst too.
    case mac
    /// A system that is described by `uname(2)`.
    case other

    #if targetEnvironment(macCatalyst) || os(macOS)
        package static let current = BuildTarget.mac
    #elseif canImport(Darwin)
        #if os(tvOS)
            private static let name = "tvOS"
        #elseif os(watchOS)
            private static let name = "watchOS"
        #elseif os(visionOS)
            private static let name = "visionOS"
        #else
            private static let name = "iOS"
        #endif
        #if targetEnvironment(simulator)
            package static let current = BuildTarget.simulator(name)
        #else
            package static let current = BuildTarget.device(name)
        #endif
    #else
        package static let current = BuildTarget.other
    #endif
}

/// Decides what events say about a machine and its user.
package struct DeviceReader<Calls: Machine> {
    private let machine: Calls
    private let target: BuildTarget

    package init(_ machine: Calls, for target: BuildTarget) {
        self.machine = machine
        self.target = target
    }

    package var device: WaybillClient.Device {
        switch self.target {
        case .simulator(let name):
            // The kernel is the Mac's.
            WaybillClient.Device(
                os: name, osVersion: self.variable("SIMULATOR_RUNTIME_VERSION"),
                model: self.variable("SIMULATOR_MODEL_IDENTIFIER"))
        case .device(let name):
            // Only a Mac's kernel knows which version of iOS it supports.
            if let version = self.kernelText("kern.iossupportversion") {
                WaybillClient.Device(os: name, osVersion: version, model: self.kernelText("hw.model"))
            } else {
                // On these devices `hw.model` is the name of a board.
                WaybillClient.Device(
                    os: name, osVersion: self.kernelText("kern.osproductversion"), model: self.kernelText("hw.machine"))
            }
        case .mac:
            // On a Mac `hw.machine` is the architecture.
            WaybillClient.Device(
                os: "macOS", osVersion: self.kernelText("kern.osproductversion"), model: self.kernelText("hw.model"))
        case .other:
            self.machine.kernel.map { kernel in
                WaybillClient.Device(os: kernel.system, osVersion: kernel.release, model: kernel.machine)
            } ?? WaybillClient.Device(os: "unknown")
        }
    }

    /// The user's preferred language; where the system keeps no list, the language of messages by POSIX and gettext.
    package var language: String? {
        if let language = self.machine.preferredLanguages.first { return language }
        let variables = ["LC_ALL", "LC_MESSAGES", "LANG"]
        guard let locale = variables.lazy.compactMap({ self.variable($0) }).first,
            let language = Self.languageTag(locale)
        else { return nil }
        // A list in order of preference, which counts only when there is a locale.
        let preferred = self.variable("LANGUAGE")?.split(separator: ":").first
        return preferred.flatMap { Self.languageTag(String($0)) } ?? language
    }

    private func kernelText(_ name: String) -> String? {
        self.machine.kernelText(name).flatMap { $0.isEmpty ? nil : $0 }
    }

    private func variable(_ name: String) -> String? {
        self.machine.variable(name).flatMap { $0.isEmpty ? nil : $0 }
    }

    /// "ko_KR.UTF-8" → "ko-KR"; `nil` for the locales without a language, "C" and "POSIX".
    package static func languageTag(_ locale: String) -> String? {
        let tag = locale.prefix { $0 != "." && $0 != "@" }
        guard !tag.isEmpty, tag != "C", tag != "POSIX" else { return nil }
        return String(tag.map { $0 == "_" ? "-" : $0 })
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
