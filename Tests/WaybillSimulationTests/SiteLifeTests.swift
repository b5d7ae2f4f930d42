import Testing
import WaybillSimulation

/// The lives of `Tools/simulate`, as many as a usual run has time for.
@Suite struct SiteLifeTests {
    @Test(arguments: 0..<UInt64(20))
    func `no life of a site breaks a promise`(block: UInt64) {
        for seed in block * 150..<(block + 1) * 150 {
            let violation = SiteLife.run(seed: seed).violation
            #expect(violation == nil, "Tools/simulate --seeds 1 --from \(seed) --trace")
        }
    }

    /// An export had set a line aside that the archive's quarantine has; the verification could not explain its dead letter.
    ///
    /// And a log behind a link had the inode of a deleted one, whose entry in the registry was taken for its own.
    @Test(arguments: [110_018_259, 108_535] as [UInt64])
    func `lives that broke a promise do so no more`(seed: UInt64) {
        #expect(SiteLife.run(seed: seed).violation == nil)
    }

    /// Another file got the inode of a log that had left its name, the log had to be closed, or the file that was to
    /// continue it was replaced as well.
    private static let fileSeeds: [(files: Set<FileTrouble>, seeds: [UInt64])] = [
        ([.mirrors], [231, 2203, 2302]),
        ([.likeMirrors], [1434, 1676]),
        ([.exactLoss, .mirrors, .likeMirrors], [1078, 1889]),
        (
            Set(FileTrouble.allCases),
            [
                231, 3353, 4646, 7451, 14_694, 33_492, 39_254, 46_888, 60_939, 408_970, 412_747, 501_466, 522_014,
                600_753, 609_218, 631_068, 631_483, 653_313, 776_457, 790_245, 1_018_616, 1_049_190, 1_066_224,
                1_127_169, 1_206_296, 1_218_238, 1_325_854, 1_806_424, 2_138_886, 2_285_838,
                2_286_525, 2_298_827, 2_457_236, 2_782_310, 3_159_843, 3_400_975, 3_529_364, 3_606_595,
                3_612_889, 3_767_252, 4_058_410, 4_236_578, 4_236_681, 4_254_641,
                184_066, 210_126, 4_522_436, 4_265_870, 4_353_319, 4_399_308, 4_418_268, 4_430_937,
            ]
        ),
    ]

    @Test(arguments: Self.fileSeeds.indices)
    func `lives with files that broke a promise do so no more`(index: Int) {
        let (files, seeds) = Self.fileSeeds[index]
        for seed in seeds { #expect(SiteLife.run(seed: seed, files: files).violation == nil, "seed \(seed)") }
    }

    /// Lives that show the bugs which only one life in thousands meets, as `Tools/simulate --bug` found them.
    private static let rareSeeds: [PlantedBug: UInt64] = [
        .ignoreAnswerEnds: 1840, .compareEndsAlone: 4005, .compareLastStartAlone: 10_279,
        .takeSkipsForBytes: 3424, .adoptWithoutProof: 3465,
    ]

    /// Those that lives of their own catch (``StorageLifeTests``, ``RetentionLifeTests``, ``FleetLifeTests``).
    private static let ofOthers = PlantedBug.ofStorage + PlantedBug.ofRetention + PlantedBug.ofFleet

    /// In lives, the receiver's proof raises the number of a content that gets another one's stem.
    ///
    /// TailSuccessionTests have the stem itself.
    private static let unmet = [PlantedBug.reuseStems]

    @Test(arguments: PlantedBug.allCases.filter { !(Self.ofOthers + Self.unmet).contains($0) })
    func `planted bugs are caught`(bug: PlantedBug) {
        if let seed = Self.rareSeeds[bug] { #expect(SiteLife.run(seed: seed).violation == nil, "without the bug") }
        let seeds = Self.rareSeeds[bug].map { [$0] } ?? Array(0..<3000)
        let seed = seeds.first { SiteLife.run(seed: $0, bugs: [bug]).violation != nil }
        #expect(seed != nil, "Tools/simulate --seeds 100000 --bug \(bug.rawValue)")
    }

    @Test func `a life without trouble of files is the same whatever kinds there are`() {
        for seed in 0..<UInt64(50) {
            let with = SiteLife.run(seed: seed, files: [.deviceNumbers])
            let without = SiteLife.run(seed: seed, files: [])
            let other = SiteLife.run(seed: seed, files: [.fewDescriptors])
            let isTroubled = with.fingerprint != without.fingerprint || with.eventCount != without.eventCount
            #expect(isTroubled || with.lineCount == without.lineCount, "seed \(seed)")
            #expect(with.violation == nil && without.violation == nil && other.violation == nil, "seed \(seed)")
        }
    }

    @Test func `a seed lives the same life each time`() {
        for seed in 0..<UInt64(100) {
            let lives = (0..<2).map { _ in SiteLife.run(seed: seed) }
            #expect(lives[0].eventCount == lives[1].eventCount, "seed \(seed)")
            #expect(lives[0].lineCount == lives[1].lineCount, "seed \(seed)")
            #expect(lives[0].simulatedSeconds == lives[1].simulatedSeconds, "seed \(seed)")
        }
    }
}
