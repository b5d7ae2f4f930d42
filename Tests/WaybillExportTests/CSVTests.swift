import Testing
import WaybillExport
import WaybillServerTestSupport
import WaybillSystem

@Suite struct CSVTests {
    private func rows(_ lines: [String], _ change: (inout CSVOptions) -> Void = { _ in }) -> RecordingSink {
        var options = ExportOptions(provider: .csv)
        change(&options.csv)
        return export(lines, options)
    }

    /// A string literal of JSON with nothing but escapes, so that the test's input is beyond doubt.
    private static func literal(_ text: String) -> String {
        "\"" + text.utf16.map { "\\u" + Hexadecimal.text($0, digitCount: 4) }.joined() + "\""
    }

    private static func unguarded(_ cell: String) -> String {
        cell.unicodeScalars.first == "'" ? String(cell.unicodeScalars.dropFirst()) : cell
    }

    /// Undoes `k=v;k=v`.
    private static func pairs(_ cell: String) -> [[String]] {
        var pairs: [[String]] = [[""]]
        var scalars = Array(cell.unicodeScalars)[...]
        while let scalar = scalars.popFirst() {
            let last = pairs[pairs.count - 1].count - 1
            switch scalar {
            case ";": pairs.append([""])
            case "=": pairs[pairs.count - 1].append("")
            case "\\":
                let escaped = scalars.popFirst() ?? "?"
                let plain: Unicode.Scalar = escaped == "r" ? "\r" : escaped == "n" ? "\n" : escaped
                pairs[pairs.count - 1][last].unicodeScalars.append(plain)
            default: pairs[pairs.count - 1][last].unicodeScalars.append(scalar)
            }
        }
        return pairs
    }

    @Test(arguments: UInt64(1)...4)
    func `random text survives the way into a cell and back`(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let alphabet = Array("=+-@\t\r\n'\",;\\ a한😀＝＋－＠".unicodeScalars)
        func text() -> String {
            var text = String.UnicodeScalarView()
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                text.append(alphabet[Int.random(in: 0..<alphabet.count, using: &random)])
            }
            return String(text)
        }
        for index in 1...3000 {
            let (name, screen, key, value) = (text(), text(), text(), text())
            let line = event(
                name: "n", id: index,
                members:
                    ",\"screen\":\(Self.literal(screen)),\"data\":{\(Self.literal(key)):\(Self.literal(value)),\"z\":1}"
            )
            .replacingFirst("\"name\":\"n\"", with: "\"name\":\(Self.literal(name))")
            let record = try #require(self.rows([line]).records.first)
            let cells = try #require(PlainCSV.row(record.text), "\(record.text)")
            let plain = cells.map(Self.unguarded)
            let expected = [Array(name.utf8), Array(screen.utf8)]
            #expect([Array(plain[4].utf8), Array(plain[5].utf8)] == expected)
            let pairs = Self.pairs(plain[6]).map { $0.map { Array($0.utf8) } }
            let names =
                key == "z"
                ? [[Array("z".utf8), Array(value.utf8)]] : [[Array(key.utf8), Array(value.utf8)], [[0x7A], [0x31]]]
            #expect(pairs == names)
            #expect(RecordChecks.csv(record).isEmpty)
        }
    }

    @Test(arguments: [
        ("=1", "'=1"), ("+1", "'+1"), ("-1", "'-1"), ("@a", "'@a"), ("'a", "''a"), ("＝a", "'＝a"), ("＠", "'＠"),
        ("\t", "'\t"), ("a=1", "a=1"), (" a", "\" a\""), ("a ", "\"a \""), ("=a,b", "\"'=a,b\""), ("＝", "'＝"),
        ("ﾡ", "ﾡ"), ("a\"b", "\"a\"\"b\""),
    ])
    func `a cell is guarded and quoted as it must be`(name: String, cell: String) {
        let line = event(name: "n").replacingFirst("\"name\":\"n\"", with: "\"name\":\(Self.literal(name))")
        #expect(self.rows([line]).output == "2025-03-01 09:14:19,,,,\(cell),,\r\n")
    }

    @Test func `options change the row`() {
        let line = event(members: ",\"tz\":540,\"data\":{\"a\":1,\"b\":\"=x\"}")
        #expect(
            self.rows([line]) { $0.hasMilliseconds = true }.output == "2025-03-01 09:14:19.003,,,,tap,,a=1;b=\\=x\r\n")
        #expect(self.rows([line]) { $0.zone = .event }.output == "2025-03-01 18:14:19,,,,tap,,a=1;b=\\=x\r\n")
        #expect(self.rows([line]) { $0.others = .columns }.output == "2025-03-01 09:14:19,,,,tap,,a=1,b=\\=x\r\n")
        #expect(
            self.rows([line]) { $0.hasID = true }.output
                == "2025-03-01 09:14:19,,,,tap,,a=1;b=\\=x,019550fc-2dfb-7b1c-82d3-000000000001\r\n")
        let user = event(name: "x", kind: "user", members: ",\"traits\":{\"tier\":\"A\",\"gone\":null}")
        #expect(self.rows([user]).skipped == [.kind])
        #expect(self.rows([user]) { $0.includesUsers = true }.output == "2025-03-01 09:14:19,,,,set_user,,tier=A\r\n")
        #expect(self.rows([event(name: "=1")]) { $0.isGuarded = false }.output == "2025-03-01 09:14:19,,,,=1,,\r\n")
    }

    @Test func `the header is the first line of every part`() {
        var options = ExportOptions(provider: .csv)
        #expect(
            Exporter(options).description.header == Array("Time,AppVersion,OS,LogVersion,Event,View,Others\r\n".utf8))
        options.csv.hasByteOrderMark = true
        options.csv.hasID = true
        #expect(
            Exporter(options).description.header
                == [0xEF, 0xBB, 0xBF] + Array("Time,AppVersion,OS,LogVersion,Event,View,Others,Id\r\n".utf8))
    }

    @Test func `the last cell is cut where a pair ends`() throws {
        let long = String(repeating: "한", count: 16_380)
        let line = event(members: ",\"data\":{\"a\":\"\(long)\",\"b\":\"\(long)\",\"c\":1}")
        let sink = self.rows([line])
        let cells = try #require(PlainCSV.row(sink.output))
        #expect(cells[6] == "a=\(long);b=\(long)")
        #expect(sink.records.first?.fixes[.truncateValue] == 1)
        let fitting = event(members: ",\"data\":{\"a\":\"\(long)\",\"b\":\"\(long.dropLast(3))\"}")
        #expect(self.rows([fitting]).records.first?.fixes[.truncateValue] == 0)
    }

    @Test func `NUL is taken out and two fields of one name are one`() {
        let line = event(members: ",\"data\":{\"a\":\"x\\u0000y\",\"\\u0061\":2}")
        let sink = self.rows([line])
        #expect(sink.output == "2025-03-01 09:14:19,,,,tap,,a=xy\r\n")
        #expect(sink.records.first?.fixes[.coerce] == 1)
        #expect(sink.records.first?.fixes[.collide] == 1)
    }
}
