import Testing
import WaybillReport
import WaybillSystem
import WaybillTestSupport

/// Ids beyond their budget are sorted on disk, and the reports stay the same.
@Suite struct SpillTests {
    private let disk = MemoryDisk()

    /// Writes lines into three files of each of two days.
    ///
    /// Times, ids and screens are few, so that they meet often. With an odd seed, all ids are UUIDs.
    private func fill(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        for day in ["2026-11-02", "2026-11-03"] {
            for file in ["part-00001", "part-00002", "late-00001"] {
                var text = ""
                for _ in 0..<Int.random(in: 1...60, using: &generator) {
                    text += Self.line(day, isMixed: seed % 2 == 0, &generator)
                }
                self.disk.place(
                    "/data/archive/env=prod/bundle=com.example.shop/date=\(day)/\(file).ndjson", Array(text.utf8))
            }
        }
    }

    private static func line(_ day: String, isMixed: Bool, _ generator: inout SeededGenerator) -> String {
        func pick(_ count: Int) -> Int { Int.random(in: 0..<count, using: &generator) }
        let number = pick(40)
        let id =
            switch number % 4 {
            case 0: ""
            case 1 where isMixed: "\"id\":\"order-\(number)\","
            default: "\"id\":\"0195505e-0000-7000-8000-0000000000\(number + 10)\","
            }
        let writer = pick(2) == 0 ? "" : "\"writer\":\"w\(pick(2))\",\"seq\":\(pick(6) + 1),"
        return
            "{\(id)\(writer)\"ts\":\"\(day)T1\(pick(3)):00:00.000Z\",\"kind\":\"screen\",\"name\":\"screen_view\","
            + "\"screen\":\"\(["Home", "Feed", "Cart"][pick(3)])\",\"session\":\"s\(pick(3))\",\"anon\":\"a\(pick(4))\","
            + "\"app\":\"1.\(pick(2))\",\"env\":\"prod\",\"data\":{\"n\":\(pick(2) == 0 ? "1" : "\"1\"")}}\n"
    }

    private func text(idByteCountMax: Int, jobs: Int = 1, scratch: String = "/tmp") throws -> String {
        var options = ReportOptions()
        options.screen = "Home"
        options.before = "screen=Cart"
        let names: [ReportName] = [.overview, .screens, .next, .paths, .sessions, .versions, .gaps, .breakdown, .names]
        var request = try ReportRequest(
            names: names, options, now: WallTime(milliseconds: ShopFixture.now), files: POSIXFileSystem())
        request.idBudget.byteCount = idByteCountMax
        request.idBudget.folder = scratch
        request.jobCount = jobs
        return ReportText.table(try Reporter(dataDirectory: "/data", files: self.disk, request: request).run())
    }

    @Test(arguments: 0..<UInt64(40))
    func `a small budget changes no number`(seed: UInt64) throws {
        self.fill(seed: seed)
        try self.disk.createDirectories("/tmp")
        let whole = try self.text(idByteCountMax: 64 << 20)
        #expect(whole.contains("lines that repeat the id of another"))
        for byteCount in [0, 150, 700] {
            #expect(try self.text(idByteCountMax: byteCount) == whole, "\(byteCount) bytes")
        }
        #expect(try self.text(idByteCountMax: 300, jobs: 2) == whole)
        #expect(try self.disk.list("/tmp") == [])
    }

    @Test func `the file goes to the scratch folder, and only when it is needed`() throws {
        self.fill(seed: 1)
        let failure = try #require(throws: ReportFailure.self) {
            try self.text(idByteCountMax: 700, scratch: "/none")
        }
        #expect(failure.description.contains("open /none"))
        #expect(try self.text(idByteCountMax: 64 << 20, scratch: "/none") != "")
    }
}
