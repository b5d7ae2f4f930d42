import Testing
import WaybillSystem

@testable import WaybillAgent

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
        #expect(schedule.next(Self.time(2_000), hasFreshFiles: true, hasWaitingSpools: false) == Self.time(2_500))
        #expect(schedule.next(Self.time(2_000), hasFreshFiles: false, hasWaitingSpools: false) == Self.time(3_000))
    }

    private static func next(
        _ schedule: ScanSchedule, at milliseconds: Int, hasWaitingSpools: Bool = false
    ) -> MonotonicTime {
        schedule.next(Self.time(milliseconds), hasFreshFiles: false, hasWaitingSpools: hasWaitingSpools)
    }

    @Test func `hints gather from the first one on, and are read once`() {
        var schedule = Self.schedule(took: 0, isComplete: true)
        #expect(!schedule.isGathering)
        schedule.filesChanged(at: Self.time(100), linger: .milliseconds(5))
        schedule.filesChanged(at: Self.time(104), linger: .milliseconds(5))
        #expect(schedule.isGathering)
        #expect(Self.next(schedule, at: 104) == Self.time(105))
        #expect(schedule.takeHints(Self.time(104)) == false)
        #expect(schedule.takeHints(Self.time(105)) == true)
        #expect(schedule.takeHints(Self.time(105)) == false)
        #expect(!schedule.isGathering)
    }

    @Test func `a mount that hangs is looked at twice a second, and everything once it answers`() {
        var schedule = Self.schedule(took: 0, isComplete: true)
        let mounts = ["/a", "/b"].map { HangingMount(path: $0, since: Self.time(0)) }
        let first = schedule.mountsHang(mounts, Self.time(100))
        #expect(first?.hanging == mounts && first?.answering == [])
        let same = schedule.mountsHang(mounts, Self.time(100))
        #expect(same == nil)
        #expect(Self.next(schedule, at: 100) == Self.time(600))
        #expect(!schedule.isDue(.everything, Self.time(100)))
        let second = schedule.mountsHang([mounts[1]], Self.time(200))
        #expect(second?.hanging == [] && second?.answering == [mounts[0]])
        #expect(schedule.hangingMounts == [mounts[1]])
        #expect(Self.isDueFirst(.everything, at: 200, schedule))
    }

    @Test func `the first look is that with these sources`() {
        var schedule = ScanSchedule(Self.time(0))
        #expect(schedule.isFirstLook && schedule.isComplete)
        schedule.lookedAtEverything(from: Self.time(0), to: Self.time(10), isComplete: false)
        #expect(!schedule.isFirstLook && !schedule.isComplete)
        schedule.begin(Self.time(20))
        #expect(schedule.isFirstLook)
        #expect(Self.isDueFirst(.everything, at: 20, schedule))
    }

    @Test func `spools wake the agent only while some wait for their turn`() {
        let schedule = Self.schedule(took: 10, isComplete: true)
        #expect(Self.next(schedule, at: 10, hasWaitingSpools: true) == Self.time(50))
        #expect(Self.next(schedule, at: 10) == Self.time(1_010))
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
