import Testing
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

/// Parts in pieces of every size, and the records that are cut out of them.
@Suite struct RecordCutterTests {
    private struct Cut: Hashable {
        let record: String
        let range: Range<Int>
    }

    private struct Part: Hashable {
        var cuts: [Cut] = []
        var header = ""
        var isDamaged = false

        var records: [String] { self.cuts.map(\.record) }
        var starts: [Int] { self.cuts.map(\.range.lowerBound) }
    }

    /// The part as a file that gives a reader at most so many bytes at once.
    private static func reader(
        _ bytes: [UInt8], pieceByteCount: Int, recordByteCountMax: Int = .max
    ) -> LineReader<MemoryDisk> {
        LineReader(byteCount: .max, lineByteCountMax: recordByteCountMax, files: MemoryDisk()) { offset, buffer in
            let piece = bytes[min(offset, bytes.count)...].prefix(min(pieceByteCount, buffer.count))
            buffer.copyBytes(from: piece)
            return piece.count
        }
    }

    private static func inPieces(_ bytes: [UInt8], _ format: RecordFormat, of byteCount: Int) -> Part {
        var cutter = RecordCutter(format)
        var part = Part()
        func visit(_ record: UnsafeRawBufferPointer, _ range: Range<Int>) {
            part.cuts.append(Cut(record: String(decoding: record, as: UTF8.self), range: range))
        }
        for start in stride(from: 0, to: bytes.count, by: byteCount) {
            bytes[start...].prefix(byteCount).withUnsafeBytes { cutter.take($0, visit) }
        }
        cutter.finish(visit)
        part.header = String(decoding: cutter.header, as: UTF8.self)
        part.isDamaged = cutter.isDamaged
        return part
    }

    private static func fromFile(_ bytes: [UInt8], _ format: RecordFormat, of byteCount: Int) throws -> Part {
        var cutter = RecordCutter(format)
        var reader = Self.reader(bytes, pieceByteCount: byteCount)
        var part = Part()
        while let record = try cutter.next(in: &reader) {
            part.cuts.append(Cut(record: String(decoding: record.bytes, as: UTF8.self), range: record.range))
        }
        part.header = String(decoding: cutter.header, as: UTF8.self)
        part.isDamaged = cutter.isDamaged
        return part
    }

    /// Cuts a part in pieces of each size, and from a file that is read in such pieces: the result is one.
    private static func cut(_ text: String, _ format: RecordFormat) throws -> Part {
        let bytes = Array(text.utf8)
        let whole = Self.inPieces(bytes, format, of: max(1, bytes.count))
        let sizes = bytes.count <= 200 ? Array(1...max(1, bytes.count)) : [1, 2, 3, 7, 64, 1000, bytes.count]
        for size in sizes {
            #expect(Self.inPieces(bytes, format, of: size) == whole, "in pieces of \(size)")
            #expect(try Self.fromFile(bytes, format, of: size) == whole, "from a file in pieces of \(size)")
        }
        return whole
    }

    /// A field of a journal entry whose value may hold any byte.
    private static func binary(_ name: String, _ value: String, stated: Int? = nil) -> String {
        var length = UInt64(stated ?? value.utf8.count)
        var text = name + "\n"
        for _ in 0..<8 {
            text.unicodeScalars.append(Unicode.Scalar(UInt8(truncatingIfNeeded: length)))
            length >>= 8
        }
        return text + value + "\n"
    }

    // MARK: Formats

    @Test func `a line is a record, also an empty one and a last one without a line feed`() throws {
        let part = try Self.cut("one\n\n\"three\r\nfour", .lines)
        #expect(part.records == ["one", "", "\"three\r", "four"])
        #expect(part.cuts.map(\.range) == [0..<4, 4..<5, 5..<13, 13..<17])
        #expect(try Self.cut("", .lines) == Part())
    }

    @Test func `a row ends with a line feed that is in no quotes, and the first is the header`() throws {
        let part = try Self.cut("\u{FEFF}a,b\r\n1,\"x\n\"\"\n,y\"\r\n\"\r\n\",2\r\n3,4", .rows)
        #expect(part.header == "\u{FEFF}a,b\r\n")
        #expect(part.records == ["1,\"x\n\"\"\n,y\"", "\"\r\n\",2", "3,4"])
        #expect(part.starts == [8, 21, 29])
        #expect(try Self.cut("\"a\nb\",c\r\n", .rows) == Part(header: "\"a\nb\",c\r\n"))
        #expect(try Self.cut("a,b", .rows) == Part(header: "a,b"))
    }

    @Test func `a row whose quotes are never closed has the rest of the part`() throws {
        let part = try Self.cut("a\r\n1\r\n\"2\r\n3\r\n4", .rows)
        #expect(part.records == ["1", "\"2\r\n3\r\n4"] && part.starts == [3, 6])
    }

    @Test(arguments: ["", "]\n"])
    func `an element comes without the punctuation of its array, open or closed`(end: String) throws {
        let part = try Self.cut("[{\"a\":[1]},\n{\"b\":2},{\"c\":3},\n{}" + end, .elements)
        #expect(part.records == ["{\"a\":[1]}", "{\"b\":2},{\"c\":3}", "{}"] && part.starts == [0, 12, 29])
    }

    @Test func `an array that was cut has nothing that is not in it`() throws {
        #expect(try Self.cut("[", .elements).records == [""])
        #expect(try Self.cut("[]\n", .elements).records == [""])
        #expect(try Self.cut("[{},\n", .elements).records == ["{}"])
        #expect(try Self.cut("[{},\n{\"a\":\"", .elements).records == ["{}", "{\"a\":\""])
    }

