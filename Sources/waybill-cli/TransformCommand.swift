import ArgumentParser
import WaybillConsole
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillSystem

#if canImport(Glibc)
    import Glibc
#elseif canImport(Darwin)
    import Darwin
#endif

struct TransformCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "transform",
        abstract: "Turn events on standard input into a provider's records on standard output.",
        discussion: """
            Examples:
              zcat part-00001.ndjson.gz | waybill transform --provider csv --zone Asia/Seoul > day.csv
              waybill transform --provider ga4 --dead refused.ndjson < events.ndjson > requests.ndjson
              waybill transform --provider warehouse --config waybill.yaml < events.ndjson > rows.csv

            Runs the same code as the live export. Counts go to standard error as one line of JSON; the exit code is 65
            if any line was not an event. Rules about an event's age apply only with --as-of.
            """)

    @Option(help: "Which export: \(Destination.list).")
    var provider: String

    @Option(help: "A receiver's configuration file, for the export's mapping and options and for custom providers.")
    var config: String?

    @Option(help: "The report's zone. (default: the configuration file's, else UTC)")
    var zone: String?

    @Option(help: "Judge the age of events as if they were received at this time (RFC 3339).")
    var asOf: String?

    @Option(help: "The file for refused events, with the reason. (default: none)")
    var dead: String?

    @Option(help: "The environment of lines that are not Waybill events; with --bundle.")
    var env: DeploymentEnvironment?

    @Option(help: "The app of lines that are not Waybill events; with --env.")
    var bundle: String?

    func validate() throws {
        if self.config == nil { _ = try OptionReader.provider(self.provider) }
        if (self.env == nil) != (self.bundle == nil) { throw ValidationError("--env and --bundle require each other") }
        if let asOf, TimeText.parse(text: asOf) == nil {
            throw ValidationError("--as-of must be a time such as 2026-11-20T12:00:00Z")
        }
    }

    func run() throws {
        var options = try OptionReader.export(self.provider, config: self.config)
        if let zone = try self.zone.map(OptionReader.zone) { options.zone = zone }
        var transform = try Transform(options: options, dead: self.dead)
        let source = SourceDescription(
            env: self.env ?? .prod, bundle: self.bundle ?? "unknown", isForeign: self.env != nil)
        let receivedAt = self.asOf.flatMap(TimeText.parse(text:)) ?? POSIXClock().wallTime()
        let counts = try transform.run(source: source, receivedAt: receivedAt, isAgeJudged: self.asOf != nil)
        Console.write(counts.json + "\n", to: STDERR_FILENO)
        if counts.badLines > 0 { throw ExitCode.badInput }
    }
}

/// Counts of lines by outcome.
private struct TransformCounts {
    var lines = 0
    var exported = 0
    var refused = 0
    var held = 0
    var skipped = 0
    var badLines = 0
    var firstBad: (line: Int, reason: QuarantineReason)?

    /// Counts the line that was counted last as bad.
    mutating func countBad(_ reason: QuarantineReason) {
        self.badLines += 1
        if self.firstBad == nil { self.firstBad = (self.lines, reason) }
    }

    var json: String {
        var json =
            "{\"lines\":\(self.lines),\"exported\":\(self.exported),\"refused\":\(self.refused),"
            + "\"held\":\(self.held),\"skipped\":\(self.skipped),\"bad\":\(self.badLines)"
        if let firstBad { json += ",\"first_bad_line\":\(firstBad.line),\"first_bad\":\"\(firstBad.reason.rawValue)\"" }
        return json + "}"
    }
}

/// Collects records while a batch of lines is mapped.
private struct StreamSink: ExportSink, ~Copyable {
    let description: ProviderDescription
    var output: [UInt8] = []
    var dead: [UInt8] = []
    var counts = TransformCounts()

    private var hasRecords = false

    init(_ description: ProviderDescription) {
        self.description = description
        self.output = description.header
    }

