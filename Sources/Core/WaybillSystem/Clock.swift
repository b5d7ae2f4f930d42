internal import CWaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// A time of day in milliseconds since 1970-01-01T00:00:00Z.
///
/// It may jump; never used for ordering or time-outs.
package struct WallTime: Hashable, Comparable, Sendable {
    package let milliseconds: Int64

    package init(milliseconds: Int64) {
        self.milliseconds = milliseconds
    }

    /// The time of receipt of what came while the receiver's clock could not be trusted: 0.
    package static let unknown = WallTime(milliseconds: 0)

    package static func < (left: WallTime, right: WallTime) -> Bool {
        left.milliseconds < right.milliseconds
    }

    /// `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    package var text: String {
        func digits(_ value: Int64, _ count: Int) -> String { ZeroPadded.text(value, digitCount: count) }
        let days = self.milliseconds.flooredQuotient(86_400_000)
        let rest = self.milliseconds - days * 86_400_000
        return "\(CalendarDay(daysSince1970: Int32(clamping: days)))T\(digits(rest / 3_600_000, 2)):"
            + "\(digits(rest / 60_000 % 60, 2)):\(digits(rest / 1000 % 60, 2)).\(digits(rest % 1000, 3))Z"
    }

    /// Reads ``text``; `nil` for anything else.
    package init?(text: String) {
        let parts = text.split(separator: "T", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[1].utf8.count == 13, parts[1].hasSuffix("Z"),
            let day = CalendarDay(String(parts[0]))
        else { return nil }
        let numbers = parts[1].dropLast().split(whereSeparator: { $0 == ":" || $0 == "." }).map { Int64($0) ?? -1 }
        guard numbers.count == 4, (0..<24).contains(numbers[0]), (0..<60).contains(numbers[1]),
            (0..<60).contains(numbers[2]), (0..<1000).contains(numbers[3])
        else { return nil }
        self.milliseconds =
            Int64(day.daysSince1970) * 86_400_000 + numbers[0] * 3_600_000 + numbers[1] * 60_000 + numbers[2] * 1000
            + numbers[3]
        guard self.text == text else { return nil }
    }
}

/// A point on a clock that never jumps: nanoseconds since some start.
package struct MonotonicTime: Hashable, Comparable, Sendable {
    package let nanoseconds: Int64

    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    package static func < (left: MonotonicTime, right: MonotonicTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    package static func + (time: MonotonicTime, duration: Duration) -> MonotonicTime {
        MonotonicTime(nanoseconds: time.nanoseconds + duration.nanoseconds)
    }

    package static func - (left: MonotonicTime, right: MonotonicTime) -> Duration {
        .nanoseconds(left.nanoseconds - right.nanoseconds)
    }
}

extension Duration {
    /// The whole duration in nanoseconds, or the limit that it exceeds, 292 years: a peer's clock may show any time.
    package var nanoseconds: Int64 {
        let (seconds, attoseconds) = self.components
        return seconds.saturatingProduct(1_000_000_000).saturatingSum(attoseconds / 1_000_000_000)
    }

    /// The whole duration in milliseconds, or the limit that it exceeds.
    package var milliseconds: Int64 {
        let (seconds, attoseconds) = self.components
        return seconds.saturatingProduct(1000).saturatingSum(attoseconds / 1_000_000_000_000_000)
    }
}

/// For times from a file or a clock, which may be absurd.
extension Int64 {
    /// The product, or the limit that it exceeds.
    package func saturatingProduct(_ factor: Int64) -> Int64 {
        let (product, overflow) = self.multipliedReportingOverflow(by: factor)
        return overflow ? ((self < 0) == (factor < 0) ? .max : .min) : product
    }

    /// The sum, or the limit that it exceeds.
    package func saturatingSum(_ other: Int64) -> Int64 {
        let (sum, overflow) = self.addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

/// For lengths of files, of which a sparse one may have any.
extension Int {
    /// The sum, or the limit that it exceeds.
    package func saturatingSum(_ other: Int) -> Int {
        let (sum, overflow) = self.addingReportingOverflow(other)
        return overflow ? (other < 0 ? .min : .max) : sum
    }
}

/// The seam to the machine's clocks.
package protocol SystemClock: Sendable {
    func wallTime() -> WallTime
    func monotonicTime() -> MonotonicTime
}

/// The machine's clocks.
package struct POSIXClock: SystemClock {
    package init() {}

    package func wallTime() -> WallTime {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return WallTime(milliseconds: Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000)
    }

    package func monotonicTime() -> MonotonicTime {
        var time = timespec()
        clock_gettime(CLOCK_MONOTONIC, &time)
        return MonotonicTime(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
    }
}

/// Random bits from the operating system.
package enum SystemRandom {
    /// A seed that no other process has.
    package static func seed() -> UInt64 {
        var seed: UInt64 = 0
        // Fails only when the kernel has no random device at all; the clock still distinguishes processes.
        if waybill_random(&seed, 8) != 0 {
            seed = UInt64(truncatingIfNeeded: POSIXClock().monotonicTime().nanoseconds) ^ UInt64(getpid()) << 32
        }
        return seed
    }

    /// Bytes that cannot be guessed, for keys and tokens.
    package static func secretBytes(count: Int) throws(FileSystemError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        guard waybill_random(&bytes, UInt(count)) == 0 else {
            throw FileSystemError("read", path: "/dev/urandom", errno: errno)
        }
        return bytes
    }
}

/// A small seeded generator (SplitMix64, Steele, Lea and Flood 2014): ids, jitter and simulations, never secrets.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    private var state: UInt64

    package init(seed: UInt64) {
        self.state = seed
    }

    package mutating func next() -> UInt64 {
        self.state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = self.state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Names that identify this process and its machine.
package enum ProcessID {
    package static var current: Int {
        Int(getpid())
    }

    /// The machine's host name.
    package static var hostName: String {
        var name = [CChar](repeating: 0, count: 256)
        guard gethostname(&name, 255) == 0 else { return "unknown" }
        return String(decoding: name.prefix { $0 != 0 }.map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
