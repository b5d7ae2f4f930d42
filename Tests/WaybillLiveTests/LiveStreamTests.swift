import Testing
import WaybillData
import WaybillJSON
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillLive

@Suite struct LiveStreamTests {
    /// Everything that a stream is sent until there is nothing more.
    private static func frames(
        _ state: inout LiveState<FaultyFiles>, _ stream: inout LiveStream, isTick: Bool = true
    ) throws -> [(event: String, id: String?, data: JSONValue)] {
        var frames: [(event: String, id: String?, data: JSONValue)] = []
        while let frame = state.frame(for: &stream, isTick: isTick) { frames.append(try frame.message()) }
        return frames
    }

    @Test(arguments: 0..<UInt64(12))
    func `a page that breaks off anywhere sees each event once, also with another process`(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let live = try LiveBench()
        var state = live.state()
        try live.read(&state)
        var stream = state.stream(.everything, fields: [], after: nil)
        var cursor: LineID?
        var seen: [String] = []
        var written = 0
        for _ in 0..<40 {
            let batches = (0..<Int.random(in: 0...3, using: &generator)).map { _ in
                (0..<Int.random(in: 1...90, using: &generator)).map { _ in
                    written += 1
                    return LiveBench.line(written)
                }
            }
            if !batches.isEmpty { try live.write(batches) }
            switch Int.random(in: 0..<6, using: &generator) {
            case 0:
                // The process is another one.
                state = live.state()
                try live.read(&state, resuming: cursor)
                stream = state.stream(.everything, fields: [], after: cursor ?? LineID("0.0"))
                if cursor == nil { seen = [] }
            case 1:
                try live.read(&state)
                stream = state.stream(.everything, fields: [], after: cursor ?? state.cursor)
            default: try live.read(&state)
            }
            for _ in 0..<Int.random(in: 0...4, using: &generator) {
                guard let frame = try state.frame(for: &stream, isTick: true)?.message() else { break }
                #expect(frame.event == "rows")
                #expect(frame.data["dropped"]?.count == 0)
                seen += try #require(frame.data["rows"]?.elements).compactMap { $0["id"]?.string }
                cursor = frame.id.flatMap(LineID.init)
            }
        }
        try live.read(&state)
        for frame in try Self.frames(&state, &stream) {
            seen += try #require(frame.data["rows"]?.elements).compactMap { $0["id"]?.string }
        }
        let numbers = seen.map { Int($0.suffix(12)) ?? 0 }
        let first = numbers.first ?? written + 1
        #expect(numbers == Array(first..<(written + 1)))
    }

