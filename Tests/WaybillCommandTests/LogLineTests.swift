import Logging
import Testing
import WaybillHost
import WaybillJSON
import WaybillSystem

@testable import WaybillCommands

@Suite struct LogLineTests {
    private static let time = WallTime(milliseconds: 1_740_820_455_926)

    private static func line(
        _ level: Logger.Level, _ notice: Notice? = nil, _ message: String = "a thing", _ fields: Logger.Metadata = [:]
    ) -> LogLine {
        LogLine(level: level, part: "receiver", notice: notice, message: message, fields: fields)
    }

    private static let fields: Logger.Metadata = [
        "count": .number(UInt8(7)), "share": .stringConvertible(0.5), "is_on": .stringConvertible(true),
        "took_s": .seconds(.milliseconds(1250)), "text": "1", "path": "/a b",
        "nested": ["list": ["x", .number(2)], "flag": .stringConvertible(false)],
        "summary": .object("{\"lines\":3}"), "none": .stringConvertible(Double.nan),
    ]

    @Test func `JSON has typed values`() {
        #expect(
            Self.line(.info, nil, "a \"thing\"", Self.fields).text(in: .json, at: Self.time, repeatedCount: 0)
                == """
                {"ts":"2025-03-01T09:14:15.926Z","level":"info","part":"receiver","message":"a \\"thing\\"","count":7,\
                "is_on":true,"nested":{"flag":false,"list":["x",2]},"none":"nan","path":"/a b","share":0.5,\
                "summary":{"lines":3},"text":"1","took_s":1.25}
                """)
    }

    @Test func `text is a sentence with members`() {
        #expect(
            Self.line(.warning, .journalDamaged, "a thing", Self.fields)
                .text(in: .text, at: Self.time, repeatedCount: 41)
                    == """
                    2025-03-01T09:14:15.926Z warning WB1004 receiver: a thing count=7 is_on=true \
                    nested={flag=false list=[x,2]} none=nan path="/a b" repeated=41 share=0.5 summary={"lines":3} text=1 \
                    took_s=1.25
                    """)
    }

    @Test(
        arguments: zip(
            [Logger.Level.critical, .error, .warning, .notice, .info, .debug, .trace], [2, 3, 4, 5, 6, 7, 7]))
    func `the journal gets priorities`(level: Logger.Level, priority: Int) {
        #expect(
            Self.line(level).text(in: .journal, at: Self.time, repeatedCount: 0) == "<\(priority)>receiver: a thing")
    }

    @Test(arguments: [LogFormat.text, .journal])
    func `what peers and paths say neither begins a line nor reaches a terminal`(format: LogFormat) {
        let hostile = "a\n<0>b\u{1B}[2J\r\u{7F}"
        let text = Self.line(.error, .inUse, hostile, ["path": "\(hostile)"])
            .text(in: format, at: Self.time, repeatedCount: 0)
        #expect(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F })
        #expect(text.hasSuffix("WB4003 receiver: a <0>b?[2J?? path=\"a <0>b?[2J??\""))
    }

    @Test func `a line of JSON is one line with any text`() throws {
        let text = Self.line(.error, .inUse, "a\nb\u{1B}", ["k\n": "v\u{0}\u{2028}"])
            .text(in: .json, at: Self.time, repeatedCount: 2)
        #expect(!text.contains("\n"))
        let value = try #require(JSONValue(Array(text.utf8)))
        #expect(value["id"]?.string == "WB4003")
        #expect(value["message"]?.string == "a\nb\u{1B}")
        #expect(value["k\n"]?.string == "v\u{0}\u{2028}")
        #expect(value["repeated"]?.integer == 2)
    }
}

@Suite struct LogFormatTests {
    @Test(
        arguments: [
            ("5:77", 5, 77, false, LogFormat.journal), ("5:77", 5, 77, true, .journal), ("5:77", 5, 78, false, .json),
            ("5:77", 6, 77, true, .text), ("5:77 ", 5, 77, false, .json), ("", 5, 77, false, .json),
        ] as [(String, UInt64, UInt64, Bool, LogFormat)])
    func `the journal is recognized by device and inode`(
        stream: String, device: UInt64, inode: UInt64, isTerminal: Bool, expected: LogFormat
    ) {
        #expect(LogFormat.suiting(journalStream: stream, (device, inode), isTerminal) == expected)
    }

    @Test func `without the variable or without standard error it is no journal`() {
        #expect(LogFormat.suiting(journalStream: nil, (5, 77), true) == .text)
        #expect(LogFormat.suiting(journalStream: "5:77", nil, false) == .json)
    }

    @Test func `each format can be chosen`() {
        #expect(LogFormatChoice.text.format == .text)
        #expect(LogFormatChoice.json.format == .json)
        #expect(LogFormatChoice.journal.format == .journal)
    }
}
