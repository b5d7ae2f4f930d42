import Testing
import WaybillData
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillLive

@Suite struct FollowerTests {
    /// 40 batches of one to three lines, over several segments.
    private static func bench() throws -> LiveBench {
        let live = try LiveBench()
        try live.write((0..<40).map { batch in (0...(batch % 3)).map { LiveBench.line(batch * 10 + $0) } })
        return live
    }

    private static func ids(_ live: LiveBench, from start: Int, upTo end: JournalPosition) throws -> [LineID] {
        var follower = Follower(
            journal: live.bench.data.journal, from: JournalPosition(start), files: live.bench.disk)
        var ids: [LineID] = []
        while let batch = try follower.next(upTo: end) { ids += batch.batch.rows.map(\.id) }
        #expect(follower.takeGaps() == [])
        return ids
    }

    @Test func `a start at any byte finds every line after it, once and in order`() throws {
        let live = try Self.bench()
        let all = try Self.ids(live, from: 0, upTo: live.bench.end)
        #expect(all.count == 14 + 2 * 13 + 3 * 13)
        #expect(all == all.sorted())
        let places = Set(all.map(\.batch.rawValue)).flatMap { [$0 - 1, $0, $0 + 1] }
        for start in Array(stride(from: 0, to: live.bench.end.rawValue, by: 97)) + places where start >= 0 {
            #expect(
                try Self.ids(live, from: start, upTo: live.bench.end) == all.filter { $0.batch.rawValue >= start },
                "from \(start)")
        }
    }

    @Test func `a torn end is not there yet, wherever it is torn`() throws {
        let live = try Self.bench()
        let all = try Self.ids(live, from: 0, upTo: live.bench.end)
        let segments = try #require(
            try JournalTip.segments(of: live.bench.data.journal, files: live.bench.disk))
        let path = JournalPath.segment(segments.upperBound, in: live.bench.data.journal)
        let bytes = try #require(live.bench.disk.bytes(of: path))
        var tip = JournalTip(journal: live.bench.data.journal, files: live.bench.disk)
        var last = JournalPosition(0)
        for count in 0...bytes.count {
            live.bench.disk.place(path, Array(bytes.prefix(count)))
            // The same value, as the file grows, and a new one agree.
            var other = JournalTip(journal: live.bench.data.journal, files: live.bench.disk)
            let end = try #require(try tip.find())
            #expect(try other.find() == end)
            #expect(end >= last && end.rawValue <= segments.upperBound.rawValue + count)
            last = end
            let ids = try Self.ids(live, from: 0, upTo: end)
            #expect(ids == Array(all.prefix(ids.count)), "\(count) bytes")
        }
        #expect(last == live.bench.end)
    }

    @Test func `a file that the receiver cut is read again from its start`() throws {
        let live = try Self.bench()
        let segments = try #require(
            try JournalTip.segments(of: live.bench.data.journal, files: live.bench.disk))
        let path = JournalPath.segment(segments.upperBound, in: live.bench.data.journal)
        let bytes = try #require(live.bench.disk.bytes(of: path))
        var tip = JournalTip(journal: live.bench.data.journal, files: live.bench.disk)
        #expect(try tip.find() == live.bench.end)
        live.bench.disk.place(path, Array(bytes.dropLast(10)))
        let cut = try #require(try tip.find())
        #expect(cut < live.bench.end)
        live.bench.disk.place(path, bytes)
        #expect(try tip.find() == live.bench.end)
    }

    @Test func `what retention deleted is a gap, and what follows is read`() throws {
        let live = try Self.bench()
        let all = try Self.ids(live, from: 0, upTo: live.bench.end)
        let names = try live.bench.disk.list(live.bench.data.journal).compactMap(JournalPath.position(ofSegment:))
            .sorted()
        try live.bench.disk.unlink(JournalPath.segment(names[0], in: live.bench.data.journal))
        try live.bench.disk.unlink(JournalPath.segment(names[1], in: live.bench.data.journal))
        var follower = Follower(
            journal: live.bench.data.journal, from: JournalPosition(5), files: live.bench.disk)
        var ids: [LineID] = []
        while let batch = try follower.next(upTo: live.bench.end) { ids += batch.batch.rows.map(\.id) }
        #expect(follower.takeGaps().map { [$0.start, $0.end] } == [[JournalPosition(5), names[2]]])
        #expect(ids == all.filter { $0.batch >= names[2] })
    }

    @Test func `lines that are no events have their reasons and numbers`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1), "no json\n", "\n", LiveBench.line(2), "{\"name\":\"x\"}\n"]])
        var follower = Follower(
            journal: live.bench.data.journal, from: JournalPosition(0), files: live.bench.disk)
        let batch = try #require(try follower.next(upTo: live.bench.end))
        #expect(batch.batch.rows.map(\.id.line) == [1, 4])
        #expect(batch.quarantined.map(\.id.line) == [2, 5])
        #expect(batch.quarantined.map(\.reason) == [.notJSON, .noTime])
        #expect(batch.lineCount == 5)
        #expect(batch.quarantined.map(\.bytes.text) == ["no json", "{\"name\":\"x\"}"])
    }

    @Test(arguments: ["1", "1.", ".1", "1.2.3", "-1.0", "+1.0", "1.x", "99999999999999999.0", "1 .0"])
    func `what is not a place is nothing`(text: String) {
        #expect(LineID(text) == nil)
        #expect(LineID("182786.3")?.description == "182786.3")
    }
}
