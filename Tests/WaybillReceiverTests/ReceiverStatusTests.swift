import Testing
import WaybillSystem
import WaybillTestSupport

@testable import WaybillReceiver

@Suite struct LineRateTests {
    private func time(_ milliseconds: Int64) -> WallTime { WallTime(milliseconds: milliseconds) }

    @Test func `a steady flow has its rate, and none some seconds after its end`() {
        var rate = LineRate()
        for second in 0..<60 { rate.add(50, at: self.time(Int64(second) * 1000)) }
        #expect((45...55).contains(rate.perSecond(at: self.time(60_000))))
        #expect((20...30).contains(rate.perSecond(at: self.time(65_000))))
        #expect(rate.perSecond(at: self.time(70_000)) == 0)
    }

    @Test func `after a silence only what came since counts, and a clock set back harms nothing`() {
        var rate = LineRate()
        rate.add(1_000_000, at: self.time(0))
        rate.add(100, at: self.time(50_000))
        #expect(rate.perSecond(at: self.time(51_000)) == 10)
        rate.add(10, at: self.time(0))
        #expect(rate.perSecond(at: self.time(0)) == 1)
    }
}

@Suite struct PeerTextTests {
    @Test func `what a peer says of itself is short and printable`() {
        #expect(PeerText.clean("waybill/0.1.0") == "waybill/0.1.0")
        #expect(PeerText.clean(nil) == nil)
        #expect(PeerText.clean("") == nil)
        #expect(PeerText.clean("\u{1B}[2Ja\nb\u{202E}서") == "?[2Ja?b??")
        #expect(PeerText.clean(String(repeating: "x", count: 4000))?.count == PeerText.countMax)
    }
}
