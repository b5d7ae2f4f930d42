import Testing

@testable import WaybillTail

/// Which of the open files is closed first, and how many there may be.
@Suite struct OpenFilesTests {
    private static func key(_ slot: Int) -> StreamKey { StreamKey(slot: slot, generation: 0) }

    @Test func `the one that was used longest ago is closed first, unless it must stay open`() {
        var open = OpenFiles(countMax: 3)
        var uses: [StreamKey: Int] = [:]
        for slot in 0..<3 {
            open.insert(Self.key(slot))
            uses[Self.key(slot)] = open.use()
        }
        #expect(open.isFull)
        uses[Self.key(0)] = open.use()
        #expect(open.leastRecentlyUsed { uses[$0] } == Self.key(1))
        uses[Self.key(1)] = nil
        #expect(open.leastRecentlyUsed { uses[$0] } == Self.key(2))
        #expect(open.leastRecentlyUsed { _ in nil } == nil)
        open.remove(Self.key(1))
        open.remove(Self.key(1))
        #expect(Set(open.keys) == [Self.key(0), Self.key(2)] && !open.isFull)
        open.replace(Self.key(2), by: Self.key(7))
        #expect(Set(open.keys) == [Self.key(0), Self.key(7)])
    }

    @Test func `a process without descriptors keeps fewer open, and a new configuration does not raise the number`() {
        var open = OpenFiles(countMax: 512)
        for slot in 0..<10 { open.insert(Self.key(slot)) }
        let isFirst = open.lower()
        #expect(isFirst && open.countMax == 8)
        open.configure(countMax: 512)
        #expect(open.countMax == 8)
        open.configure(countMax: 4)
        #expect(open.countMax == 4)
        let isFirstAgain = open.lower()
        #expect(!isFirstAgain && open.countMax == 2)
        for _ in 0..<3 { _ = open.lower() }
        #expect(open.countMax == 1)
    }

    @Test func `without want of descriptors the configured number holds`() {
        var open = OpenFiles(countMax: 2)
        open.configure(countMax: 512)
        #expect(open.countMax == 512)
    }
}
