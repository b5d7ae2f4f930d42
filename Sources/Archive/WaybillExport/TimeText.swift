package import WaybillJSON
package import WaybillSystem

/// Parses and writes times of foreign and own lines, in milliseconds since 1970.
package enum TimeText {
    /// Parses RFC 3339 with any fraction and offset; also accepts a space instead of `T`, and `+0900`.
    ///
    ///     2025-03-01T09:14:15.926Z     2025-03-01 18:14:15+09:00     2025-03-01t09:14:15.926123456-0330
    ///
    /// Digits after milliseconds are truncated. Second 60 is a leap second: the first instant of the next minute.
    package static func parse(_ text: UnsafeRawBufferPointer) -> Int64? {
        guard text.count >= 20 else { return nil }
        var bad = false
        @inline(__always)
        func two(_ at: Int) -> Int {
            let tens = text[at] &- 0x30
            let ones = text[at + 1] &- 0x30
            if tens > 9 || ones > 9 { bad = true }
            return Int(tens) * 10 + Int(ones)
        }
        let year = two(0) * 100 + two(2)
        let month = two(5)
        let day = two(8)
        let hour = two(11)
        let minute = two(14)
        let second = two(17)
        let separator = text[10]
        guard !bad, text[4] == UInt8(ascii: "-"), text[7] == UInt8(ascii: "-"), text[13] == UInt8(ascii: ":"),
            text[16] == UInt8(ascii: ":"), separator | 0x20 == UInt8(ascii: "t") || separator == 0x20,
            hour < 24, minute < 60, second <= 60,
            let date = CalendarDay(year: year, month: month, day: day)
        else { return nil }

        var at = 19
        var milliseconds: Int64 = 0
        if text[at] == UInt8(ascii: ".") {
            at += 1
            var scale: Int64 = 100
            let start = at
            while at < text.count, text[at] &- 0x30 < 10 {
                milliseconds += Int64(text[at] &- 0x30) * scale
                scale /= 10
                at += 1
            }
            guard at > start else { return nil }
        }
        guard let offset = Self.offsetMinutes(text, at) else { return nil }
        let minutes = (Int64(date.daysSince1970) * 24 + Int64(hour)) * 60 + Int64(minute - offset)
        return (minutes * 60 + Int64(second)) * 1000 + milliseconds
    }

    /// The offset given by `Z`, `+09:00` or `+0900` at the end of a time.
    @inline(__always)
    private static func offsetMinutes(_ text: UnsafeRawBufferPointer, _ at: Int) -> Int? {
        guard at < text.count else { return nil }
        if text[at] | 0x20 == UInt8(ascii: "z") { return at + 1 == text.count ? 0 : nil }
        let isNegative = text[at] == UInt8(ascii: "-")
        guard isNegative || text[at] == UInt8(ascii: "+") else { return nil }
        let minuteAt: Int
        switch text.count - at {
        case 5: minuteAt = at + 3
        case 6 where text[at + 3] == UInt8(ascii: ":"): minuteAt = at + 4
        default: return nil
        }
        var digits = 0
        for index in [at + 1, at + 2, minuteAt, minuteAt + 1] {
            let digit = text[index] &- 0x30
            guard digit < 10 else { return nil }
            digits = digits * 10 + Int(digit)
        }
        guard digits / 100 < 24, digits % 100 < 60 else { return nil }
        let minutes = digits / 100 * 60 + digits % 100
        return isNegative ? -minutes : minutes
    }

    /// Parses a count since 1970, whole or decimal, in seconds, milliseconds, microseconds or nanoseconds.
    ///
    /// The number of digits before the point decides the unit: up to 11 are seconds (until the year 5138), up to 14
    /// milliseconds, up to 17 microseconds, more are nanoseconds.
    static func parse(number text: UnsafeRawBufferPointer) -> Int64? {
        guard let number = DecimalNumber(text) else { return nil }
        guard number.mantissa != 0 else { return 0 }
        let digitCount = number.digitCount + number.exponent
        let unitExponent =
            switch digitCount {
            case ...11: 3
            case ...14: 0
            case ...17: -3
            default: -6
            }
        guard digitCount <= 20 else { return nil }
        var value = number.mantissa
        var exponent = number.exponent + unitExponent
        while exponent > 0 {
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            guard !overflow else { return nil }
            value = product
            exponent -= 1
        }
        while exponent < 0, value > 0 {
            value /= 10
            exponent += 1
        }
        guard value <= UInt64(Int64.max) else { return nil }
        return number.isNegative ? -Int64(value) : Int64(value)
    }

    /// Appends `YYYY-MM-DDTHH:MM:SS.mmmZ`.
    package static func append(_ time: WallTime, to output: inout ByteBuilder) {
        let seconds = time.milliseconds.quotientAndRemainder(flooringBy: 1000)
        let days = seconds.quotient.quotientAndRemainder(flooringBy: 86_400)
        Self.append(day: CalendarDay(daysSince1970: Int32(clamping: days.quotient)), to: &output)
        output.append(UInt8(ascii: "T"))
        Self.append(secondOfDay: days.remainder, to: &output)
        output.append(UInt8(ascii: "."))
        output.append(decimal: UInt64(seconds.remainder), digitCount: 3)
        output.append(UInt8(ascii: "Z"))
    }

    /// Appends `YYYY-MM-DD`.
    static func append(day: CalendarDay, to output: inout ByteBuilder) {
        let (year, month, day) = day.components
        output.append(decimal: UInt64(max(year, 0)), digitCount: 4)
        output.append(UInt8(ascii: "-"))
        output.append(decimal: UInt64(month), digitCount: 2)
        output.append(UInt8(ascii: "-"))
        output.append(decimal: UInt64(day), digitCount: 2)
    }

    /// Appends `HH:MM:SS`.
    static func append(secondOfDay: Int64, to output: inout ByteBuilder) {
        output.append(decimal: UInt64(secondOfDay / 3600), digitCount: 2)
        output.append(UInt8(ascii: ":"))
        output.append(decimal: UInt64(secondOfDay / 60 % 60), digitCount: 2)
        output.append(UInt8(ascii: ":"))
        output.append(decimal: UInt64(secondOfDay % 60), digitCount: 2)
    }
}

