import Logging
import Testing
import WaybillHost
import WaybillSystem
import WaybillTesting

@testable import WaybillCommands

@Suite struct LogSinkTests {
    /// A log in the journal's format, without times, and what was written to it.
    private final class Log: Sendable {
        let clock = ManualClock()
        private let lines = Lock<[String]>([])

        func logger(_ label: String = "agent") -> Logger {
            Logger(label: label) { ConsoleLogHandler(label: $0, logLevel: .info, sink: self.sink) }
        }

        var sink: LogSink { self.made }
        private let made: LogSink

        init() {
            let lines = self.lines
            self.made = LogSink(.journal, clock: self.clock) { line in lines.withLock { $0.append(line) } }
        }

        func take() -> [String] {
            self.lines.withLock { lines in
                defer { lines = [] }
                return lines
            }
        }
    }

    @Test func `a cause is written at once, and then once a minute with how often`() {
        let log = Log()
        let logger = log.logger()
        for number in 0..<5 {
            logger.warning(.fileUnreadable, "unreadable", metadata: ["path": "/a", "try": .number(number)])
            log.clock.advance(milliseconds: 10_000)
        }
        #expect(log.take() == ["<4>WB2205 agent: unreadable path=/a try=0\n"])
        log.clock.advance(milliseconds: 10_000)
        logger.warning(.fileUnreadable, "unreadable", metadata: ["path": "/a", "try": .number(5)])
        #expect(log.take() == ["<4>WB2205 agent: unreadable path=/a repeated=4 try=4\n"])
        log.sink.finish()
        #expect(log.take() == ["<4>WB2205 agent: unreadable path=/a repeated=1 try=5\n"])
        log.sink.finish()
        #expect(log.take() == [])
    }

    @Test func `another object is another cause, and so is another identifier`() {
        let log = Log()
        let logger = log.logger()
        for path in ["/a", "/b", "/a"] { logger.warning(.fileUnreadable, "x", metadata: ["path": "\(path)"]) }
        logger.error(.fileRefused, "y", metadata: ["path": "/a"])
        #expect(
            log.take() == [
                "<4>WB2205 agent: x path=/a\n", "<4>WB2205 agent: x path=/b\n", "<3>WB2206 agent: y path=/a\n",
            ])
    }

    @Test func `any line brings what is due`() {
        let log = Log()
        let logger = log.logger()
        for _ in 0..<3 { logger.error(.registryFailed, "x", metadata: ["code": "disk-full"]) }
        log.clock.advance(milliseconds: 59_999)
        logger.info("still")
        #expect(log.take() == ["<3>WB2005 agent: x code=disk-full\n", "<6>agent: still\n"])
        log.clock.advance(milliseconds: 1)
        logger.info("now")
        #expect(log.take() == ["<3>WB2005 agent: x code=disk-full repeated=2\n", "<6>agent: now\n"])
    }

    @Test func `notices, and what has a pace of its own, are all written`() {
        let log = Log()
        let logger = log.logger("receiver")
        for _ in 0..<2 { logger.notice("a") }
        for _ in 0..<2 { logger.warning(.eventsRefused, "b") }
        #expect(
            log.take() == [
                "<5>receiver: a\n", "<5>receiver: a\n", "<4>WB1308 receiver: b\n", "<4>WB1308 receiver: b\n",
            ])
    }

    @Test func `a package's warning has an identifier, and less than a warning has none`() {
        let log = Log()
        log.logger("lifecycle").error("Service finished unexpectedly")
        log.logger().log(.fileGone, level: .info, "gone")
        #expect(log.take() == ["<3>WB4012 lifecycle: Service finished unexpectedly\n", "<6>agent: gone\n"])
    }
}

@Suite struct NoticeLimiterTests {
    private static func time(_ seconds: Int) -> MonotonicTime {
        MonotonicTime(nanoseconds: Int64(seconds) * 1_000_000_000)
    }

    @Test func `it remembers a bounded number of causes and forgets those that are over`() {
        var pace = NoticeLimiter<Int>()
        let max = NoticeLimiter<Int>.causeCountMax
        for number in 0..<max { #expect(pace.take(number, .tlsRefused, "\(number)", at: Self.time(0)).count == 1) }
        // Further ones share a cause.
        #expect(pace.take(-1, .tlsRefused, "x", at: Self.time(1)).map(\.line) == [-1])
        #expect(pace.take(-2, .tlsRefused, "y", at: Self.time(1)).isEmpty)
        #expect(pace.take(-3, .agentRefused, "y", at: Self.time(1)).map(\.line) == [-3])
        #expect(pace.causeCount == max + 2)
        for number in 0..<10_000 { _ = pace.take(number, .tlsRefused, "n\(number)", at: Self.time(2)) }
        #expect(pace.causeCount == max + 2)
        // A minute later there is room again, and what was left out is told once.
        let told = pace.take(7, .tlsRefused, "z", at: Self.time(70))
        #expect(told.map(\.line) == [9999, 7])
        #expect(told.map(\.repeatedCount) == [10_001, 0])
        #expect(pace.causeCount == 2)
    }

    @Test func `nothing is lost: first lines and counts are all there were`() {
        var pace = NoticeLimiter<Int>()
        var written = 0
        var random = SeededGenerator(seed: 7)
        var now = 0
        let count = 20_000
        for number in 0..<count {
            now += Int.random(in: 0...3, using: &random)
            let object = "\(Int.random(in: 0..<40, using: &random))"
            for told in pace.take(number, .fileUnreadable, object, at: Self.time(now)) {
                written += told.repeatedCount == 0 ? 1 : told.repeatedCount
            }
        }
        for told in pace.finish(at: Self.time(now)) { written += told.repeatedCount }
        #expect(written == count)
    }

    @Test func `no cause is written more often than once a minute`() {
        var pace = NoticeLimiter<Int>()
        var last: [Int: Int] = [:]
        for second in 0..<1000 {
            for told in pace.take(second % 3, .fileUnreadable, "\(second % 3)", at: Self.time(second)) {
                if let before = last[told.line] { #expect(second - before >= 60) }
                last[told.line] = second
            }
        }
        #expect(last.count == 3)
    }
}
