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

    /// 770300190: an erasure that did not recover the archive first, after a process had died in the middle of a seal, and the
    /// next one while it rewrote the checkpoint, left a person's lines in the sealed file.
    @Test(arguments: [770_300_190])
    func `a life that once broke a promise keeps it`(seed: UInt64) {
        #expect(StorageLife.run(seed: seed) == nil)
    }

    @Test func `a trace tells what happens, and changes nothing`() {
        var trace = ""
        for seed in UInt64(0)..<40 {
            let report = StorageLife.report(seed: seed) { trace += $0 + "\n" }
            #expect(report.fingerprint == StorageLife.report(seed: seed).fingerprint)
        }
        for text in [
            "process 2\n", "recovered at ", "checkpoint at ", "a step of sealing\n", "  fault: ", "the process dies\n",
            "the power fails\n", " is erased\n", "the erasure of u-", "/part-00001.ndjson: ", ": gone\n",
        ] {
            #expect(trace.contains(text), "\(text)")
        }
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