    @Test func `a filter's frames say how many were looked at`() throws {
        let live = try LiveBench()
        var state = live.state()
        try live.read(&state)
        var stream = state.stream(try Filter("name:login"), fields: [["app"], ["data", "x"]], after: nil)
        try live.write([
            [LiveBench.line(1), LiveBench.line(2, name: "login", more: ",\"data\":{\"x\":[1]}"), LiveBench.line(3)]
        ])
        try live.read(&state)
        let frames = try Self.frames(&state, &stream)
        #expect(frames.count == 1)
        #expect(
            ["seen", "matched", "dropped"].map {
                frames[0].data[$0 == "seen" ? "seen" : $0 == "matched" ? "matched" : "dropped"]?.count
            } == [3, 1, 0])
        // The place is that of the last event that was looked at.
        #expect(frames[0].id == state.cursor.description)
        let row = try #require(frames[0].data["rows"]?.elements?.first)
        #expect(row["fields"]?["data.x"]?.string == "[1]")
        #expect(row["fields"]?["app"]?.string == "1.4.0")
        #expect(try Self.frames(&state, &stream).isEmpty)
    }

    @Test func `who is sent too much gets the newest, and counts`() throws {
        let live = try LiveBench()
        var state = live.state()
        try live.read(&state)
        var stream = state.stream(.everything, fields: [], after: nil)
        try live.write((0..<62).map { batch in (0..<100).map { LiveBench.line(batch * 100 + $0) } })
        try live.read(&state)
        let frames = try Self.frames(&state, &stream, isTick: false)
        let rows = frames.reduce(0) { $0 + $1.data.places.count }
        #expect(rows == LiveStream.creditMax)
        #expect(frames.allSatisfy { $0.data.places.count <= LiveStream.rowCountPerFrame })
        #expect(frames.reduce(0) { $0 + ($1.data["dropped"]?.count ?? 0) } == 6200 - rows)
        #expect(frames.reduce(0) { $0 + ($1.data["seen"]?.count ?? 0) } == 6200)
        #expect(frames.last?.data.places.last == state.cursor.description)
        // Credit comes back with time.
        try live.write([(0..<200).map { LiveBench.line($0) }])
        try live.read(&state)
        let later = try Self.frames(&state, &stream)
        #expect(later.reduce(0) { $0 + $1.data.places.count } <= 3 * LiveStream.creditPerTick)
        #expect(later.reduce(0) { $0 + ($1.data["seen"]?.count ?? 0) } == 200)
    }

    @Test func `the newest come when there is credit again, though nothing follows them`() throws {
        let live = try LiveBench()
        var state = live.state()
        try live.read(&state)
        var stream = state.stream(.everything, fields: [], after: nil)
        try live.write((0..<50).map { batch in (0..<100).map { LiveBench.line(batch * 100 + $0) } })
        try live.read(&state)
        #expect(try Self.frames(&state, &stream, isTick: false).last?.data.places.last == state.cursor.description)
        try live.write([(0..<200).map { LiveBench.line($0) }])
        try live.read(&state)
        let without = try Self.frames(&state, &stream, isTick: false)
        #expect(without.map { $0.data["dropped"]?.count } == [200 - LiveStream.creditPerTick])
        #expect(without.allSatisfy { $0.data.places.isEmpty })
        let later = try Self.frames(&state, &stream)
        #expect(later.flatMap { $0.data.places }.count == LiveStream.creditPerTick)
        #expect(later.last?.data.places.last == state.cursor.description)
    }

    @Test func `events that left the ring before they were sent are counted`() throws {
        let live = try LiveBench()
        var limits = LineRing.Limits()
        limits.rowCount = 50
        var state = live.state(limits: limits)
        try live.read(&state)
        var stream = state.stream(.everything, fields: [], after: nil)
        try live.write((0..<3).map { batch in (0..<100).map { LiveBench.line(batch * 100 + $0) } })
        try live.read(&state)
        let frames = try Self.frames(&state, &stream)
        #expect(frames.reduce(0) { $0 + $1.data.places.count } == 50)
        #expect(frames.reduce(0) { $0 + ($1.data["dropped"]?.count ?? 0) } == 250)
        #expect(frames.reduce(0) { $0 + ($1.data["seen"]?.count ?? 0) } == 300)
    }

    @Test func `a page that comes back too late is told what it missed`() throws {
        let live = try LiveBench()
        try live.write((0..<40).map { [LiveBench.line($0)] })
        let segments = try live.bench.disk.list(live.bench.data.journal).compactMap(JournalPath.position(ofSegment:))
            .sorted()
        try live.bench.disk.unlink(JournalPath.segment(segments[0], in: live.bench.data.journal))
        let cursor = LineID(batch: JournalPosition(100), line: 0)
        var state = live.state()
        try live.read(&state, resuming: cursor)
        var stream = state.stream(.everything, fields: [], after: cursor)
        let gone = try #require(try state.frame(for: &stream, isTick: true)?.message())
        #expect(gone.event == "gone")
        #expect(gone.data["from"]?.count == 100)
        #expect(gone.data["to"]?.count == segments[1].rawValue)
        let rows = try Self.frames(&state, &stream).flatMap(\.data.places)
        #expect(rows.count == state.ring.count)
        #expect(rows.count > 10)
    }

    @Test func `what retention takes from a page that is open is said, too`() throws {
        let live = try LiveBench()
        try live.write([[LiveBench.line(1)]])
        var state = live.state()
        try live.read(&state)
        let read = state.position
        let position = try #require(read)
        var stream = state.stream(.everything, fields: [], after: state.cursor)
        try live.write((0..<40).map { [LiveBench.line($0)] })
        let segments = try live.bench.disk.list(live.bench.data.journal).compactMap(JournalPath.position(ofSegment:))
            .sorted()
        for segment in segments.prefix(2) {
            try live.bench.disk.unlink(JournalPath.segment(segment, in: live.bench.data.journal))
        }
        try live.read(&state)
        let frames = try Self.frames(&state, &stream)
        #expect(frames.map(\.event) == ["gone", "rows"])
        #expect(frames[0].data["from"]?.count == position.rawValue)
        #expect(frames[0].data["to"]?.count == segments[2].rawValue)
    }

    @Test func `another journal in the old one's place is begun, and said`() throws {
        let live = try LiveBench()
        try live.write((0..<40).map { [LiveBench.line($0)] })
        var state = live.state()
        try live.read(&state)
        var stream = state.stream(.everything, fields: [], after: state.cursor)
        let other = try LiveBench()
        try other.write([[LiveBench.line(1)]])
        try state.begin(upTo: other.bench.end)
        let frame = try #require(try state.frame(for: &stream, isTick: true)?.message())
        #expect(frame.event == "gone")
        #expect(frame.data["to"]?.count == other.bench.end.rawValue)
    }
}
