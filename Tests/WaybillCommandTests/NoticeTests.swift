import ArgumentParser
import Testing
import WaybillHost
import WaybillSystem

@testable import WaybillCommands

@Suite struct NoticeTests {
    @Test func `each notice has a text of sentences`() {
        for notice in Notice.allCases {
            let text = notice.text
            #expect(!text.title.isEmpty && !text.title.hasSuffix("."), "\(notice)")
            for sentence in [text.cause, text.effect, text.remedy] {
                #expect(sentence.hasSuffix("."), "\(notice): \(sentence)")
                #expect(sentence.first.map { !$0.isLowercase || sentence.hasPrefix("in-use") } == true, "\(notice)")
                // It stands in a table.
                #expect(!sentence.contains("|") && !sentence.contains("\n"), "\(notice)")
            }
        }
        #expect(Set(Notice.allCases.map(\.text.title)).count == Notice.allCases.count - 1, "two reloads are refused")
    }

    @Test func `identifiers have four digits and are never used again`() {
        for notice in Notice.allCases {
            #expect((1000...9999).contains(notice.rawValue))
            #expect(!Notice.retired.contains(notice.rawValue), "\(notice) was retired")
            #expect(Notice(id: notice.id) == notice)
            #expect(Notice(id: notice.id.lowercased()) == notice)
        }
    }

    @Test(arguments: ["", "WB", "1203", "WB12031", "WB0001", "WB+120", "WC1203", "WB120３"])
    func `what is no identifier is none`(id: String) {
        #expect(Notice(id: id) == nil)
    }
}

@Suite struct ExitStatusTests {
    @Test func `the page has the table`() throws {
        let page =
            #filePath.split(separator: "/").dropLast(3).reduce("") { "\($0)/\($1)" } + "/Documentation/run.md"
        let bytes = try #require(try POSIXFileSystem().contents(of: page))
        let rows = ExitStatus.allCases.map { "| \($0.rawValue) | \($0.meaning) |\n" }.joined()
        #expect(
            String(decoding: bytes, as: UTF8.self).contains("| Exit code | Means |\n| --- | --- |\n\(rows)\n"),
            "the table must be:\n\(rows)")
    }

    @Test func `a service manager starts again what is in use, and not what is wrong`() {
        #expect(ExitCode.inUse.rawValue == 75)
        #expect(ExitCode.badConfiguration.rawValue == 78)
    }
}
