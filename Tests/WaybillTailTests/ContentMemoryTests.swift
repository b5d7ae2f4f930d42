import Testing
import WaybillSystem

@testable import WaybillTail

/// What is remembered of contents: batch ends, departures, lengths, stems.
struct ContentMemoryTests {
    private static let second = Duration.seconds(1).nanoseconds

    private static func time(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * self.second) }

    private static func end(_ offset: Int, _ hash: UInt64) -> SeenEnd {
        SeenEnd(offset: offset, tail: Fingerprint(hash: hash, byteCount: offset))
    }

    @Test(arguments: [[], [7], [0, 7], [0, 0, 0, 7, 0, 7]] as [[UInt8]])
    func `of the end of what was seen the NULs before it are left out`(bytes: [UInt8]) {
        let rest = bytes.drop { $0 == 0 }
        let end = SeenEnd(offset: bytes.count, bytes: bytes)
        #expect(end.tail == Fingerprint(hash: FNV1a.hash(rest), byteCount: rest.count))
        let nuls = [UInt8](repeating: 0, count: 512)
        #expect(SeenEnd(offset: 9_000, bytes: nuls).tail == Fingerprint(hash: FNV1a.hash(nuls), byteCount: 512))
    }

    @Test
    func `batch ends ascend, are bounded, and keep fewer where a file rests`() throws {
        var ends = BatchEnds()
        for offset in 1...100 { ends.append(BatchEnds.End(offset: offset * 10, hash: UInt64(offset))) }
        ends.append(BatchEnds.End(offset: 500, hash: 0))
        #expect(ends.ends.count <= BatchEnds.countMax)
        #expect(ends.ends.last?.offset == 1000)
        #expect(ends.ends.map(\.offset) == ends.ends.map(\.offset).sorted())
        #expect(ends.upTo(995).first?.offset == 990)
        #expect(ends.kept.ends.count <= 8)
        #expect(ends.kept.ends.suffix(4).map(\.offset) == [970, 980, 990, 1000])
        #expect(BatchEnds(Substring(ends.text)) == ends.kept)
        #expect(BatchEnds("10:00000000000000ff,10:00000000000000ff") == nil)
        #expect(BatchEnds("10:ff") == nil)
        #expect(BatchEnds("") == nil)
    }

    @Test
    func `a departure ends after 2 s, with those that wait for it`() {
        var departures = Departures()
        let (old, new, next) = (
            StreamKey(slot: 0, generation: 0), StreamKey(slot: 1, generation: 0), StreamKey(slot: 2, generation: 0)
        )
        departures.note(old, from: "/a", Self.time(10))
        departures.note(old, from: "/b", Self.time(11))
        #expect(departures.departed(from: "/a") == old)
        #expect(departures.departed(from: "/b") == nil)
        departures.wait(new, for: old, end: Self.end(10, 1))
        departures.wait(next, for: old, end: Self.end(30, 2))
        departures.wait(new, for: old, end: Self.end(20, 3))
        #expect(departures.candidates(of: old) == [new, next])
        #expect(departures.former(of: new) == old)
        #expect(departures.due(Self.time(11)).isEmpty)
        #expect(departures.due(Self.time(12)) == [old])
        #expect(departures.forget(next).isEmpty)
        let departure = departures.settle(old)
        #expect(departure?.candidates.map(\.file) == [new])
        #expect(departure?.candidates.map(\.end) == [Self.end(20, 3)])
        #expect(departure?.gone == nil)
        #expect(departures.former(of: new) == nil)
        #expect(departures.isEmpty)
        #expect(departures.departed(from: "/a") == nil)
    }

    @Test
    func `the longest candidate that is gone is remembered until its departure ends`() throws {
        var departures = Departures()
        let keys = (0..<4).map { StreamKey(slot: $0, generation: 0) }
        departures.note(keys[0], from: "/a", Self.time(10))
        for (key, offset) in zip(keys[1...], [10, 30, 20]) {
            departures.wait(key, for: keys[0], end: Self.end(offset, 1))
        }
        let haveLeft = keys[..<3].map { departures.leave($0) }
        #expect(haveLeft == [false, true, true])
        let settled = departures.settle(keys[0])
        let departure = try #require(settled)
        #expect(departure.gone?.end.offset == 30)
        departures.note(keys[0], from: "/a", Self.time(12))
        departures.resume(departure, of: keys[0], with: departure.candidates[...])
        #expect(departures.candidates(of: keys[0]) == [keys[3]])
        let again = departures.settle(keys[0])
        #expect(again?.gone?.end.offset == 30)
    }

    @Test
    func `a short file has 5 s, and its smallest length counts`() throws {
        var short = ShortFiles()
        let key = StreamKey(slot: 0, generation: 0)
        short.note(key, byteCount: 30, sent: 50, Self.time(1))
        short.note(key, byteCount: 20, sent: 45, Self.time(2))
        short.note(key, byteCount: 40, sent: 45, Self.time(3))
        #expect(short[key]?.byteCountMin == 20)
        #expect(short[key]?.sentByteCount == 50)
        #expect(!short.isOver(key, after: .seconds(5), Self.time(5)))
        #expect(short.isOver(key, after: .seconds(5), Self.time(6)))
        short.forget(key)
        #expect(short.isEmpty)
        #expect(EarlierBytes("1:20") == EarlierBytes(receiver: 1, byteCount: 20))
        let stored = EarlierBytes(receiver: 1, byteCount: 20, stored: FleetBytes(fleet: 3, byteCount: 10))
        #expect(EarlierBytes("1:20:10:3") == stored)
        #expect(EarlierBytes(stored.text[...]) == stored)
        for text in ["", "1", "0:1", "1:0", "1:2:3", "1:2:3:1", "1:2:0:1", "a:b"] {
            #expect(EarlierBytes(Substring(text)) == nil)
        }
    }

    @Test
    func `a stem stays taken for 7 days after its content is gone`() {
        var stems = TakenStems()
        stems.set(TakenStems.Record(next: 1, gone: nil), of: "#a", countMax: 10)
        stems.set(TakenStems.Record(next: 2, gone: WallTime(milliseconds: 1_000)), of: "#b", countMax: 10)
        #expect(stems.changed == ["#a", "#b"])
        stems.written()
        stems.expire(WallTime(milliseconds: 1_000 + 7 * 86_400_000 - 1))
        #expect(stems["#b"]?.next == 2)
        stems.expire(WallTime(milliseconds: 1_000 + 7 * 86_400_000))
        #expect(stems["#b"] == nil)
        #expect(stems.changed == ["#b"])
        #expect(stems["#a"]?.next == 1)
        let record = TakenStems.Record(next: 3, gone: WallTime(milliseconds: 5))
        #expect(TakenStems.Record(record.text) == record)
        #expect(TakenStems.Record("v=2 next=1 gone=0") == nil)
    }

    @Test
    func `a stem is what an id has between the agent's name and the head`() {
        let stem = FileStem(device: 0xFE01, inode: 0x2A, birth: -1)
        #expect(stem.text == "fe01-2a-ffffffffffffffff")
        #expect(FileStem(stem.text) == stem)
        for text in ["", "1-2", "1-2-3-4", "x-1-2"] { #expect(FileStem(text) == nil) }
    }
}
