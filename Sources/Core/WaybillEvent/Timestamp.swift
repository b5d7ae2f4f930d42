/// Formats times as `YYYY-MM-DDTHH:MM:SS.mmmZ` (RFC 3339, UTC), with the text of the last second cached.
package struct Timestamp: ~Copyable {
    private var second: Int64 = .min
    /// The cached second, `YYYY-MM-DDTHH:MM:SS.`.
    private var text = LineBuffer(capacity: 32)

    /// From 0000-01-01T00:00:00.000Z to 9999-12-31T23:59:59.999Z: the times that the format can represent.
    package static let representable: ClosedRange<Int64> = -62_167_219_200_000...253_402_300_799_999

    package init() {}

    /// Appends the 24 characters; a time before 1970 becomes 1970, and one after the format's last becomes that.
    package mutating func append(_ milliseconds: Int64, to line: inout LineBuffer) {
        line.fill(Self.byteCount) { self.put(milliseconds, to: &$0) }
    }

    /// Appends the 24 characters of a ``representable`` time, also of one before 1970.
    mutating func append(exactly milliseconds: Int64, to line: inout LineBuffer) {
        precondition(Self.representable.contains(milliseconds), "\(milliseconds) ms is not in the years 0 to 9999")
        line.fill(Self.byteCount) { self.put(exactly: milliseconds, to: &$0) }
    }

    static var byteCount: Int { 24 }

    @inline(__always)
    mutating func put(_ milliseconds: Int64, to cursor: inout LineCursor) {
        self.put(exactly: min(max(milliseconds, 0), Self.representable.upperBound), to: &cursor)
    }

    @inline(__always)
    private mutating func put(exactly milliseconds: Int64, to cursor: inout LineCursor) {
        // Rounded down, also before 1970.
        let second = milliseconds >= 0 ? milliseconds / 1000 : (milliseconds - 999) / 1000
        if second != self.second { self.render(second) }
        cursor.put(self.text)
        cursor.putDecimal(UInt64(milliseconds &- second &* 1000), digitCount: 3)
        cursor.put(UInt8(ascii: "Z"))
    }

    /// Converts days to a civil date, after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
    /// `civil_from_days`.
    @inline(never)
    private mutating func render(_ signedSecond: Int64) {
        self.second = signedSecond
        // Five eras of 400 years later, so that no number is negative.
        let second = UInt64(signedSecond + 146_097 * 86_400 * 5)
        let shifted = second / 86_400 + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let secondOfDay = second % 86_400
        self.text.removeAll()
        self.text.appendDecimal(yearOfEra + era * 400 + (month <= 2 ? 1 : 0) - 2000, digitCount: 4)
        self.text.append(UInt8(ascii: "-"))
        self.text.appendDecimal(month, digitCount: 2)
        self.text.append(UInt8(ascii: "-"))
        self.text.appendDecimal(dayOfYear - (153 * marchMonth + 2) / 5 + 1, digitCount: 2)
        self.text.append(UInt8(ascii: "T"))
        self.text.appendDecimal(secondOfDay / 3600, digitCount: 2)
        self.text.append(UInt8(ascii: ":"))
        self.text.appendDecimal(secondOfDay / 60 % 60, digitCount: 2)
        self.text.append(UInt8(ascii: ":"))
        self.text.appendDecimal(secondOfDay % 60, digitCount: 2)
        self.text.append(UInt8(ascii: "."))
    }
}
