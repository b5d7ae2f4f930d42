import Testing
import Waybill
import WaybillDispatch
import WaybillServerTestSupport

/// Grants time as a system does, and counts it.
@MainActor
private final class FakeTime: BackgroundTime {
    private let rest: Duration?
    private(set) var begun: [BackgroundGrant] = []
    private(set) var ended: [BackgroundGrant] = []
    private var expired: (@MainActor @Sendable () -> Void)?

    init(rest: Duration?) {
        self.rest = rest
    }

    func begin(_ expired: @escaping @MainActor @Sendable () -> Void) -> BackgroundGrant? {
        guard let rest else { return nil }
        self.expired = expired
        self.begun.append(BackgroundGrant(number: self.begun.count + 7, rest: rest))
        return self.begun.last
    }

    func end(_ grant: BackgroundGrant) { self.ended.append(grant) }

    /// Whether each grant was ended once, in order.
    var isGivenBack: Bool { self.ended == self.begun }

    func expire() { self.expired?() }
}

@Suite struct BackgroundDrainTests {
    private static func failure(_ result: DispatchResult) -> DispatchFailure? {
        if case .failed(let failure) = result { failure } else { nil }
    }

    @Test func `granted time is used to deliver, and given back`() async throws {
        let place = try Place()
        try place.waybill().track("e0")
        let dispatcher = try place.dispatcher()
        let time = await FakeTime(rest: .seconds(86_400))
        let result = try await place.receiving { await dispatcher.drain(in: time, atMost: .seconds(86_400)) }
        #expect(result == .delivered(1, remaining: 0))
        #expect(await time.begun.map(\.number) == [7])
        #expect(await time.isGivenBack)
        // The dispatcher stays suspended until the app returns.
        #expect(Self.failure(await dispatcher.flush())?.code == .suspended)
        dispatcher.resume()
        #expect(await dispatcher.flush() == .nothingToSend)
    }

    @Test func `a drain ends when the granted time is over, not at its own limit`() async throws {
        let place = try Place()
        try place.waybill().track("e0")
        let dispatcher = try place.dispatcher(port: SilentReceiver().port, patience: .seconds(3600))
        let time = await FakeTime(rest: .zero)
        let result = await dispatcher.drain(in: time, atMost: .seconds(3600))
        #expect(Self.failure(result)?.code == .deadline)
        #expect(await time.isGivenBack)
    }

    @Test func `a drain ends at once when the system calls the time off`() async throws {
        let place = try Place()
        try place.waybill().track("e0")
        let silent = SilentReceiver()
        let dispatcher = try place.dispatcher(port: silent.port, patience: .seconds(3600))
        let time = await FakeTime(rest: .seconds(3600))
        async let result = dispatcher.drain(in: time, atMost: .seconds(3600))
        while await time.begun.isEmpty { await Task.yield() }
        await time.expire()
        #expect(Self.failure(await result)?.code == .stopped)
        #expect(await time.isGivenBack)
        #expect(await time.begun.count == 1)
    }

    @Test func `without time nothing is sent, and no lock is held`() async throws {
        let place = try Place()
        try place.waybill().track("e0")
        let silent = SilentReceiver()
        let dispatcher = try place.dispatcher(port: silent.port)
        let time = await FakeTime(rest: nil)
        let failed = Self.failure(await dispatcher.drain(in: time, atMost: .seconds(3600)))
        #expect(failed?.code == .deadline)
        #expect(failed?.message.hasPrefix("the system granted no time") == true)
        #expect(!silent.hasCaller)
        #expect(await time.ended.isEmpty)
        #expect(Self.failure(await dispatcher.flush())?.code == .suspended)
    }
}
