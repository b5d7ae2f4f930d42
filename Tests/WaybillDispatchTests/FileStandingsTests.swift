import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

struct FileStandingsTests {
    private let stream = StreamKey(slot: 1, generation: 0)
    private let receiver = ReceiverTag(address: "a", incarnation: Incarnation(1, 0), start: 1)
    private let now = TailTime(monotonic: time(100), wall: WallTime(milliseconds: 50_000))

    /// Of a file that was written last 20 s before ``now``.
    private func position(
        acked: Int = 0, cursor: Int = 0, of byteCount: Int = 10, isFaulty: Bool = false, isGone: Bool = false,
        isDrained: Bool = false
    ) -> StreamPosition {
        StreamPosition(
            source: 0, place: FilePlace("/logs/a"), acked: acked, cursor: cursor, byteCount: byteCount,
            modified: 30_000_000_000, isFaulty: isFaulty, isGone: isGone, isDrained: isDrained)
    }

    private func error(_ standings: FileStandings, _ state: AgentReport.FileState, mount: String? = nil) -> String? {
        standings.error(of: "/logs/a", state, holder: nil, mount: mount)
    }

    @Test func `a file's state is its worst one`() {
        var standings = FileStandings()
        let state = { (standings: FileStandings, position: StreamPosition) in
            standings.state(of: self.stream, position, isRefused: false)
        }
        #expect(state(standings, self.position(acked: 10, cursor: 10)) == .shipped)
        #expect(state(standings, self.position(acked: 4, cursor: 8)) == .sending)
        #expect(state(standings, self.position(acked: 4, cursor: 4)) == .waiting)
        #expect(state(standings, self.position(acked: 4, cursor: 4, isDrained: true)) == .unfinished)
        #expect(standings.state(of: self.stream, self.position(acked: 10), isRefused: true) == .refused)
        #expect(standings.disputed(self.stream, by: self.receiver, at: time(0)) == time(60))
        #expect(standings.state(of: self.stream, self.position(acked: 10), isRefused: true) == .disputed)
        #expect(state(standings, self.position(isGone: true)) == .gone)
        #expect(state(standings, self.position(isFaulty: true, isGone: true)) == .unreadable)
    }

    @Test func `bytes that are acknowledged end a dispute and an error, and a repeated answer does not`() {
        var standings = FileStandings()
        _ = standings.disputed(self.stream, by: self.receiver, at: time(0))
        standings.failed("full", "/logs/a")
        standings.acked(self.stream, self.position(acked: 4), hasAdvanced: false, at: time(1))
        #expect(standings.disputedCount == 1 && self.error(standings, .waiting) == "full")
        #expect(standings.nextAsking(self.stream, of: self.receiver, time(1)) == time(60))
        standings.acked(self.stream, self.position(acked: 6), hasAdvanced: true, at: time(2))
        #expect(standings.disputedCount == 0 && self.error(standings, .waiting) == nil)
        _ = standings.disputed(self.stream, by: self.receiver, at: time(3))
        standings.agreed(self.stream, self.position(acked: 6))
        #expect(standings.disputedCount == 1)
        standings.agreed(self.stream, self.position(acked: 10))
        #expect(standings.disputedCount == 0)
    }

    @Test func `a lag is the noted one, else since the last write or the last receiver`() {
        var standings = FileStandings()
        let lag = { (standings: FileStandings, alone: Duration) in
            standings.lag(of: self.stream, self.position(), alone: alone, self.now)
        }
        #expect(lag(standings, .zero) == .seconds(20) && lag(standings, .seconds(30)) == .seconds(30))
        standings.grew(self.stream, to: 10, at: time(95))
        #expect(lag(standings, .seconds(30)) == .seconds(5))
        standings.prune { $0 == self.stream }
        #expect(lag(standings, .zero) == .seconds(5))
        standings.sealed(self.stream)
        #expect(lag(standings, .zero) == .seconds(20))
        _ = standings.disputed(self.stream, by: self.receiver, at: time(95))
        standings.grew(self.stream, to: 10, at: time(95))
        standings.remove(self.stream)
        #expect(lag(standings, .zero) == .seconds(20) && standings.disputedCount == 0)
    }

    @Test func `an error is told for files that wait, and a mount that does not answer comes first`() {
        var standings = FileStandings()
        standings.failed(String(repeating: "x", count: 500), "/logs/a")
        #expect(self.error(standings, .refused)?.count == AgentReport.errorCharacterCountMax)
        #expect(self.error(standings, .shipped) == nil && self.error(standings, .sending) == nil)
        #expect(self.error(standings, .gone, mount: "/m") == "the file system at /m does not answer")
        #expect(self.error(standings, .disputed, mount: "/m")?.hasPrefix("the receiver holds other bytes") == true)
        #expect(
            standings.error(of: "/logs/a", .disputed, holder: "r2", mount: nil)
                == "waits for r2, whose own archive has its first bytes")
        standings.forgetErrors()
        #expect(self.error(standings, .refused) == nil)
        for index in 0..<2000 { standings.failed("full", "/logs/\(index)") }
        #expect(standings.error(of: "/logs/1999", .waiting, holder: nil, mount: nil) == nil)
    }

    @Test func `files with a problem come first, then those that are furthest behind`() {
        var standings = FileStandings()
        let keys = (0..<4).map { StreamKey(slot: $0, generation: 0) }
        _ = standings.disputed(keys[3], by: self.receiver, at: time(0))
        let positions = [
            self.position(acked: 10), self.position(acked: 8), self.position(acked: 2), self.position(acked: 10),
        ]
        #expect(
            standings.worst(of: keys) { positions[$0.slot] } == [keys[3], keys[2], keys[1], keys[0]])
    }
}
