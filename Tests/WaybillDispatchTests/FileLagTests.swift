import Testing
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

@Suite struct FileLagTests {
    private let stream = StreamKey(slot: 1, generation: 0)

    private func time(_ seconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(seconds) * 1_000_000_000)
    }

    @Test func `a file is behind since its first bytes that are not acknowledged, until all are`() {
        var lags = FileLags()
        #expect(lags.since(self.stream) == nil)
        lags.grew(self.stream, to: 100, self.time(1))
        lags.grew(self.stream, to: 200, self.time(5))
        #expect(lags.since(self.stream) == self.time(1))
        lags.acked(self.stream, upTo: 50, of: 200, self.time(6))
        #expect(lags.since(self.stream) == self.time(1))
        lags.acked(self.stream, upTo: 200, of: 200, self.time(7))
        #expect(lags.since(self.stream) == nil)
    }

    @Test func `while a file grows, its lag is never too short, and too long by one step at most`() {
        var lags = FileLags()
        // 10 bytes a second; what is acknowledged is always 3 s late.
        for second in 1...1000 {
            lags.grew(self.stream, to: second * 10, self.time(second))
            guard second > 3 else { continue }
            lags.acked(self.stream, upTo: (second - 3) * 10, of: second * 10, self.time(second))
            let since = lags.since(self.stream)
            #expect(since != nil)
            guard let since else { return }
            #expect((second - 8...second - 2).contains(Int(since.nanoseconds / 1_000_000_000)), "\(second): \(since)")
        }
    }

    @Test func `a backlog of many files takes no more memory than some thousands`() {
        var lags = FileLags()
        for slot in 0..<(FileLags.countMax + 10) {
            lags.grew(StreamKey(slot: slot, generation: 0), to: 1, self.time(slot))
        }
        #expect(lags.since(StreamKey(slot: FileLags.countMax - 1, generation: 0)) != nil)
        #expect(lags.since(StreamKey(slot: FileLags.countMax, generation: 0)) == nil)
        lags.prune { $0.slot == 7 }
        #expect(lags.since(StreamKey(slot: 7, generation: 0)) == self.time(7))
        #expect(lags.since(StreamKey(slot: 8, generation: 0)) == nil)
        lags.remove(StreamKey(slot: 7, generation: 0))
        #expect(lags.since(StreamKey(slot: 7, generation: 0)) == nil)
    }
}
