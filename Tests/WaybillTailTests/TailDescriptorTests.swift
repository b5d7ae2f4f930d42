import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// A process that may open few files.
struct TailDescriptorTests {
    private static let tooManyFiles = Int32(24)  // EMFILE
    let files = FaultyFiles()

    /// Lets no call open a descriptor when so many are open.
    private func limitDescriptors(_ bench: TailBench<FaultyFiles>, to count: Int) {
        let files = self.files
        files.setFaults { call in
            call.verb == .open && files.memory.openDescriptorCount >= count ? .error(Self.tooManyFiles) : nil
        }
    }

    @Test(arguments: [3, 4, 5, 8, 20])
    func `more files than descriptors arrive, told once`(descriptorCount: Int) throws {
        let bench = try TailBench(files)
        self.limitDescriptors(bench, to: descriptorCount)
        for number in 0..<30 { files.append("/log/\(number).log", "line of \(number)\n") }
        for _ in 0..<30 where bench.texts.count < 30 { bench.settle() }
        for number in 0..<30 { files.append("/log/\(number).log", "more\n") }
        let expected = (0..<30).map { "line of \($0)\nmore\n" }
        for _ in 0..<60 where bench.texts.sorted() != expected.sorted() { bench.settle() }
        #expect(bench.texts.sorted() == expected.sorted())
        let told = bench.notices.filter { if case .fewDescriptors = $0 { true } else { false } }
        #expect(told.count == 1)
        #expect(!bench.notices.contains { if case .unreadable = $0 { true } else { false } })
        #expect(bench.withTail { $0.openFileCount } < descriptorCount)
        // A file keeps what it has: with descriptors again, all continues.
        files.clearFaults()
        files.append("/log/0.log", "last\n")
        bench.settle()
        #expect(bench.texts.contains("line of 0\nmore\nlast\n"))
    }

    @Test func `what only a descriptor leads to is not closed for another file`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.isSlow = true
        bench.scan()
        bench.ship()
        files.append("/log/a.log", "two\n")
        bench.scan()
        files.remove("/log/a.log")
        bench.scan()
        self.limitDescriptors(bench, to: 1)
        files.append("/log/b.log", "other\n")
        bench.scan()
        #expect(bench.withTail { $0.openFileCount } == 1)
        files.clearFaults()
        bench.isSlow = false
        bench.run()
        #expect(bench.texts.sorted() == ["one\ntwo\n", "other\n"])
        #expect(bench.withTail { $0.notices.loss } == TailLoss())
    }

    @Test(arguments: [
        (1024, 14, 512, 512), (512, 14, 512, 490), (64, 14, 512, 42), (24, 14, 512, 2), (24, 20, 512, 1),
        (1_048_576, 14, 512, 512), (1_048_576, 14, 20_000, 20_000), (256, 14, 100, 100),
    ])
    func `the number of open files is what the process may have besides others`(
        limit: Int, open: Int, configured: Int, expected: Int
    ) {
        var limits = TailLimits()
        #expect(limits.openFileCountMax == 512)
        limits.openFileCountMax = configured
        limits.fit(descriptorCountMax: limit, openCount: open)
        #expect(limits.openFileCountMax == expected)
    }
}
