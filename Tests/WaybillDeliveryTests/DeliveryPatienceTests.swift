import Testing
import WaybillSystem

@testable import WaybillDelivery

struct DeliveryPatienceTests {
    private func time(_ seconds: Int64) -> MonotonicTime {
        MonotonicTime(nanoseconds: seconds * 1_000_000_000)
    }

    @Test func `it is over when nothing was settled for longer, and says what failed last`() {
        var patience = DeliveryPatience(.seconds(300), from: time(0))
        #expect(patience.lateness(at: time(300)) == nil)
        #expect(patience.lateness(at: time(301)) == "nothing was answered")
        patience.failed("503")
        #expect(patience.lateness(at: time(301)) == "503")
        patience.settled(at: time(100))
        #expect(patience.lateness(at: time(301)) == nil)
        #expect(patience.lateness(at: time(401)) == "503")
    }

    @Test func `a delivery that follows waits for ever`() {
        let patience = DeliveryPatience(nil, from: time(0))
        #expect(patience.lateness(at: time(1 << 30)) == nil)
    }
}