extension Int64 {
    /// Division that rounds down, with a remainder that is never negative.
    func quotientAndRemainder(flooringBy divisor: Int64) -> (quotient: Int64, remainder: Int64) {
        let (quotient, remainder) = self.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }
}

/// A decimal number in text as `mantissa` × 10^`exponent`; digits after 19 are truncated.
private struct DecimalNumber {
    var isNegative = false
    var mantissa: UInt64 = 0
    var exponent = 0

    /// Decimal digits of the mantissa.
    var digitCount: Int {
        var count = 0
        var rest = self.mantissa
        while rest > 0 {
            rest /= 10
            count += 1
        }
        return count
    }

    /// Parses exactly `-? digits (. digits)? ([eE] [+-]? digits)?`.
    init?(_ text: UnsafeRawBufferPointer) {
        var at = 0
        if at < text.count, text[at] == UInt8(ascii: "-") {
            self.isNegative = true
            at += 1
        }
        guard self.takeDigits(text, &at, isFraction: false) else { return nil }
        if at < text.count, text[at] == UInt8(ascii: ".") {
            at += 1
            guard self.takeDigits(text, &at, isFraction: true) else { return nil }
        }
        if at < text.count, text[at] | 0x20 == UInt8(ascii: "e") {
            at += 1
            let isNegative = at < text.count && text[at] == UInt8(ascii: "-")
            if isNegative || at < text.count && text[at] == UInt8(ascii: "+") { at += 1 }
            var power = 0
            let start = at
            while at < text.count, text[at] &- 0x30 < 10 {
                // Far above any time; a larger value could overflow.
                power = min(power * 10 + Int(text[at] &- 0x30), 10_000)
                at += 1
            }
            guard at > start else { return nil }
            self.exponent += isNegative ? -power : power
        }
        guard at == text.count else { return nil }
    }

    private mutating func takeDigits(_ text: UnsafeRawBufferPointer, _ at: inout Int, isFraction: Bool) -> Bool {
        let start = at
        while at < text.count, text[at] &- 0x30 < 10 {
            if self.mantissa < 1_000_000_000_000_000_000 {
                self.mantissa = self.mantissa * 10 + UInt64(text[at] &- 0x30)
                if isFraction { self.exponent -= 1 }
            } else if !isFraction {
                self.exponent += 1
            }
            at += 1
        }
        return at > start
    }
}

extension TimeText {
    /// Parses a time in RFC 3339 that a person wrote.
    package static func parse(text: String) -> WallTime? {
        var text = text
        return text.withUTF8 { Self.parse(UnsafeRawBufferPointer($0)) }.map(WallTime.init(milliseconds:))
    }
}
