import Testing
import WaybillEvent
import WaybillSystem

@testable import WaybillDoor
@testable import WaybillIngest

/// Whose memory is whose: no address and no size of bodies takes it from others for long.
@Suite struct DoorMemoryTests {
    private static let limits = DoorMemory.Limits(byteCountMax: 1 << 20, shareByteCountMax: 256 << 10)

    /// A body that counts how often it had to go.
    private final class Body: Sendable {
        let place: DoorMemory.Place
        private let count: Lock<Int>
        var displacedCount: Int { self.count.withLock { $0 } }

        init(_ room: DoorMemory, _ address: String) {
            let count = Lock(0)
            self.count = count
            self.place = room.enter(AddressGroup(address)) { count.withLock { $0 += 1 } }
        }
    }

    @Test func `an address has its share and no more, and another one has its own`() {
        let room = DoorMemory()
        let (greedy, second, other) = (Body(room, "10.0.0.1"), Body(room, "10.0.0.1"), Body(room, "10.0.0.2"))
        #expect(room.take(200 << 10, for: greedy.place, Self.limits) == nil)
        #expect(room.take(57 << 10, for: second.place, Self.limits) == .share)
        #expect(room.take(200 << 10, for: other.place, Self.limits) == nil)
        room.leave(greedy.place)
        #expect(room.take(57 << 10, for: second.place, Self.limits) == nil)
        #expect(room.byteCount == 257 << 10)
    }

    @Test func `a network of version 6 is one sender, and a version 4 address in version 6 is that address`() {
        #expect(AddressGroup("2001:db8:1:2::1") == AddressGroup("2001:db8:1:2:ffff::9"))
        #expect(AddressGroup("2001:db8:1:2::1") != AddressGroup("2001:db8:1:3::1"))
        #expect(AddressGroup("::ffff:10.0.0.1") == AddressGroup("10.0.0.1"))
        #expect(AddressGroup("10.0.0.1") != AddressGroup("10.0.0.2"))
        #expect(AddressGroup(nil) == .unknown)
        #expect(AddressGroup("not an address") == .unknown)
    }

    @Test func `a sender's text is short, and differs from every other sender's`() {
        let texts = ["0.0.0.1", "::1", "255.255.255.255", "0:0:ffff:ffff::", "ffff:ffff:ffff:ffff::"]
            .map { AddressGroup($0).text }
        #expect(texts == ["1/4", "0/6", "1z141z3/4", "1z141z3/6", "3w5e11264sgsf/6"])
        #expect(texts.allSatisfy { $0.utf8.count <= 15 })
    }

