import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail
import WaybillTestSupport

/// Receivers that say how many bytes of a stream were skipped.
struct TailSkipTests {
    private static let segmentID = "0195505e-aaaa-7000-8000-0000000000aa-00000000000000000001"
    private let files = FaultyFiles()
    private let segment = "/spool/\(Self.segmentID).ndjson"

    private func bench() throws -> TailBench<FaultyFiles> {
        var limits = TailLimits()
        limits.lineByteCountMax = 10
        return try TailBench(files, limits: limits)
    }

    @Test(arguments: [true, false], [16, 8, 1] as [UInt64])
    func `a segment of which someone skipped bytes stays, although its last bytes are proved`(
        isSealed: Bool, skippedByteCount: UInt64
    ) throws {
        let bench = try bench()
        let text = "one\ntwo\nsix\nten\n"
        files.append(segment, text)
        bench.received[Self.segmentID] = Array(text.utf8)
        bench.skippedCounts[Self.segmentID] = skippedByteCount
        if isSealed { bench.sealed.insert(Self.segmentID) }
        bench.settle()
        #expect(Set(bench.disputed) == [Self.segmentID])
        #expect(files.bytes(of: segment) == Array(text.utf8))
        #expect(bench.sealed.contains(Self.segmentID) == isSealed, "it does not end what it disputes")
        let told = bench.notices.compactMap { notice -> UInt64? in
            if case .segmentDisputed(_, _, _, _, let count) = notice { count } else { nil }
        }
        #expect(Set(told) == [skippedByteCount])
        // Another receiver gets every byte.
        var other = BenchStore(receiver: BenchReceiver(name: "other"))
        bench.exchange(with: &other)
        bench.settle()
        #expect(bench.texts == [text])
        #expect(!files.exists(segment))
    }

    @Test(arguments: [
        "one\nto", "long line of text\n", "one\nlong line of text\ntwo\nanother long line\nto", "all too long",
    ])
    func `an agent's own skips let it delete the segment, also without its registry`(text: String) throws {
        for forgets in [false, true] {
            let files = FaultyFiles()
            var limits = TailLimits()
            limits.lineByteCountMax = 10
            let bench = try TailBench(files, limits: limits)
            files.append(segment, text)
            bench.holdsSeals = true
            bench.settle()
            #expect(bench.skippedCounts[Self.segmentID] ?? 0 > 0)
            #expect(files.exists(segment))
            // The receiver sealed it; the agent did not hear that.
            bench.holdsSeals = false
            bench.sealed.insert(Self.segmentID)
            if forgets {
                bench.kill()
                if files.exists(bench.registryPath) { files.remove(bench.registryPath) }
                try bench.start()
            } else {
                bench.loseConnection()
            }
            bench.settle()
            #expect(bench.disputed == [])
            #expect(!files.exists(segment))
        }
    }

    @Test func `own skips explain as many bytes, and no more`() throws {
        for excess in [0, 1] as [UInt64] {
            let files = FaultyFiles()
            var limits = TailLimits()
            limits.lineByteCountMax = 10
            let bench = try TailBench(files, limits: limits)
            let text = "one\nlong line of text\ntwo\nto"
            files.append(segment, text)
            files.append("/state/quarantine/\(Self.segmentID)-4.line", "long line of text\n")
            bench.received[Self.segmentID] = Array(text.utf8)
            bench.sealed.insert(Self.segmentID)
            bench.skippedCounts[Self.segmentID] = 18 + 2 + excess
            bench.settle()
            #expect(files.exists(segment) == (excess > 0))
            #expect(bench.disputed.isEmpty == (excess == 0))
        }
    }

    @Test func `a line that someone else skipped, and of which there is no copy, is not given up`() throws {
        let bench = try bench()
        let text = "one\nlong line of text\ntwo\n"
        files.append(segment, text)
        files.append("/state/quarantine/\(Self.segmentID)0-4.line", "of another stream\n")
        files.append("/state/quarantine/\(Self.segmentID)-4.line.new", "unfinished")
        bench.received[Self.segmentID] = Array(text.utf8)
        bench.sealed.insert(Self.segmentID)
        bench.skippedCounts[Self.segmentID] = 18
        bench.settle()
        #expect(files.exists(segment))
        #expect(Set(bench.disputed) == [Self.segmentID])
    }

    @Test func `a log continues, whatever was skipped`() throws {
        let bench = try bench()
        files.append("/log/a.log", "one\n")
        bench.run()
        let id = bench.order[0]
        bench.skippedCounts[id] = 4
        bench.loseConnection()
        files.append("/log/a.log", "two\n")
        bench.settle()
        #expect(bench.texts == ["one\ntwo\n"])
        #expect(bench.disputed == [])
    }
}
