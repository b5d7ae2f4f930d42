/// Formats times as `YYYY-MM-DDTHH:MM:SS.mmmZ` (RFC 3339, UTC), with the text of the last second cached.
package struct Timestamp: ~Copyable {
    private var second: UInt64 = .max
    /// The cached second, `YYYY-MM-DDTHH:MM:SS.`.
    private var text = LineBuffer(capacity: 32)

    /// 9999-12-31T23:59:59.999Z, the last time that the format can represent.
    private static let millisecondsMax: Int64 = 253_402_300_799_999

    package init() {}

    /// Appends the 24 characters; times outside the format's range become its first (1970) or last time.
    package mutating func append(_ milliseconds: Int64, to line: inout LineBuffer) {
        line.fill(Self.byteCount) { self.put(milliseconds, to: &$0) }
    }

    static var byteCount: Int { 24 }

    @inline(__always)
    mutating func put(_ milliseconds: Int64, to cursor: inout LineCursor) {
        let bounded = UInt64(min(max(milliseconds, 0), Self.millisecondsMax))
        let second = bounded / 1000
        if second != self.second { self.render(second) }
        cursor.put(self.text)
        cursor.putDecimal(bounded &- second &* 1000, digitCount: 3)
        cursor.put(UInt8(ascii: "Z"))
    }

    /// Converts days to a civil date, after Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms",
    /// `civil_from_days`.
    @inline(never)
    private mutating func render(_ second: UInt64) {
        self.second = second
        let shifted = second / 86_400 + 719_468
        let era = shifted / 146_097
        let dayOfEra = shifted % 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let marchMonth = (5 * dayOfYear + 2) / 153
        let month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
        let secondOfDay = second % 86_400
        self.text.removeAll()
        self.text.appendDecimal(yearOfEra + era * 400 + (month <= 2 ? 1 : 0), digitCount: 4)
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
