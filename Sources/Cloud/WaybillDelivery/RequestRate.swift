package import WaybillSystem

/// Limits the rate of events: a number per second, and at most one second's worth at once.
package struct RequestRate: Sendable {
    private let eventsPerSecond: Double?
    /// The time at which the events sent so far no longer count against the rate.
    private var paidUntil: MonotonicTime?

    /// - Parameter eventsPerSecond: `nil` for no limit.
    package init(eventsPerSecond: Double?) {
        self.eventsPerSecond = eventsPerSecond
    }

    /// - Returns: the time from which `eventCount` more events may be sent; they count from then on.
    package mutating func reserve(eventCount: Int, at now: MonotonicTime) -> MonotonicTime {
        guard let eventsPerSecond else { return now }
        let start = max(self.paidUntil ?? now, now)
        self.paidUntil = start + .nanoseconds(Int64(Double(eventCount) / eventsPerSecond * 1e9))
        return start
    }
}

/// The `Retry-After` header (RFC 9110, section 10.2.3).
package enum RetryAfter {
    /// The maximum wait.
    private static let secondsMax: Int64 = 86_400

    /// Seconds, or a date in the preferred form of HTTP; `nil` for anything else.
    ///
    ///     120                               Fri, 20 Nov 2026 09:15:00 GMT
    package static func duration(_ text: String, now: WallTime) -> Duration? {
        let text = text.trimmed
        if !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
            return .seconds(min(Int64(text) ?? Self.secondsMax, Self.secondsMax))
        }
        guard let time = Self.time(text) else { return nil }
        return .milliseconds(min(max(0, time.milliseconds - now.milliseconds), Self.secondsMax * 1000))
    }

    private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

    private static func time(_ text: String) -> WallTime? {
        let words = text.split(separator: " ")
        guard words.count == 6, words[5] == "GMT", let month = Self.months.firstIndex(of: String(words[2])),
            let year = Int(words[3]), let day = Int(words[1]),
            let date = CalendarDay(year: year, month: month + 1, day: day)
        else { return nil }
        let clock = words[4].split(separator: ":").map { Int($0) ?? -1 }
        guard clock.count == 3, (0..<24).contains(clock[0]), (0..<60).contains(clock[1]), (0...60).contains(clock[2])
        else { return nil }
        let seconds = Int64(date.daysSince1970) * 86_400 + Int64(clock[0] * 3600 + clock[1] * 60 + clock[2])
        return WallTime(milliseconds: seconds * 1000)
    }
}

extension String {
    /// The text without leading and trailing spaces and tabs.
    var trimmed: String {
        let blank: (Character) -> Bool = { $0 == " " || $0 == "\t" || $0 == "\r" }
        return String(self.drop(while: blank).reversed().drop(while: blank).reversed())
    }
}
