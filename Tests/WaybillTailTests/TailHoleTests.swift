import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTestSupport

@testable import WaybillTail

/// NULs that a writer without `O_APPEND` leaves before its next line, after its file was cut.
struct TailHoleTests {
    let files = FaultyFiles()

    private static func nuls(_ count: Int) -> String { String(repeating: "\0", count: count) }

    private func wait(_ bench: TailBench<FaultyFiles>, _ milliseconds: Int64) {
        for _ in 0..<(milliseconds / 500) {
            bench.advance(500)
            bench.run()
        }
    }

    private func holes(_ bench: TailBench<FaultyFiles>) -> [String] {
        bench.notices.compactMap {
            if case .hole(_, let path, let offset, let count) = $0 { "\(path) \(offset)+\(count)" } else { nil }
        }
    }

    /// Little is read at once: the buffer has 64 KiB, and a look ends after 100,000 bytes.
    private var small: TailLimits {
        var limits = TailLimits()
        limits.lineByteCountMax = 4096
        limits.overlongByteCountPerRead = 100_000
        return limits
    }

    @Test(arguments: [1, 40, 511, 512, 5_000, 65_536, 300_001])
    func `NULs before a line are skipped after 5 s, and the line is shipped`(count: Int) throws {
        let bench = try TailBench(files, limits: small)
        let text = Self.nuls(count) + "one\ntwo\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        wait(bench, 4_500)
        #expect(bench.skipped.isEmpty && bench.batches.isEmpty)
        wait(bench, 1_000)
        #expect(bench.skipped.values.flatMap { $0 } == ["0+\(count) hole"])
        #expect(bench.texts == [text])
        #expect(bench.batches.map(\.offset) == [count])
        #expect(holes(bench) == ["/log/a.log 0+\(count)"])
        #expect(files.names(in: "/state/quarantine").isEmpty)
        #expect(bench.losses.isEmpty)
        files.append("/log/a.log", "three\n")
        bench.run()
        #expect(bench.texts == [text + "three\n"])
    }

    @Test func `lines before the NULs are shipped at once, and each hole is told once for a content`() throws {
        let bench = try TailBench(files, limits: small)
        let text = "one\n" + Self.nuls(600) + "two\n" + Self.nuls(9_000) + "three\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        #expect(bench.texts == ["one\n"])
        wait(bench, 5_500)
        #expect(bench.texts == ["one\n" + Self.nuls(600) + "two\n"])
        wait(bench, 5_500)
        #expect(bench.texts == [text])
        #expect(bench.skipped.values.flatMap { $0 } == ["4+600 hole", "608+9000 hole"])
        #expect(holes(bench) == ["/log/a.log 4+600"])
    }

    @Test func `NULs are skipped also at a receiver that gets what is before them again`() throws {
        let bench = try TailBench(files, limits: small)
        let text = "one\n" + Self.nuls(6_000) + "two\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        // A look while the first line is on its way.
        bench.scan()
        wait(bench, 6_000)
        #expect(bench.texts == [text])
        #expect(bench.skipped.values.flatMap { $0 } == ["4+6000 hole"])
    }

    @Test(arguments: [3_000, 6_002, 6_008])
    func `a file that is cut within its NULs, or in the line behind them, keeps its content`(byteCount: Int) throws {
        let bench = try TailBench(files, limits: small)
        let text = "one\n" + Self.nuls(6_000) + "two\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        files.rewrite("/log/a.log", String(text.prefix(min(byteCount, text.utf8.count - 1))))
        bench.run()
        files.rewrite("/log/a.log", text)
        bench.run()
        wait(bench, 6_000)
        #expect(bench.texts == [text])
        #expect(bench.skipped.values.flatMap { $0 } == ["4+6000 hole"])
    }