    mutating func write(_ record: ExportRecord) {
        if self.hasRecords { self.output.append(contentsOf: self.description.separator) }
        self.hasRecords = true
        self.output.append(contentsOf: record.bytes)
        self.counts.exported += record.eventCount
    }

    mutating func refuse(_ refusal: Refusal) {
        self.dead.append(contentsOf: refusal.deadLetter)
        self.counts.refused += 1
    }

    mutating func hold(_ event: HeldEvent) {
        self.counts.held += 1
    }

    mutating func skip(_ reason: NotExported) {
        self.counts.skipped += 1
    }
}

/// Reads lines, maps them and writes records; uses memory for one read and the longest line.
private struct Transform: ~Copyable {
    private let files = POSIXFileSystem()
    private var exporter: Exporter
    private var sink: StreamSink
    private let dead: FileID?

    init(options: ExportOptions, dead: String?) throws {
        let exporter = Exporter(options)
        self.sink = StreamSink(exporter.description)
        self.exporter = exporter
        do {
            self.dead = try dead.map { path throws(FileSystemError) in try POSIXFileSystem().open(path, .replace) }
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
    }

    deinit {
        if let dead { POSIXFileSystem().close(dead) }
    }

    mutating func run(source: SourceDescription, receivedAt: WallTime, isAgeJudged: Bool) throws -> TransformCounts {
        let reader = EventReader(source: source)
        var pending: [UInt8] = []
        /// The rest of an overlong line follows.
        var isSkipping = false
        var chunk = [UInt8](repeating: 0, count: 1 << 20)
        while true {
            let count = read(STDIN_FILENO, &chunk, chunk.count)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else {
                Console.printError("standard input cannot be read: \(Errno.message(errno))")
                throw ExitCode.files
            }
            if count == 0 { break }
            var fresh = chunk[..<count]
            if isSkipping {
                guard let end = fresh.firstIndex(of: UInt8(ascii: "\n")) else { continue }
                fresh = fresh[(end + 1)...]
                isSkipping = false
            }
            pending.append(contentsOf: fresh)
            let consumed = self.takeLines(of: pending, reader, source, receivedAt, isAgeJudged, isLast: false)
            pending.removeFirst(consumed)
            if pending.count > Limits.lineByteCountMax {
                self.sink.counts.lines += 1
                self.sink.counts.countBad(.tooLong)
                pending = []
                isSkipping = true
            }
            try self.flush()
        }
        _ = self.takeLines(of: pending, reader, source, receivedAt, isAgeJudged, isLast: true)
        self.exporter.finishGroup(to: &self.sink)
        self.sink.output.append(contentsOf: self.sink.description.footer)
        try self.flush()
        return self.sink.counts
    }

    /// - Returns: the bytes of whole lines.
    private mutating func takeLines(
        of bytes: [UInt8], _ reader: EventReader, _ source: SourceDescription, _ receivedAt: WallTime,
        _ isAgeJudged: Bool, isLast: Bool
    ) -> Int {
        bytes.withUnsafeBytes { buffer in
            var position = 0
            while position < buffer.count {
                guard let end = buffer.firstNewline(from: position) ?? (isLast ? buffer.count : nil) else { break }
                let line = UnsafeRawBufferPointer(rebasing: buffer[position..<end])
                self.sink.counts.lines += 1
                switch reader.read(line) {
                case .event(let facts):
                    self.exporter.export(
                        line, facts, source: source, receivedAt: receivedAt, isAgeJudged: isAgeJudged, to: &self.sink)
                case .quarantine(let reason):
                    self.sink.counts.countBad(reason)
                }
                position = min(end + 1, buffer.count)
            }
            return position
        }
    }

    private mutating func flush() throws {
        do throws(FileSystemError) {
            try self.files.writeAll(FileID(rawValue: STDOUT_FILENO), self.sink.output)
            if let dead { try self.files.writeAll(dead, self.sink.dead) }
        } catch {
            Console.printError("\(error)")
            throw ExitCode.files
        }
        self.sink.output.removeAll(keepingCapacity: true)
        self.sink.dead.removeAll(keepingCapacity: true)
    }
}
