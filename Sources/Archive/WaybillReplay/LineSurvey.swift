internal import WaybillData
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// What must be known about all lines before the first is replayed: which lines repeat an id, and which line is the
/// newest for each property of each user.
///
/// Built by an extra read of the archive, in the order of its paths; for ids by as many reads as needed with
/// ``idCountMax`` ids in memory. It is immutable afterwards, and all workers share it.
struct LineSurvey: Sendable {
    /// Ids in memory at the same time: 16 bytes each, in a set that is three eighths full in the worst case.
    static let idCountMax = 4 << 20
    static let duplicateCountMax = 16 << 20
    /// The maximum number of user properties: 48 bytes each.
    static let propertyCountMax = 4 << 20

    /// A line that sets a property, and the time of its event.
    private struct Setting: Hashable {
        let time: WallTime
        let position: LinePosition
    }

    /// Offsets of lines that repeat the id of an earlier line, ascending, by part.
    private var duplicates: [Int: [Int]] = [:]
    private var duplicateCount = 0
    private var newest: [Digest128: Setting] = [:]

    init() {}

    func isDuplicate(_ position: LinePosition) -> Bool {
        guard let offsets = self.duplicates[position.part] else { return false }
        var low = 0
        var high = offsets.count
        while low < high {
            let middle = (low + high) / 2
            if offsets[middle] < position.offset { low = middle + 1 } else { high = middle }
        }
        return low < offsets.count && offsets[low] == position.offset
    }

    /// Whether no newer line sets a property.
    func isNewest(_ property: Digest128, _ position: LinePosition, _ time: WallTime) -> Bool {
        self.newest[property] == Setting(time: time, position: position)
    }

    /// Whether a newer line sets or removes a property.
    func isSet(_ property: Digest128, after position: LinePosition, _ time: WallTime) -> Bool {
        guard let known = self.newest[property] else { return false }
        return (known.time, known.position) > (time, position)
    }

    mutating func add(duplicate position: LinePosition) throws(Replay.Failure) {
        guard self.duplicateCount < Self.duplicateCountMax else {
            throw .tooMany(what: "lines that repeat an id", limit: Self.duplicateCountMax)
        }
        self.duplicateCount += 1
        self.duplicates[position.part, default: []].append(position.offset)
    }

    mutating func add(_ property: Digest128, at position: LinePosition, _ time: WallTime) throws(Replay.Failure) {
        if let known = self.newest[property] {
            if (known.time, known.position) > (time, position) { return }
        } else if self.newest.count >= Self.propertyCountMax {
            throw .tooMany(what: "properties of users", limit: Self.propertyCountMax)
        }
        self.newest[property] = Setting(time: time, position: position)
    }

    /// Must be called after all duplicates were added.
    mutating func sortDuplicates() {
        for part in self.duplicates.keys { self.duplicates[part]?.sort() }
    }
}

/// Reads lines for a ``LineSurvey``, in as many passes as needed.
struct LineSurveyor: ~Copyable {
    /// What one pass over the lines looks for.
    enum Pass: Hashable {
        /// Ids whose digest modulo `count` is `share`.
        case ids(share: Int, count: Int)
        /// Properties of users, after the repeated lines are known.
        case properties
    }

    private let filter: LineFilter
    private let providers: [Destination]
    private let wantsDuplicates: Bool
    private var traits = UserTraits()
    private var readers: EventReaders
    private var seen: [DeploymentEnvironment: Set<Digest128>] = [:]
    private(set) var survey = LineSurvey()

    init(request: Replay.Request, erased: ErasedPeople?, poison: PoisonedLines?) {
        self.readers = EventReaders(erased: erased, poison: poison)
        self.filter = LineFilter(request)
        self.wantsDuplicates = request.duplicates == .dropped
        self.providers = request.users == .newest ? request.providers.filter { $0.type.appliesUsersInOrder } : []
    }

    /// Changes the lines that are not read, from now on.
    mutating func use(_ poison: PoisonedLines) {
        self.readers.use(poison)
    }

    /// The passes to make, in order; none if nothing needs to be known.
    func passes(lineCount: Int) -> [Pass] {
        var passes: [Pass] = []
        if self.wantsDuplicates {
            let count = max(1, (lineCount + LineSurvey.idCountMax - 1) / LineSurvey.idCountMax)
            passes += (0..<count).map { .ids(share: $0, count: count) }
        }
        if !self.providers.isEmpty { passes.append(.properties) }
        return passes
    }

    /// Takes the lines of one run, which begins at `offset` of its stream.
    mutating func take(
        _ bytes: UnsafeRawBufferPointer, of description: StreamDescription, from offset: StreamOffset,
        at position: LinePosition, in pass: Pass
    ) throws(Replay.Failure) {
        let reader = self.readers.reader(for: description)
        try bytes.forEachLine { (range) throws(Replay.Failure) in
            let line = UnsafeRawBufferPointer(rebasing: bytes[range])
            let isUnread = reader.poison.readers(at: offset.rawValue + UInt64(range.lowerBound)) != nil
            guard !isUnread, case .event(let facts) = reader.read(line) else { return }
            let position = LinePosition(part: position.part, offset: position.offset + range.lowerBound)
            switch pass {
            case .ids(let share, let count):
                guard self.filter.admits(line, facts, reader.source) else { return }
                try self.takeID(of: line, facts, reader.source, at: position, share, count)
            case .properties:
                guard facts.kind == .user, !self.survey.isDuplicate(position) else { return }
                try self.takeTraits(of: line, facts, reader.source, at: position)
            }
        }
    }

    private mutating func takeID(
        of line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at position: LinePosition,
        _ share: Int, _ count: Int
    ) throws(Replay.Failure) {
        guard let id = Self.id(of: line) else { return }
        // A foreign line without a UUID gets an id that no other line has.
        if source.isForeign, !LineStream.isEventID(UnsafeRawBufferPointer(rebasing: line[id])) { return }
        let digest = Digest128(id: UnsafeRawBufferPointer(rebasing: line[id]))
        guard Int((digest.low ^ digest.high) % UInt64(count)) == share else { return }
        if self.seen[facts.env, default: []].insert(digest).inserted { return }
        try self.survey.add(duplicate: position)
    }

    private mutating func takeTraits(
        of line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at position: LinePosition
    ) throws(Replay.Failure) {
        var properties: [Digest128] = []
        self.traits.visit(line, facts, source, for: self.providers) { properties.append($0) }
        for property in properties { try self.survey.add(property, at: position, facts.time) }
    }

    mutating func finishPass() {
        self.seen = [:]
        self.survey.sortDuplicates()
    }

    /// The range of the id in a line; `nil` if there is no id that a list of ids can hold.
    private static func id(of line: UnsafeRawBufferPointer) -> Range<Int>? {
        var id: Range<Int>?
        var isFound = false
        do throws(JSONError) {
            try JSONScanner.scanObject(line, from: JSONText.byteOrderMarkByteCount(line)) { key, value, kind in
                guard !isFound, key.count == 2, line[key.lowerBound] == UInt8(ascii: "i"),
                    line[key.lowerBound + 1] == UInt8(ascii: "d")
                else { return }
                isFound = true
                if kind == .string, (3...66).contains(value.count) {
                    id = (value.lowerBound + 1)..<(value.upperBound - 1)
                }
            }
        } catch {
            // The reader has accepted it before.
            return nil
        }
        return id
    }
}