    /// The length of the last scan is not what was read, and the file has it again later.
    @Test(arguments: [3_000, 6_006], [false, true])
    func `NULs that are read while their file is shorter are measured again`(byteCount: Int, isSeen: Bool) throws {
        let bench = try TailBench(files, limits: small)
        files.append("/log/a.log", "one\n")
        bench.run()
        let text = "one\n" + Self.nuls(6_000) + "two\n"
        files.append("/log/a.log", Self.nuls(6_000) + "two\n")
        bench.scan()
        files.rewrite("/log/a.log", String(text.prefix(byteCount)))
        bench.ship()
        if isSeen { bench.scan() }
        bench.advance(500)
        files.rewrite("/log/a.log", text)
        bench.scan()
        wait(bench, 6_000)
        #expect(bench.texts == [text])
        #expect(bench.skipped.values.flatMap { $0 } == ["4+6000 hole"])
        #expect(bench.losses.isEmpty)
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    @Test(arguments: [
        "one\n" + String(repeating: "\0", count: 511) + "two\n", "a\0\0b\n" + "two\n",
        "one" + String(repeating: "\0", count: 2_000) + "\ntwo\n", "\0{\0}\0\n\0{\0}\0\n",
    ])
    func `too few NULs, those in a line and UTF-16 are data`(text: String) throws {
        let bench = try TailBench(files)
        files.rewrite("/log/a.log", text)
        bench.run()
        #expect(bench.texts == [text])
        #expect(bench.skipped.isEmpty)
        #expect(bench.batches.count == 1)
    }

    @Test func `NULs without a whole line wait, and are not read again and again`() throws {
        let bench = try TailBench(files, limits: small)
        files.rewrite("/log/a.log", Self.nuls(300_000))
        wait(bench, 60_000)
        files.append("/log/a.log", "li")
        wait(bench, 60_000)
        #expect(bench.batches.isEmpty && bench.skipped.isEmpty)
        #expect(files.names(in: "/state/quarantine").isEmpty)
        #expect(bench.withTail { !$0.waitingHoles.isEmpty } == false)
        files.append("/log/a.log", "ne\n")
        wait(bench, 4_500)
        #expect(bench.skipped.isEmpty)
        wait(bench, 1_000)
        #expect(bench.texts == [Self.nuls(300_000) + "line\n"])
    }

    @Test(arguments: [0, 5_000])
    func `NULs that become bytes within 5 s are shipped as bytes`(start: Int) throws {
        let bench = try TailBench(files, limits: small)
        let nuls = Self.nuls(9_000)
        files.rewrite("/log/a.log", nuls + "two\n")
        bench.run()
        wait(bench, 3_000)
        let late = String(repeating: "x", count: 8_999 - start).split(by: 100) + "\n"
        files.rewrite("/log/a.log", Self.nuls(start) + late + "two\n")
        wait(bench, 12_000)
        #expect(bench.texts.last == Self.nuls(start) + late + "two\n")
        #expect(bench.skipped.values.flatMap { $0 } == (start == 0 ? [] : ["0+5000 hole"]))
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    /// Unread lines that were NULs, in a file that is shorter for a moment after that.
    @Test(arguments: [false, true], [false, true])
    func `NULs that become bytes are no loss in a file that has grown back`(isMeasured: Bool, isSeen: Bool) throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", Self.nuls(6_000) + "two\n")
        if isMeasured { bench.run() } else { bench.scan() }
        let text = "one\n" + String(repeating: "x", count: 5_999).split(by: 100) + "\n" + "two\n"
        files.rewrite("/log/a.log", text)
        if isSeen { bench.scan() }
        files.rewrite("/log/a.log", String(text.prefix(3_000)))
        bench.scan()
        bench.advance(500)
        files.rewrite("/log/a.log", text)
        bench.scan()
        wait(bench, 6_000)
        #expect(bench.texts == [text])
        #expect(bench.skipped.isEmpty && bench.losses.isEmpty)
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0)
    }

    @Test func `a restart in between begins the wait anew`() throws {
        let bench = try TailBench(files)
        let text = Self.nuls(9_000) + "one\n"
        files.rewrite("/log/a.log", text)
        wait(bench, 4_000)
        try bench.checkpoint()
        try bench.restart()
        wait(bench, 4_500)
        #expect(bench.skipped.isEmpty)
        wait(bench, 1_500)
        #expect(bench.texts == [text])
    }

