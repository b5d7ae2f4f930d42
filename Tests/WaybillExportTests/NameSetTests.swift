import Testing
import WaybillJSON

@testable import WaybillExport

@Suite struct NameSetTests {
    private func placeCount(_ names: [String]) -> Int {
        Set(names.map { name in Array(name.utf8).withUnsafeBytes { NameSet.hash($0) & 0xFFFF } }).count
    }

    @Test(arguments: [5, 8, 13, 24, 31])
    func `names that differ in a few bytes, wherever they are, have places of their own`(length: Int) {
        for start in 0...(length - 5) {
            let names = (10_000..<40_000).map { number in
                let before = String(repeating: "n", count: start)
                return before + "\(number)" + String(repeating: "n", count: length - 5 - start)
            }
            // By chance, 24,000 of 65,536 places would be taken.
            #expect(self.placeCount(names) > 22_000, "\(start) of \(length)")
        }
    }

    @Test func `a name is found again, however many others there are`() {
        var text = ByteBuilder()
        var names = NameSet()
        var ranges: [Range<Int>] = []
        for number in 10_000..<12_000 {
            let start = text.count
            text.append("the same start \(number) and the same end")
            ranges.append(start..<text.count)
        }
        var addedCounts: [Int] = []
        for _ in 0..<2 {
            var count = 0
            for range in ranges where names.insert(range, in: text.bytes) { count += 1 }
            addedCounts.append(count)
        }
        names.removeAll()
        let isNew = names.insert(ranges[7], in: text.bytes)
        #expect(addedCounts == [2000, 0] && isNew)
    }
}
