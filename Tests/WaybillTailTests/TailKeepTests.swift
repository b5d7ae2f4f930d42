import Testing
import WaybillProtocol
import WaybillSpool
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// Shipped segments that are kept for a while, and what a receiver that lost them gets again.
struct TailKeepTests {
    private let files = FaultyFiles()

    private func id(_ number: Int) -> String {
        "0195505e-aaaa-7000-8000-0000000000aa-" + String(repeating: "0", count: 20 - "\(number)".count) + "\(number)"
    }

    private func line(_ number: Int) -> String { "line \(number)\n" }

    private func bench(_ limit: FileLimit? = FileLimit(ageMax: .seconds(86_400))) throws -> TailBench<FaultyFiles> {
        var limits = TailLimits()
        limits.keep = limit
        return try TailBench(self.files, limits: limits)
    }

    private func ship(_ numbers: ClosedRange<Int>, _ bench: TailBench<FaultyFiles>) throws {
        for number in numbers {
            self.files.append("/spool/\(self.id(number)).ndjson", self.line(number))
            bench.run()
        }
        try bench.checkpoint()
    }

    private var names: [String] {
        get throws { try self.files.list("/spool").sorted() }
    }

    private func contents(_ numbers: ClosedRange<Int>) -> [String: [UInt8]] {
        Dictionary(uniqueKeysWithValues: numbers.map { (self.id($0), Array(self.line($0).utf8)) })
    }

    /// A receiver without data at the address of the present one.
    private func empty(_ bench: TailBench<FaultyFiles>) {
        var emptied = BenchStore(receiver: BenchReceiver(name: "emptied"))
        emptied.receiver.address = bench.receiver.address
        bench.exchange(with: &emptied)
    }

    private func returned(_ bench: TailBench<FaultyFiles>) -> [Int] {
        bench.notices.compactMap { if case .segmentsReturned(let count, _) = $0 { count } else { nil } }
    }

    private func missing(_ bench: TailBench<FaultyFiles>) -> [Int] {
        bench.notices.compactMap { if case .segmentsMissing(let missing) = $0 { missing.count } else { nil } }
    }

    @Test func `a shipped segment is kept under a name that no client counts, and goes when it is old`() throws {
        let bench = try bench(FileLimit(ageMax: .seconds(3600)))
        try ship(1...2, bench)
        #expect(try names.allSatisfy { $0.hasPrefix(id(1)) || $0.hasPrefix(id(2)) })
        #expect(try names.compactMap { KeptSegmentName(parsing: $0)?.segment.id } == [id(1), id(2)])
        #expect(try SpoolReader.segments(in: "/spool", on: files) == [])
        let usage = try SpoolKeeper(directory: "/spool", on: files).usage()
        #expect(usage.byteCount == 0 && usage.segmentCount == 0)
        bench.advance(3_500_000)
        bench.run()
        #expect(try names.count == 2)
        #expect(bench.withTail { $0.kept.segmentCount } == 2)
        bench.advance(200_000)
        bench.run()
        #expect(try names == [])
        #expect(bench.withTail { $0.kept } == KeptFiles())
        #expect(bench.losses == [])
    }

    @Test func `the oldest go first when all together are too large, and all when nothing is kept any more`() throws {
        let bench = try bench(FileLimit(byteCountMax: 2 * "line 1\n".utf8.count))
        try ship(1...3, bench)
        bench.advance(61_000)
        bench.run()
        #expect(try names.compactMap { KeptSegmentName(parsing: $0)?.segment.id } == [id(2), id(3)])
        bench.withTail { $0.keep(nil) }
        bench.run()
        #expect(try names == [])
        try ship(4...4, bench)
        #expect(try names == [])
    }

    @Test(arguments: [true, false])
    func `a receiver whose data are gone gets everything that is kept, each line once`(isRestarted: Bool) throws {
        let bench = try bench()
        try ship(1...5, bench)
        if isRestarted { try bench.restart() }
        empty(bench)
        bench.run()
        #expect(bench.received == contents(1...5))
        #expect(bench.sealed == Set((1...5).map { id($0) }))
        #expect(returned(bench) == [5])
        #expect(missing(bench) == [0])
        // They are kept for the next time.
        #expect(try names.count == 5)
        empty(bench)
        bench.run()
        #expect(bench.received == contents(1...5))
        #expect(try names.compactMap { KeptSegmentName(parsing: $0)?.segment.id } == (1...5).map { id($0) })
    }

    @Test func `a receiver that was put back from a copy gets what the copy lacks, and nothing twice`() throws {
        let bench = try bench()
        try ship(1...3, bench)
        let end = bench.receiver.end
        try ship(4...5, bench)
        bench.received = contents(1...3)
        bench.sealed = Set((1...3).map { id($0) })
        bench.loseConnection()
        bench.receiver.end = end
        bench.receiver.restart()
        // The bench itself expects no byte twice, and none behind a seal.
        bench.run()
        #expect(bench.received == contents(1...5))
        #expect(bench.sealed == Set((1...5).map { id($0) }))
        #expect(missing(bench) == [0])
        #expect(try names.count == 5)
    }