    @Test(arguments: [false, true])
    func `where not every change is seen the wait is 30 s`(isPolled: Bool) throws {
        let sources = [SourceConfiguration(name: "app", kind: .files(patterns: ["/log/*.log"]), isPolled: isPolled)]
        let bench = try TailBench(files, sources: sources)
        bench.withTail { $0.areHintsComplete = isPolled }
        files.rewrite("/log/a.log", Self.nuls(9_000) + "one\n")
        bench.run()
        wait(bench, 29_000)
        #expect(bench.skipped.isEmpty)
        wait(bench, 1_500)
        #expect(bench.skipped.count == 1)
    }

    @Test(arguments: [4, 5_000])
    func `a line that is too long keeps its NULs in the quarantine`(count: Int) throws {
        let bench = try TailBench(files, limits: small)
        let text = Self.nuls(count) + String(repeating: "x", count: 5_000) + "\n"
        files.rewrite("/log/a.log", text + "two\n")
        bench.run()
        #expect(bench.skipped.values.flatMap { $0 } == ["0+\(text.utf8.count) too-long"])
        #expect(files.names(in: "/state/quarantine").count == 1)
        #expect(bench.texts.map { $0.hasSuffix("two\n") } == [true])
    }

    @Test func `a file that is deleted meanwhile is shipped to its end`() throws {
        let bench = try TailBench(files)
        let text = Self.nuls(9_000) + "one\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        files.remove("/log/a.log")
        wait(bench, 20_000)
        bench.settle()
        #expect(bench.texts == [text])
        #expect(bench.skipped.values.flatMap { $0 } == ["0+9000 hole"])
        #expect(bench.losses.isEmpty)
    }

    @Test func `a deleted file that has nothing but NULs is sealed as it is`() throws {
        let bench = try TailBench(files)
        files.rewrite("/log/a.log", Self.nuls(9_000))
        bench.run()
        files.remove("/log/a.log")
        wait(bench, 20_000)
        bench.settle()
        #expect(bench.texts == [Self.nuls(9_000)])
        #expect(bench.skipped.isEmpty)
        #expect(bench.sealed.count == 1)
    }

    @Test func `of a file that is cut meanwhile only the lines are lost`() throws {
        let bench = try TailBench(files)
        files.rewrite("/log/a.log", Self.nuls(9_000) + "one\n")
        bench.run()
        files.rewrite("/log/a.log", "")
        bench.run()
        #expect(bench.withTail { $0.notices.loss.byteCount } == 4)
        files.rewrite("/log/a.log", "two\n")
        bench.run()
        #expect(bench.texts.last == "two\n")
        #expect(bench.withTail { $0.notices.loss.byteCount } == 4)
    }

    @Test func `a refused skip is tried again`() throws {
        let bench = try TailBench(files)
        let text = Self.nuls(9_000) + "one\n"
        files.rewrite("/log/a.log", text)
        bench.run()
        bench.isSlow = true
        bench.advance(5_500)
        bench.scan()
        bench.ship()
        #expect(bench.skipped.values.flatMap { $0 } == ["0+9000 hole"])
        bench.refuse()
        bench.isSlow = false
        bench.run()
        wait(bench, 6_000)
        #expect(bench.texts == [text])
        #expect(bench.batches.last.map { String(decoding: $0.bytes, as: UTF8.self) } == "one\n")
        #expect(holes(bench).count == 1)
    }

    @Test func `a segment has no holes`() throws {
        let bench = try TailBench(files)
        let id = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
        files.append("/spool/\(id).ndjson", "one\n" + Self.nuls(600) + "two\n" + Self.nuls(700))
        bench.settle()
        #expect(bench.skipped == [id: ["608+700 torn-tail"]])
        #expect(bench.batches.map { String(decoding: $0.bytes, as: UTF8.self) } == ["one\n" + Self.nuls(600) + "two\n"])
        #expect(holes(bench).isEmpty)
    }

