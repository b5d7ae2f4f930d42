internal import WaybillEvent
internal import WaybillExport
internal import WaybillSystem

/// The state of a part that is being written; a checkpoint stores it as one line of text.
struct PartStanding: Hashable {
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

    static let keyPrefix = "part:"

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

    mutating func add(_ fixes: FixCounts) {
        guard fixes.total > 0 else { return }
        for code in FixCode.allCases where fixes[code] > 0 { self.fixes[code.rawValue, default: 0] += fixes[code] }
    }
}

/// Collects an exporter's output for one batch, by partition and part; accesses no disk.
struct PartSink: ExportSink, ~Copyable {
    struct Key: Hashable, Comparable {
        let env: DeploymentEnvironment
        let day: CalendarDay

        static func < (left: Key, right: Key) -> Bool {
            (left.env.rawValue, left.day) < (right.env.rawValue, right.day)
        }

        init(env: DeploymentEnvironment, day: CalendarDay) {
            self.env = env
            self.day = day
        }

        /// Parses the end of a partition's path, `env=prod/date=2026-11-20`; `nil` for other paths.
        init?(partition path: String) {
            let components = path.split(separator: "/").suffix(2).map(String.init)
            guard components.count == 2, components[0].hasPrefix("env="), components[1].hasPrefix("date="),
                let env = DeploymentEnvironment(rawValue: String(components[0].dropFirst(4))),
                let day = CalendarDay(String(components[1].dropFirst(5)))
            else { return nil }
            self.init(env: env, day: day)
        }

        /// The partition's folder below another one.
        func path(below directory: String) -> String {
            "\(directory)/env=\(self.env.rawValue)/date=\(self.day)"
        }
    }

    /// Bytes for one part.
    struct Chunk {
        var part: PartStanding
        var records: [UInt8] = []
        /// One line for each record, with the ids of its events, separated by commas.
        var ids: [UInt8] = []
        /// Whether the part gets no further records.
        var isClosed = false
        /// Fixes not yet added to the part's counts.
        private var fixes = FixCounts()
        /// The length of the last id in ``ids``.
        private var lastIDByteCount = 0

        init(part: PartStanding) {
            self.part = part
        }

        /// Adds a record; returns false and adds nothing if the part has no room for it.
        mutating func append(
            _ record: ExportRecord, _ description: ProviderDescription, mappingVersion: Int, receivedAt: Int64
        ) -> Bool {
            if self.part.recordCount == 0 {
                self.part.mappingVersion = mappingVersion
                self.part.receivedAt = receivedAt
                self.append(description.header)
            } else {
                let byteCount = self.part.byteCount + description.separator.count + record.bytes.count
                guard self.part.recordCount < description.recordsPerPartMax,
                    byteCount + description.footer.count <= description.partByteCountMax
                else { return false }
                self.append(description.separator)
            }
            self.records.append(contentsOf: record.bytes)
            self.ids.append(contentsOf: record.ids)
            self.ids.append(0x0A)
            self.part.count(record)
            self.fixes.add(record.fixes)
            self.lastIDByteCount = record.lastID.count
            return true
        }

        mutating func close(_ description: ProviderDescription) {
            self.append(description.footer)
            self.isClosed = true
        }

        private mutating func append(_ frame: [UInt8]) {
            guard !frame.isEmpty else { return }
            self.records.append(contentsOf: frame)
            self.part.byteCount += frame.count
        }

        /// Updates the part with the values that are too costly to update for each record.
        mutating func settle() {
            self.part.add(self.fixes)
            self.fixes = FixCounts()
            guard !self.ids.isEmpty else { return }
            self.part.lastID = String(decoding: self.ids.dropLast().suffix(self.lastIDByteCount), as: UTF8.self)
        }

        /// Removes the contents; keeps the capacity unless it is unusually large.
        mutating func removeAll() {
            self.records.removeAll(keepingCapacity: self.records.capacity <= 1 << 20)
            self.ids.removeAll(keepingCapacity: true)
        }
    }

    struct Partition {
        let key: Key
        /// The last chunk belongs to the open part; those before it to closed parts.
        var chunks: [Chunk]
        var deadLetters: [UInt8] = []
        var held: [UInt8] = []
        var isTouched = false
    }

    /// How many events had each outcome since the start.
    struct Counts: Hashable {
        var exported = 0
        var refused = 0
        var held = 0
        var skips = SkipCounts()
    }

