import Testing
import WaybillData
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport
@testable import WaybillProjection

/// Pairs of archive files that were written by hand, and a journal.
private struct PairBench {
    let bench: ProjectionBench
    let stream = ProjectionBench.description(1)
    static let day = "archive/env=prod/bundle=b/date=2026-11-20"
    static let stem = day + "/part-00001"

    /// A journal that has each text as a batch, and so many segments that the first can be deleted.
    init(_ batches: [String] = []) throws {
        self.bench = try ProjectionBench()
        try self.bench.write(batches.map { (self.stream, Array($0.utf8)) }, perGroup: 1)
    }

    var disk: FaultyFiles { self.bench.disk }
    var data: DataDirectory<FaultyFiles> { self.bench.data }
    var journal: RoutedJournal<FaultyFiles> { RoutedJournal(data: self.data, entries: [:], zone: .utc) }

    /// A line of ``day``.
    static func line(_ number: Int, byteCount: Int = 0) -> String {
        "{\"v\":1,\"ts\":\"2026-11-20T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\",\"bundle\":\"b\","
            + "\"data\":{\"number\":\(number),\"text\":\"\(Self.text(byteCount, seed: number))\"}}\n"
    }

    /// Text that cannot be compressed well.
    private static func text(_ byteCount: Int, seed: Int) -> String {
        var generator = SeededGenerator(seed: UInt64(seed))
        return String(
            (0..<byteCount).map { _ in Character(UnicodeScalar(UInt8.random(in: 0x41...0x5A, using: &generator))) })
    }

    /// Runs of one stream, one after the other.
    func runs(_ texts: [String], offset: Int = 0) -> [SourceRun] {
        var start = 0
        return texts.map { text in
            defer { start += text.utf8.count }
            return SourceRun(
                description: self.stream, offset: StreamOffset(UInt64(offset + start)),
                receivedAt: WallTime(milliseconds: ProjectionBench.noon),
                range: start..<(start + text.utf8.count), lineCount: text.utf8.count { $0 == 0x0A })
        }
    }

    /// Writes a pair of files.
    ///
    /// - Returns: how long its files are, by path.
    @discardableResult
    func place(_ lines: String, _ runs: [SourceRun], stem: String = Self.stem) -> [String: Int] {
        var text = SourcesText()
        let sources = runs.flatMap { text.line(of: $0) }
        self.disk.place("/data/\(stem).ndjson", Array(lines.utf8))
        self.disk.place("/data/\(stem).sources", sources)
        return [stem + ".ndjson": lines.utf8.count, stem + ".sources": sources.count]
    }

    /// Calls `body` with a batch of the stream that has these lines.
    func withBatch(
        _ text: String, at offset: Int = 0, position: Int = 0, _ body: (ProjectedBatch) throws -> Void
    ) rethrows {
        try Array(text.utf8).withUnsafeBytes { raw in
            try body(
                ProjectedBatch(
                    position: JournalPosition(position), description: self.stream,
                    offset: StreamOffset(UInt64(offset)),
                    receivedAt: WallTime(milliseconds: ProjectionBench.noon), lineCount: 1, raw: raw))
        }
    }

    /// Calls `body` with all lines of each text as one run of one batch.
    func visit(_ texts: [String], from offset: Int = 0, _ body: (RoutedRun, ProjectedBatch) throws -> Void) rethrows {
        var offset = offset
        for text in texts {
            try self.withBatch(text, at: offset) { batch in
                try body(
                    RoutedRun(range: 0..<text.utf8.count, lineCount: text.utf8.count { $0 == 0x0A }, content: .stored),
                    batch)
            }
            offset += text.utf8.count
        }
    }
}

@Suite struct RepairPartsTests {
    private static let texts = ["first\n", "second\nthird\n", "fourth\n"]

    // MARK: Runs on disk

