import Testing
import WaybillSystem

@Suite struct TimeZoneRulesTests {
    private static func zone(_ name: String) throws -> TimeZoneRules {
        try TimeZoneRules(named: name, from: POSIXFileSystem())
    }

    /// Seconds since 1970 of a UTC date and time.
    private static func utc(_ day: String, _ hour: Int = 0, _ minute: Int = 0, _ second: Int = 0) throws -> Int64 {
        let day = try #require(CalendarDay(day))
        return Int64(day.daysSince1970) * 86_400 + Int64(hour * 3600 + minute * 60 + second)
    }

    @Test func `Seoul is nine hours ahead and its days begin at 15 o'clock UTC`() throws {
        let seoul = try Self.zone("Asia/Seoul")
        let lastSecond = try Self.utc("2025-03-01", 14, 59, 59)
        #expect(seoul.offsetSeconds(at: lastSecond) == 32_400)
        #expect(seoul.day(of: WallTime(milliseconds: lastSecond * 1000 + 999)) == CalendarDay("2025-03-01"))
        #expect(seoul.day(of: WallTime(milliseconds: lastSecond * 1000 + 1000)) == CalendarDay("2025-03-02"))
        #expect(seoul.startOfDay(try #require(CalendarDay("2025-03-02"))) == lastSecond + 1)
    }

    @Test func `Seoul had summer time in 1988`() throws {
        #expect(try Self.zone("Asia/Seoul").offsetSeconds(at: try Self.utc("1988-07-01")) == 36_000)
    }

    @Test func `New York changes its clocks to the second, both ways`() throws {
        let newYork = try Self.zone("America/New_York")
        let spring = try Self.utc("2026-03-08", 7)
        #expect(newYork.offsetSeconds(at: spring - 1) == -18_000)
        #expect(newYork.offsetSeconds(at: spring) == -14_400)
        let autumn = try Self.utc("2026-11-01", 6)
        #expect(newYork.offsetSeconds(at: autumn - 1) == -14_400)
        #expect(newYork.offsetSeconds(at: autumn) == -18_000)
    }

    @Test(arguments: [
        ("2026-03-08", 23), ("2026-03-09", 24), ("2026-11-01", 25), ("2040-03-11", 23), ("2040-11-04", 25),
    ])
    func `a day of New York has as many hours as its clocks show`(day: String, hours: Int) throws {
        let newYork = try Self.zone("America/New_York")
        let day = try #require(CalendarDay(day))
        let next = CalendarDay(daysSince1970: day.daysSince1970 + 1)
        #expect(newYork.startOfDay(next) - newYork.startOfDay(day) == Int64(hours) * 3600)
    }

    @Test func `Berlin follows the footer's rule in 2050`() throws {
        let berlin = try Self.zone("Europe/Berlin")
        let spring = try Self.utc("2050-03-27", 1)
        #expect(berlin.offsetSeconds(at: spring - 1) == 3600)
        #expect(berlin.offsetSeconds(at: spring) == 7200)
        let autumn = try Self.utc("2050-10-30", 1)
        #expect(berlin.offsetSeconds(at: autumn - 1) == 7200)
        #expect(berlin.offsetSeconds(at: autumn) == 3600)
    }

    @Test func `Sydney, south of the equator, is in summer time over new year`() throws {
        let sydney = try Self.zone("Australia/Sydney")
        #expect(sydney.offsetSeconds(at: try Self.utc("2049-12-31", 23)) == 39_600)
        #expect(sydney.offsetSeconds(at: try Self.utc("2050-01-01", 1)) == 39_600)
        #expect(sydney.offsetSeconds(at: try Self.utc("2050-07-01")) == 36_000)
    }

