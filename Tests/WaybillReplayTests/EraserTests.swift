import Testing
import WaybillData
import WaybillEvent
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillReplay
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// One person's lines leave archive, quarantine and exports, whatever happens, and everything else stays whole.
@Suite struct EraserTests {
    private static let key = [UInt8](repeating: 7, count: 32)

    /// Two of eight adjacent lines, of two days, are the person's; some of others have no id, some are not events.
    private static func line(_ number: Int, day: Int) -> String {
        let user = Self.isPersons(number) ? "erased-person" : "u-\(number % 3)"
        let id =
            number % 7 == 3 && !Self.isPersons(number)
            ? "" : "\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
        if number % 23 == 9 { return "{\"user\":\"\(user)\",\"cut\n" }
        return
            "{\"v\":1,\(id)\"ts\":\"2026-11-\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"b\",\"user\":\"\(user)\",\"anon\":\"a\(number)\",\"data\":{\"n\":\(number)}}\n"
    }

    private static func isPersons(_ number: Int) -> Bool { number % 8 == 1 || number % 8 == 2 }

    /// What is sealed when the person is erased.
    enum Layout: CaseIterable {
        case open, sealed
        /// All days, and lines have come since then.
        case late
    }

    private static func bench(_ layout: Layout) throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(Self.contents(0..<(layout == .late ? 24 : 30)))
        try Self.settle(bench, sealing: layout != .open)
        guard layout == .late else { return bench }
        try bench.write(Self.contents(24..<30))
        try Self.settle(bench, sealing: false)
        return bench
    }

    private static func contents(_ batches: Range<Int>) -> [(description: StreamDescription, raw: [UInt8])] {
        batches.map { batch in
            let lines = (0..<5).map { Self.line(batch * 5 + $0, day: 18 + (batch + $0) % 3) }
            return (ProjectionBench.description(batch % 3), Array(lines.joined().utf8))
        }
    }

    private static let providers: [Destination] = [.mixpanel, .csv, .ga4, .mixpanelProfiles]

    private static func settle(_ bench: ProjectionBench, sealing: Bool) throws {
        let now = WallTime(milliseconds: ProjectionBench.noon + 9_000_000)
        let moment = sealing ? SealMoment.everything(now: now) : nil
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        try Self.settle(&archive, bench, &run, moment)
        while archive.isSealing { try archive.continueSealing() }
        for provider in Self.providers {
            var export = try ExportProjection.live(ExportOptions(provider: provider), data: bench.data)
            try Self.settle(&export, bench, &run, moment)
            try export.finishSealing()
        }
    }

    private static func settle(
        _ projection: inout some Projection & ~Copyable, _ bench: ProjectionBench,
        _ run: inout ProjectionRun<FaultyFiles>, _ moment: SealMoment?
    ) throws {
        var position = try projection.recover().position
        while position < bench.end { position = try run.advance(&projection, from: position, upTo: bench.end) }
        try projection.checkpoint(at: position, sealing: moment)
    }

    private static func erase(
        _ bench: ProjectionBench, isDryRun: Bool = false
    ) throws(Eraser<FaultyFiles>.Failure) -> Eraser<FaultyFiles>.Report {
        var eraser = Eraser(
            dataDirectory: bench.data.root, .user, "erased-person", isDryRun: isDryRun, files: bench.disk)
        return try eraser.run(now: WallTime(milliseconds: ProjectionBench.noon)) { () throws(FileSystemError) in
            Self.key
        }
    }

    /// All files but the journal, with sealed ones inflated; nothing of the person is in them.
    private static func tree(_ bench: ProjectionBench) -> [String: String] {
        var tree: [String: String] = [:]
        for (path, bytes) in bench.disk.tree(bench.data.root) where !path.contains("/journal/") {
            // A copy of what is in `state`.
            if path.contains("/archive/_erasures") { continue }
            let content = path.hasSuffix(".gz") ? ProjectionBench.inflate(bytes) ?? [] : bytes
            tree[path] = String(decoding: content, as: UTF8.self)
        }
        return tree
    }

    private static func expectErased(_ bench: ProjectionBench, batches: Int = 30) throws {
        let tree = Self.tree(bench)
        for (path, text) in tree.sorted(by: { $0.key < $1.key }) {
            #expect(!text.contains("erased-person"), "\(path) still names the person")
        }
        let lines = tree.filter { ($0.key.contains("/archive/") || $0.key.contains("/quarantine/")) }
            .filter { $0.key.hasSuffix(".ndjson") || $0.key.hasSuffix(".ndjson.gz") }
            .flatMap { $0.value.split(separator: "\n").map(String.init) }
        var expected: [String] = []
        for batch in 0..<batches {
            for index in 0..<5 where !Self.isPersons(batch * 5 + index) {
                expected.append(String(Self.line(batch * 5 + index, day: 18 + (batch + index) % 3).dropLast()))
            }
        }
        #expect(lines.sorted() == expected.sorted())
        let csv = tree.filter { $0.key.contains("/exports/csv/") && $0.key.contains(".csv") }
            .reduce(0) { $0 + max(0, $1.value.split(separator: "\r\n").count - 1) }
        #expect(csv == expected.count { !$0.contains("cut") })
        var verifier = DataVerifier(data: bench.data, exports: Self.providers.map { ExportOptions(provider: $0) })
        let report = verifier.verify()
        #expect(report.problems == [])
    }

    @Test(arguments: Layout.allCases)
    func `one person is erased and the rest stays whole`(layout: Layout) throws {
        let bench = try Self.bench(layout)
        let counted = try Self.erase(bench, isDryRun: true)
        #expect(Self.tree(bench).values.contains { $0.contains("erased-person") })
        let report = try Self.erase(bench)
        #expect(report == counted)
        #expect(report.lineCount == (0..<150).count(where: Self.isPersons))
        try Self.expectErased(bench)
        // What arrives later is dropped, and nothing comes back.
        try bench.write(Self.contents(30..<36))
        try Self.settle(bench, sealing: layout != .open)
        try Self.expectErased(bench, batches: 36)
        #expect(try Self.erase(bench).isRepeated)
        try Self.expectErased(bench, batches: 36)
    }

    @Test(arguments: Layout.allCases)
    func `lost checkpoints bring no one back and change no part`(layout: Layout) throws {
        let bench = try Self.bench(layout)
        _ = try Self.erase(bench)
        let before = Self.tree(bench).filter { $0.key.contains("/exports/") || $0.key.contains("/archive/") }
        for name in try bench.disk.list(bench.data.state) where name.contains(".state") {
            try bench.disk.unlink(Path.join(bench.data.state, name))
        }
        try Self.settle(bench, sealing: false)
        try Self.expectErased(bench)
        #expect(Self.tree(bench).filter { $0.key.contains("/exports/") || $0.key.contains("/archive/") } == before)
    }

    @Test(arguments: Layout.allCases)
    func `a kill at any step loses nothing that the same command needs`(layout: Layout) throws {
        let whole = try Self.bench(layout)
        let start = try whole.copy()
        let calls = start.disk.callCount
        _ = try Self.erase(start)
        let count = start.disk.callCount - calls
        let expected = Self.tree(start).filter { !$0.key.contains("/state/") }
        // A prime step, so that each run of the suite covers all kinds of steps in bounded time.
        for call in stride(from: 1, to: count, by: 17) {
            let bench = try whole.copy()
            bench.disk.stop(atCall: call)
            #expect(throws: Eraser<FaultyFiles>.Failure.self) { try Self.erase(bench) }
            bench.disk.crash(seed: UInt64(call))
            _ = try Self.erase(bench)
            let tree = Self.tree(bench).filter { !$0.key.contains("/state/") && !$0.key.hasSuffix(".erase") }
            #expect(tree == expected, "killed at call \(call)")
            if call % 5 == 0 { try Self.expectErased(bench) }
        }
    }

    /// A receiver died in the commit of a checkpoint: it can be read, and a power cut may take it back.
    private static func uncertainBench() throws -> ProjectionBench {
        let bench = try ProjectionBench()
        try bench.write(Self.contents(0..<24))
        try Self.settle(bench, sealing: false)
        try bench.write(Self.contents(24..<30))
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        let older = try archive.recover().position
        var position = older
        while position < bench.end { position = try run.advance(&archive, from: position, upTo: bench.end) }
        bench.disk.setFaults { call in
            guard call.verb == .write, call.path.contains("/archive.state") else { return nil }
            var fault = FaultyFiles.Fault(share: 1, errno: Errno.inputOutput)
            fault.isFatal = true
            return fault
        }
        #expect(throws: FileSystemError.self) { try archive.checkpoint(at: position, sealing: nil) }
        bench.disk.clearFaults()
        bench.disk.kill()
        let entries = try StateImage.read(bench.data.statePath("archive"), files: bench.disk)?.entries ?? [:]
        #expect(older < position && ProjectionRest.position(in: entries) == position)
        return bench
    }

    @Test func `an erasure over a checkpoint that is not durable leads to no line twice`() throws {
        let whole = try Self.uncertainBench()
        let calls = whole.disk.callCount
        _ = try Self.erase(whole)
        for call in stride(from: 1, through: whole.disk.callCount - calls, by: 23) {
            let bench = try Self.uncertainBench()
            bench.disk.stop(atCall: call)
            #expect(throws: Eraser<FaultyFiles>.Failure.self) { try Self.erase(bench) }
            bench.disk.crash(seed: UInt64(call))
            try ErasureLog.finishExchange(in: bench.data)
            try Self.settle(bench, sealing: false)
            _ = try Self.erase(bench)
            try Self.expectErased(bench)
        }
    }

    /// A process that died after the manifest of a day that it sealed, before it removed the lines of which the sealed file
    /// was made; the kernel has written everything back.
    private static func benchOfUnfinishedSeal(_ day: Int) throws -> ProjectionBench {
        let bench = try Self.bench(.open)
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        let position = try archive.recover().position
        try archive.checkpoint(
            at: position, sealing: .everything(now: WallTime(milliseconds: ProjectionBench.noon + 9_000_000)))
        bench.disk.setFaults { call in
            call.verb == .unlink && call.path.contains("date=2026-11-\(day)/") ? Self.death : nil
        }
        #expect(throws: FileSystemError.self) {
            while archive.isSealing { try archive.continueSealing() }
        }
        bench.disk.kill()
        bench.disk.memory.writeBack()
        return bench
    }

    /// The process dies before the call does anything.
    private static var death: FaultyFiles.Fault {
        var fault = FaultyFiles.Fault.error(Errno.inputOutput)
        fault.isFatal = true
        return fault
    }

    /// A start that dies at the `number`th change that it makes.
    ///
    /// - Returns: whether it makes so many.
    private static func dieStarting(_ bench: ProjectionBench, atChange number: Int) -> Bool {
        var changeCount = 0
        bench.disk.setFaults { call in
            if call.isChange { changeCount += 1 }
            return call.isChange && changeCount == number ? Self.death : nil
        }
        defer { bench.disk.kill() }
        do throws(FileSystemError) {
            var archive = try ArchiveProjection(data: bench.data, zone: .utc)
            _ = try archive.recover()
            return false
        } catch {
            return true
        }
    }

    /// Between two of its changes, the start after it leaves the checkpoint no name but that of a rewrite.
    ///
    /// The last day leaves nothing else to seal, so the erasure need not wait for a start.
    @Test(arguments: [18, 20])
    func `a seal that two processes did not finish brings no one back`(day: Int) throws {
        let source = try Self.benchOfUnfinishedSeal(day)
        for number in 1... {
            let bench = try source.copy()
            guard Self.dieStarting(bench, atChange: number) else { return #expect(number > 10) }
            do throws(Eraser<FaultyFiles>.Failure) {
                _ = try Self.erase(bench)
            } catch {
                #expect(day == 18, "change \(number): \(error)")
                try Self.settle(bench, sealing: true)
                _ = try Self.erase(bench)
            }
            try Self.settle(bench, sealing: false)
            try Self.expectErased(bench)
        }
    }

    @Test func `days that were sealed after the checkpoint in use are erased from as sealed ones`() throws {
        let bench = try Self.bench(.open)
        let path = bench.data.statePath("archive")
        let older = try #require(bench.disk.memory.bytes(of: path))
        try Self.settle(bench, sealing: true)
        bench.disk.memory.place(path, older)
        _ = try Self.erase(bench)
        try Self.settle(bench, sealing: false)
        try Self.expectErased(bench)
    }

    /// A start would cut them off, but not with a journal that is lost meanwhile.
    @Test func `lines behind the checkpoint do not outlast an erasure`() throws {
        let bench = try Self.bench(.open)
        try bench.write([(ProjectionBench.description(1), Array(Self.line(1, day: 21).utf8))])
        var archive = try ArchiveProjection(data: bench.data, zone: .utc)
        var run = ProjectionRun(journalDirectory: bench.data.journal, files: bench.disk)
        var position = try archive.recover().position
        while position < bench.end { position = try run.advance(&archive, from: position, upTo: bench.end) }
        bench.disk.kill()
        #expect(Self.tree(bench).contains { $0.key.contains("date=2026-11-21/") && $0.value.contains("erased-person") })
        _ = try Self.erase(bench)
        #expect(!Self.tree(bench).contains { $0.value.contains("erased-person") })
        try Self.settle(bench, sealing: false)
        try Self.expectErased(bench)
    }

    @Test(arguments: StateImage.suffixes)
    func `a merger's directory is refused in the middle of a rewrite of its state, too`(suffix: String) throws {
        let bench = try Self.bench(.open)
        let path = bench.data.statePath("merge")
        var state = try StateStore(path: path, files: bench.disk)
        try state.commit(["round": "1"])
        if !suffix.isEmpty { try bench.disk.rename(path, to: path + suffix) }
        #expect {
            _ = try Self.erase(bench)
        } throws: { error in
            if case .merger = error as? Eraser<FaultyFiles>.Failure { true } else { false }
        }
    }

    private static func eraseOfFleet(_ bench: ProjectionBench) throws {
        let person = ErasedPeople.Person(id: Array("erased-person".utf8), .user, key: Self.key)
        var eraser = Eraser(
            ofFleet: FleetErasure(person: person, key: Self.key), .user, id: "erased-person",
            dataDirectory: bench.data.root, files: bench.disk)
        _ = try eraser.run(now: WallTime(milliseconds: ProjectionBench.noon))
    }

    /// The bytes of a directory but for the journal and the states.
    private static func bytes(_ bench: ProjectionBench) -> [String: [UInt8]] {
        bench.disk.tree(bench.data.root).filter {
            !$0.key.contains("/journal/") && !$0.key.contains("/state/") && !$0.key.hasSuffix(".erase")
                && !$0.key.contains("/_erasures")
        }
    }

    @Test(arguments: Layout.allCases)
    func `a merger's erasure has one result, whatever its journal has behind it and where it is killed`(
        layout: Layout
    ) throws {
        let whole = try Self.bench(layout)
        let start = try whole.copy()
        let calls = start.disk.callCount
        try Self.eraseOfFleet(start)
        // Before the check, which makes calls of its own.
        let count = start.disk.callCount - calls
        try Self.expectErased(start)
        let expected = Self.bytes(start)
        let ahead = try whole.copy()
        // Another merger has merged on: one of the person's ids, in a line of someone else.
        let line = Self.line(1, day: 18).replacing("erased-person", with: "someone-else")
        try ahead.write([(ProjectionBench.description(1), Array(line.utf8))])
        try Self.eraseOfFleet(ahead)
        #expect(Self.bytes(ahead) == expected)
        for call in stride(from: 1, to: count, by: 29) {
            let bench = try whole.copy()
            bench.disk.stop(atCall: call)
            #expect(throws: Eraser<FaultyFiles>.Failure.self) { try Self.eraseOfFleet(bench) }
            bench.disk.crash(seed: UInt64(call))
            try Self.eraseOfFleet(bench)
            #expect(Self.bytes(bench) == expected, "killed at call \(call)")
        }
    }

    /// The vectors of `Protocol/formats/erasures.md`.
    @Test(arguments: [
        ("u-4711", ErasedPeople.Kind.user, "72ff1f5a06071cbb50ebd055e31688f69bd858061a44037b0266674a9d6aa2ef"),
        ("u-4711", .anon, "ed79f59d5dc592da8cbca991eb63181adca691dd13059f475906b01b119f2254"),
        ("장바구니", .user, "bf2e299caaa36839e642a43dc9d47ed03e1f08e69453d95837b84475dc0407b0"),
    ])
    func `a person's digest is as specified`(id: String, kind: ErasedPeople.Kind, digest: String) {
        #expect(ErasedPeople.digest(of: Array(id.utf8), kind, key: Array(0..<32)) == digest)
    }

    /// The vectors of `Protocol/formats/erasures.md`.
    @Test(arguments: [
        ("u-4711", ErasedPeople.Kind.user, UInt64(0x4512_ae79_c378_2bd3)), ("u-4711", .anon, 0xbc21_e9c8_e5e8_d66c),
        ("장바구니", .user, 0x09cc_a9eb_60ac_8948),
    ])
    func `a person's mark is as specified`(id: String, kind: ErasedPeople.Kind, mark: UInt64) {
        #expect(ErasedPeople.Person(id: Array(id.utf8), kind, key: Array(0..<32)).mark == mark)
    }

    @Test func `many people are told from many others, with marks and without`() {
        for hasMarks in [true, false] {
            let people = (0..<300).map { number in
                let person = ErasedPeople.Person(id: Array("u-\(number * 3)".utf8), .anon, key: Self.key)
                return hasMarks ? person : ErasedPeople.Person(digest: person.digest, mark: nil)
            }
            let erased = ErasedPeople(key: Self.key, people: [.anon: Set(people)])
            for number in 0..<900 {
                let id = Array("u-\(number)".utf8)
                #expect(id.withUnsafeBytes { erased.contains($0, .anon) } == (number % 3 == 0), "\(id)")
                #expect(!id.withUnsafeBytes { erased.contains($0, .user) })
            }
        }
    }

    @Test(arguments: [true, false])
    func `a person is known by ids with escapes and in lines that are cut`(hasMark: Bool) {
        let known = ErasedPeople.Person(id: Array("jos\u{e9}".utf8), .user, key: Self.key)
        let person = ErasedPeople.Person(digest: known.digest, mark: hasMark ? known.mark : nil)
        let people = ErasedPeople(key: Self.key, people: [.user: [person]])
        let reader = EventReader(
            source: SourceDescription(env: .prod, bundle: "b", isForeign: true, userMember: "who"), erased: people)
        let cases = [
            // What stands behind an escape that is cut off is no part of it.
            #"{"who":"jos\u0"e9"#: false, #"{"who":"jos\u00"9"#: false,
            #"{"who":"jos\u"00e9"#: false, #"{"who":"jos\u""#: false,
            #"{"time":1795165200,"who":"jos\u00e9"}"#: true, #"{"time":1795165200,"who":"jose"}"#: false,
            #"{"time":1795165200,"user":"josé"}"#: false, #"{"who":"josé""#: true, #"{"who" : "jos\u00e9","#: true,
        ]
        for (text, isErased) in cases {
            let reading = Array(text.utf8).withUnsafeBytes { reader.read($0) }
            #expect((reading == .quarantine(.erased)) == isErased, "\(text)")
        }
    }
}