    @Test func `the runs of a file end before torn lines, and the rest is set aside`() throws {
        let bench = try PairBench()
        let runs = bench.runs(Self.texts)
        let lengths = bench.place("first\nsecond\nthird\nfou\0\0\0\n", runs)
        let whole = bench.place("first\n", Array(runs[..<1]), stem: PairBench.day + "/late-00001")
        let stems = try ArchivePair.openStems(in: bench.data)
        #expect(stems == [PairBench.day + "/late-00001", PairBench.stem])
        let found = try RunsOnDisk(of: stems, in: bench.data, lengths: [:])
        #expect(found.ends[PairBench.stem]?.lines == 19)
        let late = whole[PairBench.day + "/late-00001.sources"] ?? 0
        #expect(found.ends[stems[0]] == RunsOnDisk.Place(lines: 6, sources: late))
        #expect(try found.setAsideRest() == ["set-aside/\(PairBench.stem).ndjson@19.1"])
        // A checkpoint vouches for what it has.
        let vouched = try RunsOnDisk(of: [PairBench.stem], in: bench.data, lengths: lengths)
        #expect(vouched.ends[PairBench.stem]?.lines == 26)
        #expect(try vouched.setAsideRest() == [])
    }

    @Test func `files have a batch if they have its runs and its bytes`() throws {
        let lines = (0..<3).map { PairBench.line($0) }
        let bench = try PairBench(lines)
        var altered = lines
        altered[1] = altered[1].replacing("\"number\":1", with: "\"number\":7")
        bench.place(altered.joined(), Array(bench.runs(lines)[..<2]))
        let found = try RunsOnDisk(of: [PairBench.stem], in: bench.data, lengths: [:])
        var reader = try bench.journal.reader(from: JournalPosition(0))
        var answers: [Bool] = []
        while let batch = try reader.next(upTo: bench.bench.end) {
            try reader.visitRoutes(of: batch) { (route) throws(FileSystemError) in
                #expect(route.place == PairBench.day)
                answers.append(try found.has(route, of: batch))
            }
        }
        #expect(answers == [true, false, false])
        try bench.withBatch(lines[1], at: lines[0].utf8.count) { batch in
            let run = try #require(found.runs(of: batch).first)
            #expect(run.range.lowerBound == lines[0].utf8.count && run.start.lines == run.range.lowerBound)
        }
    }

    // MARK: A lost checkpoint

    @Test func `a lost checkpoint stands before the first batch that is not whole in the files`() throws {
        let lines = (0..<6).map { PairBench.line($0, byteCount: 2500) }
        let bench = try PairBench(lines)
        let runs = bench.runs(lines)
        let segments = try bench.disk.list(bench.data.journal).compactMap(JournalPath.position(ofSegment:)).sorted()
        try bench.disk.unlink(JournalPath.segment(segments[0], in: bench.data.journal))
        let lost = LostCheckpoint(data: bench.data, entries: [:], seals: [:], journal: bench.journal)
        let keys = [".ndjson", ".sources"].map { "file:" + PairBench.stem + $0 }

        let lengths = bench.place(lines.joined(), runs)
        let whole = try #require(try lost.rebuilt())
        #expect(
            whole.changes == [
                "position": String(bench.bench.end.rawValue), keys[0]: String(lengths[PairBench.stem + ".ndjson"] ?? 0),
                keys[1]: String(lengths[PairBench.stem + ".sources"] ?? 0),
            ])
        #expect(whole.note.hasPrefix("the archive's checkpoint was lost; it was rebuilt at \(bench.bench.end)"))

