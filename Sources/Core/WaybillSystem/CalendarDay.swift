/// A calendar day of the proleptic Gregorian calendar, without a zone.
package struct CalendarDay: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// Days since 1970-01-01; negative before.
    package let daysSince1970: Int32

    package init(daysSince1970: Int32) {
        self.daysSince1970 = daysSince1970
    }

    /// The day of a date; `nil` when it does not exist, such as February 30.
    ///
    /// - Parameter year: 0 to 9999.
    package init?(year: Int, month: Int, day: Int) {
        guard 0...9999 ~= year, 1...12 ~= month, day >= 1, day <= Self.dayCount(month: month, year: year) else {
            return nil
        }
        // Howard Hinnant, "chrono-compatible low-level date algorithms": years begin in March, eras have 400 years.
        let shifted = month <= 2 ? year - 1 : year
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        self.daysSince1970 = Int32(era * 146_097 + dayOfEra - 719_468)
    }

    /// Parses `YYYY-MM-DD`: ten characters, nothing else.
    package init?(_ text: String) {
        let parts = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        let numbers = parts.compactMap { $0.allSatisfy { 0x30...0x39 ~= $0 } ? Int(Substring($0)) : nil }
        guard parts.map(\.count) == [4, 2, 2], numbers.count == 3 else { return nil }
        self.init(year: numbers[0], month: numbers[1], day: numbers[2])
    }

    package var components: (year: Int, month: Int, day: Int) {
        let shifted = Int(self.daysSince1970) + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    }

    /// `YYYY-MM-DD`.
    package var description: String {
        let (year, month, day) = self.components
        return [(year, 4), (month, 2), (day, 2)].map { ZeroPadded.text($0, digitCount: $1) }.joined(separator: "-")
    }

    /// 0 for Sunday.
    package var weekday: Int {
        let remainder = (Int(self.daysSince1970) + 4) % 7
        return remainder < 0 ? remainder + 7 : remainder
    }

    package static func < (left: CalendarDay, right: CalendarDay) -> Bool {
        left.daysSince1970 < right.daysSince1970
    }

    package static func dayCount(month: Int, year: Int) -> Int {
        switch month {
        case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}
