import Testing
import WaybillSimulation

@Suite struct RestoreLifeTests {
    @Test(arguments: 0..<UInt64(10))
    func `a receiver that loses its disk again and again has every line once`(block: UInt64) {
        for seed in block * 100..<(block + 1) * 100 {
            let violation = RestoreLife.run(seed: seed)
            #expect(violation == nil, "Tools/simulate --restore --seeds 1 --from \(seed)")
        }
    }

    @Test(arguments: [PlantedBug.sayAcknowledged, .overwritePieces, .trustTakenKeys])
    func `planted bugs are caught`(bug: PlantedBug) {
        let seed = (0..<UInt64(500)).first { RestoreLife.run(seed: $0, bugs: [bug]) != nil }
        #expect(seed != nil, "\(bug.rawValue)")
    }
}
