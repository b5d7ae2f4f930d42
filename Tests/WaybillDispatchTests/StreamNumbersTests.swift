import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

struct StreamNumbersTests {
    private let streams = (0..<3).map { StreamKey(slot: $0, generation: 0) }

    private static func isRefused(_ state: StreamNumbers.State) -> Bool {
        if case .refused = state { true } else { false }
    }

    private static func isClosed(_ state: StreamNumbers.State) -> Bool {
        if case .closed = state { true } else { false }
    }

    @Test func `a stream that is held may be opened after its time, the soonest first`() {
        var numbers = StreamNumbers()
        numbers.hold(streams[0], until: time(60))
        numbers.hold(streams[1], until: time(30))
        numbers.hold(streams[2], until: time(60))
        #expect(numbers.nextRetry == time(30))
        #expect(Self.isRefused(numbers.state(of: streams[1])))
        #expect(numbers.takeDue(time(29)) == nil)
        #expect(numbers.takeDue(time(60)) == streams[1])
        #expect(Self.isClosed(numbers.state(of: streams[1])))
        #expect(numbers.takeDue(time(60)) == streams[0])
        #expect(numbers.takeDue(time(60)) == streams[2])
        #expect(numbers.takeDue(time(60)) == nil)
        #expect(numbers.nextRetry == nil)
    }

    @Test(arguments: [
        (ErrorCode.gap, 1, 0), (.gap, 2, 20), (.gap, 3, 40), (.gap, 4, 60), (.gap, 99, 60), (.inUse, 1, 10),
        (.retryAfter, 1, 10), (.prove, 1, 0), (.prove, 2, 0), (.prove, 3, 60), (.notAllowed, 1, 60),
    ])
    func `a refused stream waits at least as long as its code and its refusals ask for`(
        code: ErrorCode, attempt: Int, seconds: Int
    ) {
        var numbers = StreamNumbers()
        let number = numbers.open(streams[0])
        #expect(numbers.refused(number) == streams[0])
        numbers.postpone(streams[0], after: code, attempt: attempt, time(5))
        #expect(numbers.nextRetry == time(5 + seconds))
        #expect(numbers.takeDue(time(5 + seconds)) == streams[0])
        // It has its number still.
        #expect(numbers.open(streams[0]) == number)
        #expect(numbers.openedCount == 2)
    }

    @Test func `a claim is made until it is answered, and on one connection`() {
        var numbers = StreamNumbers()
        let claim = OpenClaim(from: StreamOffset(7))
        numbers.claim(claim, for: streams[0])
        numbers.claim(claim, for: streams[1])
        #expect(numbers.claim(of: streams[0]) == claim)
        #expect(numbers.takeClaim(of: streams[0]) == claim)
        #expect(numbers.takeClaim(of: streams[0]) == nil)
        numbers.hold(streams[2], until: time(1))
        _ = numbers.open(streams[1])
        numbers.removeAll()
        #expect(numbers.claim(of: streams[1]) == nil)
        #expect(numbers.nextRetry == nil)
        #expect(numbers.openingCount == 0)
        #expect(numbers.openedCount == 1)
    }

    @Test func `refusals are counted across connections, until the stream advances`() {
        var numbers = StreamNumbers()
        #expect(numbers.failed(streams[0]) == 1)
        numbers.removeAll()
        #expect(numbers.failed(streams[0]) == 2)
        numbers.succeeded(streams[0])
        #expect(numbers.failed(streams[0]) == 1)
    }
}