    private var description: ProviderDescription
    private var mappingVersion: Int
    /// In milliseconds; 0 for parts of any age.
    private var closeAfter: Int64
    /// The last time of receipt, in milliseconds; 0 if it is unknown.
    private var now: Int64 = 0
    /// The times of receipt at which no part is due.
    private var span = Self.allTimes
    private var indexes: [Key: Int] = [:]
    private var lastKey: Key?
    private var lastIndex = 0
    var partitions: [Partition] = []
    private(set) var touched: [Int] = []
    private(set) var counts = Counts()
    private var checkpointedCounts = Counts()
    /// The part with which a partition continues, from the checkpoint or the disk.
    var standings: [Key: PartStanding] = [:]

    init(_ exporter: borrowing Exporter) {
        self.description = exporter.description
        self.mappingVersion = exporter.options.mappingVersion
        self.closeAfter = exporter.options.closeAfter.nanoseconds / 1_000_000
    }

    private static var allTimes: Range<Int64> { .min..<(.max) }

    /// Closes the parts whose time is over: call it with each batch's time of receipt before its lines.
    ///
    /// A later call with a time that no batch has makes no difference to the content of parts.
    ///
    /// - Returns: whether a part was closed.
    mutating func pass(_ time: WallTime) -> Bool {
        self.now = max(0, time.milliseconds)
        guard time > .unknown, !self.span.contains(self.now) else { return false }
        self.span = Self.allTimes
        var hasClosed = false
        for index in self.partitions.indices {
            let last = self.partitions[index].chunks.count - 1
            let part = self.partitions[index].chunks[last].part
            guard part.recordCount > 0 else { continue }
            if part.span(self.closeAfter).contains(self.now) {
                self.watch(part)
            } else {
                self.touch(index)
                self.partitions[index].chunks[last].close(self.description)
                self.partitions[index].chunks.append(Chunk(part: part.next))
                hasClosed = true
            }
        }
        return hasClosed
    }

    private mutating func watch(_ part: PartStanding) {
        guard self.closeAfter > 0 else { return }
        let own = part.span(self.closeAfter)
        let start = max(self.span.lowerBound, own.lowerBound)
        self.span = start..<max(start, min(self.span.upperBound, own.upperBound))
    }

    /// Whether an open part waits for its time to be over.
    var hasAgingParts: Bool { self.span != Self.allTimes }

    /// The number of records in open parts, and when the first of them was received.
    var open: (recordCount: Int, oldest: WallTime?) {
        var count = 0
        var oldest = Int64.max
        for partition in self.partitions {
            guard let part = partition.chunks.last?.part, part.recordCount > 0 else { continue }
            count += part.recordCount
            if part.receivedAt > 0 { oldest = min(oldest, part.receivedAt) }
        }
        return (count, oldest == .max ? nil : WallTime(milliseconds: oldest))
    }

    /// The index of a partition that is already known.
    func index(known key: Key) -> Int {
        guard let index = self.indexes[key] else { preconditionFailure("\(key) is unknown") }
        return index
    }

    mutating func index(of key: Key) -> Int {
        if key == self.lastKey { return self.lastIndex }
        let index: Int
        if let known = self.indexes[key] {
            index = known
        } else {
            index = self.partitions.count
            let standing = self.standings[key] ?? PartStanding(number: 0)
            self.partitions.append(Partition(key: key, chunks: [Chunk(part: standing)]))
            self.indexes[key] = index
        }
        self.lastKey = key
        self.lastIndex = index
        return index
    }

    private mutating func touch(_ index: Int) {
        guard !self.partitions[index].isTouched else { return }
        self.partitions[index].isTouched = true
        self.touched.append(index)
    }

    mutating func write(_ record: ExportRecord) {
        let index = self.index(of: Key(env: record.env, day: record.day))
        self.touch(index)
        var last = self.partitions[index].chunks.count - 1
        while !self.partitions[index].chunks[last].append(
            record, self.description, mappingVersion: self.mappingVersion, receivedAt: self.now)
        {
            self.partitions[index].chunks[last].close(self.description)
            self.partitions[index].chunks.append(Chunk(part: self.partitions[index].chunks[last].part.next))
            last += 1
        }
        let part = self.partitions[index].chunks[last].part
        if part.recordCount == 1 { self.watch(part) }
        self.counts.exported += record.eventCount
    }

