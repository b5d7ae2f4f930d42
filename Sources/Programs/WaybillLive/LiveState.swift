package import WaybillData
package import WaybillExport
internal import WaybillJSON
package import WaybillProjection
package import WaybillSystem

/// What `waybill live` knows: the newest events, and what can be said about them.
///
///     journal ─▶ Follower ─▶ LineRing ─▶ Filter ─▶ rows ─▶ Outcomes, for rows that are shown
///                        └─▶ NameCatalog, KeptLines, meters
///
/// It has one owner, and neither a clock nor a socket. Memory: the ring, and bounded tables.
package struct LiveState<Files: FileSystem>: ~Copyable {
    /// A range of the journal that could not be read.
    package struct Gap: Sendable {
        let number: Int
        let from: JournalPosition
        let to: JournalPosition
    }

    /// A start reads so much of the journal; so much is read when no one has looked for a while.
    private static var backByteCount: Int { 4 << 20 }
    /// A page that comes back may ask for so much more.
    private static var resumeByteCountMax: Int { 64 << 20 }
    private static var gapCountMax: Int { 20 }
    private static var delayCountMax: Int { 1000 }

    let data: DataDirectory<Files>
    private let lone: LoneReader<Files>?
    let mask: Mask
    let outcomes: Outcomes
    private var follower: Follower<Files>?
    /// The people whose lines are not shown.
    var erased: ErasedPeople?
    /// The lines that are not read.
    var poison: PoisonedLines?
    /// The record of erasures when ``erased`` was read; `nil` before the first read.
    private var erasureStamp: [FileStatus?]?
    /// Everything before it was read; `nil` before the first read.
    package private(set) var position: JournalPosition?
    var ring: LineRing
    var line: ShownLine
    var names = NameCatalog()
    var kept = KeptLines()
    var sources = SourceMeters()
    var rate = RateMeter()
    var delays = DelayMeter(countMax: LiveState.delayCountMax)
    private(set) var gaps: [Gap] = []
    /// Whether everything that was there at the start is read: what is new from then on is worth a flag.
    private var isWarm = false
    private let limits: LineRing.Limits
    var receiver = ReceiverFigures()

    package init(
        data: DataDirectory<Files>, exports: [ExportOptions], mask: Mask = .none,
        limits: LineRing.Limits = LineRing.Limits(), lone: LoneReader<Files>? = nil
    ) {
        self.data = data
        self.lone = lone
        self.mask = mask
        self.outcomes = Outcomes(exports)
        self.line = ShownLine(mask: mask)
        self.limits = limits
        self.ring = LineRing(from: JournalPosition(0), limits: limits)
    }

    /// Where a stream continues that shows what comes next.
    package var cursor: LineID { self.ring.newest?.id ?? self.ring.floor }

    /// Begins to read, or begins again where too much came since the last read.
    ///
    /// - Parameters:
    ///   - end: up to where the journal is durable.
    ///   - cursor: what a page has seen last.
    package mutating func begin(upTo end: JournalPosition, resuming cursor: LineID? = nil) throws(FileSystemError) {
        try self.lookForErasures()
        if let position = self.position {
            if self.follower == nil {
                self.follower = self.follower(from: position)
            }
            if position > end {
                // Another journal is in its place.
                self.restart(from: end, after: position)
            } else if end.rawValue - position.rawValue > Self.resumeByteCountMax {
                self.restart(from: try self.start(before: end, resuming: nil), after: position)
            }
            return
        }
        let start = try self.start(before: end, resuming: cursor)
        self.follower = self.follower(from: start)
        self.position = start
        self.ring.removeAll(from: start)
    }

    /// Forgets every line and begins again when someone was erased since the last look.
    ///
    /// Without a readable record nothing is shown.
    private mutating func lookForErasures() throws(FileSystemError) {
        let stamp = try ErasureLog.stamp(in: self.data)
        guard stamp != self.erasureStamp else { return }
        if self.erasureStamp != nil {
            self.follower = nil
            self.position = nil
            self.isWarm = false
            self.ring.removeAll(from: self.ring.floor.batch)
            self.line = ShownLine(mask: self.mask)
            self.names = NameCatalog()
            self.kept = KeptLines()
            self.sources = SourceMeters()
            self.rate = RateMeter()
            self.delays = DelayMeter(countMax: Self.delayCountMax)
        }
        // Not before: after an error, the next look is the first one again.
        self.erasureStamp = []
        self.erased = try ErasedPeople.read(in: self.data)
        self.poison =
            if let lone { try lone.reload() } else { try PoisonedLines.read(in: self.data) }
        self.erasureStamp = stamp
    }

    private func start(
        before end: JournalPosition, resuming cursor: LineID?
    ) throws(FileSystemError) -> JournalPosition {
        let first = try JournalTip.segments(of: self.data.journal, files: self.data.files)?.lowerBound
        var start = end.rawValue - Self.backByteCount
        if let cursor, cursor.batch <= end, end.rawValue - cursor.batch.rawValue < Self.resumeByteCountMax {
            start = min(start, cursor.batch.rawValue)
        }
        return JournalPosition(max(start, first?.rawValue ?? 0, 0))
    }

    private func follower(from start: JournalPosition) -> Follower<Files> {
        Follower(
            journal: self.data.journal, from: start, files: self.data.files, erased: self.erased, poison: self.poison,
            lone: self.lone)
    }

    private mutating func restart(from start: JournalPosition, after position: JournalPosition) {
        self.follower = self.follower(from: start)
        self.position = start
        self.ring.removeAll(from: start)
        self.add(gapFrom: position, to: start)
    }

    /// The number of the newest gap; 0 before the first.
    var newestGap: Int { self.gaps.last?.number ?? 0 }

    private mutating func add(gapFrom start: JournalPosition, to end: JournalPosition) {
        self.gaps.append(Gap(number: self.newestGap + 1, from: start, to: end))
        if self.gaps.count > Self.gapCountMax { self.gaps.removeFirst() }
    }

    /// Reads on, at most so many batches.
    ///
    /// - Returns: whether everything up to `end` was read.
    package mutating func advance(
        upTo end: JournalPosition, now: WallTime, batchCountMax: Int = 64
    ) throws(FileSystemError) -> Bool {
        for _ in 0..<batchCountMax {
            guard var follower = self.follower.take() else { return true }
            // After an error, the next begin makes another one.
            let isThere = try follower.next(upTo: end) { self.take($0, now: now) }
            self.position = follower.position
            self.poison = self.lone?.poison ?? self.poison
            for gap in follower.takeGaps() { self.add(gapFrom: gap.start, to: gap.end) }
            self.follower = consume follower
            guard isThere else {
                self.isWarm = true
                return true
            }
        }
        return false
    }

    private mutating func take(_ followed: FollowedBatch, now: WallTime) {
        let batch = followed.batch
        var news: [Int: [String]] = [:]
        for (index, row) in batch.rows.enumerated() {
            self.line.load(row)
            let found = self.names.add(self.line)
            if self.isWarm, !found.isEmpty { news[index] = found }
            if let delay = row.delay { self.delays.add(delay) }
        }
        self.ring.append(news.isEmpty ? batch : batch.with(news))
        for line in followed.quarantined { self.kept.add(line) }
        self.sources.add(batch, lineCount: followed.lineCount)
        self.rate.add(followed.lineCount, at: batch.receivedAt == .unknown ? now : batch.receivedAt)
    }

    // MARK: Answers

    /// The answer of `/api/events`: newest first.
    package mutating func events(
        _ filter: Filter, before: LineID?, limit: Int, fields: [[String]]
    ) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.member("position", self.cursor.description)
        json.key("rows")
        json.beginArray()
        var count = 0
        var ordinal = before.map { self.ring.ordinal(after: $0) } ?? self.ring.end
        if let before, ordinal > self.ring.start, self.ring[ordinal - 1].id == before { ordinal -= 1 }
        let start = ordinal
        while ordinal > self.ring.start, count < limit, json.output.count < Self.answerByteCountMax {
            ordinal -= 1
            if self.write(self.ring[ordinal], ifMatching: filter, fields, to: &json) { count += 1 }
        }
        json.endArray()
        json.member("scanned", start - ordinal)
        json.member("oldest", self.ring.oldest.map { Int($0.batch.receivedAt.milliseconds) })
        json.endObject()
        return Array(json.output.bytes)
    }

    static var answerByteCountMax: Int { 2 << 20 }

    /// Writes a row if it passes the filter.
    mutating func write(
        _ row: LiveRow, ifMatching filter: Filter, _ fields: [[String]], to json: inout JSONWriter
    ) -> Bool {
        self.line.load(row)
        guard filter.matches(self.line, refusals: { self.outcomes.refusals(of: row) }) else { return false }
        self.write(row, fields, to: &json)
        return true
    }

    /// Writes the row that ``line`` has.
    mutating func write(_ row: LiveRow, _ fields: [[String]], to json: inout JSONWriter) {
        let refusals = self.outcomes.refusals(of: row)
        json.beginObject()
        RowWriter.write(row, self.line, news: row.news, refusals: refusals, fields: fields, to: &json)
        json.endObject()
        guard !refusals.isEmpty else { return }
        let bytes = JSONWriter.object {
            RowWriter.write(row, self.line, news: row.news, refusals: refusals, fields: [], to: &$0)
        }
        for (provider, reason) in refusals { self.kept.add(bytes, at: row.id, refusedBy: provider, because: reason) }
    }

    /// The answer of `/api/event`; `nil` if there is no such event.
    package mutating func event(at id: LineID, upTo end: JournalPosition) throws(FileSystemError) -> [UInt8]? {
        if let row = self.ring.row(at: id) { return self.detail(row) }
        if let line = self.kept.lines().first(where: { $0.id == id }) { return self.detail(line) }
        // An older one: its batch begins there, or there is none.
        guard id.batch < end else { return nil }
        var follower = Follower(
            journal: self.data.journal, from: id.batch, files: self.data.files, erased: self.erased,
            poison: self.poison)
        guard let found = try follower.next(upTo: end), found.batch.position == id.batch else { return nil }
        if let row = found.batch.rows.first(where: { $0.id == id }) { return self.detail(row) }
        return found.quarantined.first { $0.id == id }.map { self.detail($0) }
    }

    /// The answer of `/api/event` for an event's own id, the newest that has it.
    package mutating func event(named id: String) -> [UInt8]? {
        for ordinal in (self.ring.start..<self.ring.end).reversed() {
            self.line.load(self.ring[ordinal])
            if self.line.text("id") == id { return self.detail(self.ring[ordinal]) }
        }
        return nil
    }

    private mutating func detail(_ row: LiveRow) -> [UInt8] {
        self.line.load(row)
        let outcomes = self.outcomes.outcomes(of: row, shown: self.line)
        let refusals = outcomes.filter { $0.kind == .refused }.map { ($0.provider, $0.reason ?? "") }
        return JSONWriter.object { json in
            RowWriter.write(row, self.line, news: row.news, refusals: refusals, fields: [], to: &json)
            RowWriter.writeDetail(row, self.line, outcomes: outcomes, to: &json)
        }
    }

    private func detail(_ line: QuarantinedLine) -> [UInt8] {
        JSONWriter.object { json in
            json.member("at", line.id.description)
            json.member("received", line.receivedAt == .unknown ? nil : Int(line.receivedAt.milliseconds))
            json.member("quarantined", line.reason.rawValue)
            json.member("raw", RowWriter.text(of: line, self.mask))
            json.member("source", line.path)
            json.member("stream", line.reader.source.stream?.id)
            json.member("outcomes", array: [Int]()) { _, _ in }
        }
    }
}

extension LiveBatch {
    /// The same events, of which some show something for the first time.
    func with(_ news: [Int: [String]]) -> LiveBatch {
        var spans = self.spans
        for (index, news) in news { spans[index].news = news }
        return LiveBatch(
            position: self.position, reader: self.reader, path: self.path, receivedAt: self.receivedAt,
            offset: self.offset, spans: spans, bytes: self.bytes)
    }
}
