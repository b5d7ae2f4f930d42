internal import Logging
internal import WaybillHost
internal import WaybillSystem

/// Where the loggers of a process write: lines in one format, and those of one cause once a minute.
///
/// What a cause has left to tell is written with the first line after its minute, whatever that is about, and at the end
/// of the process.
final class LogSink: Sendable {
    let format: LogFormat
    private let clock: any SystemClock
    private let output: @Sendable (String) -> Void
    private let pace = Lock(NoticeLimiter<LogLine>())

    init(_ format: LogFormat, clock: any SystemClock, output: @escaping @Sendable (String) -> Void) {
        self.format = format
        self.clock = clock
        self.output = output
    }

    func write(_ line: LogLine) {
        let now = self.clock.monotonicTime()
        guard let notice = line.notice, notice.text.object != nil else {
            for told in self.pace.withLock({ $0.takeDue(at: now) }) {
                self.tell(told.line, repeatedCount: told.repeatedCount)
            }
            return self.write(now: line)
        }
        for told in self.pace.withLock({ $0.take(line, notice, line.object, at: now) }) {
            self.tell(told.line, repeatedCount: told.repeatedCount)
        }
    }

    /// Writes a line whatever was written before.
    func write(now line: LogLine) {
        self.tell(line, repeatedCount: 0)
    }

    /// Writes what was left out.
    func finish() {
        let now = self.clock.monotonicTime()
        for told in self.pace.withLock({ $0.finish(at: now) }) {
            self.tell(told.line, repeatedCount: told.repeatedCount)
        }
    }

    private func tell(_ line: LogLine, repeatedCount: Int) {
        let text = line.text(in: self.format, at: self.clock.wallTime(), repeatedCount: repeatedCount)
        self.output(text + "\n")
    }
}

/// Writes log lines to the process's sink.
struct ConsoleLogHandler: LogHandler {
    let label: String
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    let sink: LogSink

    init(label: String, logLevel: Logger.Level, sink: LogSink) {
        self.label = label
        self.logLevel = logLevel
        self.sink = sink
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var fields = self.metadata.merging(event.metadata ?? [:]) { $1 }
        var notice: Notice?
        if case .stringConvertible(let id as Notice) = fields["id"] {
            notice = id
            fields["id"] = nil
        } else if event.level >= .warning {
            // From a package, as ServiceLifecycle: our own calls name theirs.
            notice = .libraryFailed
        }
        self.sink.write(
            LogLine(
                level: event.level, part: self.label, notice: notice, message: event.message.description,
                fields: fields))
    }
}
