import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct TailLineTests {
    let files = FaultyFiles()

    private func bench(lineByteCountMax: Int, perRead: Int = 64 << 20) throws -> TailBench<FaultyFiles> {
        var limits = TailLimits()
        limits.lineByteCountMax = lineByteCountMax
        limits.overlongByteCountPerRead = perRead
        return try TailBench(files, limits: limits)
    }

    @Test(arguments: [1, 7, 8, 9, 64, 1000])
    func `batches hold whole lines, whatever their size`(byteCountMax: Int) throws {
        let bench = try bench(lineByteCountMax: 1000)
        var text = ""
        for length in [0, 1, 7, 8, 9, 15, 16, 17, 63, 500, 999, 3] {
            text += String(repeating: "x", count: length) + "\n"
        }
        files.append("/log/a.log", text)
        bench.scan()
        bench.ship(byteCountMax: byteCountMax)
        #expect(bench.texts == [text])
        #expect(bench.skipped == [:])
    }

    @Test(arguments: [64 << 10, 1 << 20, (1 << 20) + 1, 8 << 20])
    func `a long line is shipped or set aside, and the next one is intact`(length: Int) throws {
        let bench = try bench(lineByteCountMax: 1 << 20)
        let line = String(repeating: "x", count: length - 1) + "\n"
        files.append("/log/a.log", "before\n" + line + "after\n")
        bench.run()
        let id = bench.order[0]
        let isTooLong = length > 1 << 20
        #expect(bench.skipped[id] == (isTooLong ? ["7+\(length) too-long"] : nil))
        let received = try #require(bench.received[id])
        #expect(received.count == length + 13)
        #expect(Array(received.suffix(6)) == Array("after\n".utf8))
        let copy = files.bytes(of: "/state/quarantine/\(id)-7.line")
        #expect(copy == (isTooLong ? Array(line.utf8) : nil))
    }

    @Test
    func `an over-long line that is still growing is copied once and skipped when it ends`() throws {
        let bench = try bench(lineByteCountMax: 100, perRead: 1)
        files.append("/log/a.log", "head\n")
        bench.run()
        for _ in 0..<50 {
            files.append("/log/a.log", String(repeating: "y", count: 70_000))
            bench.scan()
            bench.ship()
        }
        #expect(bench.skipped == [:])
        files.append("/log/a.log", "\nnext\n")
        bench.run()
        let id = bench.order[0]
        #expect(bench.skipped[id] == ["5+3500001 too-long"])
        #expect(files.bytes(of: "/state/quarantine/\(id)-5.line")?.count == 3_500_001)
        #expect(bench.received[id]?.suffix(5) == Array("next\n".utf8)[...])
    }

    @Test
    func `the copy of an endless line is bounded, and the line is reported while it grows`() throws {
        var limits = TailLimits()
        limits.lineByteCountMax = 1000
        limits.overlongCopyByteCountMax = 2000
        let bench = try TailBench(files, limits: limits)
        files.append("/log/a.log", "head\n")
        bench.run()
        for _ in 0..<64 {
            files.append("/log/a.log", String(repeating: "y", count: 1000))
            bench.scan()
            bench.ship()
        }
        let id = bench.order[0]
        #expect(files.bytes(of: "/state/quarantine/\(id)-5.line.new")?.count == 2000)
        func lengths() -> [Int] {
            bench.notices.compactMap { if case .tooLongSoFar(_, _, 5, let length) = $0 { length } else { nil } }
        }
        #expect(lengths() == [1000, 2000, 4000, 8000, 16000, 32000, 64000])
        files.append("/log/a.log", "\nnext\n")
        bench.run()
        #expect(bench.skipped[id] == ["5+64001 too-long"])
        #expect(files.bytes(of: "/state/quarantine/\(id)-5.line")?.count == 2000)
        #expect(
            bench.notices.contains {
                if case .tooLong(_, 5, 64001, keptByteCount: 2000, _) = $0 { true } else { false }
            })
        #expect(bench.received[id]?.suffix(5) == Array("next\n".utf8)[...])
    }

    @Test
    func `an over-long last line of a deleted file is set aside too`() throws {
        let bench = try bench(lineByteCountMax: 10)
        files.append("/log/a.log", "head\n0123456789abc")
        bench.run()
        files.remove("/log/a.log")
        bench.settle()
        #expect(bench.skipped[bench.order[0]] == ["5+13 too-long"])
        #expect(bench.sealed.count == 1)
    }

    @Test
    func `nothing is skipped while the quarantine folder takes nothing`() throws {
        let bench = try bench(lineByteCountMax: 10)
        files.append("/log/a.log", "0123456789abc\nnext\n")
        bench.scan()
        let id = bench.withTail { tail in tail.streams.map { tail.id(of: $0) } }[0]
        files.fail(.write, of: "/state/quarantine/\(id)-0.line.new", .error(28))
        bench.run()
        #expect(bench.skipped == [:])
        #expect(bench.notices.contains { if case .quarantineFailed = $0 { true } else { false } })
        files.fail(.write, of: "/state/quarantine/\(id)-0.line.new", nil)
        bench.run()
        #expect(bench.skipped[id.description] == ["0+14 too-long"])
        #expect(bench.received[id.description]?.suffix(5) == Array("next\n".utf8)[...])
    }

    @Test
    func `a line that was set aside stays so when another receiver asks for it on a full disk`() throws {
        let bench = try bench(lineByteCountMax: 10)
        files.append("/log/a.log", "0123456789abc\nnext\n")
        bench.run()
        let id = bench.order[0]
        let path = "/state/quarantine/\(id)-0.line"
        #expect(files.bytes(of: path) == Array("0123456789abc\n".utf8))
        files.fail(.write, of: path + ".new", .error(28))
        bench.received[id] = []
        bench.receiverCameBackOlder()
        bench.run()
        #expect(bench.notices.contains { if case .quarantineFailed = $0 { true } else { false } })
        #expect(files.bytes(of: path) == Array("0123456789abc\n".utf8))
    }

    @Test
    func `bytes pass through as they are`() throws {
        let bench = try TailBench(files)
        var bytes: [UInt8] = [0xEF, 0xBB, 0xBF, 0x00, 0x0D, 0x0A, 0xFF, 0xFE, 0x80, 0x0A, 0x0A, 0x00, 0x0A]
        bytes += (0...255).map { UInt8($0) } + [0x0A]
        files.append("/log/a.log", bytes)
        bench.run()
        #expect(bench.received[bench.order[0]] == bytes)
    }

    @Test
    func `a failed read is repeated after the next scan`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "one\n")
        bench.run()
        files.append("/log/a.log", "two\n")
        files.fail(.read, of: "/log/a.log", .error(5))
        bench.run()
        #expect(bench.texts == ["one\n"])
        files.fail(.read, of: "/log/a.log", nil)
        bench.run()
        #expect(bench.texts == ["one\ntwo\n"])
    }
}
