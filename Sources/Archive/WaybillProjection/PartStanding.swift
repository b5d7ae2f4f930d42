package import WaybillData
internal import WaybillEvent
internal import WaybillExport
package import WaybillSystem

/// The state of a part that is being written; a checkpoint stores it as one line of text.
package struct PartStanding: Hashable {
    var number: Int
    var recordCount = 0
    var eventCount = 0
    var byteCount = 0
    /// How many events of the day are held.
    var heldCount = 0
    /// How much of the file of held records was released: the records before it are in parts.
    var releasedByteCount = 0
    var late24HoursCount = 0
    var late48HoursCount = 0
    var fixes: [String: Int] = [:]
    var dead: [String: Int] = [:]
    var firstID = ""
    var lastID = ""
    var oldest: Int64?
    /// The version of the mapping that wrote it.
    var mappingVersion = 0
    /// How often its day was sealed before the part was started.
    var revision = 0
    /// When the day's first unsealed event was received, in milliseconds since 1970; 0 if there is none.
    var openedAt: Int64 = 0
    /// When its first record was received, in milliseconds since 1970; 0 if there is none, or if that is unknown.
    var receivedAt: Int64 = 0

    package static let keyPrefix = "part:"

    init(number: Int) {
        self.number = number
    }

    /// Whether it has events received after its day was sealed.
    var isLate: Bool { self.revision > 0 }

    /// Whether the day has unsealed events.
    var isUnsealed: Bool {
        self.recordCount > 0 || !self.dead.isEmpty || !self.fixes.isEmpty || self.heldCount > 0
            || (self.revision == 0 && self.number > 0) || self.openedAt != 0
    }

    /// The times of receipt, in milliseconds, of the records that it takes if parts are closed after so many
    /// milliseconds.
    ///
    /// A time before it means that the clock was set back, and ends the part, too. If its first record came at an
    /// unknown time, the first known one ends it.
    func span(_ closeAfter: Int64) -> Range<Int64> {
        self.receivedAt..<(self.receivedAt + closeAfter)
    }

    /// The part after it.
    var next: PartStanding {
        var next = PartStanding(number: self.number + 1)
        next.revision = self.revision
        next.openedAt = self.openedAt
        next.heldCount = self.heldCount
        next.releasedByteCount = self.releasedByteCount
        return next
    }

    var totals: ExportTotals {
        ExportTotals(
            recordCount: self.recordCount, eventCount: self.eventCount, fixes: self.fixes, dead: self.dead)
    }

    /// `number=0 records=2 … fix.rename=1 dead.ga4.too_old=1 first=… last=…`; ids are percent-encoded.
    var text: String {
        var fields = [
            "number=\(self.number)", "records=\(self.recordCount)", "events=\(self.eventCount)",
            "bytes=\(self.byteCount)", "held=\(self.heldCount)", "late24=\(self.late24HoursCount)",
            "late48=\(self.late48HoursCount)",
        ]
        if self.releasedByteCount > 0 { fields.append("released=\(self.releasedByteCount)") }
        if let oldest { fields.append("oldest=\(oldest)") }
        if self.mappingVersion > 0 { fields.append("mapping=\(self.mappingVersion)") }
        if self.revision > 0 { fields.append("revision=\(self.revision)") }
        if self.openedAt != 0 { fields.append("opened=\(self.openedAt)") }
        if self.receivedAt != 0 { fields.append("received=\(self.receivedAt)") }
        fields += self.fixes.sorted { $0.key < $1.key }.map { "fix.\($0.key)=\($0.value)" }
        fields += self.dead.sorted { $0.key < $1.key }.map { "dead.\($0.key)=\($0.value)" }
        fields += ["first=\(PercentText.encode(self.firstID))", "last=\(PercentText.encode(self.lastID))"]
        return fields.joined(separator: " ")
    }

    /// Parses ``text``; `nil` if it is invalid.
    init?(text: String) {
        self.number = -1
        // By bytes: an id may begin with a combining mark, which forms one character with the text before it.
        for field in text.utf8.split(separator: UInt8(ascii: " ")) {
            guard let equals = field.firstIndex(of: UInt8(ascii: "=")) else { return nil }
            let key = String(Substring(field[..<equals]))
            let value = Substring(field[field.index(after: equals)...])
            switch key {
            case "first", "last":
                guard let id = PercentText.decode(value) else { return nil }
                if key == "first" { self.firstID = id } else { self.lastID = id }
            default:
                guard let number = Int(value), Self.range(of: key).contains(number) else { return nil }
                self.take(key, number)
            }
        }
        if self.number < 0 { return nil }
    }

    /// The possible values; above them, the next event or the manifest would overflow.
    private static func range(of key: String) -> ClosedRange<Int> {
        // From the first day of year 0 to the last of year 9999, the possible times of an event.
        key == "oldest" ? -62_167_219_200_000...253_402_300_799_999 : 0...(1 << 53) - 1
    }

    private mutating func take(_ key: String, _ value: Int) {
        switch key {
        case "number": self.number = value
        case "records": self.recordCount = value
        case "events": self.eventCount = value
        case "bytes": self.byteCount = value
        case "held": self.heldCount = value
        case "released": self.releasedByteCount = value
        case "late24": self.late24HoursCount = value
        case "late48": self.late48HoursCount = value
        case "oldest": self.oldest = Int64(value)
        case "mapping": self.mappingVersion = value
        case "revision": self.revision = value
        case "opened": self.openedAt = Int64(value)
        case "received": self.receivedAt = Int64(value)
        case _ where key.hasPrefix("fix."): self.fixes[String(key.dropFirst(4))] = value
        case _ where key.hasPrefix("dead."): self.dead[String(key.dropFirst(5))] = value
        default: break
        }
    }

    /// Counts a record; ``PartSink/settle(_:)`` adds its fixes and the last id.
    mutating func count(_ record: ExportRecord) {
        if self.recordCount == 0 { self.firstID = String(decoding: record.firstID, as: UTF8.self) }
        self.recordCount += 1
        self.eventCount += record.eventCount
        self.byteCount += record.bytes.count
        self.late24HoursCount += record.late24HoursCount
        self.late48HoursCount += record.late48HoursCount
        self.oldest = min(self.oldest ?? record.oldest.milliseconds, record.oldest.milliseconds)
    }

    /// The text of an open part's standing after an erasure; `nil` if it cannot be read.
    ///
    /// - Parameters:
    ///   - text: the standing before it.
    ///   - records: what the open part has now; `nil`: it did not change.
    ///   - held: how many held events were erased, and how many bytes of the released ones.
    package static func erasing(
        in text: String, records: ErasedPart?, held: (count: Int, releasedByteCount: Int)
    ) -> String? {
        guard var standing = PartStanding(text: text) else { return nil }
        if let records {
            standing.recordCount = records.recordCount
            standing.eventCount = records.eventCount
            standing.byteCount = records.byteCount
            standing.firstID = records.firstID
            standing.lastID = records.lastID
        }
        standing.heldCount = max(0, standing.heldCount - held.count)
        standing.releasedByteCount = max(0, standing.releasedByteCount - held.releasedByteCount)
        return standing.text
    }

    /// Verifies the standing of a day's open part against the part's files.
    ///
    /// - Parameters:
    ///   - text: in the export's checkpoint at `path`.
    ///   - folder: the day's.
    ///   - byteCount: of a part's records, in the checkpoint.
    ///   - lineCount: of its `.ids`.
    package static func verify(
        _ text: String, of folder: String, fileExtension: String, at path: String, byteCount: (String) -> Int,
        lineCount: (String) throws(FileSystemError) -> Int
    ) throws(FileSystemError) -> [Problem] {
        guard let standing = PartStanding(text: text) else {
            return [Problem(.damaged, path, "\(Self.keyPrefix)\(folder) cannot be read")]
        }
        let stem = "\(folder)/\(PartitionPath.part(standing.number))"
        var problems: [Problem] = []
        let records = "\(stem).\(fileExtension)"
        let length = byteCount(records)
        if length != standing.byteCount {
            problems.append(
                Problem(.disagreement, path, "\(records) has \(length) bytes, part: states \(standing.byteCount)"))
        }
        let count = try lineCount(stem + ".ids")
        if count != standing.recordCount {
            problems.append(
                Problem(
                    .disagreement, stem + ".ids",
                    "it lists \(count) records, but the checkpoint \(standing.recordCount)"))
        }
        return problems
    }

    /// Whether the day was sealed before the part was started.
    package static func isLate(_ text: String) -> Bool {
        PartStanding(text: text)?.isLate ?? false
    }

    /// The number of the open part, and how much of the file of held records was released.
    package static func place(in text: String) -> (number: Int, releasedByteCount: Int)? {
        PartStanding(text: text).map { ($0.number, $0.releasedByteCount) }
    }

    mutating func add(_ fixes: FixCounts) {
        guard fixes.total > 0 else { return }
        for code in FixCode.allCases where fixes[code] > 0 { self.fixes[code.rawValue, default: 0] += fixes[code] }
    }
}

/// What a part has after an erasure.
package struct ErasedPart: Hashable, Sendable {
    package var recordCount = 0
    package var eventCount = 0
    package var byteCount = 0
    package var firstID = ""
    package var lastID = ""

    package init() {}
}
