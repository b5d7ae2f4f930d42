import Testing
import WaybillSystem

@testable import WaybillReport

@Suite struct OrderTests {
    /// Numbers whose digits all differ, or only those of some bits; fewer and more than what is sorted digit by digit.
    @Test(arguments: [0, 1, 1000, 1024, 5000], [UInt64.max, 0xFF, 0xFFFF_0000_0000_0001, 0x7FF << 55])
    func `digits give the same order as comparisons`(count: Int, mask: UInt64) {
        var generator = SeededGenerator(seed: mask ^ UInt64(count))
        let numbers = (0..<count).map { _ in UInt64.random(in: .min ... .max, using: &generator) & mask }
        var sorted = numbers
        sorted.sortByDigits()
        #expect(sorted == numbers.sorted())
    }

    /// Times of one second, of a month, and of a century, for which a key has no room.
    @Test(arguments: [1000, 30 * 86_400_000, 100 * 365 * 86_400_000] as [Int64])
    func `rows are in the order of their times, and equal times in the order that is given`(range: Int64) {
        var generator = SeededGenerator(seed: UInt64(range))
        let rows = (0..<3000).map { _ in EventRow(time: Int64.random(in: -range / 2...range / 2, using: &generator)) }
        let places = Array(0..<Int32(rows.count)).filter { $0 % 7 != 0 }
        let order = rows.inOrder(places) { $0 > $1 }
        let expected = places.sorted { a, b in
            let (left, right) = (rows[Int(a)].time, rows[Int(b)].time)
            return left == right ? a > b : left < right
        }
        #expect(order == expected)
    }
}
