import Testing
import WaybillSimulation

@Suite struct StorageLifeTests {
    @Test(arguments: 0..<UInt64(20))
    func `no life of a receiver's disk breaks a promise`(block: UInt64) {
        for seed in block * 100..<(block + 1) * 100 {
            let violation = StorageLife.run(seed: seed)
            #expect(violation == nil, "seed \(seed)")
        }
    }

    /// A simulation is worth what it catches: each planted bug must break a promise within the seeds of a usual run.
    @Test(arguments: PlantedBug.ofStorage)
    func `planted bugs are caught`(bug: PlantedBug) {
        let seed = (0..<UInt64(2000)).first { StorageLife.run(seed: $0, bugs: [bug]) != nil }
        #expect(seed != nil, "\(bug.rawValue)")
    }

    @Test func `a seed lives the same life each time`() {
        for seed in 0..<UInt64(600) {
            let lives = (0..<2).map { _ in StorageLife.report(seed: seed) }
            #expect(lives[0].fingerprint == lives[1].fingerprint, "seed \(seed)")
            let broken = (0..<2).map { _ in StorageLife.run(seed: seed, bugs: [.skipJournalSync]) }
            #expect(broken[0] == broken[1], "seed \(seed)")
        }
    }
}
