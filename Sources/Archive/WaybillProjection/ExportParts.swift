internal import WaybillEvent
internal import WaybillExport
internal import WaybillSystem

/// Collects an exporter's output for one batch, by partition and part; accesses no disk.
struct PartSink: ExportSink, ~Copyable {
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
        ///
        /// - Returns: the fixes that were made since the last call.
        mutating func settle() -> FixCounts {
            let fixes = self.fixes
            self.part.add(fixes)
            self.fixes = FixCounts()
            guard !self.ids.isEmpty else { return fixes }
            self.part.lastID = String(decoding: self.ids.dropLast().suffix(self.lastIDByteCount), as: UTF8.self)
            return fixes
        }

        /// Removes the contents; keeps the capacity unless it is unusually large.
        mutating func removeAll() {
            self.records.removeAll(keepingCapacity: self.records.capacity <= 1 << 20)
            self.ids.removeAll(keepingCapacity: true)
        }
    }

    struct Partition {
        let key: ExportDay
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
        /// Refusals and fixes.
        var outcomes = OutcomeCounts()
    }

    private var description: ProviderDescription
    private var mappingVersion: Int
    /// In milliseconds; 0 for parts of any age.
    private var closeAfter: Int64
    /// The last time of receipt, in milliseconds; 0 if it is unknown.
    private var now: Int64 = 0
    /// The times of receipt at which no part is due.
    private var span = Self.allTimes
    private var indexes: [ExportDay: Int] = [:]
    private var lastKey: ExportDay?
    private var lastIndex = 0
    var partitions: [Partition] = []
    private(set) var touched: [Int] = []
    private(set) var counts = Counts()
    private var checkpointedCounts = Counts()
    /// Whether refused events get dead letters; events that have one do not need another.
    var keepsLetters = true
    /// The part with which a partition continues, from the checkpoint or the disk.
    var standings: [ExportDay: PartStanding] = [:]

    init(_ exporter: borrowing Exporter) {
        self.description = exporter.description
        self.mappingVersion = exporter.options.mappingVersion
        self.closeAfter = exporter.options.closeAfter.nanoseconds / 1_000_000
    }

    private static var allTimes: Range<Int64> { .min..<(.max) }

    /// Closes the parts whose time is over: call it with each batch's time of receipt before its lines.
    ///
    /// A later call with a time that no batch has makes no difference to the content of parts.
    mutating func pass(_ time: WallTime) {
        self.now = max(0, time.milliseconds)
        guard time > .unknown, !self.span.contains(self.now) else { return }
        self.span = Self.allTimes
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
            }
        }
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
    var open: (partCount: Int, recordCount: Int, oldest: WallTime?) {
        var partCount = 0
        var count = 0
        var oldest = Int64.max
        for partition in self.partitions {
            guard let part = partition.chunks.last?.part, part.recordCount > 0 else { continue }
            partCount += 1
            count += part.recordCount
            if part.receivedAt > 0 { oldest = min(oldest, part.receivedAt) }
        }
        return (partCount, count, oldest == .max ? nil : WallTime(milliseconds: oldest))
    }

    /// The index of a partition that is already known.
    func index(known key: ExportDay) -> Int {
        guard let index = self.indexes[key] else { preconditionFailure("\(key) is unknown") }
        return index
    }

    /// The open part of a partition; `nil` if none is known.
    func standing(of key: ExportDay) -> PartStanding? {
        self.indexes[key].flatMap { self.partitions[$0].chunks.last?.part }
    }

    mutating func index(of key: ExportDay) -> Int {
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
        let index = self.index(of: ExportDay(env: record.env, day: record.day))
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
        self.counts.refused += 1
        self.counts.outcomes.add(1, .refused(refusal.reason))
        guard self.keepsLetters else { return }
        let index = self.index(of: ExportDay(env: refusal.env, day: refusal.day))
        self.touch(index)
        self.partitions[index].deadLetters.append(contentsOf: refusal.deadLetter)
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.dead[refusal.reason.rawValue, default: 0] += 1
    }

    mutating func hold(_ event: HeldEvent) {
        let index = self.index(of: ExportDay(env: event.record.env, day: event.record.day))
        self.touch(index)
        self.partitions[index].held.append(contentsOf: HeldRecord.line(of: event))
        let last = self.partitions[index].chunks.count - 1
        self.partitions[index].chunks[last].part.heldCount += 1
        self.partitions[index].chunks[last].part.add(event.record.fixes)
        self.counts.outcomes.add(event.record.fixes)
        self.counts.held += 1
    }

    /// Writes a held record to the open part.
    mutating func release(_ record: ExportRecord) {
        self.write(record)
        let index = self.index(of: ExportDay(env: record.env, day: record.day))
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
        for chunk in self.partitions[index].chunks.indices {
            self.counts.outcomes.add(self.partitions[index].chunks[chunk].settle())
        }
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
    mutating func forget(_ key: ExportDay) {
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
    mutating func reset(to standings: [ExportDay: PartStanding], _ exporter: borrowing Exporter) {
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
