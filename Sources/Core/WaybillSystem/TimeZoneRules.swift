/// Why a zone cannot be used.
package enum TimeZoneError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Not a name of letters, digits, `_`, `+`, `-` and single slashes.
    case badName(String)
    case missing(name: String, path: String)
    case unreadable(name: String, FileSystemError)
    /// The file is not TZif as RFC 9636 defines it.
    case corrupt(name: String, cause: String, offset: Int)

    /// One of a fixed set of words, for metrics and logs; contains no input.
    package var code: String {
        switch self {
        case .badName: "zone-name"
        case .missing: "zone-missing"
        case .unreadable: "zone-unreadable"
        case .corrupt: "zone-corrupt"
        }
    }

    package var description: String {
        switch self {
        case .badName(let name):
            "time zone \"\(name)\" is not an IANA name; write one such as Asia/Seoul, or UTC"
        case .missing(let name, let path):
            "time zone \"\(name)\" is unknown here (no \(path)); install the package tzdata or correct the name"
        case .unreadable(let name, let error):
            "time zone \"\(name)\" cannot be read: \(error)"
        case .corrupt(let name, let cause, let offset):
            "time zone \"\(name)\": \(cause) at byte \(offset) of its file; install the package tzdata again"
        }
    }
}

/// The rules of one time zone: the offset from UTC for every instant.
///
/// Read from the compiled IANA files of the system (TZif, RFC 9636): the 64-bit list of transitions, then the rule in
/// the footer for every later time. Leap seconds are not counted, as in `WallTime`.
package struct TimeZoneRules: Sendable {
    /// A period with one offset; seconds since 1970.
    package struct Period: Hashable, Sendable {
        package let start: Int64
        package let end: Int64
        package let offsetSeconds: Int
    }

    package static let utc = TimeZoneRules(name: "UTC", transitions: [], offsets: [], first: 0, rule: nil)

    package let name: String
    /// Instants at which the offset changes, ascending, and the offset from each one on.
    let transitions: [Int64]
    let offsets: [Int]
    /// Before the first transition.
    let first: Int
    /// After the last transition; if `nil`, the last offset stays.
    let rule: POSIXTimeZone?
}

extension TimeZoneRules {
    /// Reads the zone with this name.
    package init(
        named name: String, from files: some FileSystem, directory: String = "/usr/share/zoneinfo"
    ) throws(TimeZoneError) {
        guard name != "UTC" else {
            self = .utc
            return
        }
        guard Self.isValid(name) else { throw .badName(name) }
        let path = Path.join(directory, name)
        let contents: [UInt8]?
        do throws(FileSystemError) {
            contents = try files.contents(of: path, byteCountMax: 1 << 20)
        } catch {
            throw .unreadable(name: name, error)
        }
        guard let contents else { throw .missing(name: name, path: path) }
        var reader = TZifReader(name: name, bytes: contents)
        self = try reader.read()
    }

    /// Whether the name can be a path inside the zone directory and cannot leave it.
    private static func isValid(_ name: String) -> Bool {
        guard 1...64 ~= name.utf8.count else { return false }
        return name.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).allSatisfy { part in
            !part.isEmpty
                && part.allSatisfy { $0 == UInt8(ascii: "+") || $0.isNameByte && $0 != UInt8(ascii: ".") }
        }
    }

    /// Seconds to add to UTC for local time.
    package func offsetSeconds(at epochSeconds: Int64) -> Int {
        self.period(at: epochSeconds).offsetSeconds
    }

    /// The period of constant offset around an instant; under a rule, at most a year of it.
    package func period(at epochSeconds: Int64) -> Period {
        // The number of transitions at or before the instant.
        let low = self.transitions.partitionIndex { $0 <= epochSeconds }
        let start = low == 0 ? Int64.min : self.transitions[low - 1]
        if low < self.transitions.count {
            let offset = low == 0 ? self.first : self.offsets[low - 1]
            return Period(start: start, end: self.transitions[low], offsetSeconds: offset)
        }
        if let rule = self.rule {
            let period = rule.period(at: epochSeconds)
            return Period(
                start: max(period.start, start), end: period.end, offsetSeconds: period.offsetSeconds)
        }
        return Period(start: start, end: .max, offsetSeconds: self.offsets.last ?? self.first)
    }

    /// The local calendar day of a time.
    package func day(of time: WallTime) -> CalendarDay {
        var cursor = DayCursor(self)
        return cursor.day(of: time)
    }

    /// The first instant, in seconds since 1970, at which local clocks show `day` or a later one.
    ///
    /// Usually midnight; when clocks jump over midnight or the whole day, the instant of the jump.
    package func startOfDay(_ day: CalendarDay) -> Int64 {
        self.firstInstant(of: day, secondOfDay: 0)
    }

    /// The first instant, in seconds since 1970, at which local clocks show this time of `day` or a later one.
    ///
    /// When clocks jump over it, the instant of the jump; when they show it twice, the first time.
    package func firstInstant(of day: CalendarDay, secondOfDay: Int) -> Int64 {
        let local = Int64(day.daysSince1970) * 86_400 + Int64(secondOfDay)
        // No offset exceeds 26 hours (RFC 9636, section 3.2), so the instant cannot be before this.
        var period = self.period(at: local - 2 * 86_400)
        while true {
            let candidate = max(period.start, local - Int64(period.offsetSeconds))
            if candidate < period.end { return candidate }
            period = self.period(at: period.end)
        }
    }
}

