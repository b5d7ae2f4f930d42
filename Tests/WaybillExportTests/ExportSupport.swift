import Testing
import WaybillEvent
import WaybillExport
import WaybillJSON
import WaybillSystem

/// Remembers everything an exporter gave it.
struct RecordingSink: ExportSink {
    struct Record: Hashable {
        var text: String
        var ids: String
        var eventCount: Int
        var env: DeploymentEnvironment
        var day: String
        var oldest: Int64
        var fixes: FixCounts
        var firstID: String
        var lastID: String
        var late: [Int]
    }

    struct DeadLetter: Hashable {
        var reason: RefusalReason
        var line: String
        var day: String
    }

    struct Held: Hashable {
        var id: String
        var notBefore: Int64
        var text: String
    }

    var records: [Record] = []
    var refusals: [DeadLetter] = []
    var held: [Held] = []
    var skipped: [NotExported] = []

    var output: String { self.records.map(\.text).joined() }
    var eventCount: Int { self.records.reduce(0) { $0 + $1.eventCount } }
    /// What became of events, one way or another.
    var accounted: Int { self.eventCount + self.refusals.count + self.held.count + self.skipped.count }

    mutating func write(_ record: ExportRecord) {
        self.records.append(
            Record(
                text: String(decoding: record.bytes, as: UTF8.self), ids: String(decoding: record.ids, as: UTF8.self),
                eventCount: record.eventCount, env: record.env, day: record.day.description,
                oldest: record.oldest.milliseconds, fixes: record.fixes,
                firstID: String(decoding: record.firstID, as: UTF8.self),
                lastID: String(decoding: record.lastID, as: UTF8.self),
                late: [record.late48HoursCount, record.late24HoursCount]))
    }

    mutating func refuse(_ refusal: Refusal) {
        self.refusals.append(
            DeadLetter(
                reason: refusal.reason, line: String(decoding: refusal.deadLetter, as: UTF8.self),
                day: refusal.day.description))
    }

    mutating func hold(_ event: HeldEvent) {
        self.held.append(
            Held(
                id: String(decoding: event.id, as: UTF8.self), notBefore: event.notBefore.milliseconds,
                text: String(decoding: event.record.bytes, as: UTF8.self)))
    }

    mutating func skip(_ reason: NotExported) {
        self.skipped.append(reason)
    }
}

/// 2025-03-01T10:00:00.000Z.
let receivedAt = WallTime(milliseconds: 1_740_823_200_000)
let ownSource = SourceDescription(env: .prod, bundle: "com.example.shop")
let foreignSource = SourceDescription(env: .internal, bundle: "org.example.proxy", isForeign: true)

func read(_ line: String, source: SourceDescription = ownSource, at time: WallTime = receivedAt) -> EventReading {
    read(Array(line.utf8), source: source, at: time)
}

func read(_ line: [UInt8], source: SourceDescription = ownSource, at time: WallTime = receivedAt) -> EventReading {
    let reader = EventReader(source: source)
    return line.withUnsafeBytes { reader.read($0, receivedAt: time) }
}

/// Reads and exports lines as one batch; a line in quarantine is a mistake of the test.
func export(
    _ lines: [String], _ options: ExportOptions, source: SourceDescription = ownSource,
    at time: WallTime = receivedAt, isAgeJudged: Bool = true
) -> RecordingSink {
    var sink = RecordingSink()
    var exporter = Exporter(options)
    for line in lines {
        let bytes = Array(line.utf8)
        guard case .event(let facts) = read(bytes, source: source, at: time) else {
            preconditionFailure("not an event: \(read(bytes, source: source, at: time)) \(line)")
        }
        bytes.withUnsafeBytes {
            exporter.export(
                $0, facts, source: source, receivedAt: time, isAgeJudged: isAgeJudged, to: &sink)
        }
    }
    exporter.finishGroup(to: &sink)
    return sink
}

/// An event of kind `action` with the members every provider wants; `members` are put at its end.
func event(
    name: String = "tap", id: Int = 1, ts: String = "2025-03-01T09:14:19.003Z", kind: String = "action",
    user: String? = "u-1", members: String = ""
) -> String {
    let number = String(id)
    let padded = String(repeating: "0", count: 12 - number.utf8.count) + number
    let user = user.map { ",\"user\":\"\($0)\"" } ?? ""
    return """
        {"v":1,"id":"019550fc-2dfb-7b1c-82d3-\(padded)","seq":\(id),"ts":"\(ts)","kind":"\(kind)","name":"\(name)"\
        \(user),"anon":"b5372db0-c21e-41e4-8dfc-aa07a5b093db","ids":{"ga4":"0a1b2c3d4e5f60718293a4b5c6d7e8f9"},\
        "bundle":"com.example.shop","env":"prod"\(members)}
        """
}

func vectorPath(_ name: String) -> String {
    let tests = Path.parent(of: Path.parent(of: Path.parent(of: #filePath)))
    return Path.join(tests, "Protocol/vectors/providers/\(name)")
}

func vector(_ name: String) throws -> String {
    let bytes = try POSIXFileSystem().contents(of: vectorPath(name))
    return String(decoding: try #require(bytes, "no vector \(name)"), as: UTF8.self)
}

func lines(_ text: String) -> [String] {
    text.split(separator: "\n").map(String.init)
}