    mutating func refuse(_ refusal: Refusal) {
        let index = self.index(of: Key(env: refusal.env, day: refusal.day))
        self.touch(index)
        self.partitions[index].deadLetters.append(contentsOf: refusal.deadLetter)
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.dead[refusal.reason.rawValue, default: 0] += 1
        self.counts.refused += 1
    }

    mutating func hold(_ event: HeldEvent) {
        let index = self.index(of: Key(env: event.record.env, day: event.record.day))
        self.touch(index)
        self.partitions[index].held.append(contentsOf: HeldRecord.line(of: event))
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.heldCount += 1
        self.partitions[index].chunks[last].part.add(event.record.fixes)
        self.counts.held += 1
    }

    /// Writes a held record to the open part.
    mutating func release(_ record: ExportRecord) {
        self.write(record)
        let index = self.index(of: Key(env: record.env, day: record.day))
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.heldCount -= 1
        self.counts.held -= 1
    }

    func releasedByteCount(_ index: Int) -> Int {
        self.partitions[index].chunks.last?.part.releasedByteCount ?? 0
    }

    /// Records that the partition's held records up to `byteCount` were released.
    mutating func released(_ index: Int, upTo byteCount: Int) {
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.heldCount = 0
        self.partitions[index].chunks[last].part.releasedByteCount = byteCount
        // Everything is written; events that a seal released did not arrive after it.
        self.touched.removeAll { $0 == index }
    }

    mutating func skip(_ reason: NotExported) {
        self.counts.skips.count(reason)
    }

    /// Updates the parts of a partition with the records written to them.
    mutating func settle(_ index: Int) {
        for chunk in self.partitions[index].chunks.indices { self.partitions[index].chunks[chunk].settle() }
    }

    /// Removes the bytes that were written to the disk, and keeps the state of each open part.
    mutating func written(_ index: Int) {
        self.partitions[index].chunks.removeFirst(self.partitions[index].chunks.count - 1)
        self.partitions[index].chunks[0].removeAll()
        self.partitions[index].deadLetters.removeAll()
        self.partitions[index].held.removeAll()
        self.partitions[index].isTouched = false
    }

    /// Starts the next part of a partition whose open part was closed.
    mutating func closed(_ index: Int) {
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks = [Chunk(part: self.partitions[index].chunks[last].part.next)]
    }

    /// Marks events that arrive for the partition from now on as late.
    mutating func sealed(_ index: Int) {
        let last = self.partitions[index].chunks.count - 1
        let part = self.partitions[index].chunks[last].part
        var next = part.next
        if part.recordCount == 0 { next.number = part.number }
        next.revision = part.revision + 1
        next.openedAt = 0
        self.partitions[index].chunks = [Chunk(part: next)]
    }

    /// Forgets a deleted partition.
    mutating func forget(_ key: Key) {
        self.standings[key] = nil
        self.lastKey = nil
        // Its slot stays empty, because other partitions are identified by their index.
        self.indexes[key] = nil
    }

    /// Records when the first unsealed event was received.
    mutating func opened(_ index: Int, at time: WallTime) {
        let last = self.partitions[index].chunks.count - 1
        guard self.partitions[index].chunks[last].part.openedAt == 0 else { return }
        // 0 means none, and no event was received in 1970.
        self.partitions[index].chunks[last].part.openedAt = max(1, time.milliseconds)
    }

    mutating func allWritten() {
        self.touched.removeAll(keepingCapacity: true)
    }

    /// Saves the counts that recovery restores.
    mutating func checkpointed() {
        self.checkpointedCounts = self.counts
    }

    /// Returns to the state in the checkpoint, and continues with the records of `exporter`.
    mutating func reset(to standings: [Key: PartStanding], _ exporter: borrowing Exporter) {
        self.description = exporter.description
        self.mappingVersion = exporter.options.mappingVersion
        self.indexes = [:]
        self.partitions = []
        self.touched = []
        self.lastKey = nil
        self.standings = standings
        self.counts = self.checkpointedCounts
        self.closeAfter = exporter.options.closeAfter.nanoseconds / 1_000_000
        self.now = 0
        self.span = Self.allTimes
        for (key, standing) in standings.sorted(by: { $0.key < $1.key }) where standing.recordCount > 0 {
            _ = self.index(of: key)
            self.watch(standing)
        }
    }
}