/// Local days of times that are mostly close together: one comparison as long as the day stays the same.
package struct DayCursor: Sendable {
    package let rules: TimeZoneRules
    /// Milliseconds since 1970 between which `day` and `offsetSeconds` hold; empty at first.
    private var start: Int64 = 0
    private var end: Int64 = 0
    private var day = CalendarDay(daysSince1970: 0)
    private var offset = 0

    package init(_ rules: TimeZoneRules) {
        self.rules = rules
    }

    package mutating func day(of time: WallTime) -> CalendarDay {
        if time.milliseconds < self.start || time.milliseconds >= self.end { self.move(to: time) }
        return self.day
    }

    /// Seconds to add to UTC for local time.
    package mutating func offsetSeconds(at time: WallTime) -> Int {
        if time.milliseconds < self.start || time.milliseconds >= self.end { self.move(to: time) }
        return self.offset
    }

    private mutating func move(to time: WallTime) {
        let seconds = time.milliseconds.flooredQuotient(1000)
        let period = self.rules.period(at: seconds)
        let offset = Int64(period.offsetSeconds)
        let day = (seconds + offset).flooredQuotient(86_400)
        self.start = max(period.start, day * 86_400 - offset) * 1000
        self.end = min(period.end, (day + 1) * 86_400 - offset) * 1000
        self.day = CalendarDay(daysSince1970: Int32(clamping: day))
        self.offset = period.offsetSeconds
    }
}

extension Int64 {
    /// The quotient, rounded down.
    func flooredQuotient(_ divisor: Int64) -> Int64 {
        let quotient = self / divisor
        return self % divisor < 0 ? quotient - 1 : quotient
    }
}

/// Reads one TZif file (RFC 9636, section 3).
///
///     header v1 · data v1 (32-bit, skipped) · header v2 · data v2 (64-bit) · LF POSIX rule LF
private struct TZifReader {
    let name: String
    let bytes: [UInt8]
    var position = 0

    private struct Header {
        let version: UInt8
        let universalCount, standardCount, leapCount, transitionCount, typeCount, designationCount: Int

        func byteCount(timeSize: Int) -> Int {
            self.transitionCount * (timeSize + 1) + self.typeCount * 6 + self.designationCount
                + self.leapCount * (timeSize + 4) + self.standardCount + self.universalCount
        }
    }

    mutating func read() throws(TimeZoneError) -> TimeZoneRules {
        var header = try self.header()
        var timeSize = 4
        if header.version >= UInt8(ascii: "2") {
            self.position += header.byteCount(timeSize: 4)
            header = try self.header()
            timeSize = 8
        }
        let dataEnd = self.position + header.byteCount(timeSize: timeSize)
        guard dataEnd <= self.bytes.count else { throw self.corrupt("the data is cut off") }
        guard header.typeCount > 0 else { throw self.corrupt("there is no type of local time") }

        var transitions: [Int64] = []
        for _ in 0..<header.transitionCount {
            let time = self.integer(byteCount: timeSize)
            if let last = transitions.last, last >= time { throw self.corrupt("transitions are not ascending") }
            transitions.append(time)
        }
        let types = self.bytes[self.position..<(self.position + header.transitionCount)].map(Int.init)
        self.position += header.transitionCount
        var typeOffsets: [Int] = []
        for _ in 0..<header.typeCount {
            typeOffsets.append(Int(self.integer(byteCount: 4)))
            self.position += 2
        }
        guard typeOffsets.allSatisfy({ abs($0) < 26 * 3600 }) else { throw self.corrupt("an offset exceeds 26 hours") }
        guard types.allSatisfy({ $0 < typeOffsets.count }) else { throw self.corrupt("a type of time is missing") }
        self.position = dataEnd
        return TimeZoneRules(
            name: self.name, transitions: transitions, offsets: types.map { typeOffsets[$0] },
            first: typeOffsets[0], rule: timeSize == 8 ? try self.footer() : nil)
    }