    @Test func `large bodies that fill all room give way to small ones, and not to large ones`() {
        let room = DoorMemory()
        let slow = (1...8).map { Body(room, "10.0.1.\($0)") }
        for body in slow { #expect(room.take(128 << 10, for: body.place, Self.limits) == nil) }
        let large = Body(room, "10.0.2.1")
        #expect(room.take(128 << 10, for: large.place, Self.limits) == .memory)
        let small = Body(room, "10.0.2.2")
        #expect(room.take(4 << 10, for: small.place, Self.limits) == nil)
        #expect(slow.map(\.displacedCount).reduce(0, +) == 1)
        let displaced = slow.filter { $0.displacedCount > 0 }
        for body in displaced {
            #expect(room.isDisplaced(body.place))
            #expect(room.take(1, for: body.place, Self.limits) == .displaced)
            #expect(!room.settle(body.place))
            room.leave(body.place)
        }
        #expect(room.byteCount == 7 * (128 << 10) + (4 << 10))
        for body in slow + [large, small] { room.leave(body.place) }
        #expect(room.byteCount == 0)
    }

    @Test func `what gave way and is still held is an eighth of the room at most`() {
        let room = DoorMemory()
        let slow = (1...16).map { Body(room, "10.0.1.\($0)") }
        for body in slow { #expect(room.take(64 << 10, for: body.place, Self.limits) == nil) }
        // None of them is given back.
        let small = (1...12).map { Body(room, "10.0.2.\($0)") }
        let refused = small.filter { room.take(31 << 10, for: $0.place, Self.limits) != nil }
        #expect(room.byteCount <= Self.limits.byteCountMax * 9 / 8)
        #expect(slow.map(\.displacedCount).reduce(0, +) == 2)
        #expect(refused.count == 8)
    }

    @Test func `a whole body keeps its room until it is stored`() {
        let room = DoorMemory()
        let waiting = (1...4).map { Body(room, "10.0.1.\($0)") }
        for body in waiting {
            #expect(room.take(256 << 10, for: body.place, Self.limits) == nil)
            #expect(room.settle(body.place))
        }
        let small = Body(room, "10.0.2.1")
        #expect(room.take(1, for: small.place, Self.limits) == .memory)
        #expect(!room.resize(waiting[0].place, to: 257 << 10, Self.limits))
        #expect(room.resize(waiting[0].place, to: 1 << 10, Self.limits))
        #expect(room.take(1, for: small.place, Self.limits) == nil)
        #expect(waiting.allSatisfy { $0.displacedCount == 0 })
    }

    @Test(arguments: 0..<UInt64(50))
    func `whatever comes and goes, the count is what is held`(seed: UInt64) {
        var dice = SeededGenerator(seed: seed)
        let room = DoorMemory()
        var held: [(body: Body, byteCount: Int, isWhole: Bool)] = []
        for step in 0..<400 {
            let choice = Int.random(in: 0..<10, using: &dice)
            if choice < 3 || held.isEmpty {
                held.append((Body(room, "10.0.0.\(step % 9)"), 0, false))
            } else if choice < 8 {
                let index = Int.random(in: 0..<held.count, using: &dice)
                let count = Int.random(in: 1...(100 << 10), using: &dice)
                if !held[index].isWhole, room.take(count, for: held[index].body.place, Self.limits) == nil {
                    held[index].byteCount += count
                }
                held[index].isWhole = held[index].isWhole || choice == 7 && room.settle(held[index].body.place)
            } else {
                room.leave(held.remove(at: Int.random(in: 0..<held.count, using: &dice)).body.place)
            }
            #expect(room.byteCount == held.map(\.byteCount).reduce(0, +))
            #expect(room.byteCount <= Self.limits.byteCountMax * 9 / 8 + (256 << 10))
            for (body, _, isWhole) in held where isWhole { #expect(body.displacedCount == 0) }
        }
        for (body, _, _) in held { room.leave(body.place) }
        #expect(room.byteCount == 0)
    }
}

/// What a reload keeps of a key.
@Suite struct DoorSettingsTests {
    private static func configuration(_ keys: [DoorKey]) -> DoorConfiguration {
        var configuration = DoorConfiguration(
            listen: NetworkAddress(host: "127.0.0.1", port: 4380), spool: "/spool", quarantine: "/quarantine")
        configuration.keys = keys
        return configuration
    }

    private static func key(_ name: String, rate: Int = 5_000) -> DoorKey {
        DoorKey(
            source: IngestSource(key: name, bundle: "com.example.shop", environment: .prod), eventRateMax: rate)
    }

    private static func events(_ count: Int) -> IngestedEvents {
        IngestedEvents(bytes: [], lines: [], faults: [], remarks: [], eventCount: count)
    }

    @Test func `a key that stays keeps its rate and its counts, a changed one its counts, and a removed one is none`()
        throws
    {
        let now = MonotonicTime(nanoseconds: 1_000_000_000)
        let old = DoorSettings(
            Self.configuration([Self.key("wk_a0000001", rate: 10), Self.key("wk_b0000001", rate: 10)]), now: now)
        for name in ["wk_a0000001", "wk_b0000001"] {
            let standing = try #require(old[name])
            #expect(standing.take(Self.events(500), from: .unknown, at: now) == nil)
            standing.tally.stored(DoorCounts(storedCount: 20), at: WallTime(milliseconds: 1))
        }
        let new = DoorSettings(
            Self.configuration([Self.key("wk_a0000001", rate: 10), Self.key("wk_b0000001", rate: 30)]), after: old,
            now: now)
        #expect(new["wk_a0000001"]?.take(Self.events(1), from: .unknown, at: now) != nil)
        #expect(new["wk_b0000001"]?.take(Self.events(1), from: .unknown, at: now) == nil)
        #expect(new.all.map { $0.tally.counts.events.storedCount } == [20, 20])
        let last = DoorSettings(Self.configuration([Self.key("wk_b0000001")]), after: new, now: now)
        #expect(last["wk_a0000001"] == nil)
        // A request whose head came before is still judged by what was.
        #expect(new["wk_a0000001"] != nil)
    }

    @Test func `what cannot change while the door is open stays`() {
        let started = Self.configuration([])
        var new = Self.configuration([Self.key("wk_a0000001")])
        new.listen = NetworkAddress(host: "127.0.0.1", port: 1)
        new.spool = "/other"
        new.certificate = "door.pem"
        new.privateKey = "door.key"
        new.limits.memoryByteCountMax = 16 << 20
        let taken = started.taking(new)
        #expect(taken.listen == started.listen)
        #expect(taken.spool == "/spool")
        #expect(taken.certificate == nil)
        #expect(taken.privateKey == nil)
        #expect(taken.limits.memoryByteCountMax == 16 << 20)
        #expect(taken.keys == new.keys)
    }
}
