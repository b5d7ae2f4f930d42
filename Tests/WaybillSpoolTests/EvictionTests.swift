import Testing

@testable import WaybillSpool

@Suite struct EvictionTests {
    @Test(
        arguments: [
            (1, 1, 1), (7, 3, 9), (.max, 1, .max), (.max - 1, 2, .max), (.max - 1, 3, nil), (.max, 1000, nil),
            (5, 0, nil),
        ] as [(UInt64, Int, UInt64?)])
    func `the last number follows from the name, whatever number that has`(first: UInt64, count: Int, last: UInt64?) {
        var eviction = Eviction(
            segment: SegmentName(writer: "0195505e-aaaa-7000-8000-0000000000aa", firstSequence: first), reason: .age)
        eviction.evictedCount = count
        #expect(eviction.lastSequence == last)
    }
}
