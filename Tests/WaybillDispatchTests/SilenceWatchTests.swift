import Testing
import WaybillAgent
import WaybillSystem

@Suite struct SilenceWatchTests {
    private static func time(_ seconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(seconds) * 1_000_000_000)
    }

    @Test func `silence is told after a minute, once a minute, and its end once`() {
        var watch = SilenceWatch()
        var told: [Int: SilenceWatch.Report] = [:]
        for second in 0...200 {
            // The receiver owes an acknowledgement from the tenth second to the 150th.
            let since: MonotonicTime? = second >= 10 && second < 150 ? Self.time(10) : nil
            told[second] = watch.look(since, at: Self.time(second))
        }
        #expect(told == [71: .silent(for: .seconds(61)), 131: .silent(for: .seconds(121)), 150: .resumed])
    }

    @Test func `each acknowledgement begins a new minute`() {
        var watch = SilenceWatch()
        for second in 0...600 {
            #expect(watch.look(Self.time(second / 60 * 60), at: Self.time(second)) == nil)
        }
    }

    @Test func `a new connection is another matter`() {
        var watch = SilenceWatch()
        #expect(watch.look(Self.time(0), at: Self.time(61)) == .silent(for: .seconds(61)))
        watch.reset()
        #expect(watch.look(nil, at: Self.time(62)) == nil)
        #expect(watch.look(Self.time(62), at: Self.time(123)) == .silent(for: .seconds(61)))
    }
}
