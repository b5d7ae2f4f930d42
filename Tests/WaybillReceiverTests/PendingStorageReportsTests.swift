import Testing
import WaybillData
import WaybillProtocol

@testable import WaybillReceiver

@Suite struct PendingStorageReportsTests {
    private let one = StreamNumber(1)
    private let two = StreamNumber(2)

    private func report(_ end: UInt64, _ offset: UInt64) -> PendingStorageReports.Report {
        PendingStorageReports.Report(end: end, offset: StreamOffset(offset))
    }

    private func told(_ reports: inout PendingStorageReports, at stored: UInt64) -> [String] {
        var told: [String] = []
        while let (number, report) = reports.next(at: stored) {
            told.append("\(number.rawValue) \(report.offset.rawValue)\(report.seal == nil ? "" : " sealed")")
        }
        return told
    }

    @Test func `nothing is told before the store has it`() {
        var reports = PendingStorageReports()
        reports.add(report(100, 10), of: one)
        #expect(told(&reports, at: 99) == [])
        #expect(told(&reports, at: 100) == ["1 10"])
        #expect(reports.isEmpty)
    }

    @Test func `of many states of a stream two are kept`() {
        var reports = PendingStorageReports()
        for step in 1...1000 { reports.add(report(UInt64(step) * 100, UInt64(step)), of: one) }
        #expect(reports.count == 1)
        #expect(told(&reports, at: 150) == ["1 1"])
        #expect(told(&reports, at: 99_999) == [], "the newest is waited for")
        #expect(told(&reports, at: 100_000) == ["1 1000"])
        #expect(reports.isEmpty)
    }

    @Test func `the newest is told at once if the store has it`() {
        var reports = PendingStorageReports()
        reports.add(report(100, 10), of: one)
        reports.add(report(200, 20), of: one)
        reports.add(report(150, 5), of: two)
        #expect(told(&reports, at: 200) == ["1 20", "2 5"])
    }

    @Test func `a seal is told with the end, and no later state puts it off`() {
        var reports = PendingStorageReports()
        reports.add(PendingStorageReports.Report(end: 100, offset: StreamOffset(10), seal: .empty), of: one)
        reports.add(report(300, 10), of: one)
        #expect(told(&reports, at: 100) == ["1 10 sealed"])
        #expect(reports.isEmpty)
    }

    @Test func `positions of a fleet's journal never go back`() {
        let membership = FleetMembership(fleet: "7d2a40c5e9b1836f04d8fa6e21c97b53", stored: JournalPosition(7))
        membership.advance(to: JournalPosition(5))
        #expect(membership.stored == JournalPosition(7))
        membership.advance(to: JournalPosition(9))
        #expect(membership.stored == JournalPosition(9))
    }
}
