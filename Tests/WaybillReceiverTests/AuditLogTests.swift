import Testing
import WaybillSystem

@testable import WaybillReceiver
import WaybillServerTestSupport
import WaybillTestSupport

/// A clock that is set.
private final class SetClock: SystemClock {
    private let time = Lock(MonotonicTime(nanoseconds: 1_000_000_000))

    func set(_ time: MonotonicTime) { self.time.withLock { $0 = time } }
    func wallTime() -> WallTime { WallTime(milliseconds: 1_790_000_000_000) }
    func monotonicTime() -> MonotonicTime { self.time.withLock { $0 } }
}

/// A clock that stands still.
private struct StoppedClock: SystemClock {
    func wallTime() -> WallTime { WallTime(milliseconds: 1_790_000_000_000) }
    func monotonicTime() -> MonotonicTime { MonotonicTime(nanoseconds: 1_000_000_000) }
}

@Suite struct AuditLogTests {
    private func lines(of disk: FaultyFiles, _ path: String = "/audit.json") -> [String] {
        String(decoding: disk.bytes(of: path) ?? [], as: UTF8.self).split(separator: "\n").map(String.init)
    }

    @Test func `entries are lines of JSON, in order`() {
        let disk = FaultyFiles()
        let log = AuditLog(path: "/audit.json", clock: StoppedClock())
        log.add(.connected, [("principal", "web"), ("peer", "a\"b\n")])
        log.add(.refused, [("reason", "token")])
        log.close()
        log.run(on: disk) { Issue.record("\($0)") }
        let lines = self.lines(of: disk)
        #expect(lines.count == 2)
        #expect(
            lines[0].hasPrefix("{\"time\":\"")
                && lines[0].hasSuffix("Z\",\"event\":\"connected\",\"principal\":\"web\",\"peer\":\"a\\\"b\\u000a\"}"))
        #expect(lines[1].hasSuffix(",\"event\":\"refused\",\"reason\":\"token\"}"))
    }

    @Test func `a flood is left out and counted`() {
        let disk = FaultyFiles()
        let log = AuditLog(path: "/audit.json", clock: StoppedClock())
        for _ in 0..<10_000 { log.add(.refused, []) }
        log.close()
        log.run(on: disk) { Issue.record("\($0)") }
        #expect(self.lines(of: disk).count == 2_000)
    }

    @Test func `an entry after years without any is taken, and no more at once than ever`() {
        let (disk, clock) = (FaultyFiles(), SetClock())
        let log = AuditLog(path: "/audit.json", clock: clock)
        log.add(.connected, [])
        clock.set(MonotonicTime(nanoseconds: .max))
        for _ in 0..<10_000 { log.add(.refused, []) }
        log.close()
        log.run(on: disk) { Issue.record("\($0)") }
        #expect(self.lines(of: disk).count == 2_001)
    }
}