    @Test func `an entry ends with an empty line that is in no value`() throws {
        let lineFeeds = String(repeating: "\n", count: 10)
        let first = "A=1\n" + Self.binary("B", "x\n\nC=2\n\n") + Self.binary("D", "") + Self.binary("E", lineFeeds)
        let part = try Self.cut(first + "\n\n\nA=2\n\nA=3\n", .entries)
        let start = first.utf8.count + 3
        #expect(part.records == [first, "A=2\n", "A=3\n"])
        #expect(part.cuts.map(\.range) == [0..<(start - 2), start..<(start + 5), (start + 5)..<(start + 9)])
        #expect(!part.isDamaged)
    }

    @Test(arguments: [binary("B", "xyz", stated: 2), binary("B", "x", stated: 0), "=x\n", "=\n"])
    func `an entry that is not in the format ends with the next empty line`(field: String) throws {
        let part = try Self.cut("A=1\n\nA=2\n\(field)C\n\nA=3\n\n", .entries)
        #expect(part.records == ["A=1\n", "A=2\n\(field)C\n", "A=3\n"] && part.isDamaged)
    }

    @Test func `a value that is shorter than stated has the rest of the part`() throws {
        let rest = Self.binary("B", "x", stated: 1 << 40) + "\nA=2\n\n"
        let part = try Self.cut("A=1\n\n" + rest, .entries)
        #expect(part.cuts == [Cut(record: "A=1\n", range: 0..<5), Cut(record: rest, range: 5..<(5 + rest.utf8.count))])
    }

    // MARK: Writers

    @Test(
        arguments: [
            Destination.ga4, .mixpanel, .mixpanelProfiles, .amplitude, .segment, .posthog, .snowplow, .flurry, .csv,
            .syslog, .journald,
        ], ["golden-events.ndjson", "odd-events.ndjson", "traits-events.ndjson"])
    func `what a provider writes comes back record by record`(provider: Destination, events: String) throws {
        let written = export(lines(try vector(events)), ExportOptions(provider: provider)).records.map(\.text)
        let description = Exporter.description(of: provider)
        let format = RecordFormat(fileExtension: description.fileExtension)
        let frame = [description.header, description.separator, description.footer]
            .map { String(decoding: $0, as: UTF8.self) }
        let part = try Self.cut(frame[0] + written.joined(separator: frame[1]) + frame[2], format)
        let terminator = String(decoding: format.terminator, as: UTF8.self)
        #expect(part.records.map { $0 + terminator } == written && !part.isDamaged)
        #expect(part.header == (format == .rows ? frame[0] : ""))
        #expect(description.separator == format.separator && description.footer == format.footer)
    }

    @Test(arguments: RecordFormat.allCases)
    func `records that are framed again are the same part`(format: RecordFormat) throws {
        let records = ["{\"a\":1}", "{}"].map { format == .entries ? "A=\($0)\n" : $0 }
        let end = String(decoding: format.terminator, as: UTF8.self)
        let body = records.map { $0 + end }.joined(separator: String(decoding: format.separator, as: UTF8.self))
        let start = format == .rows ? Array("h\r\n".utf8) : format.start
        for footer in [[], format.footer] {
            let text = String(decoding: start + Array(body.utf8) + footer, as: UTF8.self)
            #expect(try Self.cut(text, format).records == records)
        }
    }

    // MARK: Files

    @Test func `a reader that is sent to the start of a record continues there`() throws {
        let parts: [(String, RecordFormat)] = [
            ("1\n2\n3\n", .lines), ("a\r\n\"1\n\"\r\n2\r\n", .rows), ("[1,\n2,\n3]\n", .elements),
            ("A=1\n\nA=2\n\n", .entries),
        ]
        for (text, format) in parts {
            let part = try Self.cut(text, format)
            var cutter = RecordCutter(format)
            var reader = Self.reader(Array(text.utf8), pieceByteCount: 4)
            for cut in part.cuts.reversed() {
                reader.seek(to: cut.range.lowerBound)
                #expect(try cutter.next(in: &reader).map { String(decoding: $0.bytes, as: UTF8.self) } == cut.record)
            }
        }
    }

    @Test func `a record of several lines is truncated as a whole, and the next begins where it does`() throws {
        var cutter = RecordCutter(.rows)
        var reader = Self.reader(Array("a\r\n\"12\n45\n\"\r\n6\r\n".utf8), pieceByteCount: 3, recordByteCountMax: 5)
        let first = try #require(try cutter.next(in: &reader))
        #expect(first.bytes == Array("\"12\n4".utf8) && first.range == 3..<13 && first.isTerminated)
        #expect(try cutter.next(in: &reader)?.bytes == [UInt8(ascii: "6")])
        #expect(try cutter.next(in: &reader)?.bytes == nil)
    }

    @Test func `an error of the file is not an end`() throws {
        let error = FileSystemError("read", path: "/part", errno: Errno.inputOutput)
        var cutter = RecordCutter(.lines)
        var reader = LineReader(byteCount: .max, lineByteCountMax: .max, files: MemoryDisk()) {
            offset, buffer throws(FileSystemError) in
            guard offset == 0 else { throw error }
            buffer[0] = UInt8(ascii: "x")
            return 1
        }
        do throws(FileSystemError) {
            _ = try cutter.next(in: &reader)
            Issue.record("it has no end")
        } catch {
            #expect(error.errno == Errno.inputOutput)
        }
    }
}
