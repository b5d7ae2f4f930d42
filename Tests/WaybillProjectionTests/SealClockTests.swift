import Testing
import WaybillSystem

@testable import WaybillProjection

@Suite struct SealClockTests {
    private static func seconds(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: seconds * 1_000_000_000)
    }

    private static func wall(_ seconds: Int64) -> WallTime {
        WallTime(milliseconds: seconds * 1000)
    }

    @Test func `a clock is believed ten minutes after a start`() {
        var clock = SealClock()
        #expect(clock.read(Self.wall(5000), Self.seconds(100)) == nil)
        #expect(clock.read(Self.wall(5599), Self.seconds(699)) == nil)
        #expect(clock.read(Self.wall(5600), Self.seconds(700)) == Self.wall(5600))
        #expect(clock.read(Self.wall(90_000), Self.seconds(85_100)) == Self.wall(90_000))
    }

    @Test(arguments: [-86_400, -3600, -61, 61, 3600, 86_400, 40 * 86_400])
    func `a jump is not believed for ten minutes, forward or back`(jump: Int64) {
        var clock = SealClock()
        _ = clock.read(Self.wall(1_000_000), Self.seconds(0))
        #expect(clock.read(Self.wall(1_000_600), Self.seconds(600)) != nil)
        #expect(clock.read(Self.wall(1_000_660 + jump), Self.seconds(660)) == nil)
        #expect(clock.read(Self.wall(1_001_259 + jump), Self.seconds(1259)) == nil)
        #expect(clock.read(Self.wall(1_001_260 + jump), Self.seconds(1260)) == Self.wall(1_001_260 + jump))
    }

    @Test func `small steps add up to a jump`() {
        var clock = SealClock()
        _ = clock.read(Self.wall(0), Self.seconds(0))
        #expect(clock.read(Self.wall(640), Self.seconds(600)) != nil)
        #expect(clock.read(Self.wall(720), Self.seconds(660)) != nil)
        #expect(clock.read(Self.wall(781), Self.seconds(720)) == nil)
    }

    private static func zone(_ name: String) throws -> TimeZoneRules {
        try TimeZoneRules(named: name, from: POSIXFileSystem())
    }

    @Test(arguments: [
        ("UTC", "2026-11-20", 4 * 3600, "2026-11-21T04:00:00.000Z"),
        ("Asia/Seoul", "2026-11-20", 4 * 3600, "2026-11-20T19:00:00.000Z"),
        ("America/New_York", "2026-03-07", 4 * 3600, "2026-03-08T08:00:00.000Z"),
        // 02:30 is not on the clocks of March 8: they jump from 02:00 to 03:00.
        ("America/New_York", "2026-03-07", 9000, "2026-03-08T07:00:00.000Z"),
        // 01:30 is on the clocks of November 1 twice; the first time counts.
        ("America/New_York", "2026-10-31", 5400, "2026-11-01T05:30:00.000Z"),
        ("America/New_York", "2026-10-31", 4 * 3600, "2026-11-01T09:00:00.000Z"),
        // Samoa had no December 30 in 2011.
        ("Pacific/Apia", "2011-12-29", 4 * 3600, "2011-12-30T10:00:00.000Z"),
        ("UTC", "2028-02-28", 0, "2028-02-29T00:00:00.000Z"),
    ])
    func `a day is over at its cut-off by local clocks`(
        zone: String, day: String, second: Int, expected: String
    ) throws {
        let cutOff = CutOff(zone: try Self.zone(zone), secondOfDay: second)
        #expect(cutOff.time(of: try #require(CalendarDay(day))).text == expected)
    }

    @Test(
        arguments: ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu", "Pacific/Apia"], [0, 9000, 14_400])
    func `the next cut-off lies behind a time, and none lies between`(zone: String, second: Int) throws {
        let cutOff = CutOff(zone: try Self.zone(zone), secondOfDay: second)
        // Three years of hours, and the seconds around each cut-off.
        for hour in stride(from: Int64(1_300_000_000), to: 1_395_000_000, by: 3600) {
            let next = cutOff.next(after: Self.wall(hour))
            #expect(next > Self.wall(hour))
            #expect(cutOff.next(after: WallTime(milliseconds: next.milliseconds - 1)) == next)
            #expect(next.milliseconds - hour * 1000 <= 49 * 3_600_000)
        }
    }

    @Test func `open days fall due by another cut-off as if they had been opened with it`() throws {
        let day = try #require(CalendarDay("2026-11-20"))
        var days = OpenDays<String>(CutOff(zone: .utc))
        days.add("ended", day, openedAt: try #require(WallTime(text: "2026-11-20T10:00:00.000Z")))
        days.add("late", day, openedAt: try #require(WallTime(text: "2026-11-21T05:00:00.000Z")))
        #expect(days.nextDue?.text == "2026-11-21T04:00:00.000Z")
        days.use(CutOff(zone: .utc, secondOfDay: 6 * 3600))
        let due = try #require(WallTime(text: "2026-11-21T06:00:00.000Z"))
        #expect(days.nextDue == due)
        #expect(days.due(SealMoment(now: due, through: due)).sorted() == ["ended", "late"])
    }

    @Test func `late lines are due at the cut-off behind their arrival`() throws {
        let cutOff = CutOff(zone: .utc)
        let day = try #require(CalendarDay("2026-11-20"))
        func due(_ opened: String) throws -> String {
            cutOff.dueTime(of: day, openedAt: try #require(WallTime(text: opened))).text
        }
        #expect(try due("2026-11-20T10:00:00.000Z") == "2026-11-21T04:00:00.000Z")
        #expect(try due("2026-11-19T10:00:00.000Z") == "2026-11-21T04:00:00.000Z")
        #expect(try due("2026-11-21T03:59:59.999Z") == "2026-11-21T04:00:00.000Z")
        #expect(try due("2026-11-21T04:00:00.000Z") == "2026-11-22T04:00:00.000Z")
        #expect(try due("2026-12-24T12:00:00.000Z") == "2026-12-25T04:00:00.000Z")
    }
}
