import Testing
import WaybillData
import WaybillExport
import WaybillProjection
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// The lives of a program that reads lines of which some end it.
private struct LoneBench {
    struct Death: Error {}

    let files = FaultyFiles()
    let data: DataDirectory<FaultyFiles>
    let stream = ProjectionBench.description(1).name
    let memory: LoneReader<FaultyFiles>.Memory
    var places = ReadingPlaces()
    var deathCount = 0
    /// Lines that were read in the last life, one string for each call.
    var read: [String] = []
    var told: [String] = []

    init(isUndecided: Bool = false) throws {
        let data = DataDirectory(root: "/data", files: self.files)
        try data.create()
        self.data = data
        self.memory =
            isUndecided
            ? LoneReader.Memory(undecidedIn: data, for: "live") : LoneReader.Memory(of: "live", in: data, for: "live")
    }

    /// - Returns: whether it came to the end.
    mutating func live(_ batches: [String], at first: Int = 0, isFault: Bool = true) throws -> Bool {
        var (read, told): ([String], [String]) = ([], [])
        defer { (self.read, self.told) = (read, told) }
        let places = self.places
        let lone = LoneReader(
            of: "live", in: self.data, memory: self.memory, places: places, version: "1.2.3",
            tell: { told.append($0) })
        var poison = try lone.reload()
        var left: ReadingPlaces?
        var offset = UInt64(first)
        for (number, batch) in batches.enumerated() {
            let bytes = Array(batch.utf8)
            let start = offset
            offset += UInt64(bytes.count)
            do throws(Death) {
                try bytes.withBytes { (bytes) throws(Death) in
                    try lone.read(
                        bytes, of: self.stream, from: start, at: number, use: { poison = $0 }
                    ) { lines, offset throws(Death) in
                        var text = ""
                        try lines.forEachLine { range throws(Death) in
                            let line = String(decoding: lines[range], as: UTF8.self)
                            let place = offset + UInt64(range.lowerBound)
                            guard poison?.readers(of: self.stream).has(place, for: "live") != true else { return }
                            guard !line.contains("!") else {
                                if isFault { places.place(of: "live-0").mark(signal: 11) }
                                left = ReadingPlaces(leftBy: places)
                                throw Death()
                            }
                            text += line
                        }
                        read.append(text)
                    }
                }
            } catch {
                self.places = left ?? self.places
                self.deathCount += 1
                return false
            }
        }
        self.places = ReadingPlaces(leftBy: places)
        return true
    }
}

@Suite struct LoneReaderTests {
    @Test func `a line that ends the program twice is left out, and everything else is read`() throws {
        var bench = try LoneBench()
        let batches = ["a\nb\n", "c\nd!\ne", "f\n"]
        for _ in 0..<2 { #expect(try !bench.live(batches)) }
        #expect(bench.read == ["ab", "c"])
        #expect(try bench.live(batches))
        #expect(bench.read == ["ab", "c", "", "e", "f"])
        #expect(bench.told.count == 1 && bench.told[0].contains("at 6 of stream"))
        // Later it is known, and the batch is read as a whole.
        bench.places = ReadingPlaces()
        #expect(try bench.live(batches))
        #expect(bench.read == ["ab", "ce", "f"])
        #expect(bench.deathCount == 2)
        // No one else leaves it out.
        #expect(try PoisonedLines.read(in: bench.data) == nil)
    }

    @Test func `what decides nothing leaves a line out for as long as it runs`() throws {
        var bench = try LoneBench(isUndecided: true)
        for _ in 0..<2 {
            for _ in 0..<2 { #expect(try !bench.live(["a\nb!\n"])) }
            #expect(try bench.live(["a\nb!\n"]))
            #expect(bench.read == ["a", ""] && bench.told.count == 1)
        }
        #expect(try PoisonedLines.read(in: bench.data) == nil)
    }

    @Test func `a kill leaves nothing out, and is told`() throws {
        var bench = try LoneBench()
        for _ in 0..<4 { #expect(try !bench.live(["a\nb!\n"], isFault: false)) }
        #expect(bench.told.count == 1 && bench.told[0].hasPrefix("3 starts in a row"))
        #expect(bench.told[0].contains("the last one at 2"))
        #expect(try bench.live(["a\nb\n"]))
        #expect(bench.read == ["a", "b"])
        // What was read to its end is not suspected any more.
        #expect(try bench.live(["a\nb\n"]))
        #expect(bench.read == ["ab"])
        #expect(!bench.places.hasFindings)
    }

    @Test func `a receiver's own lines are left out, too, and a folder that refuses loses the others`() throws {
        var bench = try LoneBench()
        let line = PoisonedLine(
            reader: PoisonOffsets.archive, stream: bench.stream, offset: 2, byteCount: 0, signal: 11, version: "1",
            at: .unknown)
        _ = try PoisonedLines.add(line, in: bench.data)
        #expect(try bench.live(["a\nb!\nc\n"]))
        #expect(bench.read == ["ac"])
        for _ in 0..<2 { #expect(try !bench.live(["a\nb!\nc!\n"])) }
        bench.files.setFaults { call in
            call.isChange && call.path.contains("readers.live.lines") ? .error(Errno.noSpace) : nil
        }
        #expect(try bench.live(["a\nb!\nc!\n"]))
        #expect(bench.told.count == 2 && bench.told[1].hasSuffix("the line is left out until the program ends"))
    }
}
