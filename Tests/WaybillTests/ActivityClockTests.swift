import Testing
import WaybillEvent
import WaybillSystem

@testable import Waybill

/// A moment at which both clocks have run since 09:00 on 1 March 2025.
private func moment(_ milliseconds: Int64, wallAhead ahead: Int64 = 0) -> Moment {
    Moment(
        wall: WallTime(milliseconds: 1_740_819_600_000 + milliseconds + ahead),
        monotonic: MonotonicTime(nanoseconds: (1_000 + milliseconds) * 1_000_000))
}

private let minute: Int64 = 60_000

@Test func `half an hour without an event ends a session, by either clock`() {
    let idle = 30 * minute
    for (milliseconds, ahead, isOver) in [
        (idle - 1, 0, false), (idle, 0, true), (1, idle - 1, true), (1, idle - 2, false),
    ] {
        var clock = ActivityClock(at: moment(0)) { _ in 0 }
        #expect(clock.advance(to: moment(milliseconds, wallAhead: ahead)).isSessionOver == isOver)
        #expect(clock.last == moment(milliseconds, wallAhead: ahead))
    }
}

@Test func `a session that begins without an event counts as activity`() {
    var clock = ActivityClock(at: moment(0)) { _ in 0 }
    clock.sessionBegan(at: moment(29 * minute))
    #expect(!clock.advance(to: moment(58 * minute)).isSessionOver)
}

@Test(arguments: [(2000, nil), (2001, 2001), (-2000, nil), (-2001, -2001)] as [(Int64, Int64?)])
func `a jump of more than two seconds is due to be reported, once`(ahead: Int64, jump: Int64?) {
    var clock = ActivityClock(at: moment(0)) { _ in 0 }
    #expect(clock.advance(to: moment(5000, wallAhead: ahead)).jump == jump)
    #expect(clock.advance(to: moment(6000, wallAhead: ahead)).jump == nil)
}

@Test func `minutes with events are counted, and the zone is read once in a quarter of an hour`() {
    let reads = Monitor<[Int64]>([])
    var clock = ActivityClock(at: moment(0)) { time in
        reads.update { $0.append((time.milliseconds - moment(0).wall.milliseconds) / minute) }
        return 60
    }
    #expect(clock.zoneMinutes == 60 && clock.minuteCount == 0)
    let isNew = [0, 59_999, 60_000, 61_000, 14 * minute, 15 * minute, 2 * minute].map { milliseconds in
        clock.advance(to: moment(milliseconds)).isMinuteNew
    }
    #expect(isNew == [false, false, true, false, true, true, true])
    #expect(clock.minuteCount == 4 && reads.withLock { $0 } == [0, 15, 2])
}

@Test func `minutes before 1970 are whole too`() {
    let at = { (milliseconds: Int64) in
        Moment(wall: WallTime(milliseconds: milliseconds), monotonic: MonotonicTime(nanoseconds: 0))
    }
    var clock = ActivityClock(at: at(-60_001)) { _ in 0 }
    #expect(
        [-120_000, -60_001, -60_000, -1, 0].map { clock.advance(to: at($0)).isMinuteNew } == [
            false, false, true, false, true,
        ])
}

private let id = UniqueID(high: 1, low: 2)

@Test func `a stamp has the durations since start, last event and screen`() {
    var times = EventTimes(start: moment(0).monotonic)
    let first = times.stamp(id, sequence: 1, time: nil, at: moment(10))
    #expect(
        first
            == EventStamp(
                id: id, sequence: 1, wallMilliseconds: moment(10).wall.milliseconds, upMilliseconds: 10,
                sincePreviousMilliseconds: nil, onScreenMilliseconds: 10))
    times.stored(at: moment(10).monotonic)
    times.screenEntered(at: moment(20).monotonic)
    let second = times.stamp(id, sequence: 2, time: nil, at: moment(50))
    #expect(second.sincePreviousMilliseconds == 40 && second.onScreenMilliseconds == 30)
    times.screenEnded()
    #expect(times.stamp(id, sequence: 3, time: nil, at: moment(60)).onScreenMilliseconds == nil)
    times.screenEntered(at: moment(60).monotonic)
    #expect(times.stamp(id, sequence: 4, time: nil, at: moment(61)).onScreenMilliseconds == 1)
}

@Test func `an event of an earlier time has that, no interval, and is not in the future`() {
    var times = EventTimes(start: moment(0).monotonic)
    times.stored(at: moment(5).monotonic)
    let now = moment(10)
    for (time, stated) in [(-1000, -1000), (1000, 10)] {
        let stamp = times.stamp(id, sequence: 1, time: moment(Int64(time)).wall.milliseconds, at: now)
        #expect(stamp.wallMilliseconds == moment(Int64(stated)).wall.milliseconds)
        #expect(stamp.sincePreviousMilliseconds == nil)
    }
}

@Test(arguments: [(0, 30, 40), (25, 30, 65), (-5, 5, 65)] as [(Int64, Int64, UInt64)])
func `time in the background is not time on the screen`(from: Int64, to: Int64, shown: UInt64) {
    var times = EventTimes(start: moment(0).monotonic)
    times.wasUnseen(from: moment(from).monotonic, to: moment(to).monotonic)
    #expect(times.stamp(id, sequence: 1, time: nil, at: moment(70)).onScreenMilliseconds == shown)
}
