import Testing
import WaybillSimulation

@Suite struct RetentionLifeTests {
    @Test(arguments: 0..<UInt64(10))
    func `no life of a bounded data directory loses what was not delivered`(block: UInt64) {
        for seed in block * 100..<(block + 1) * 100 {
            let violation = RetentionLife.run(seed: seed)
            #expect(violation == nil, "seed \(seed)")
        }
    }

    @Test(arguments: PlantedBug.ofRetention)
    func `planted bugs are caught`(bug: PlantedBug) {
        let seed = (0..<UInt64(500)).first { RetentionLife.run(seed: $0, bugs: [bug]) != nil }
        #expect(seed != nil, "\(bug.rawValue)")
    }
}
