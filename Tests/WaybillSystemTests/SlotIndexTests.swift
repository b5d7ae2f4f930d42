import Testing
import WaybillSystem

@Suite struct SlotIndexTests {
    /// Few hashes, so that most slots share one.
    @Test(arguments: 0..<UInt64(40))
    func `it finds what a dictionary would, whatever the hashes`(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var index = SlotIndex()
        var hashes: [Int: UInt32] = [:]
        let hashCountMax: UInt32 = seed % 2 == 0 ? 7 : .max
        for _ in 0..<2000 {
            let slot = Int.random(in: 0..<300, using: &generator)
            if let hash = hashes[slot], Bool.random(using: &generator) {
                index.remove(slot, hash)
                hashes[slot] = nil
            } else if hashes[slot] == nil {
                let hash = UInt32.random(in: 0..<hashCountMax, using: &generator)
                index.insert(slot, hash)
                hashes[slot] = hash
            }
            let wanted = Int.random(in: 0..<300, using: &generator)
            let found = hashes[wanted].flatMap { hash in index.slot(hash) { $0 == wanted } }
            #expect(found == (hashes[wanted] == nil ? nil : wanted))
            #expect(index.count == hashes.count)
        }
        for (slot, hash) in hashes { #expect(index.slot(hash) { $0 == slot } == slot) }
        for (slot, hash) in hashes { index.remove(slot, hash) }
        #expect(index.count == 0 && index.slot(0) { _ in true } == nil)
    }

    @Test func `what is not in it is neither found nor removed`() {
        var index = SlotIndex()
        #expect(index.slot(1) { _ in true } == nil)
        index.remove(1, 1)
        index.insert(1, 1)
        index.remove(2, 1)
        #expect(index.slot(1) { $0 == 1 } == 1)
        #expect(index.slot(17) { $0 == 1 } == nil)
    }
}
