import Testing
import WaybillFleet
import WaybillSystem
import WaybillTestSupport

/// Rounds without pieces leave several barriers at one position; each is passed by itself, in every merger.
@Suite struct BarrierTests {
    @Test func `barriers at one position are passed one by one, also by a merger that catches up or starts again`()
        throws
    {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var first = try bench.merger("m1", files)
        try bench.receive(0)
        try bench.merge(&first, files)
        let passed = first.barriers
        #expect(passed.count == 1)
        for barrier in passed { try first.passed(barrier) }
        // Two days without a line: the receiver is silent, and holds up nothing.
        for _ in 0..<2 {
            bench.now += 172_800_000
            try bench.merge(&first, files)
        }
        let barriers = first.barriers
        #expect(barriers.count == 2)
        #expect(Set(barriers.map(\.position)) == [first.end])

        let others = try CheckpointBench.disk()
        var second = try bench.merger("m2", others)
        try bench.merge(&second, others)
        #expect(second.barriers == passed + barriers)
        try second.passed(passed[0])
        try second.passed(barriers[0])
        #expect(second.barriers == [barriers[1]])
        _ = consume second
        others.kill()
        let again = try bench.merger("m2", others)
        #expect(again.barriers == [barriers[1]])
    }

    @Test func `a merger whose clock is ahead of the store's seals nothing before its time`() throws {
        let bench = CheckpointBench()
        let files = try CheckpointBench.disk()
        var merger = try bench.merger("m1", files)
        try bench.receive(0)
        try bench.merge(&merger, files)
        let through = merger.through
        // By its own clock everybody has been silent for two days.
        bench.now += 172_800_000
        bench.store.setClockOffset(.seconds(-172_800))
        try bench.merge(&merger, files)
        #expect(merger.through == through)
        // A store that is ahead does not make it hurry either.
        bench.store.setClockOffset(.seconds(172_800))
        try bench.merge(&merger, files)
        #expect(merger.through.milliseconds == bench.now - 1_800_000)
    }
}
