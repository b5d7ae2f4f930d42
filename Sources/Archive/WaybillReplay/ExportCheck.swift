internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillSystem

/// The content of an export's day, found or expected.
struct ExportTally: Hashable {
    /// Events in records, and events that are held.
    var exported = 0
    var refused = 0
    /// The sum of the checksums of each event with its record; see ``ContentHash``.
    var records: UInt64 = 0
    /// The sum of the checksums of the dead letters, each without the line that it may hold.
    var letters: UInt64 = 0

    var eventCount: Int { self.exported + self.refused }

    func adding(_ other: ExportTally) -> ExportTally {
        ExportTally(
            exported: self.exported + other.exported, refused: self.refused + other.refused,
            records: self.records &+ other.records, letters: self.letters &+ other.letters)
    }
}

/// A dead letter without the line that it may hold, and the line.
struct LetterContent {
    let letter: UInt64
    /// `nil` if the line is not kept.
    let line: UInt64?

    init(_ letter: UnsafeRawBufferPointer, _ tape: inout JSONTape) {
        let letter = ContentHash.content(letter)
        guard tape.accepts(letter), letter.last == UInt8(ascii: "}") else {
            self.letter = ContentHash.hash(letter, seed: 1)
            self.line = nil
            return
        }
        var end = letter.count - 1
        self.line = tape.firstValue(of: "event", in: 0).map { event in
            let value = tape.bytes(of: event)
            // It is the last member.
            end = max(0, end - value.count - ",\"event\":".utf8.count)
            return ContentHash.hash(value)
        }
        self.letter = ContentHash.hash(UnsafeRawBufferPointer(rebasing: letter[..<end]))
    }
}

/// What an exporter makes of the archive.
struct ExpectedSink: ExportSink, ~Copyable {
    /// An event that the archive gives.
    struct Name {
        let id: String
        let record: UInt64
        let isOfUser: Bool
        let isOlder: Bool
        var count: Int
    }

    var kept: [ExportDay: ExportTally] = [:]
    var older: [ExportDay: ExportTally] = [:]
    var skippedCount = 0
    /// Whether the following events are older than the journal, and whether they set properties of a user.
    var isOlder = false
    var isOfUser = false
    /// Held events: lines of `held`, by checksum.
    var held: Set<UInt64> = []
    /// The lines in dead letters, by the checksum of the letter.
    var lines: [UInt64: UInt64] = [:]
    /// Days whose events are collected, and how often each is expected, by checksum.
    var days: Set<ExportDay> = []
    var records: [ExportDay: [UInt64: Int]] = [:]
    var letters: [ExportDay: [UInt64: Int]] = [:]
    /// Checksums of events whose ids are sought, and checksums of ids.
    var soughtRecords: Set<UInt64> = []
    var soughtIDs: Set<UInt64> = []
    var names: [UInt64: Name] = [:]
    var knownIDs: Set<UInt64> = []
    private var tape = JSONTape()

    private mutating func change(_ day: ExportDay, _ body: (inout ExportTally) -> Void) {
        if self.isOlder {
            body(&self.older[day, default: ExportTally()])
        } else {
            body(&self.kept[day, default: ExportTally()])
        }
    }

    mutating func write(_ record: ExportRecord) {
        let content = EventContent(record.bytes, id: record.ids)
        let day = ExportDay(env: record.env, day: record.day)
        self.change(day) {
            $0.exported += 1
            $0.records &+= content.whole
        }
        if self.days.contains(day) { self.records[day, default: [:]][content.whole, default: 0] += 1 }
        self.look(content, record.ids)
    }

    /// Remembers an event that is sought.
    private mutating func look(_ content: EventContent, _ id: UnsafeRawBufferPointer) {
        if !self.soughtIDs.isEmpty {
            let hash = ContentHash.hash(id)
            if self.soughtIDs.contains(hash) { self.knownIDs.insert(hash) }
        }
        guard self.soughtRecords.contains(content.whole) else { return }
        let name = Name(
            id: String(decoding: id, as: UTF8.self), record: content.record, isOfUser: self.isOfUser,
            isOlder: self.isOlder, count: 0)
        self.names[content.whole, default: name].count += 1
    }

    mutating func refuse(_ refusal: Refusal) {
        let content = LetterContent(refusal.deadLetter, &self.tape)
        let day = ExportDay(env: refusal.env, day: refusal.day)
        self.change(day) {
            $0.refused += 1
            $0.letters &+= content.letter
        }
        if let line = content.line { self.lines[content.letter] = line }
        if self.days.contains(day) { self.letters[day, default: [:]][content.letter, default: 0] += 1 }
    }

    /// A seal exports held events.
    mutating func hold(_ event: HeldEvent) {
        let line = HeldRecord.line(of: event)
        self.held.insert(line.withUnsafeBytes { ContentHash.hash(ContentHash.content($0)) })
        self.write(event.record)
    }