    private mutating func header() throws(TimeZoneError) -> Header {
        guard self.position + 44 <= self.bytes.count else { throw self.corrupt("the header is cut off") }
        guard self.bytes[self.position..<(self.position + 4)].elementsEqual("TZif".utf8) else {
            throw self.corrupt("the mark TZif is missing")
        }
        let version = self.bytes[self.position + 4]
        self.position += 20
        var counts: [Int] = []
        for _ in 0..<6 { counts.append(Int(self.integer(byteCount: 4))) }
        guard counts.allSatisfy({ 0...65_536 ~= $0 }) else { throw self.corrupt("a count is out of bounds") }
        return Header(
            version: version, universalCount: counts[0], standardCount: counts[1], leapCount: counts[2],
            transitionCount: counts[3], typeCount: counts[4], designationCount: counts[5])
    }

    private func footer() throws(TimeZoneError) -> POSIXTimeZone? {
        guard self.position < self.bytes.count, self.bytes[self.position] == 0x0A,
            let end = self.bytes[(self.position + 1)...].firstIndex(of: 0x0A)
        else { throw self.corrupt("the footer is cut off") }
        let text = self.bytes[(self.position + 1)..<end]
        if text.isEmpty { return nil }
        guard let rule = POSIXTimeZone(text) else { throw self.corrupt("the footer's rule is malformed") }
        return rule
    }

    /// The next signed big-endian integer; the caller has checked the length.
    private mutating func integer(byteCount: Int) -> Int64 {
        var value: UInt64 = 0
        for byte in self.bytes[self.position..<(self.position + byteCount)] {
            value = value << 8 | UInt64(byte)
        }
        self.position += byteCount
        return byteCount == 4 ? Int64(Int32(truncatingIfNeeded: value)) : Int64(bitPattern: value)
    }

    private func corrupt(_ cause: String) -> TimeZoneError {
        .corrupt(name: self.name, cause: cause, offset: min(self.position, self.bytes.count))
    }
}

/// A rule for every year, in the format of the variable TZ (POSIX, section 8.3; extensions of RFC 9636, section 3.3.2).
///
///     EST5EDT,M3.2.0,M11.1.0        <-03>3        IST-2IDT,M3.4.4/26,M10.5.0
struct POSIXTimeZone: Hashable, Sendable {
    /// A day of the year, and the seconds after its midnight, on the clocks that are about to change.
    struct Change: Hashable, Sendable {
        enum Date: Hashable, Sendable {
            /// `Mm.w.d`: the w-th weekday d of month m; week 5 is the last one.
            case weekday(month: Int, week: Int, weekday: Int)
            /// `Jn`: day 1 to 365, never counting February 29.
            case dayWithoutLeap(Int)
            /// `n`: day 0 to 365.
            case day(Int)
        }
        let date: Date
        let seconds: Int

        /// Local seconds since 1970 of the change.
        func localSeconds(in year: Int) -> Int64 {
            // The year is that of a `CalendarDay` or close to it, so it has a January 1.
            let newYear = CalendarDay(year: min(max(year, 0), 9999), month: 1, day: 1)
            var day = Int(newYear?.daysSince1970 ?? 0)
            switch self.date {
            case .day(let index):
                day += index
            case .dayWithoutLeap(let number):
                let isLeap = CalendarDay.dayCount(month: 2, year: year) == 29
                day += number - 1 + (isLeap && number >= 60 ? 1 : 0)
            case .weekday(let month, let week, let weekday):
                for before in 1..<max(month, 1) { day += CalendarDay.dayCount(month: before, year: year) }
                let first = CalendarDay(daysSince1970: Int32(day)).weekday
                var index = (weekday - first + 7) % 7 + (week - 1) * 7
                if index >= CalendarDay.dayCount(month: month, year: year) { index -= 7 }
                day += index
            }
            return Int64(day) * 86_400 + Int64(self.seconds)
        }
    }

    /// The two changes of a year.
    struct Changes: Hashable, Sendable {
        let toDaylight: Change
        let toStandard: Change
    }

    let standardOffset: Int
    let daylightOffset: Int
    /// `nil` for standard time all year.
    let changes: Changes?

    init?(_ text: some Collection<UInt8>) {
        var parser = POSIXTimeZoneParser(text: Array(text))
        guard parser.skipName(), let standard = parser.time() else { return nil }
        self.standardOffset = -standard
        guard Self.isOffset(self.standardOffset) else { return nil }
        guard !parser.isAtEnd else {
            self.daylightOffset = self.standardOffset
            self.changes = nil
            return
        }
        guard parser.skipName() else { return nil }
        if parser.peek == UInt8(ascii: ",") {
            self.daylightOffset = self.standardOffset + 3600
        } else {
            guard let daylight = parser.time() else { return nil }
            self.daylightOffset = -daylight
        }
        guard Self.isOffset(self.daylightOffset) else { return nil }
        guard let toDaylight = parser.change(), let toStandard = parser.change(), parser.isAtEnd else { return nil }
        self.changes = Changes(toDaylight: toDaylight, toStandard: toStandard)
    }

