import Testing

@testable import WaybillDoor

@Suite struct BodyPiecesTests {
    /// How many pieces of these lengths, repeated, a body may have; at most 100,000 are tried.
    private func count(_ lengths: [Int]) -> Int {
        var pieces = BodyPieces()
        for number in 0..<100_000 {
            guard pieces.take(lengths[number % lengths.count]) else { return number }
        }
        return 100_000
    }

    @Test(arguments: [
        ([1], 4096), ([0], 4096), ([15], 4096), ([1, 1, 1, 40], 4096), ([16], 100_000), ([1, 40], 100_000),
    ])
    func `a body of many pieces has some bytes in each`(lengths: [Int], count: Int) {
        #expect(self.count(lengths) == count)
    }

    @Test func `what came at once before does not make up for pieces without end`() {
        var pieces = BodyPieces()
        let isTaken = pieces.take(1 << 20)
        #expect(isTaken)
        var count = 0
        while count < 100_000, pieces.take(1) { count += 1 }
        #expect(count == 69_904)
    }
}
