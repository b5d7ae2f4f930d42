import Testing
import WaybillAgent
import WaybillSystem

@Suite struct ScanScheduleTests {
    private static func time(_ milliseconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(milliseconds) * 1_000_000)
    }

    /// After a look at everything that began at 0.
    private static func schedule(took milliseconds: Int, isComplete: Bool) -> ScanSchedule {
        var schedule = ScanSchedule(Self.time(0))
        schedule.lookedAtEverything(from: Self.time(0), to: Self.time(milliseconds), isComplete: isComplete)
        return schedule
    }

    private static func isDueFirst(_ work: ScanSchedule.Work, at milliseconds: Int, _ schedule: ScanSchedule) -> Bool {
        schedule.isDue(work, Self.time(milliseconds)) && !schedule.isDue(work, Self.time(milliseconds - 1))
    }

    @Test func `everything is due at the start`() {
        let schedule = ScanSchedule(Self.time(7))
        for work: ScanSchedule.Work in [.everything, .freshFiles, .watches] {
            #expect(Self.isDueFirst(work, at: 7, schedule))
        }
    }

    @Test(arguments: [(1, true, 5_001), (20, true, 20_020), (1_000, true, 301_000)])
    func `with complete hints a look at everything costs a thousandth of a core`(took: Int, isComplete: Bool, due: Int)
    {
        #expect(Self.isDueFirst(.everything, at: due, Self.schedule(took: took, isComplete: isComplete)))
    }

    @Test(arguments: [(1, 501), (25, 525), (100, 2_100), (60_000, 360_000)])
    func `without them a look at everything comes twice a second and costs a twentieth at most`(took: Int, due: Int) {
        #expect(Self.isDueFirst(.everything, at: due, Self.schedule(took: took, isComplete: false)))
    }

    @Test(arguments: [1, 50, 900])
    func `with complete hints all fresh files are looked at each second, however busy the machine is`(took: Int) {
        var schedule = Self.schedule(took: 400, isComplete: true)
        #expect(Self.isDueFirst(.freshFiles, at: 1_400, schedule))
        schedule.lookedAtFreshFiles(from: Self.time(1_400), to: Self.time(1_400 + took), isWhole: true)
        #expect(Self.isDueFirst(.freshFiles, at: 2_400 + took, schedule))
    }

    @Test func `a look at a part of too many fresh files costs a twentieth of a core`() {
        var schedule = Self.schedule(took: 400, isComplete: true)
        schedule.lookedAtFreshFiles(from: Self.time(2_000), to: Self.time(2_100), isWhole: false)
        #expect(Self.isDueFirst(.freshFiles, at: 4_100, schedule))
    }

    @Test func `where hints are not complete fresh files are due twice a second, within a twentieth of a core`() {
        var schedule = Self.schedule(took: 3_000, isComplete: false)
        #expect(Self.isDueFirst(.freshFiles, at: 3_500, schedule))
        schedule.lookedAtFreshFiles(from: Self.time(3_500), to: Self.time(3_600), isWhole: true)
        #expect(Self.isDueFirst(.freshFiles, at: 5_600, schedule))
    }

    @Test func `watches are checked each second, for a thousandth of a core at most`() {
        var schedule = Self.schedule(took: 400, isComplete: true)
        #expect(Self.isDueFirst(.watches, at: 1_400, schedule))
        schedule.checkedWatches(from: Self.time(1_400), to: Self.time(1_450))
        #expect(Self.isDueFirst(.watches, at: 51_450, schedule))
    }

    @Test func `a hurry and a repetition bring everything forward and never put it off`() {
        var schedule = Self.schedule(took: 10, isComplete: true)
        schedule.hurry(Self.time(3_000))
        #expect(Self.isDueFirst(.everything, at: 3_000, schedule))
        schedule.hurry(Self.time(4_000))
        #expect(Self.isDueFirst(.everything, at: 3_000, schedule))
        schedule.repeatSoon()
        #expect(Self.isDueFirst(.everything, at: 20, schedule))
    }

    @Test func `fresh files wake the agent only while there are any`() {
        let schedule = Self.schedule(took: 2_000, isComplete: false)
        #expect(schedule.next(hasFreshFiles: true) == Self.time(2_500))
        #expect(schedule.next(hasFreshFiles: false) == Self.time(3_000))
    }

    @Test func `the lag is the age of the last look at all fresh files`() {
        var schedule = Self.schedule(took: 100, isComplete: true)
        schedule.lookedAtFreshFiles(from: Self.time(2_000), to: Self.time(2_100), isWhole: false)
        #expect(schedule.lag(Self.time(3_000), hasFreshFiles: true) == .seconds(3))
        #expect(schedule.lag(Self.time(3_000), hasFreshFiles: false) == .zero)
        schedule.lookedAtFreshFiles(from: Self.time(4_000), to: Self.time(4_100), isWhole: true)
        #expect(schedule.lag(Self.time(5_000), hasFreshFiles: true) == .seconds(1))
    }
}
