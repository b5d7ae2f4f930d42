import NIOCore
import Testing

@testable import WaybillReceiver

struct ConnectionDeadlineTests {
    private let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

    private func time(_ seconds: Int64) -> NIODeadline { self.start + .seconds(seconds) }

    @Test func `one timer runs at a time, and fires at the time set or after a keepalive`() {
        var deadline = ConnectionDeadline(keepalive: .seconds(10))
        deadline.set(to: time(3))
        #expect(deadline.schedule(time(0)) == time(3))
        #expect(deadline.schedule(time(1)) == nil)
        deadline.sent(time(2))
        deadline.set(to: time(30))
        #expect(deadline.fired(time(3)) == .nothing)
        #expect(deadline.schedule(time(3)) == time(13))
        #expect(deadline.fired(time(13)) == .ping)
        deadline.sent(time(13))
        #expect(deadline.schedule(time(13)) == time(23))
        #expect(deadline.fired(time(30)) == .timeout)
    }

    @Test func `a peer that waits for us has no deadline`() {
        var deadline = ConnectionDeadline(keepalive: .seconds(10))
        deadline.set(to: time(3))
        deadline.suspend()
        #expect(deadline.schedule(time(0)) == time(10))
        #expect(deadline.fired(time(1000)) == .ping)
    }
}
