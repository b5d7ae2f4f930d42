internal import WaybillSystem
internal import WaybillTestSupport

/// A zone's file with any bytes: refused, or rules that cut time into periods without a gap.
enum TimeZoneFuzz {
    @Sendable static func run(_ input: [UInt8]) throws {
        let disk = FaultyFiles()
        try disk.createDirectories("/zones")
        disk.place("/zones/Zone", input)
        let rules: TimeZoneRules
        do {
            rules = try TimeZoneRules(named: "Zone", from: disk, directory: "/zones")
        } catch {
            return
        }
        // Around the borders of what events carry, and where zone files change.
        let instants: [Int64] = [
            946_684_800, 1_763_683_200, 1_790_000_000, 1_900_000_000, 2_147_483_648, 4_102_444_800, 0, -2_208_988_800,
            253_402_300_799,
        ]
        for instant in instants { try Self.check(rules, at: instant) }
    }

    private static func check(_ rules: TimeZoneRules, at instant: Int64) throws {
        let period = rules.period(at: instant)
        try require(period.start <= instant && instant < period.end, "\(instant) is not in \(period)")
        try require(abs(period.offsetSeconds) <= 26 * 3600, "an offset of \(period.offsetSeconds) s")
        if period.end < .max {
            let next = rules.period(at: period.end)
            try require(next.start <= period.end && period.end < next.end, "\(period.end) is not in \(next)")
            try require(rules.period(at: period.end - 1).offsetSeconds == period.offsetSeconds, "\(period) is torn")
        }
        if period.start > .min {
            try require(rules.period(at: period.start).offsetSeconds == period.offsetSeconds, "\(period) is torn")
        }
        let time = WallTime(milliseconds: instant * 1000)
        let day = rules.day(of: time)
        let expected = Self.floor(instant + Int64(period.offsetSeconds), 86_400)
        try require(Int64(day.daysSince1970) == expected, "\(instant) lies on \(day)")
        let start = rules.startOfDay(day)
        try require(start <= instant, "\(day) begins at \(start), behind \(instant)")
        try require(rules.day(of: WallTime(milliseconds: start * 1000)) >= day, "\(start) is before \(day)")
        try require(rules.day(of: WallTime(milliseconds: (start - 1) * 1000)) < day, "\(day) begins before \(start)")
        // A cursor that comes from elsewhere says the same.
        var cursor = DayCursor(rules)
        for shift in [-90_000, 90_000, 0] as [Int64] {
            let time = WallTime(milliseconds: (instant + shift) * 1000)
            let moved = cursor.day(of: time)
            try require(moved == rules.day(of: time), "a cursor says \(moved) at \(instant + shift)")
        }
    }

    private static func floor(_ value: Int64, _ divisor: Int64) -> Int64 {
        (value - ((value % divisor) + divisor) % divisor) / divisor
    }
}
