package import WaybillEvent
package import WaybillExport
package import WaybillSystem
internal import WaybillTestSupport

/// Remembers everything an exporter gave it.
package struct RecordingSink: ExportSink {
    package struct Record: Hashable {
        package var text: String
        package var ids: String
        package var eventCount: Int
        package var env: DeploymentEnvironment
        package var day: String
        package var oldest: Int64
        package var fixes: FixCounts
        package var firstID: String
        package var lastID: String
        package var late: [Int]
    }

    package struct DeadLetter: Hashable {
        package var reason: RefusalReason
        package var line: String
        package var day: String
    }

    package struct Held: Hashable {
        package var id: String
        package var notBefore: Int64
        package var text: String
    }

    package init() {}

    package var records: [Record] = []
    package var refusals: [DeadLetter] = []
    package var held: [Held] = []
    package var skipped: [NotExported] = []

    package var output: String { self.records.map(\.text).joined() }
    package var eventCount: Int { self.records.reduce(0) { $0 + $1.eventCount } }
    /// How many events have a result, whichever it is.
    package var accounted: Int { self.eventCount + self.refusals.count + self.held.count + self.skipped.count }

    package mutating func write(_ record: ExportRecord) {
        self.records.append(
            Record(
                text: String(decoding: record.bytes, as: UTF8.self), ids: String(decoding: record.ids, as: UTF8.self),
                eventCount: record.eventCount, env: record.env, day: record.day.description,
                oldest: record.oldest.milliseconds, fixes: record.fixes,
                firstID: String(decoding: record.firstID, as: UTF8.self),
                lastID: String(decoding: record.lastID, as: UTF8.self),
                late: [record.late48HoursCount, record.late24HoursCount]))
    }

    package mutating func refuse(_ refusal: Refusal) {
        self.refusals.append(
            DeadLetter(
                reason: refusal.reason, line: String(decoding: refusal.deadLetter, as: UTF8.self),
                day: refusal.day.description))
    }

    package mutating func hold(_ event: HeldEvent) {
        self.held.append(
            Held(
                id: String(decoding: event.id, as: UTF8.self), notBefore: event.notBefore.milliseconds,
                text: String(decoding: event.record.bytes, as: UTF8.self)))
    }

    package mutating func skip(_ reason: NotExported) {
        self.skipped.append(reason)
    }
}

/// 2025-03-01T10:00:00.000Z.
package let receivedAt = WallTime(milliseconds: 1_740_823_200_000)
package let ownSource = SourceDescription(env: .prod, bundle: "com.example.shop")
package let foreignSource = SourceDescription(env: .internal, bundle: "org.example.proxy", isForeign: true)

package func read(_ line: String, source: SourceDescription = ownSource) -> EventReading {
    read(Array(line.utf8), source: source)
}

package func read(_ line: [UInt8], source: SourceDescription = ownSource) -> EventReading {
    let reader = EventReader(source: source)
    return line.withUnsafeBytes { reader.read($0) }
}

/// Reads and exports lines as one batch; a line in quarantine is a mistake of the test.
package func export(
    _ lines: [String], _ options: ExportOptions, source: SourceDescription = ownSource,
    at time: WallTime = receivedAt, isAgeJudged: Bool = true
) -> RecordingSink {
    var sink = RecordingSink()
    var exporter = Exporter(options)
    var offset: UInt64 = 0
    for line in lines {
        let bytes = Array(line.utf8)
        guard case .event(let facts) = read(bytes, source: source) else {
            preconditionFailure("not an event: \(read(bytes, source: source)) \(line)")
        }
        bytes.withUnsafeBytes {
            exporter.export(
                $0, facts, source: source, at: offset, receivedAt: time, isAgeJudged: isAgeJudged, to: &sink)
        }
        offset += UInt64(bytes.count) + 1
    }
    exporter.finishGroup(to: &sink)
    return sink
}

/// An event of kind `action` with the members every provider wants; `members` are put at its end.
package func event(
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

/// The text of a file in `Protocol/vectors/providers`.
package func vector(_ name: String) throws(FileSystemError) -> String {
    try vectorText("providers/\(name)")
}

package func lines(_ text: String) -> [String] {
    text.split(separator: "\n").map(String.init)
}
