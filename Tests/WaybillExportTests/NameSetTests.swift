import Testing
import WaybillJSON

@testable import WaybillExport

@Suite struct NameSetTests {
    private func placeCount(_ names: [String], _ hash: NameHash = NameHash(seed: 1)) -> Int {
        Set(names.map { name in Array(name.utf8).withUnsafeBytes { hash.place(of: $0) & 0xFFFF } }).count
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

    /// Names of 16 bytes whose halves cancel each other out where they are only combined, shifted by 21 bits.
    private static let cancelling: [String] = {
        let letters: [UInt8] = [0x40, 0x41, 0x48, 0x49, 0x50, 0x51, 0x58, 0x59]
        return (0..<30_000).map { number in
            let half = (0..<8).reduce(UInt64(0)) { $0 << 8 | UInt64(letters[number >> (3 * ($1 % 5)) & 7]) }
            let first: UInt64 = 0x4040_4040_4040_4040 ^ (half << 21 | half >> 43)
            let bytes = [first, half].flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } }
            return String(decoding: bytes, as: UTF8.self)
        }
    }()

    @Test(arguments: 0..<4)
    func `names that were made to collide do not, for the hash has a secret`(seed: UInt64) {
        let names = Self.cancelling
        #expect(Set(names).count == names.count)
        #expect(self.placeCount(names, NameHash(seed: seed)) > 22_000)
    }

    @Test func `the secret differs from process to process, and is one for all sets of it`() {
        let names = (0..<100).map { "name \($0)" }
        let places = { (hash: NameHash) in names.map { Array($0.utf8).withUnsafeBytes { hash.place(of: $0) } } }
        #expect(places(NameHash(seed: 1)) != places(NameHash(seed: 2)))
        #expect(places(.ofProcess) == places(.ofProcess))
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
