import Testing
import WaybillSystem
import WaybillTail
import WaybillTestSupport

struct ForeignFormatTests {
    let files = FaultyFiles()

    private static func format(_ bytes: [UInt8]) -> ForeignFormat? {
        bytes.withUnsafeBytes { ForeignFormat(head: $0) }
    }

    private static func utf16(_ text: String, isBig: Bool, mark: Bool) -> [UInt8] {
        ((mark ? [0xFEFF] : []) + Array(text.utf16)).flatMap { unit in
            let bytes = [UInt8(unit & 0xFF), UInt8(unit >> 8)]
            return isBig ? bytes.reversed() : bytes
        }
    }

    @Test(
        arguments: [
            ("2026-11-22T09:00:00.123456789Z stdout F {\"a\":1}\n", .cri),
            ("2026-11-22T18:00:00.1+09:00 stderr P half\n", .cri),
            ("{\"log\":\"hello\\n\",\"stream\":\"stdout\",\"time\":\"2026-11-22T09:00:00Z\"}\n", .docker),
            ("{\n  \"a\": 1\n}\n", .prettyJSON), ("[\n  {\"a\": 1}\n]\n", .prettyJSON), ("[{\"a\":1}]\n", .prettyJSON),
            ("\u{FEFF}{\r\n\"a\":1}\r\n", .prettyJSON),
            ("time,name,user\n2026-11-22,\"a, b\",c\n", .csv), ("a;b\n1;2\n", .csv), ("a\tb\n1\t2\n", .csv),
            ("10.0.0.1 - - [22/Nov/2026] \"GET /\"\n10.0.0.2 - - [22/Nov/2026] \"GET /a, b\"\n", .text),
        ] as [(String, ForeignFormat)])
    func `a file is recognised by its first lines`(text: String, format: ForeignFormat) {
        #expect(Self.format(Array(text.utf8)) == format)
    }

    @Test(
        arguments: [
            "", "\n", "{\"a\":1}\n", "\u{FEFF}{\"a\":1}\r\n", "  {\"a\":1}\n", "not ended", "torn end of a line\n",
            "end\":1}\n{\"a\":1}\n", "{\"log\":\"x\",\"time\":\"2026-11-22T09:00:00Z\"}\n", "2026-11-22 stdout",
        ])
    func `what may be events is not`(text: String) {
        #expect(Self.format(Array(text.utf8)) == nil)
    }

    @Test func `UTF-16 has a mark or a zero in every second byte`() {
        for isBig in [true, false] {
            for mark in [true, false] {
                #expect(Self.format(Self.utf16("{\"a\":1}\n", isBig: isBig, mark: mark)) == .utf16)
            }
        }
        #expect(Self.format([UInt8](repeating: 0, count: 4096)) == nil)
        #expect(Self.format(Array("a\0b\0".utf8)) == nil)
    }

    @Test(
        arguments: [
            [0x1F, 0x8B, 0x08, 0x00], [0x28, 0xB5, 0x2F, 0xFD], [0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00],
            [0x42, 0x5A, 0x68, 0x39], [0x50, 0x4B, 0x03, 0x04], [0x04, 0x22, 0x4D, 0x18], [0x1F, 0x9D, 0x90],
            [0x37, 0x7A, 0xBC, 0xAF, 0x27, 0x1C],
        ] as [[UInt8]])
    func `compressed files begin with their magic bytes`(bytes: [UInt8]) {
        #expect(Self.format(bytes) == .compressed)
    }

    // MARK: In a tail

    private static let gzip: [UInt8] = [0x1F, 0x8B, 0x08, 0x00, 0x0A, 0x0A]

    private static func told(_ bench: TailBench<FaultyFiles>) -> [String] {
        bench.notices.compactMap { notice in
            switch notice {
            case .recognized(let path, let format): "\(path) \(format.rawValue)"
            case .refused(let path, let refusal): "\(path) refused \(refusal.rawValue)"
            case .compressed(let folder, let first, let count): "\(folder) \(count) compressed, first \(first)"
            case .cut(_, let path, _, _), .vanished(_, let path, _, _): "\(path) lost"
            default: nil
            }
        }
    }

    @Test func `a container's log is shipped and reported once`() throws {
        let bench = try TailBench(files)
        let line = "2026-11-22T09:00:00.1Z stdout F x\n"
        files.append("/log/a.log", line)
        files.append("/log/b.log", "{\"a\":1}\n")
        bench.settle()
        files.append("/log/a.log", line)
        bench.settle()
        #expect(Set(bench.texts) == [line + line, "{\"a\":1}\n"])
        #expect(Self.told(bench) == ["/log/a.log cri"])
        #expect(bench.withTail { $0.notices.formats } == [.cri: 1])
    }

    @Test func `a compressed file is not shipped, counted once, and not lost when it is deleted`() throws {
        let bench = try TailBench(files)
        files.place("/log/a.log", Self.gzip)
        bench.settle()
        bench.settle()
        #expect(bench.texts.isEmpty && bench.order.isEmpty)
        #expect(Self.told(bench) == ["/log/a.log refused compressed"])
        #expect(bench.withTail { $0.notices.refusals } == [.compressed: 1])
        #expect(bench.withTail { $0.fileCount } == 0)
        files.remove("/log/a.log")
        bench.settle()
        #expect(Self.told(bench).count == 1)
        #expect(bench.withTail { $0.openFileCount } == 0)
    }

    @Test func `compressed files whose names say it are told once for each folder`() throws {
        let kind = SourceConfiguration.Kind.files(patterns: ["/log/**"])
        let bench = try TailBench(files, sources: [SourceConfiguration(name: "logs", kind: kind)])
        for number in 1...20 { files.place("/log/a.log.\(number).gz", Self.gzip) }
        files.place("/log/b/x.zst", Self.gzip)
        files.place("/log/b/x", Self.gzip)
        // The name alone decides nothing.
        files.place("/log/b/text.gz", Array("{\"a\":1}\n".utf8))
        bench.settle()
        files.place("/log/a.log.21.gz", Self.gzip)
        bench.settle()
        #expect(
            Self.told(bench).sorted() == [
                "/log 20 compressed, first /log/a.log.1.gz", "/log/b 1 compressed, first /log/b/x.zst",
                "/log/b/x refused compressed",
            ])
        #expect(bench.withTail { $0.notices.refusals } == [.compressed: 23])
        #expect(bench.texts == ["{\"a\":1}\n"])
    }

    @Test func `a compressed file that is replaced by lines is shipped`() throws {
        let bench = try TailBench(files)
        files.place("/log/a.log", Self.gzip)
        bench.settle()
        files.place("/log/a.log", Array("{\"a\":1}\n{\"a\":2}\n".utf8))
        bench.settle()
        #expect(bench.texts == ["{\"a\":1}\n{\"a\":2}\n"])
    }

    @Test func `what cannot be read is counted as long as that lasts`() throws {
        let bench = try TailBench(files)
        files.append("/log/a.log", "{\"a\":1}\n")
        files.fail(.open, of: "/log/a.log", .error(13))
        bench.settle()
        #expect(bench.withTail { $0.notices.unreadable.map(\.text) } == ["/log/a.log"])
        files.fail(.open, of: "/log/a.log", nil)
        bench.settle()
        #expect(bench.withTail { $0.notices.unreadable }.isEmpty)
        #expect(bench.texts == ["{\"a\":1}\n"])
    }
}
