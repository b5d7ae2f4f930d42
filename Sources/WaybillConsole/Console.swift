package import Logging
internal import WaybillJSON
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

    /// A logger that writes text to a terminal, and one JSON object per line otherwise.
    package static func logger(_ label: String, level: Logger.Level) -> Logger {
        Logger(label: label) { label in
            ConsoleLogHandler(label: label, logLevel: level, isJSON: !Self.isTerminal)
        }
    }
}

/// Writes log lines to standard error.
struct ConsoleLogHandler: LogHandler {
    let label: String
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]
    let isJSON: Bool

    init(label: String, logLevel: Logger.Level, isJSON: Bool) {
        self.label = label
        self.logLevel = logLevel
        self.isJSON = isJSON
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { self.metadata[key] }
        set { self.metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        let fields = self.metadata.merging(event.metadata ?? [:]) { $1 }.sorted { $0.key < $1.key }
        let line =
            self.isJSON
            ? Self.json(event.level, self.label, event.message.description, fields)
            : Self.text(event.level, self.label, event.message.description, fields)
        Console.write(line + "\n", to: STDERR_FILENO)
    }

    private static func text(
        _ level: Logger.Level, _ label: String, _ message: String,
        _ fields: [(key: String, value: Logger.MetadataValue)]
    ) -> String {
        let details = fields.map { " \($0.key)=\(Self.printable("\($0.value)"))" }.joined()
        return "\(Self.time) \(level) \(label): \(message)\(details)"
    }

    private static func json(
        _ level: Logger.Level, _ label: String, _ message: String,
        _ fields: [(key: String, value: Logger.MetadataValue)]
    ) -> String {
        let json = JSONWriter.object { json in
            json.member("ts", Self.time)
            json.member("level", level.rawValue)
            json.member("part", label)
            json.member("message", message)
            for (key, value) in fields {
                json.key(text: key)
                json.string("\(value)")
            }
        }
        return String(decoding: json, as: UTF8.self)
    }

    /// Control characters of paths and messages from peers must not reach a terminal.
    private static func printable(_ text: String) -> String {
        let clean = String(String.UnicodeScalarView(text.unicodeScalars.map { $0.value < 0x20 ? "?" : $0 }))
        return clean.contains(" ") ? "\"\(clean)\"" : clean
    }

    private static var time: String {
        POSIXClock().wallTime().text
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
