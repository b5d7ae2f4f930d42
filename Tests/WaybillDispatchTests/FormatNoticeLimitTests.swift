import Testing
import WaybillSystem
import WaybillTail

@testable import WaybillAgent

struct FormatNoticeLimitTests {
    @Test func `ten files of a format are told at once, then one a minute with how many were left out`() {
        var pace = FormatNoticeLimit()
        let start = MonotonicTime(nanoseconds: 0)
        let told = (0..<1000).compactMap { _ in pace.admit(.cri, start) }
        #expect(told == [Int](repeating: 0, count: 10))
        #expect(pace.admit(.cri, start + .seconds(59)) == nil)
        #expect(pace.admit(.csv, start + .seconds(59)) == 0)
        #expect(pace.admit(.cri, start + .seconds(60)) == 991)
        #expect(pace.admit(.cri, start + .seconds(61)) == nil)
    }
}
