internal import Testing
@testable internal import WaybillSystem

@Test(arguments: 0..<UInt64(50))
func `waits never exceed the bound, which doubles up to the longest and starts again after a success`(seed: UInt64) {
    var backoff = Backoff(from: .seconds(2), to: .seconds(60), SeededGenerator(seed: seed))
    for seconds in [2, 4, 8, 16, 32, 60, 60, 60] {
        let wait = backoff.fail()
        #expect(wait >= .milliseconds(10) && wait <= .seconds(seconds))
    }
    backoff.succeed()
    #expect(backoff.fail() <= .seconds(2))
}

@Test func `a longest wait of nothing is no wait`() {
    var backoff = Backoff(from: .seconds(2), to: .zero, SeededGenerator(seed: 1))
    for _ in 0..<20 { #expect(backoff.fail() == .zero) }
}

@Test(arguments: 0..<UInt64(50))
func `a limit narrows one wait, and the bound continues doubling`(seed: UInt64) {
    var backoff = Backoff(from: .seconds(2), to: .seconds(60), SeededGenerator(seed: seed))
    for _ in 0..<5 { #expect(backoff.fail(noLongerThan: .milliseconds(100)) <= .milliseconds(100)) }
    var wider = backoff
    #expect(backoff.fail(noLongerThan: .seconds(90)) <= .seconds(60))
    #expect((0..<200).contains { _ in wider.fail() > .seconds(30) })
}
