import Testing
import WaybillSimulation

/// The lives of `Tools/simulate --fleet`, as many as a usual run has time for.
@Suite struct FleetLifeTests {
    @Test(arguments: 0..<UInt64(20))
    func `no life of a fleet breaks a promise`(block: UInt64) {
        for seed in block * 10..<(block + 1) * 10 {
            let violation = FleetLife.run(seed: seed).violation
            #expect(violation == nil, "Tools/simulate --fleet --seeds 1 --from \(seed) --trace")
        }
    }

    /// At these seeds a promise was broken while lives had other courses: a segment that was skipped to its end at a receiver
    /// was not looked at again, and never sealed; a log that was cut below what a receiver held was not shipped there.
    @Test(arguments: [13_439, 19_145, 28_206, 75_719, 150_005_768, 150_010_079] as [UInt64])
    func `lives that broke a promise do so no more`(seed: UInt64) {
        #expect(FleetLife.run(seed: seed).violation == nil)
    }

    @Test(arguments: PlantedBug.ofFleet + PlantedBug.ofFilesInFleets)
    func `planted bugs are caught`(bug: PlantedBug) {
        let seed = (0..<UInt64(500)).first { FleetLife.run(seed: $0, bugs: [bug]).violation != nil }
        #expect(seed != nil, "\(bug.rawValue)")
    }

    @Test func `a life without trouble of files is the same whatever kinds there are`() {
        for seed in 0..<UInt64(20) {
            let with = FleetLife.run(seed: seed, files: [.deviceNumbers])
            let without = FleetLife.run(seed: seed, files: [])
            let isTroubled = with.fingerprint != without.fingerprint || with.eventCount != without.eventCount
            #expect(isTroubled || with.lineCount == without.lineCount, "seed \(seed)")
            #expect(with.violation == nil && without.violation == nil, "seed \(seed)")
        }
    }

    @Test func `a seed lives the same life each time`() {
        for seed in 0..<UInt64(20) {
            let lives = (0..<2).map { _ in FleetLife.run(seed: seed) }
            #expect(lives[0].eventCount == lives[1].eventCount, "seed \(seed)")
            #expect(lives[0].lineCount == lives[1].lineCount, "seed \(seed)")
            #expect(lives[0].fingerprint == lives[1].fingerprint, "seed \(seed)")
        }
    }
}
