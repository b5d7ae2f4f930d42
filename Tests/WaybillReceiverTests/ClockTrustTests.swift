import Logging
import Testing
import WaybillData
import WaybillSystem
import WaybillTestSupport
import WaybillTesting

@testable import WaybillReceiver

@Suite struct ClockTrustTests {
    private let clock = ManualClock()
    private let data: DataDirectory<FaultyFiles>

    init() throws {
        self.data = DataDirectory(root: "/data", files: FaultyFiles())
        try self.data.create()
    }

    /// - Parameters:
    ///   - mark: the last time in the journal, in milliseconds after the clock.
    ///   - date: the date of the program, likewise.
    private func trust(mark: Int64 = 0, date: Int64 = -86_400_000) -> ClockTrust {
        let now = self.clock.wallTime().milliseconds
        return ClockTrust(
            lastMark: WallTime(milliseconds: now + mark), programDate: WallTime(milliseconds: now + date),
            acceptance: self.acceptance,
            telemetry: HostTelemetry(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }))
    }

    private var acceptance: ClockAcceptance { ClockAcceptance(in: self.data) }
    private var acceptancePath: String { "/data/state/clock.accepted" }

    @Test(arguments: [
        (-1_000, -1_000, true), (60_000, -1_000, true), (60_001, -1_000, false), (-1_000, 60_000, true),
        (-1_000, 60_001, false),
    ])
    func `a clock is doubted from a minute before the last mark, or the program, on`(
        mark: Int64, date: Int64, isTrusted: Bool
    ) {
        let trust = self.trust(mark: mark, date: date)
        #expect(trust.isTrusted(self.clock) == isTrusted)
        #expect((trust.problem(self.clock) == nil) == isTrusted)
        #expect((trust.receiptTime(self.clock) != .unknown) == isTrusted)
    }

    @Test func `a clock before 1970 gives no negative time`() {
        let trust = self.trust(mark: -2_000_000_000_000, date: -2_000_000_000_000)
        self.clock.jump(milliseconds: -1_750_000_000_000)
        #expect(self.clock.wallTime() < .unknown)
        #expect(trust.receiptTime(self.clock) == .unknown)
        #expect(!trust.isTrusted(self.clock))
    }

    @Test func `a clock that is set back a little gives no earlier time of receipt`() {
        let trust = self.trust()
        let first = trust.receiptTime(self.clock)
        trust.committed(at: first)
        self.clock.jump(milliseconds: -30_000)
        #expect(trust.receiptTime(self.clock) == first)
        self.clock.advance(milliseconds: 30_001)
        #expect(trust.receiptTime(self.clock).milliseconds == first.milliseconds + 1)
    }

    @Test func `a clock that was ahead is doubted until it is right again`() {
        let trust = self.trust()
        self.clock.jump(milliseconds: 3_600_000)
        trust.committed(at: trust.receiptTime(self.clock))
        self.clock.jump(milliseconds: -3_600_000)
        #expect(!trust.isTrusted(self.clock))
        trust.committed(at: trust.receiptTime(self.clock))
        #expect(!trust.isTrusted(self.clock))
        self.clock.advance(milliseconds: 3_540_000)
        #expect(trust.isTrusted(self.clock))
    }

    @Test func `an accepted clock is trusted at once, and after a restart before the first group`() throws {
        var trust = self.trust(mark: 86_400_000)
        #expect(!trust.isTrusted(self.clock))
        try self.acceptance.write(self.clock.wallTime())
        #expect(trust.isTrusted(self.clock))
        trust = self.trust(mark: 86_400_000)
        #expect(trust.isTrusted(self.clock))
        trust.committed(at: trust.receiptTime(self.clock))
        #expect(try self.data.files.status(at: self.acceptancePath) == nil)
        #expect(trust.isTrusted(self.clock))
    }

    @Test func `a clock accepted before the program's date stays accepted until it has passed that date`() throws {
        var trust = self.trust(date: 86_400_000)
        try self.acceptance.write(self.clock.wallTime())
        #expect(trust.isTrusted(self.clock))
        trust.committed(at: trust.receiptTime(self.clock))
        trust = self.trust(date: 86_400_000)
        #expect(trust.isTrusted(self.clock))
        let date = WallTime(milliseconds: self.clock.wallTime().milliseconds + 86_400_000)
        self.clock.advance(milliseconds: 86_400_000)
        trust.committed(at: trust.receiptTime(self.clock))
        #expect(self.clock.wallTime() == date)
        #expect(try self.data.files.status(at: self.acceptancePath) == nil)
    }

    @Test func `an accepted clock that goes back again is doubted again`() throws {
        let trust = self.trust(mark: 86_400_000)
        try self.acceptance.write(self.clock.wallTime())
        #expect(trust.isTrusted(self.clock))
        self.clock.jump(milliseconds: -3_600_000)
        #expect(!trust.isTrusted(self.clock))
    }

    @Test(arguments: ["", "yesterday\n", "-5\n", "1740820455926"])
    func `a file that is not whole accepts nothing`(text: String) throws {
        let trust = self.trust(mark: 86_400_000)
        try self.data.files.replace(self.acceptancePath, with: Array(text.utf8))
        #expect(!trust.isTrusted(self.clock))
    }
}
