import Testing
import Waybill
import WaybillDispatch
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

private func tag(_ address: String, _ incarnation: UInt64 = 1, start: UInt64 = 1) -> ReceiverTag {
    ReceiverTag(address: address, incarnation: Incarnation(incarnation, 0), start: start)
}

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: Int64(seconds) * 1_000_000_000)
}

struct DisputesTests {
    private let stream = StreamKey(slot: 1, generation: 0)

    @Test func `a disputed file is asked for again after a minute, then less and less often, up to an hour`() {
        var disputes = Disputes()
        #expect(disputes.nextAsking(stream, of: tag("a"), time(0)) == nil)
        var now = 0
        for seconds in [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600] {
            #expect(disputes.add(stream, by: tag("a"), time(now)) == time(now + seconds))
            #expect(disputes.nextAsking(stream, of: tag("a"), time(now + seconds - 1)) == time(now + seconds))
            now += seconds
            #expect(disputes.nextAsking(stream, of: tag("a"), time(now)) == nil)
        }
        #expect(disputes.count == 1)
        disputes.settle(stream)
        #expect(disputes.count == 0)
        #expect(disputes.add(stream, by: tag("a"), time(now)) == time(now + 60))
    }

    @Test func `a file of which a part agrees stays disputed, until more of it is taken`() {
        var disputes = Disputes()
        #expect(disputes.add(stream, by: tag("a"), time(0)) == time(60))
        // The stream is sealed after that part.
        disputes.agreed(stream, at: 4, of: 9)
        #expect(disputes.add(stream, by: tag("a"), time(60)) == time(180))
        disputes.agreed(stream, at: 9, of: 9)
        #expect(disputes.count == 0)
    }

    @Test func `another receiver is asked at once, and another start or incarnation after a minute`() {
        var disputes = Disputes()
        for _ in 0..<5 { _ = disputes.add(stream, by: tag("a"), time(0)) }
        #expect(disputes.nextAsking(stream, of: tag("b"), time(1)) == nil)
        for other in [tag("a", 2), tag("a", start: 2)] {
            #expect(disputes.nextAsking(stream, of: other, time(1)) == time(60))
            #expect(disputes.nextAsking(stream, of: other, time(60)) == nil)
        }
        #expect(disputes.nextAsking(stream, of: tag("a"), time(60)) == time(960))
        #expect(disputes.nextAsking(StreamKey(slot: 2, generation: 0), of: tag("a"), time(1)) == nil)
    }
}

@Test func `disputed events stay, and are shipped under another id when the app asks for it`() async throws {
    let files = POSIXFileSystem()
    let place = try Place()
    let other = try Place()
    do {
        let waybill = try place.waybill()
        waybill.track("e0")
    }
    // Another install has used the segment's id for other bytes.
    let name = try #require(try files.list(place.spool).first { $0.hasSuffix(".ndjson") })
    try files.createDirectories(other.spool)
    try files.replace(Path.join(other.spool, name), with: Array("{\"another\":1}\n".utf8))
    try await place.receiving {
        #expect(await (try other.dispatcher(port: place.port)).flush() == .delivered(1, remaining: 0))
        let dispatcher = try place.dispatcher(patience: .seconds(30))
        guard case .failed(let failure) = await dispatcher.flush() else {
            Issue.record("delivered under an id that has other bytes")
            return
        }
        #expect(failure.code == .unreachable)
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 1])
        #expect(try files.list(place.spool).contains(name))
        #expect(await dispatcher.reship() == .delivered(1, remaining: 0))
        #expect(await dispatcher.flush() == .nothingToSend)
    }
    #expect(try place.archivedNames() == ["e0"])
}