    @Test func `another receiver gets nothing of what the first one has`() throws {
        let bench = try bench()
        try ship(1...2, bench)
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == [:])
        try ship(3...3, bench)
        bench.exchange(with: &other)
        bench.run()
        #expect(bench.received == contents(1...2))
        #expect(returned(bench) == [])
    }

    @Test func `what was too old to be kept is named as missing`() throws {
        let bench = try bench(FileLimit(ageMax: .seconds(3600)))
        try ship(1...2, bench)
        bench.advance(3_700_000)
        try ship(3...3, bench)
        empty(bench)
        bench.run()
        #expect(bench.received == contents(3...3))
        #expect(returned(bench) == [1] && missing(bench) == [2])
    }

    @Test func `a death at any call of a meeting loses no segment and repeats no line`() throws {
        var call = 1
        while true {
            let files = FaultyFiles()
            var limits = TailLimits()
            limits.keep = FileLimit(ageMax: .seconds(86_400))
            let bench = try TailBench(files, limits: limits)
            for number in 1...3 {
                files.append("/spool/\(id(number)).ndjson", line(number))
                bench.run()
            }
            try bench.checkpoint()
            empty(bench)
            files.stop(atCall: call)
            do { try bench.meet() } catch { #expect(files.isStopped) }
            guard files.isStopped else { break }
            bench.kill()
            if call % 2 == 0 { files.crash(seed: UInt64(call)) } else { files.kill() }
            try bench.start()
            bench.run()
            #expect(bench.received == contents(1...3), "call \(call)")
            #expect(try files.list("/spool").compactMap { KeptSegmentName(parsing: $0) }.count == 3)
            call += 1
        }
        #expect(call > 10)
    }

    @Test func `an operator puts kept segments back, and a receiver that has them stores nothing twice`() throws {
        let bench = try bench()
        try ship(1...2, bench)
        let kept = try Reshipment.keptSegments(in: "/spool", on: files)
        #expect(kept.count == 2)
        bench.received[id(2)] = nil
        bench.sealed.remove(id(2))
        for path in kept {
            #expect(try Reshipment.reship(path, on: files) == .returned(to: "/spool/\(segment(of: path)).again"))
        }
        #expect(throws: Reshipment.Failure.missing(path: kept[0])) { try Reshipment.reship(kept[0], on: files) }
        bench.run()
        #expect(bench.received == contents(1...2))
        #expect(try names.compactMap { KeptSegmentName(parsing: $0)?.segment.id } == [id(1), id(2)])
    }

    private func segment(of path: String) -> String {
        KeptSegmentName(parsing: Path.name(of: path))?.segment.description ?? "no kept segment"
    }

    @Test func `what is on its way again ships under its own name when nothing is kept any more`() throws {
        let bench = try bench()
        try ship(1...1, bench)
        let path = try #require(try Reshipment.keptSegments(in: "/spool", on: files).first)
        _ = try Reshipment.reship(path, on: files)
        bench.received = [:]
        bench.sealed = []
        bench.withTail { $0.keep(nil) }
        bench.run()
        #expect(bench.received == contents(1...1))
        #expect(try names == [])
    }

    @Test func `a purge of the spool takes what is kept with it`() throws {
        let bench = try bench()
        try ship(1...2, bench)
        let path = try #require(try Reshipment.keptSegments(in: "/spool", on: files).first)
        _ = try Reshipment.reship(path, on: files)
        try SpoolKeeper(directory: "/spool", on: files).purge()
        #expect(try names == [])
    }

    @Test(arguments: [
        "x.ndjson.shipped-1-2", "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson.shipped-1",
        "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson.shipped--1-2",
        "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson.shipped-1-2-3",
        "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001.ndjson.shipped-1-99999999999999999999",
    ])
    func `other names are not those of kept segments`(name: String) {
        #expect(KeptSegmentName(parsing: name) == nil)
    }

    // MARK: The quarantine

    @Test func `lines of the quarantine go by their age and their size, unfinished ones do not`() throws {
        var limits = TailLimits()
        limits.quarantine = FileLimit(ageMax: .seconds(86_400))
        let bench = try TailBench(files, limits: limits)
        for (name, days) in [("a-0.line", 3), ("b-0.line", 0), ("c-0.line.new", 9)] {
            files.memory.now = (bench.milliseconds - Int64(days) * 86_400_000) * 1_000_000
            files.place("/state/quarantine/\(name)", Array("0123456789".utf8))
        }
        bench.run()
        #expect(try files.list("/state/quarantine").sorted() == ["b-0.line", "c-0.line.new"])
        #expect(
            bench.notices.contains(
                .quarantineDeleted(path: "/state/quarantine/a-0.line", byteCount: 10, FileLimit.Reason.age)))
        #expect(bench.withTail { $0.kept.quarantineByteCount } == 10)
        bench.withTail { $0.limitQuarantine(FileLimit(byteCountMax: 9)) }
        bench.run()
        #expect(try files.list("/state/quarantine") == ["c-0.line.new"])
    }

    @Test func `the plan deletes by age, then the oldest beyond the size`() {
        let files = (1...5).map { AgedFile(path: "f\($0)", byteCount: 100, time: Int64($0) * 1000) }
        func plan(_ limit: FileLimit) -> [String] {
            limit.excess(of: files.reversed(), now: 10_000).map { "\($0.file.path) \($0.reason)" }
        }
        #expect(plan(FileLimit()) == [])
        #expect(plan(FileLimit(ageMax: .seconds(8))) == ["f1 age", "f2 age"])
        #expect(plan(FileLimit(byteCountMax: 250)) == ["f1 bytes", "f2 bytes", "f3 bytes"])
        #expect(plan(FileLimit(ageMax: .seconds(9), byteCountMax: 350)) == ["f1 age", "f2 bytes"])
    }

    @Test func `sparse files of any length are planned for as others`() {
        let files = (1...4).map { AgedFile(path: "f\($0)", byteCount: .max - 10, time: Int64($0)) }
        #expect(files.byteCount == .max)
        let excess = FileLimit(byteCountMax: 1000).excess(of: files, now: 10)
        #expect(excess.map(\.file.path).first == "f1")
        #expect(FileLimit(ageMax: .zero).excess(of: files, now: 10).count == 4)
    }
}