    mutating func skip(_ reason: NotExported) {
        self.skippedCount += 1
    }
}

/// An export that is verified: what its files hold, and what they must hold.
final class ExportCheck {
    /// A line of a file, to be compared once all that is expected is known.
    struct FoundLine {
        let path: String
        let range: Range<Int>
        /// The letter's checksum, and that of the line in it; of a held event only the first.
        let content: UInt64
        let line: UInt64?
    }

    let name: String
    let checkpointPath: String
    let position: Int
    let lengths: [String: Int]
    let entries: [String: String]
    let options: ExportOptions
    let description: ProviderDescription
    /// Whether the files are compared with the archive.
    var isCompared = false
    var found: [ExportDay: ExportTally] = [:]
    /// The closed parts of each folder, without extension.
    var closed: [String: [String]] = [:]
    /// Days that a replay made.
    var replayed: Set<ExportDay> = []
    /// Folders of days with a part that cannot be read, which is reported.
    var unreadable: Set<String> = []
    var foundHeld: [FoundLine] = []
    var foundLines: [FoundLine] = []
    /// Dead letters whose events were exported after all, by checksum.
    var retaken: [UInt64: Int] = [:]
    private var exporter: Exporter
    var sink = ExpectedSink()
    /// Lines of the quarantine that this export may have read, or refused unread: nothing can tell which of its events or
    /// dead letters they are.
    private var unreadLineCount = 0
    /// Lines of the archive that this export did not read.
    private var refusedLineCount = 0

    init(
        name: String, options: ExportOptions, checkpointPath: String, position: Int, entries: [String: String],
        lengths: [String: Int]
    ) {
        var options = options
        // Dead letters are compared with and without the line.
        options.keepsRefusedEvents = true
        self.name = name
        self.options = options
        self.checkpointPath = checkpointPath
        self.position = position
        self.entries = entries
        self.lengths = lengths
        self.exporter = Exporter(options)
        self.description = self.exporter.description
    }

    /// The export's folder below the data directory.
    var folder: String { "exports/\(self.name)" }

    /// What the checkpoint says of a part; `nil` if it does not know it.
    ///
    /// - Parameter path: of its records.
    func standing<Files>(ofPart stem: String, _ path: String) -> PartCheck<Files>.Standing? {
        if let idsByteCount = self.lengths[stem + ".ids"] {
            return .open(byteCount: self.lengths[path] ?? .max, idsByteCount: idsByteCount)
        }
        let open = self.entries[PartStanding.keyPrefix + Path.parent(of: stem)].flatMap(PartStanding.place(in:))
        guard PartitionPath.partNumber(of: Path.name(of: stem)) ?? 0 < open?.number ?? 0 else { return nil }
        return self.closing(stem).map { .closing(manifest: $0) } ?? .closed
    }

    /// The manifest of a file that is being compressed.
    func closing(_ stem: String) -> [UInt8]? {
        self.entries["closed:" + stem].map { Array($0.utf8) }
    }

    /// Counts the lines that are not read and that the archive does not have, once all that it has was mapped.
    func countUnread(_ poison: PoisonedLines?) {
        let count = poison?.count(unreadBy: self.readers.union([PoisonOffsets.archive])) ?? 0
        self.unreadLineCount = count - self.refusedLineCount
    }

    /// By whom lines are set aside that this export refuses unread.
    private var readers: Set<String> { [PoisonOffsets.exports, self.options.provider.rawValue] }

    /// Takes one event that the archive does not have for one of the lines that nothing reads.
    ///
    /// - Returns: `false` if all of them were taken.
    func takeUnreadLine() -> Bool {
        guard self.unreadLineCount > 0 else { return false }
        self.unreadLineCount -= 1
        return true
    }

    /// Forgets the expected letters of lines that are not read and that were exported after all, by a version that reads
    /// them: their records are not expected.
    func takeRetaken(from letters: inout [UInt64: Int]) {
        for (letter, count) in self.retaken {
            guard let expected = letters[letter], expected > 0 else { continue }
            let taken = min(count, expected)
            letters[letter] = expected - taken
            self.unreadLineCount += taken
        }
    }

    /// Starts over with nothing expected.
    func expectNothing() {
        self.exporter = Exporter(self.options)
        self.sink = ExpectedSink()
        self.refusedLineCount = 0
    }

    /// Maps one line of the archive; each event gets a record of its own.
    func take(_ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool) {
        if case .event(let facts) = line.reading {
            self.sink.isOfUser = facts.kind == .user
        } else if !line.isRefusedUnread {
            return
        }
        if let poison = line.poison, !poison.isDisjoint(with: self.readers) { self.refusedLineCount += 1 }
        _ = self.exporter.export(
            line, source: source, receivedAt: receivedAt, isAgeJudged: true, isShifted: isShifted, to: &self.sink)
        self.exporter.finishGroup(to: &self.sink)
    }
}
