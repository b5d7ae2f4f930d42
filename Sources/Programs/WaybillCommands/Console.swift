package import ArgumentParser
package import Logging
package import WaybillHost
internal import WaybillSystem

#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// Standard output and error.
package enum Console {
    /// Whether a person watches standard error.
    package static var isTerminal: Bool {
        isatty(STDERR_FILENO) == 1
    }

    package static func printError(_ text: String) {
        self.write("waybill: \(text)\n", to: STDERR_FILENO)
    }

    /// Writes all of `text`; a closed pipe ends the process, as for every filter.
    package static func write(_ text: String, to descriptor: Int32) {
        var text = text
        text.withUTF8 { bytes in
            var rest = UnsafeRawBufferPointer(bytes)
            while !rest.isEmpty {
                #if canImport(Glibc)
                    let count = Glibc.write(descriptor, rest.baseAddress, rest.count)
                #else
                    let count = Darwin.write(descriptor, rest.baseAddress, rest.count)
                #endif
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { return }
                rest = UnsafeRawBufferPointer(rebasing: rest[count...])
            }
        }
    }

    /// The log of this process, once its options are known; a program without a log has none.
    private static let log = Lock<LogSink?>(nil)

    /// Gives the process a log; ``end(_:_:)`` writes to it from here on.
    package static func useLog(_ format: LogFormat) {
        self.log.withLock { log in
            guard log?.format != format else { return }
            log = LogSink(format, clock: POSIXClock()) { Self.write($0, to: STDERR_FILENO) }
        }
    }

    /// A logger that writes to the log of this process.
    package static func logger(_ label: String, level: Logger.Level) -> Logger {
        if self.log.withLock({ $0 }) == nil { self.useLog(.ofThisProcess) }
        guard let sink = self.log.withLock({ $0 }) else { preconditionFailure("useLog makes a log") }
        return Logger(label: label) { ConsoleLogHandler(label: $0, logLevel: level, sink: sink) }
    }

    /// Says why the program ends: as an error of its log if it has one.
    package static func end(_ notice: Notice, _ text: String) {
        self.report(.error, notice, text)
    }

    /// Says something that leaves the program running, or that its result lacks.
    package static func warn(_ notice: Notice, _ text: String) {
        self.report(.warning, notice, text)
    }

    private static func report(_ level: Logger.Level, _ notice: Notice, _ text: String) {
        guard let sink = self.log.withLock({ $0 }) else { return self.printError(text) }
        sink.finish()
        // The last word is never left out, whatever was said before.
        sink.write(now: LogLine(level: level, part: "waybill", notice: notice, message: text, fields: [:]))
    }

    /// Writes what the log has left out; call it before the process ends.
    package static func finishLog() {
        self.log.withLock { $0 }?.finish()
    }

    /// Runs a program: its errors are said in the format of its log, and decide the exit code.
    ///
    /// - Parameter advice: for someone whose command line was not understood.
    package static func main<Program: AsyncParsableCommand>(
        _ program: Program.Type, advice: @Sendable () -> String? = { nil }
    ) async -> Never {
        do {
            var command = try Program.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            self.finishLog()
            Program.exit()
        } catch {
            self.finishLog()
            let code = Program.exitCode(for: error)
            if code == .validationFailure, let advice = advice() { self.printError(advice) }
            guard code == .validationFailure, self.log.withLock({ $0 }) != nil, !(error is ExitCode) else {
                Program.exit(withError: error)
            }
            self.end(.usageWrong, Program.message(for: error))
            Program.exit(withError: code)
        }
    }
}

/// Shows the progress of work that takes longer than two seconds: a bar on a terminal, otherwise a line every ten
/// seconds.
package struct ProgressBar {
    private let label: String
    private let isQuiet: Bool
    private let started = POSIXClock().monotonicTime()
    private var lastShown = POSIXClock().monotonicTime()
    private var isDrawn = false

    package init(_ label: String, isQuiet: Bool) {
        self.label = label
        self.isQuiet = isQuiet
    }

    /// Shows that `done` of `total` bytes have been processed.
    package mutating func show(_ done: Int, of total: Int) {
        guard !self.isQuiet else { return }
        let now = POSIXClock().monotonicTime()
        guard now - self.started > .seconds(2),
            now - self.lastShown > (Console.isTerminal ? .milliseconds(200) : .seconds(10))
        else { return }
        self.lastShown = now
        let share = total > 0 ? min(1, Double(done) / Double(total)) : 1
        let seconds = Double((now - self.started).nanoseconds) / 1e9
        let rate = Int(Double(done) / 1e6 / seconds)
        let left = share > 0 ? Int(seconds / share - seconds) : 0
        guard Console.isTerminal else {
            Console.printError("\(self.label): \(Int(share * 100)) %, \(rate) MB/s, \(left) s left")
            return
        }
        self.isDrawn = true
        let filled = Int(share * 30)
        let bar = String(repeating: "█", count: filled) + String(repeating: "░", count: 30 - filled)
        Console.write("\r\(self.label) \(bar) \(Int(share * 100)) %  \(rate) MB/s  \(left) s left ", to: STDERR_FILENO)
    }

    /// Ends the line.
    package mutating func finish() {
        if self.isDrawn { Console.write("\n", to: STDERR_FILENO) }
        self.isDrawn = false
    }
}
