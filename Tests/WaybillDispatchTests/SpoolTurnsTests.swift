import Testing
import WaybillSystem

@testable import WaybillAgent

private func time(_ milliseconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .milliseconds(milliseconds)
}

struct SpoolTurnsTests {
    @Test func `turns are looked at after a look at everything, for a fifth of a core at most`() {
        var turns = SpoolTurns(time(0))
        #expect(turns.takeLook(time(0)) == true)
        #expect(turns.takeLook(time(49)) == false)
        #expect(turns.takeLook(time(50)) == true)
        turns.looked(from: time(100), to: time(101))
        #expect(turns.nextAt == time(121))
        turns.looked(from: time(200), to: time(300))
        #expect(turns.nextAt == time(700))
    }

    @Test func `a turn is over after a second of rest, or after ten`() {
        var turns = SpoolTurns(time(0))
        turns.turned(time(500))
        #expect(!turns.isOver(isResting: true, time(1_499)))
        #expect(turns.isOver(isResting: true, time(1_500)))
        #expect(!turns.isOver(isResting: false, time(10_499)))
        #expect(turns.isOver(isResting: false, time(10_500)))
    }

    @Test func `a round takes five seconds, and writers are looked for ten times a second`() {
        var turns = SpoolTurns(time(0))
        #expect(turns.isRoundOver(time(5_000)))
        turns.beganRound(time(5_000))
        #expect(!turns.isRoundOver(time(9_999)))
        #expect(turns.takeCheck(time(99)) == false)
        #expect(turns.takeCheck(time(100)) == true)
        #expect(turns.takeCheck(time(199)) == false)
    }

    @Test func `it is said once that there are turns`() {
        var turns = SpoolTurns(time(0))
        #expect(turns.takeNews() == true)
        #expect(turns.takeNews() == false)
    }
}
