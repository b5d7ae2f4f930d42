internal import WaybillSystem

/// A time that a sender gives.
struct SenderTime {
    /// By the sender's clock, which may show any, milliseconds since 1970; `nil`: its form has no meaning, or several.
    let milliseconds: Int64?
    /// Its entry of the tape.
    let entry: Int
}

/// An event's time by this host's clock.
struct EventTime {
    let time: Int64
    /// The sender's, where it is another one.
    var client: ClientTime?

    enum ClientTime {
        /// By the sender's clock, which differs.
        case corrected(Int64)
        /// One that cannot be read, or be true, as it came; the event has the time of receipt.
        case unusable(String)
    }
}

/// Reads a time in each form that has one meaning.
///
///     2026-11-20T09:00:00.123Z     RFC 3339: `t`, a blank or no time of day, no seconds, a comma for the point, `+0900`, `+09`
///     2026-11-20 09:00             without a zone: UTC
///     Fri, 20 Nov 2026 09:00 GMT   RFC 1123, 2822
///     1795165200000.5              a count since 1970, as a number or a text: milliseconds, or seconds
///
/// A count means milliseconds; it means seconds if these give a time of this century. Digits after milliseconds are truncated.
struct SenderTimeReader {
    private let text: UnsafeRawBufferPointer
    private var position = 0

    /// - Parameter isClockEarly: whether the sender's clock is known to be before 2000, where a count of some weeks in
    ///   milliseconds looks like one of seconds.
    static func read(_ text: UnsafeRawBufferPointer, isClockEarly: Bool) -> Int64? {
        var trimmed = text[...]
        while trimmed.first?.isBlank ?? false { trimmed.removeFirst() }
        while trimmed.last?.isBlank ?? false { trimmed.removeLast() }
        let text = UnsafeRawBufferPointer(rebasing: trimmed)
        var date = Self(text: text)
        var mail = Self(text: text)
        var count = Self(text: text)
        let time = date.isoTime() ?? mail.mailTime() ?? count.count(isClockEarly: isClockEarly)
        return time.flatMap { IngestLimits.clocks.contains($0) ? $0 : nil }
    }

    private init(text: UnsafeRawBufferPointer) {
        self.text = text
    }

    private var isAtEnd: Bool { self.position == self.text.count }

    private mutating func take(_ word: StaticString) -> Bool {
        let count = word.utf8CodeUnitCount
        guard count <= self.text.count - self.position else { return false }
        for index in 0..<count where self.text[self.position + index] != word.utf8Start[index] { return false }
        self.position += count
        return true
    }

    /// Takes as many digits as there are.
    private mutating func digits(_ counts: ClosedRange<Int>) -> Int? {
        var value = 0
        let start = self.position
        while self.position < self.text.count, self.position - start < counts.upperBound,
            case let digit = self.text[self.position] &- 0x30, digit < 10
        {
            value = value * 10 + Int(digit)
            self.position += 1
        }
        return counts.contains(self.position - start) ? value : nil
    }

    /// Milliseconds of a fraction: as many digits as there are.
    private mutating func fraction() -> (milliseconds: Int64, digitCount: Int) {
        var (milliseconds, scale, count) = (Int64(0), Int64(100), 0)
        while self.position < self.text.count, case let digit = self.text[self.position] &- 0x30, digit < 10 {
            milliseconds += Int64(digit) * scale
            scale /= 10
            count += 1
            self.position += 1
        }
        return (milliseconds, count)
    }

    private mutating func isoTime() -> Int64? {
        guard let year = self.digits(4...4), self.take("-"), let month = self.digits(2...2), self.take("-"),
            let day = self.digits(2...2), let date = CalendarDay(year: year, month: month, day: day)
        else { return nil }
        if self.isAtEnd { return Self.time(date, 0, offset: 0) }
        guard self.take("T") || self.take("t") || self.take(" "), let clock = self.clock() else { return nil }
        if self.isAtEnd { return Self.time(date, clock, offset: 0) }
        _ = self.take(" ")
        guard let offset = self.zone(), self.isAtEnd else { return nil }
        return Self.time(date, clock, offset: offset)
    }

    private mutating func mailTime() -> Int64? {
        let weekdays: [StaticString] = ["Mon, ", "Tue, ", "Wed, ", "Thu, ", "Fri, ", "Sat, ", "Sun, "]
        for weekday in weekdays where self.take(weekday) { break }
        guard let day = self.digits(1...2), self.take(" "), let month = self.month(), self.take(" "),
            let year = self.digits(4...4), self.take(" "), let clock = self.clock(), self.take(" "),
            let offset = self.zone(), self.isAtEnd, let date = CalendarDay(year: year, month: month, day: day)
        else { return nil }
        return Self.time(date, clock, offset: offset)
    }

    private mutating func month() -> Int? {
        let months: [StaticString] = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ]
        for (index, month) in months.enumerated() where self.take(month) { return index + 1 }
        return nil
    }

    /// Milliseconds since midnight; second 60 is the next minute's first instant.
    private mutating func clock() -> Int64? {
        guard let hour = self.digits(2...2), hour < 24, self.take(":"), let minute = self.digits(2...2), minute < 60
        else {
            return nil
        }
        var milliseconds = Int64(hour * 60 + minute) * 60_000
        guard self.take(":") else { return milliseconds }
        guard let second = self.digits(2...2), second <= 60 else { return nil }
        milliseconds += Int64(second) * 1000
        if self.take(".") || self.take(",") {
            let fraction = self.fraction()
            guard fraction.digitCount > 0 else { return nil }
            milliseconds += fraction.milliseconds
        }
        return milliseconds
    }

    /// Minutes ahead of UTC: `Z`, `UTC`, `GMT`, `+09:00`, `+0900`, `+09`.
    private mutating func zone() -> Int? {
        if self.take("Z") || self.take("z") || self.take("UTC") || self.take("GMT") { return 0 }
        let isBehind = self.take("-")
        guard isBehind || self.take("+"), let hour = self.digits(2...2), hour < 24 else { return nil }
        var minute = 0
        if !self.isAtEnd {
            _ = self.take(":")
            guard let more = self.digits(2...2), more < 60 else { return nil }
            minute = more
        }
        return isBehind ? -(hour * 60 + minute) : hour * 60 + minute
    }

    private static func time(_ date: CalendarDay, _ clock: Int64, offset: Int) -> Int64 {
        Int64(date.daysSince1970) * 86_400_000 + clock - Int64(offset) * 60_000
    }

    private mutating func count(isClockEarly: Bool) -> Int64? {
        let isNegative = self.take("-")
        guard let count = self.digits(1...14) else { return nil }
        let fraction = self.take(".") ? self.fraction().milliseconds : 0
        guard self.isAtEnd else { return nil }
        let seconds = Int64(count).multipliedReportingOverflow(by: 1000)
        if !isNegative, !isClockEarly, !seconds.overflow, IngestLimits.times.contains(seconds.partialValue + fraction) {
            return seconds.partialValue + fraction
        }
        return isNegative ? -Int64(count) : Int64(count)
    }
}