    @Test func `copytruncate without O_APPEND, again and again, loses nothing`() throws {
        let bench = try TailBench(files)
        var offset = 0
        var lines: [String] = []
        for round in 0..<6 {
            var text = Self.nuls(offset)
            for number in 0..<40 {
                lines.append("{\"round\":\(round),\"number\":\(number)}\n")
                text += lines[lines.count - 1]
            }
            files.rewrite("/log/a.log", text)
            offset = text.utf8.count
            wait(bench, 6_000)
        }
        let shipped = bench.batches.map { String(decoding: $0.bytes, as: UTF8.self) }.joined()
        #expect(shipped == lines.joined())
        #expect(bench.withTail { $0.notices.loss.byteCount } == 0)
        #expect(files.names(in: "/state/quarantine").isEmpty)
        #expect(holes(bench).count == 5)
    }
}

/// A sparse file of the operating system.
struct TailSparseFileTests {
    @Test(arguments: [true, false])
    func `a hole costs no reading, and NULs that are stored are read in parts`(isSparse: Bool) throws {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let files = POSIXFileSystem()
        let size = isSparse ? 500_000_000 : 5_000_000
        let path = folder + "/a.log"
        let file = try files.open(path, .append)
        if isSparse { try files.truncate(file, to: size) }
        if !isSparse { try files.writeAll(file, [UInt8](repeating: 0, count: size)) }
        try files.writeAll(file, Array("one\ntwo\n".utf8))
        files.close(file)
        var limits = TailLimits()
        limits.overlongByteCountPerRead = 1 << 20
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: limits.lineByteCountMax, alignment: 16)
        defer { buffer.deallocate() }
        var tail = Tail(
            fileSystem: files, registry: try StateLog(path: folder + "/registry", files: files),
            agent: try #require(AgentName("agent")),
            sources: [SourceConfiguration(name: "app", kind: .files(patterns: [folder + "/*.log"]))],
            quarantineDirectory: folder, limits: limits)
        let receiver = BenchReceiver(name: "bench")
        var reads: [TailRead] = []
        var lookCount = 0
        for second in [0, 1, 4, 6] as [Int64] {
            let now = TailTime(
                monotonic: MonotonicTime(nanoseconds: second * 1_000_000_000),
                wall: WallTime(milliseconds: 1_790_000_000_000 + second * 1000))
            tail.scan(now)
            if second == 0 { _ = try tail.receiverMet(receiver.identity, at: receiver.address, of: nil, now) }
            while let key = tail.nextReady() {
                let read = tail.nextBatch(for: key, byteCountMax: 1 << 16, into: buffer, now)
                if read == .unpositioned {
                    #expect(tail.positionLearned(key, at: 0, .empty) == .goOn)
                    tail.readingPostponed(key)
                } else if read == .nothing {
                    lookCount += 1
                } else {
                    reads.append(read)
                }
            }
        }
        #expect(isSparse ? lookCount < 4 : (8...20).contains(lookCount))
        let hole = SkippedRange(
            offset: StreamOffset(0), byteCount: UInt64(size), reason: .hole, tail: [UInt8](repeating: 0, count: 512))
        #expect(
            reads == [
                .skip(try #require(hole)),
                .batch(offset: size, rawByteCount: 8, lineCount: 2, isFinalUnterminated: false),
            ])
    }

    @Test func `data is found behind a hole, and none at the end`() throws {
        let folder = try makeFolder()
        defer { removeFolder(folder) }
        let files = POSIXFileSystem()
        let file = try files.open(folder + "/a", .append)
        defer { files.close(file) }
        #expect(try files.seekData(file, from: 0) == nil)
        try files.truncate(file, to: 1 << 20)
        try files.writeAll(file, [1])
        let data = try #require(try files.seekData(file, from: 0))
        #expect((0...(1 << 20)).contains(data))
        #expect(try files.seekData(file, from: 1 << 20) == 1 << 20)
        #expect(try files.seekData(file, from: (1 << 20) + 1) == nil)
        #expect(try files.seekData(file, from: 1 << 21) == nil)
    }
}

extension String {
    /// Lines of so many characters.
    fileprivate func split(by count: Int) -> String {
        String(self.enumerated().map { $0.offset % count == count - 1 ? "\n" : $0.element })
    }
}
