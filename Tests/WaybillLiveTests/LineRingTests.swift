import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillSystem

@testable import WaybillLive

@Suite struct LineRingTests {
    /// A batch of one-byte lines.
    private static func batch(_ position: Int, lines: Int, bytesPerLine: Int = 10) -> LiveBatch {
        LiveBatch(
            position: JournalPosition(position),
            reader: EventReader(source: SourceDescription(env: .prod, bundle: "a")), path: "/a",
            receivedAt: WallTime(milliseconds: 1), offset: 0,
            spans: (0..<lines).map {
                LiveBatch.Span(
                    start: UInt32($0 * bytesPerLine), end: UInt32(($0 + 1) * bytesPerLine), line: UInt32($0 * 2 + 1),
                    time: WallTime(milliseconds: 0))
            }, bytes: [UInt8](repeating: 0, count: lines * bytesPerLine))
    }

    private static func ring(rows: Int, bytes: Int = 1 << 20) -> LineRing {
        var limits = LineRing.Limits()
        limits.rowCount = rows
        limits.byteCount = bytes
        return LineRing(from: JournalPosition(0), limits: limits)
    }

    @Test func `it never has more rows than it may, and they are the newest`() {
        var ring = Self.ring(rows: 10)
        var all: [LineID] = []
        for number in 0..<200 {
            let batch = Self.batch(number * 100, lines: 1 + number % 4)
            ring.append(batch)
            all += batch.rows.map(\.id)
            #expect(ring.count == min(10, all.count))
            #expect((ring.start..<ring.end).map { ring[$0].id } == Array(all.suffix(10)))
            #expect(ring.end == all.count)
            #expect(ring.floor == (all.count > 10 ? all[all.count - 11] : LineID(batch: JournalPosition(0), line: 0)))
        }
    }

    @Test func `it never has more bytes than it may, but for one long batch`() {
        var ring = Self.ring(rows: 1000, bytes: 500)
        for number in 0..<50 {
            ring.append(Self.batch(number * 100, lines: 7))
            #expect(ring.byteCount <= 500)
        }
        #expect(ring.count == 49)
        ring.append(Self.batch(9000, lines: 1, bytesPerLine: 5000))
        #expect(ring.count == 1)
        #expect(ring.byteCount == 5000)
    }

    @Test func `a place is found, and the first event after it`() {
        var ring = Self.ring(rows: 8)
        for number in 0..<5 { ring.append(Self.batch(number * 100, lines: 3)) }
        for ordinal in ring.start..<ring.end {
            let id = ring[ordinal].id
            #expect(ring.row(at: id)?.id == id)
            #expect(ring.ordinal(after: id) == ordinal + 1)
            #expect(ring.ordinal(after: LineID(batch: id.batch, line: id.line - 1)) == ordinal)
            // Between two lines there is none.
            #expect(ring.row(at: LineID(batch: id.batch, line: id.line + 1)) == nil)
        }
        #expect(ring.ordinal(after: LineID(batch: JournalPosition(0), line: 0)) == ring.start)
        #expect(ring.ordinal(after: LineID(batch: JournalPosition(999_999), line: 0)) == ring.end)
    }

    @Test func `it can begin again, and continues counting`() {
        var ring = Self.ring(rows: 8)
        ring.append(Self.batch(0, lines: 3))
        ring.removeAll(from: JournalPosition(700))
        #expect(ring.count == 0)
        #expect(ring.floor == LineID(batch: JournalPosition(700), line: 0))
        ring.append(Self.batch(700, lines: 2))
        #expect((ring.start, ring.end) == (3, 5))
        #expect(ring.oldest?.id == LineID(batch: JournalPosition(700), line: 1))
    }
}
