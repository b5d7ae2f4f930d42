import Testing

@testable import WaybillTail

/// Which of the open files is closed first, and how many there may be.
@Suite struct OpenFilesTests {
    private static func key(_ slot: Int) -> StreamKey { StreamKey(slot: slot, generation: 0) }

    @Test func `files are in the order in which they were used`() {
        var open = OpenFiles(countMax: 3)
        for slot in 0..<3 { open.use(Self.key(slot)) }
        #expect(open.isFull && open.keys == [0, 1, 2].map(Self.key))
        open.use(Self.key(0))
        #expect(open.keys == [1, 2, 0].map(Self.key))
        for _ in 0..<2 { open.remove(Self.key(1)) }
        #expect(open.keys == [2, 0].map(Self.key) && !open.isFull)
        open.replace(Self.key(2), by: Self.key(7))
        #expect(open.keys == [7, 0].map(Self.key))
    }

    @Test func `a process without descriptors keeps fewer open, and a new configuration does not raise the number`() {
        var open = OpenFiles(countMax: 512)
        for slot in 0..<10 { open.use(Self.key(slot)) }
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