    /// Hours up to 167 are only for the time of a change; RFC 9636, section 3.2, limits an offset.
    private static func isOffset(_ seconds: Int) -> Bool {
        abs(seconds) < 26 * 3600
    }

    func period(at epochSeconds: Int64) -> TimeZoneRules.Period {
        guard let changes = self.changes else {
            return TimeZoneRules.Period(start: .min, end: .max, offsetSeconds: self.standardOffset)
        }
        let localDay = (epochSeconds + Int64(self.standardOffset)).flooredQuotient(86_400)
        let year = CalendarDay(daysSince1970: Int32(clamping: localDay)).components.year
        var best: (start: Int64, offset: Int)?
        var end = Int64.max
        // A change may come a week before or after its year: with two years on each side there is one before and one
        // after.
        for year in (year - 2)...(year + 2) {
            let toDaylight = changes.toDaylight.localSeconds(in: year) - Int64(self.standardOffset)
            let toStandard = changes.toStandard.localSeconds(in: year) - Int64(self.daylightOffset)
            for (instant, offset) in [(toDaylight, self.daylightOffset), (toStandard, self.standardOffset)] {
                if instant > epochSeconds {
                    end = min(end, instant)
                } else if best.map({ $0.start <= instant }) ?? true {
                    best = (instant, offset)
                }
            }
        }
        return TimeZoneRules.Period(
            start: best?.start ?? .min, end: end, offsetSeconds: best?.offset ?? self.standardOffset)
    }
}

/// Parses the parts of a POSIX rule.
private struct POSIXTimeZoneParser {
    let text: [UInt8]
    var position = 0

    var isAtEnd: Bool { self.position == self.text.count }
    var peek: UInt8? { self.isAtEnd ? nil : self.text[self.position] }

    private mutating func take(_ byte: Character) -> Bool {
        guard let expected = byte.asciiValue, self.peek == expected else { return false }
        self.position += 1
        return true
    }

    /// Skips `EST` or `<-03>`.
    mutating func skipName() -> Bool {
        if self.take("<") {
            guard let end = self.text[self.position...].firstIndex(of: UInt8(ascii: ">")) else { return false }
            self.position = end + 1
            return true
        }
        let start = self.position
        while let byte = self.peek, 0x41...0x5A ~= byte || 0x61...0x7A ~= byte { self.position += 1 }
        return self.position - start >= 3
    }

    /// `[+-]h[h[h]][:mm[:ss]]` in seconds.
    mutating func time() -> Int? {
        let isNegative = self.take("-")
        if !isNegative { _ = self.take("+") }
        guard let hours = self.number(max: 167) else { return nil }
        var seconds = hours * 3600
        if self.take(":") {
            guard let minutes = self.number(max: 59) else { return nil }
            seconds += minutes * 60
            if self.take(":") {
                guard let rest = self.number(max: 59) else { return nil }
                seconds += rest
            }
        }
        return isNegative ? -seconds : seconds
    }

    /// `,date[/time]`; the time defaults to 02:00.
    mutating func change() -> POSIXTimeZone.Change? {
        guard self.take(",") else { return nil }
        let date: POSIXTimeZone.Change.Date
        if self.take("M") {
            guard let month = self.number(max: 12), month >= 1, self.take("."),
                let week = self.number(max: 5), week >= 1, self.take("."), let weekday = self.number(max: 6)
            else { return nil }
            date = .weekday(month: month, week: week, weekday: weekday)
        } else if self.take("J") {
            guard let number = self.number(max: 365), number >= 1 else { return nil }
            date = .dayWithoutLeap(number)
        } else {
            guard let number = self.number(max: 365) else { return nil }
            date = .day(number)
        }
        guard self.take("/") else { return POSIXTimeZone.Change(date: date, seconds: 7200) }
        guard let seconds = self.time() else { return nil }
        return POSIXTimeZone.Change(date: date, seconds: seconds)
    }

    private mutating func number(max: Int) -> Int? {
        var value = 0
        let start = self.position
        while let byte = self.peek, 0x30...0x39 ~= byte {
            value = value * 10 + Int(byte - 0x30)
            self.position += 1
            if value > max { return nil }
        }
        return self.position > start ? value : nil
    }
}