    @Test func `a day that a zone left out begins where the next one does`() throws {
        let apia = try Self.zone("Pacific/Apia")
        let missing = apia.startOfDay(try #require(CalendarDay("2011-12-30")))
        #expect(missing == apia.startOfDay(try #require(CalendarDay("2011-12-31"))))
        #expect(apia.day(of: WallTime(milliseconds: missing * 1000)) == CalendarDay("2011-12-31"))
        #expect(apia.day(of: WallTime(milliseconds: missing * 1000 - 1)) == CalendarDay("2011-12-29"))
    }

    @Test func `a day whose midnight a zone left out begins at one o'clock`() throws {
        let saoPaulo = try Self.zone("America/Sao_Paulo")
        #expect(saoPaulo.startOfDay(try #require(CalendarDay("2018-11-04"))) == (try Self.utc("2018-11-04", 3)))
    }

    @Test(arguments: ["Asia/Seoul", "America/New_York", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata", "UTC"])
    func `a cursor gives the same days as a fresh look, wherever it stood before`(name: String) throws {
        let zone = try Self.zone(name)
        var cursor = DayCursor(zone)
        var random = SeededGenerator(seed: 7)
        var time = try Self.utc("2017-06-01") * 1000
        for _ in 0..<20_000 {
            time += Int64.random(in: -40_000_000...50_000_000, using: &random)
            let wall = WallTime(milliseconds: time)
            let day = cursor.day(of: wall)
            #expect(day == zone.day(of: wall))
            let local = time + Int64(zone.offsetSeconds(at: time >= 0 ? time / 1000 : (time - 999) / 1000)) * 1000
            #expect(Int64(day.daysSince1970) * 86_400_000 <= local)
            #expect(local < Int64(day.daysSince1970 + 1) * 86_400_000)
            #expect(zone.startOfDay(day) * 1000 <= time)
        }
    }

    @Test(arguments: ["", "../etc/passwd", "/etc/passwd", "Asia/../UTC", "Asia//Seoul", "Asia/", "a b", "Zürich"])
    func `a name that could leave the directory of zones is refused`(name: String) {
        #expect(throws: TimeZoneError.badName(name)) { try TimeZoneRules(named: name, from: POSIXFileSystem()) }
    }

    @Test func `an unknown zone is named in the error`() {
        #expect(throws: TimeZoneError.missing(name: "Asia/Atlantis", path: "/usr/share/zoneinfo/Asia/Atlantis")) {
            try TimeZoneRules(named: "Asia/Atlantis", from: POSIXFileSystem())
        }
    }

    @Test func `a zone file cut off anywhere is an error and never a crash`() throws {
        let files = POSIXFileSystem()
        let whole = try #require(try files.contents(of: "/usr/share/zoneinfo/America/New_York"))
        let directory = Path.join("/tmp", "waybill-zones-\(SystemRandom.seed())")
        try files.createDirectory(directory)
        defer { #expect(throws: Never.self) { try files.removeDirectory(directory) } }
        let path = Path.join(directory, "Cut")
        for byteCount in stride(from: 0, to: whole.count, by: 13) {
            try files.replace(path, with: Array(whole[..<byteCount]))
            let error = #expect(throws: TimeZoneError.self) {
                try TimeZoneRules(named: "Cut", from: files, directory: directory)
            }
            #expect(error?.code == "zone-corrupt")
        }
        try files.unlink(path)
    }

    @Test func `every day of 400 years survives being written and read`() {
        let first = CalendarDay("1900-01-01")?.daysSince1970 ?? 0
        for offset in 0..<Int32(146_097) {
            let day = CalendarDay(daysSince1970: first + offset)
            let (year, month, number) = day.components
            #expect(CalendarDay(year: year, month: month, day: number) == day)
        }
        #expect(CalendarDay("2024-02-29")?.daysSince1970 == 19_782)
        #expect(CalendarDay("2000-02-29")?.description == "2000-02-29")
        #expect(CalendarDay("1970-01-01")?.weekday == 4)
    }

    @Test(arguments: [
        "2025-02-29", "1900-02-29", "2025-13-01", "2025-00-10", "2025-04-31", "2025-1-01", "2025-01-01 ", "20250101",
        "",
        "-025-01-01", "２０２５-01-01",
    ])
    func `a text that is no date is no day`(text: String) {
        #expect(CalendarDay(text) == nil)
    }
}
