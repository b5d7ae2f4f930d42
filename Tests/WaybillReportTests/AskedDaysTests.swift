import Testing
import WaybillEvent
import WaybillSystem

@testable import WaybillReport

struct AskedDaysTests {
    private func range(_ from: String?, _ to: String?) throws -> String {
        let first = try #require(CalendarDay("2026-03-05")).daysSince1970
        let range = try AskedDays(from: from, to: to).range(of: first, first + 4)
        return "\(CalendarDay(daysSince1970: range.lowerBound)) \(CalendarDay(daysSince1970: range.upperBound))"
    }

    @Test func `an end that is left out is that of the lines, and never before the other one`() throws {
        #expect(try range(nil, nil) == "2026-03-05 2026-03-09")
        #expect(try range("2026-03-07", nil) == "2026-03-07 2026-03-09")
        #expect(try range(nil, "2026-03-06") == "2026-03-05 2026-03-06")
        #expect(try range("2026-04-01", nil) == "2026-04-01 2026-04-01")
        #expect(try range(nil, "2026-03-01") == "2026-03-01 2026-03-01")
        #expect(try range("2026-03-01", "2026-03-31") == "2026-03-01 2026-03-31")
    }

    private static let wrong: [(String?, String?)] = [
        ("2026-3-1", nil), ("2026-03-02", "2026-03-01"), (nil, "today"), ("1900-01-01", nil),
    ]

    @Test(arguments: Self.wrong)
    func `what is not a range of days is refused`(from: String?, to: String?) {
        #expect(throws: ReportFailure.self) { try range(from, to) }
    }
}
