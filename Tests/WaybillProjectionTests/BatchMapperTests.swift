import Testing
import WaybillData
import WaybillExport
import WaybillProtocol
import WaybillServerTestSupport
import WaybillSystem
import WaybillTestSupport

@testable import WaybillProjection

/// Batches become records without an export that writes them.
@Suite struct BatchMapperTests {
    /// What it was given, in words.
    private struct Sink: ExportSink, ~Copyable {
        var notes: [String] = []

        mutating func write(_ record: ExportRecord) {
            self.notes.append("\(record.day) \(String(decoding: record.ids, as: UTF8.self).suffix(2))")
        }

        mutating func refuse(_ refusal: Refusal) { self.notes.append("\(refusal.day) \(refusal.reason.rawValue)") }
        mutating func hold(_ event: HeldEvent) { self.notes.append("held") }
        mutating func skip(_ reason: NotExported) { self.notes.append("skipped \(reason.rawValue)") }
    }

    private static let description = ProjectionBench.description(1)
    private static let ga4ID = ",\"ids\":{\"ga4\":\"\(String(repeating: "a", count: 32))\"}"
    private static let receivedAt = WallTime(milliseconds: ProjectionBench.noon)
    private static let lines = [
        line(1), "no event\n", line(2, day: "2020-01-02"), line(3, members: ",\"providers\":[\"ga4\"]"), line(4),
    ]

    private static func line(_ number: Int, day: String = "2026-11-20", members: String = "") -> String {
        "{\"v\":1,\"id\":\"01939a3e-0000-7000-8000-\(Hexadecimal.text(UInt64(number), digitCount: 12))\","
            + "\"ts\":\"\(day)T09:00:00.000Z\",\"kind\":\"event\",\"name\":\"n\",\"env\":\"prod\","
            + "\"bundle\":\"b\",\"anon\":\"a\"\(members)}\n"
    }

    /// Where a line begins.
    private static func offset(_ index: Int) -> UInt64 {
        UInt64(Self.lines[..<index].reduce(0) { $0 + $1.utf8.count })
    }

    private static func mapper(
        _ provider: Destination = .csv, on disk: FaultyFiles = FaultyFiles(), isAgeJudged: Bool = true
    ) -> BatchMapper<FaultyFiles> {
        BatchMapper(
            ExportOptions(provider: provider), root: "/data", files: disk, erased: nil, poison: nil,
            isAgeJudged: isAgeJudged)
    }

    /// - Parameter parse: whether the lines are parsed before.
    /// - Returns: how many are not events, and what the sink was given.
    private static func map(
        _ mapper: inout BatchMapper<FaultyFiles>, _ text: String = lines.joined(), parse: SharedParse? = nil
    ) throws -> (quarantinedCount: Int, notes: [String]) {
        var sink = Sink()
        let count = try Array(text.utf8).withUnsafeBytes { raw in
            var batch = ProjectedBatch(
                position: JournalPosition(7), description: Self.description, offset: StreamOffset(0),
                receivedAt: Self.receivedAt, lineCount: text.utf8.count { $0 == 0x0A }, raw: raw)
            parse?.parse(batch)
            batch.parse = parse
            return try mapper.map(batch, to: &sink)
        }
        mapper.finishGroup(to: &sink)
        return (count, sink.notes)
    }

    @Test(arguments: [false, true])
    func `each line has one outcome, parsed before or not`(isParsed: Bool) throws {
        var mapper = Self.mapper()
        let (count, notes) = try Self.map(&mapper, parse: isParsed ? SharedParse() : nil)
        #expect(notes == ["2026-11-20 01", "2020-01-02 02", "skipped not-subscribed", "2026-11-20 04"])
        #expect(count == 1)
        #expect(mapper.takeCensus().reports.map(\.lineCount) == [4])
        #expect(mapper.takeCensus().isEmpty)
        #expect(mapper.description.fileExtension == "csv")
    }

    @Test(arguments: [false, true])
    func `a line whose day was one too many counts on the day of its receipt`(isParsed: Bool) throws {
        let disk = FaultyFiles()
        let folder = "/data/archive/env=prod/bundle=_overflow/date=2026-11-20"
        try disk.createDirectories(folder)
        let (offset, length) = (Self.offset(2), Self.lines[2].utf8.count)
        disk.place(
            folder + "/part-00001.sources",
            Array("SHIFTED 1 \(offset) \(ProjectionBench.noon) 0 \(length) 1 7\n".utf8))
        var mapper = Self.mapper(on: disk)
        let (_, notes) = try Self.map(&mapper, parse: isParsed ? SharedParse() : nil)
        #expect(notes == ["2026-11-20 01", "2026-11-20 02", "skipped not-subscribed", "2026-11-20 04"])
    }

    @Test func `a line that ended the program is refused unread from then on`() throws {
        var mapper = Self.mapper()
        _ = try Self.map(&mapper)
        mapper.use(
            PoisonedLines([
                PoisonedLine(
                    reader: PoisonOffsets.exports, stream: Self.description.name, offset: Self.offset(2), byteCount: 0,
                    signal: 11, version: "1", at: Self.receivedAt)
            ]))
        #expect(mapper.readers.poison?.lines.count == 1)
        let (count, notes) = try Self.map(&mapper)
        #expect(notes == ["2026-11-20 01", "2026-11-20 poison", "skipped not-subscribed", "2026-11-20 04"])
        #expect(count == 1)
    }

    @Test func `the age of a line is judged only where the time of its receipt is known`() throws {
        for isAgeJudged in [false, true] {
            var mapper = Self.mapper(.ga4, isAgeJudged: isAgeJudged)
            let (_, notes) = try Self.map(&mapper, Self.line(1, day: "2026-11-10", members: Self.ga4ID))
            #expect(notes.count == 1 && (notes[0] == "2026-11-10 01") == !isAgeJudged, "\(notes)")
        }
    }

    @Test func `other options begin with an empty group and an empty census`() throws {
        // Events of GA4 share requests.
        var mapper = Self.mapper(.ga4)
        var sink = Sink()
        let text = Self.line(1, members: Self.ga4ID)
        try Array(text.utf8).withUnsafeBytes { raw in
            let batch = ProjectedBatch(
                position: JournalPosition(7), description: Self.description, offset: StreamOffset(0),
                receivedAt: Self.receivedAt, lineCount: 1, raw: raw)
            _ = try mapper.map(batch, to: &sink)
            mapper.rehearse(batch)
        }
        #expect(sink.notes == [])
        mapper.use(ExportOptions(provider: .csv))
        mapper.finishGroup(to: &sink)
        #expect(sink.notes == [])
        #expect(mapper.takeCensus().isEmpty)
        #expect(mapper.description.fileExtension == "csv")
        #expect(try Self.map(&mapper, text).notes == ["2026-11-20 01"])
    }
}
