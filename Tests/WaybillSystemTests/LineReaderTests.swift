import Testing
import WaybillTestSupport

@testable import WaybillSystem

@Suite struct LineReaderTests {
    private static func disk(_ text: String) -> MemoryDisk {
        let disk = MemoryDisk()
        disk.place("/lines", Array(text.utf8))
        return disk
    }

    @Test func `lines come with where they stand, and the last may lack its line feed`() throws {
        var reader = try LineReader(path: "/lines", files: Self.disk("one\n\nthree"))
        var lines: [(String, Range<Int>, Bool)] = []
        while let line = try reader.next() {
            lines.append((String(decoding: line.bytes, as: UTF8.self), line.range, line.isTerminated))
        }
        #expect(lines.map(\.0) == ["one", "", "three"])
        #expect(lines.map(\.1) == [0..<4, 4..<5, 5..<10] && lines.map(\.2) == [true, true, false])
    }

    @Test func `a reader of a path closes its file`() throws {
        let disk = Self.disk("one\n")
        do {
            var reader = try LineReader(path: "/lines", files: disk)
            #expect(try reader.next() != nil && disk.openDescriptorCount == 1)
        }
        #expect(disk.openDescriptorCount == 0)
    }

    @Test func `a reader of an open file continues where it is sent, and leaves the file open`() throws {
        let disk = Self.disk("one\n" + String(repeating: "x", count: 200_000) + "\nthree\n")
        let file = try disk.open("/lines", .read)
        do {
            var reader = LineReader(file, files: disk)
            #expect(try reader.next()?.bytes == Array("one".utf8))
            #expect(try reader.next()?.bytes.count == 200_000)
            reader.seek(to: 4 + 200_001)
            #expect(try reader.next()?.bytes == Array("three".utf8))
            reader.seek(to: 0)
            #expect(try reader.next()?.bytes == Array("one".utf8))
        }
        #expect(try disk.status(file).byteCount == 4 + 200_001 + 6)
        disk.close(file)
    }
}