        // The last batch but one is torn: what the file has of it, and of the last one, is projected again.
        bench.place(lines[..<4].joined() + "torn\n" + lines[5], runs)
        let cut = try #require(try lost.rebuilt())
        #expect(cut.changes[keys[0]] == String(lines[..<4].joined().utf8.count))
        #expect(cut.changes["position"] != whole.changes["position"])
        #expect(cut.note.contains(" from the .sources of 1 files"))
        // A checkpoint that the journal reaches back to is used as it is.
        let usable = LostCheckpoint(
            data: bench.data, entries: ["position": String(segments[1].rawValue)], seals: [:], journal: bench.journal)
        #expect(try usable.rebuilt() == nil)
    }

    // MARK: Damaged pairs

    @Test(arguments: [0, 3, 6, 9, 18, 19, 22])
    func `what the journal has of a cut file is taken from there, and the runs before it are kept`(left: Int) throws {
        let bench = try PairBench()
        let runs = bench.runs(Self.texts)
        let lengths = bench.place(Self.texts.joined(), runs)
        bench.disk.place("/data/\(PairBench.stem).ndjson", Array(Self.texts.joined().utf8.prefix(left)))
        var pair = try DamagedPair(PairBench.stem, in: bench.data, lengths: lengths)
        #expect(pair.byteCount == 26 && pair.leftByteCount == left && pair.runs == runs)
        let alone = try pair.plan(in: bench.data)
        #expect(alone.wanted == [] && alone.keptByteCount == [0: 0, 3: 0, 9: 6, 18: 13, 22: 19][left] ?? left)
        // Half of a run counts its whole lines.
        #expect(alone.keptRuns.reduce(0) { $0 + $1.lineCount } == [6: 1, 9: 1, 18: 2, 19: 3, 22: 3][left] ?? 0)

        bench.visit(Self.texts) { run, batch in pair.found(run, of: batch) }
        let plan = try pair.plan(in: bench.data)
        let kept = runs.filter { $0.range.upperBound <= left }
        #expect(plan.keptRuns == kept && plan.keptByteCount == kept.last?.range.upperBound ?? 0)
        #expect(plan.wanted == Set(runs[kept.count...].map { RunKey($0) }))
    }

    @Test func `without its sources, a file has the journal's runs last if its bytes do not contradict`() throws {
        let bench = try PairBench()
        let runs = bench.runs(Self.texts)
        let lengths = bench.place(Self.texts.joined(), runs)
        bench.disk.place("/data/\(PairBench.stem).sources", [])
        var pair = try DamagedPair(PairBench.stem, in: bench.data, lengths: lengths)
        bench.visit(Array(Self.texts[1...]), from: 6) { run, batch in pair.found(run, of: batch) }
        #expect(try pair.plan(in: bench.data).keptRuns.map(\.range) == [6..<19, 19..<26])
        bench.disk.place("/data/\(PairBench.stem).ndjson", Array("first\nsecond\nthirt\nfourth\n".utf8))
        let plan = try pair.plan(in: bench.data)
        #expect(plan == DamagedPair.Plan(keptByteCount: 26))
    }

    @Test func `runs of empty lines that the sources still have are counted once`() throws {
        let bench = try PairBench()
        let stem = "quarantine/date=2026-11-20/empty"
        let texts = ["\n", "\n\n", "\n"]
        var runs: [SourceRun] = []
        bench.visit(texts) { run, batch in
            runs.append(
                RoutedRun(range: run.range, lineCount: run.lineCount, content: .emptyLines).source(of: batch, at: 0))
        }
        let lengths = bench.place("", runs, stem: stem)
        bench.place("", Array(runs[..<2]), stem: stem)
        var pair = try DamagedPair(stem, in: bench.data, lengths: lengths)
        #expect(pair.runs == Array(runs[..<2]))
        // The journal no longer has the first.
        bench.visit(Array(texts[1...]), from: 1) { run, batch in
            pair.found(RoutedRun(range: run.range, lineCount: run.lineCount, content: .emptyLines), of: batch)
        }
        #expect(try pair.plan(in: bench.data) == DamagedPair.Plan(keptRuns: runs))
    }

    @Test func `a run belongs in the damaged file that was open when its batch was written`() throws {
        let bench = try PairBench()
        let runs = bench.runs(Self.texts)
        let late = PairBench.day + "/late-00001"
        var lengths = bench.place(Self.texts[0], Array(runs[..<1]))
        lengths.merge(bench.place("", [], stem: late)) { $1 }
        let seal = Seal(revision: 1, position: 500, sealedAt: WallTime(milliseconds: ProjectionBench.noon))
        func stem(_ stems: [String], _ text: String, at offset: Int, _ position: Int) throws -> String? {
            var damaged: [String: DamagedPair] = [:]
            for stem in stems { damaged[stem] = try DamagedPair(stem, in: bench.data, lengths: lengths) }
            let places = try DamagedPlaces(
                of: damaged, in: bench.data, lengths: lengths, seals: [PairBench.day: seal])
            var router = ArchiveRouter(zone: .utc)
            var found: String?
            bench.withBatch(PairBench.line(0) + text, at: offset, position: position) { batch in
                _ = router.route(batch)
                found = places.stem(of: router.routes[0].runs[0], router.routes[0], batch)
            }
            return found
        }
        let both = [PairBench.stem, late]
        // The .sources have it.
        #expect(try stem(both, "", at: 0, 900) == PairBench.stem)
        #expect(try stem([late], "", at: 0, 900) == nil)
        // They do not.
        #expect(try stem(both, "", at: 600, 499) == PairBench.stem)
        #expect(try stem(both, "", at: 600, 500) == late)
        #expect(try stem([late], "", at: 600, 499) == nil)
        // The manifest has it.
        var manifest = DayManifest(
            folder: try #require(DayFolder(path: PairBench.day)), revision: 1, zone: "UTC", sealedAt: seal.sealedAt)
        var file = DayManifest.File(name: "part-00001.ndjson.gz")
        file.position = JournalPosition(600)
        manifest.files = [file]
        bench.disk.place("/data/\(PairBench.day)/manifest.json", manifest.json)
        #expect(try stem(both, "", at: 600, 599) == nil)
        #expect(try stem(both, "", at: 600, 600) == late)
    }

    // MARK: The exchange

    @Test func `an exchange that dies at any call is done by the next start, or not begun`() throws {
        let whole = Self.texts.joined()
        var call = 1
        while true {
            let bench = try PairBench()
            let lengths = bench.place(whole, bench.runs(Self.texts))
            bench.disk.place("/data/\(PairBench.stem).ndjson", Array(whole.utf8.prefix(9)))
            let path = bench.data.statePath("archive")
            var notes: [String] = []
            func repair() throws {
                var state = try StateStore(path: path, files: bench.disk)
                try state.settle()
                try PairExchange.finish(&state, in: bench.data)
                if bench.disk.bytes(of: "/data/\(PairBench.stem).ndjson").map({ $0.count }) == whole.utf8.count {
                    return
                }
                var pair = try DamagedPair(PairBench.stem, in: bench.data, lengths: lengths)
                bench.visit(Self.texts) { run, batch in pair.found(run, of: batch) }
                var exchange = PairExchange(in: bench.data)
                try exchange.begin(pair, try pair.plan(in: bench.data))
                try bench.visit(Self.texts) { run, batch in try exchange.append(run, of: batch, to: PairBench.stem) }
                let written = try exchange.synchronize()
                notes = written.notes
                try state.commit(written.changes)
                try PairExchange.finish(&state, in: bench.data)
            }
            bench.disk.stop(atCall: bench.disk.callCount + call)
            do { try repair() } catch { #expect(bench.disk.isStopped) }
            let isDead = bench.disk.isStopped
            if isDead {
                bench.disk.crash(seed: UInt64(call))
                try repair()
            }
            bench.disk.clearFaults()
            let tree = bench.bench.tree("archive", "set-aside")
            // A power cut may leave a file where it was, too, and the next start sets it aside again.
            #expect(tree[PairBench.stem + ".ndjson"] == whole)
            #expect(tree.keys.count { $0.hasPrefix("archive") } == 2)
            #expect(tree["set-aside/\(PairBench.stem).ndjson.1"] == String(whole.prefix(9)))
            #expect(tree[PairBench.stem + ".sources"] == tree["set-aside/\(PairBench.stem).sources.1"])
            let entries = try #require(try StateImage.read(path, files: bench.disk)).entries
            #expect(FileSet<FaultyFiles>.lengths(in: entries) == lengths && entries.count == 2)
            if !isDead {
                #expect(
                    notes == [
                        "\(PairBench.stem).ndjson: 17 bytes were missing, 20 rebuilt from the journal, 0 are lost; "
                            + "the rest of it is in set-aside"
                    ])
                break
            }
            call += 1
        }
        #expect(call > 30)
    }
}
