import Testing
import WaybillSimulation

@Suite struct FleetLifeTests {
    @Test(arguments: 0..<UInt64(20))
    func `every merger has every line once, and all have the same journal`(block: UInt64) {
        for seed in block * 100..<(block + 1) * 100 {
            let violation = FleetLife.run(seed: seed)
            #expect(violation == nil, "Tools/simulate --fleet --seeds 1 --from \(seed)")
        }
    }

    @Test(arguments: PlantedBug.ofFleet)
    func `planted bugs are caught`(bug: PlantedBug) {
        let seed = (0..<UInt64(500)).first { FleetLife.run(seed: $0, bugs: [bug]) != nil }
        #expect(seed != nil, "\(bug.rawValue)")
    }
}
