internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
internal import WaybillSystem

/// The position of a line in a replay's input: the number of its part or batch, and the offset of its first byte there.
struct LinePosition: Hashable, Comparable, Sendable {
    let part: Int
    let offset: Int

    static func < (left: LinePosition, right: LinePosition) -> Bool {
        (left.part, left.offset) < (right.part, right.offset)
    }
}

/// Takes the lines for one provider.
protocol RecordTarget: AnyObject, SendableMetatype {
    func export(_ line: ParsedLine, _ source: SourceDescription, receivedAt: WallTime, isShifted: Bool)
    /// Takes a line that differs from the one in the archive.
    func export(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isShifted: Bool)
    /// Takes an event that the provider does not get, and the reason.
    func leaveOut(_ line: ParsedLine, because reason: LeaveOutReason)
    /// Ends the run, and with it the request shared by its last events.
    func finishRun() throws(FileSystemError)
}

/// Why a replay does not give an event to a provider.
enum LeaveOutReason: String, Hashable, Sendable {
    case duplicate
    /// It sets properties of a user and would restore old values.
    case user
}

/// Selects events of the range.
struct LineFilter: Sendable {
    private let environments: Set<DeploymentEnvironment>
    private let bundles: Set<[UInt8]>
    private let names: Set<[UInt8]>
    private let kinds: Set<EventKind>

    init(_ request: Replay.Request) {
        self.environments = request.range.environments
        self.bundles = Set(request.bundles.map { Array($0.utf8) })
        self.names = Set(request.names.map { Array($0.utf8) })
        self.kinds = request.kinds
    }

    func admits(_ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription) -> Bool {
        if !self.environments.isEmpty, !self.environments.contains(facts.env) { return false }
        if !self.kinds.isEmpty, !self.kinds.contains(facts.kind ?? .event) { return false }
        if !self.names.isEmpty, !self.names.contains(Self.text(facts.name, in: line) ?? Array("log".utf8)) {
            return false
        }
        guard !self.bundles.isEmpty else { return true }
        return self.bundles.contains(Self.text(facts.bundle, in: line) ?? Array(source.bundle.utf8))
    }

    private static func text(_ range: Range<Int>?, in line: UnsafeRawBufferPointer) -> [UInt8]? {
        guard let range else { return nil }
        let body = UnsafeRawBufferPointer(rebasing: line[range])
        return JSONText.hasEscapes(body) ? Array(JSONText.string(body).utf8) : Array(body)
    }
}

/// One provider's output of a feed.
struct FeedOutlet {
    let provider: Destination
    let target: any RecordTarget
    var days: DayCursor
    var counts = Replay.Counts()
}

/// Validates and parses each line once and gives it to every provider whose report includes the line's day.
struct ReplayedLines: ~Copyable {
    let filter: LineFilter
    let range: ExportRange
    let survey: LineSurvey
    let users: Replay.UserEvents
    /// The environment of the lines; `nil` for all.
    let environment: DeploymentEnvironment?
    var outlets: [FeedOutlet]
    /// Of the lines since ``beginPart(overflowOf:)``.
    private(set) var facts = PartFacts()
    /// The day of a part of `_overflow`.
    private var overflowDay: CalendarDay?
    private var traits = UserTraits()
    private let parse = SharedParse()
    private var readers: EventReaders

    init(
        request: Replay.Request, range: ExportRange, survey: LineSurvey, environment: DeploymentEnvironment?,
        outlets: [FeedOutlet], erased: ErasedPeople?, poison: PoisonedLines?
    ) {
        self.readers = EventReaders(erased: erased, poison: poison)
        self.filter = LineFilter(request)
        self.range = range
        self.survey = survey
        self.users = request.users
        self.environment = environment
        self.outlets = outlets
    }

    /// Changes the lines that are not read, from now on.
    mutating func use(_ poison: PoisonedLines) {
        self.readers.use(poison)
    }

    /// - Parameter day: of a part in `_overflow`.
    mutating func beginPart(overflowOf day: CalendarDay?) {
        self.facts = PartFacts()
        self.overflowDay = day
    }

    /// Whether a line is too far from its part's day to be there for its own: archives of before do not say `SHIFTED`.
    private func isFar(_ time: WallTime) -> Bool {
        guard let day = self.overflowDay else { return false }
        return abs(time.milliseconds / 86_400_000 - Int64(day.daysSince1970)) > Int64(ReplayReach.days)
    }

    /// Feeds the lines of one run; ``finishBatch()`` follows the last run of a batch.
    ///
    /// - Parameters:
    ///   - offset: where the run begins in its stream.
    ///   - position: the position of the run's first byte.
    mutating func take(
        _ bytes: UnsafeRawBufferPointer, of description: StreamDescription, from offset: StreamOffset,
        at position: LinePosition, receivedAt: WallTime, shifted: ShiftedRanges
    ) {
        let reader = self.readers.reader(for: description)
        let parse = self.parse
        var start = 0
        while start < bytes.count {
            parse.parse(bytes, from: start, reader, at: offset.rawValue)
            parse.lines.forEach(in: bytes) { line in
                self.take(
                    line, reader, at: LinePosition(part: position.part, offset: position.offset + line.offset),
                    receivedAt, isShifted: shifted.contains(line.streamOffset))
            }
            start = parse.lines.end
        }
    }

    /// Ends the requests that the last events of a batch share.
    mutating func finishBatch() throws(FileSystemError) {
        for outlet in self.outlets { try outlet.target.finishRun() }
    }

    private mutating func take(
        _ line: ParsedLine, _ reader: EventReader, at position: LinePosition, _ receivedAt: WallTime, isShifted: Bool
    ) {
        let source = reader.source
        guard case .event(let facts) = line.reading else {
            if line.isRefusedUnread {
                self.facts.add(receivedAt)
                return self.refuse(line, source, receivedAt)
            }
            if line.reading != .quarantine(.erased) { self.facts.strayLineCount += 1 }
            return
        }
        let isShifted = isShifted || self.isFar(facts.time)
        self.facts.add(isShifted ? receivedAt : facts.time)
        if line.poison != nil { self.facts.add(receivedAt) }
        if let environment, facts.env != environment {
            self.facts.strayLineCount += 1
            return
        }
        guard self.filter.admits(line.bytes, facts, source) else { return }
        for index in self.outlets.indices {
            // The dead letter of a line that the export does not read is on the day of its receipt.
            let isUnread = line.poison?.contains(self.outlets[index].provider.rawValue) ?? false
            let day = self.outlets[index].days.day(of: isUnread || isShifted ? receivedAt : facts.time)
            guard self.range.admits(day) else { continue }
            self.outlets[index].counts.lines += 1
            self.outlets[index].counts.bytes += line.bytes.count + 1
            if self.survey.isDuplicate(position) {
                self.outlets[index].counts.duplicates += 1
                self.outlets[index].target.leaveOut(line, because: .duplicate)
            } else if facts.kind == .user, self.outlets[index].provider.type.appliesUsersInOrder {
                self.takeUser(line, facts, reader, at: position, receivedAt, isShifted: isShifted, outlet: index)
            } else {
                self.outlets[index].target.export(line, source, receivedAt: receivedAt, isShifted: isShifted)
            }
        }
    }

    /// Gives a line that no export reads to those whose report has the day of its receipt, where its dead letter is.
    private mutating func refuse(_ line: ParsedLine, _ source: SourceDescription, _ receivedAt: WallTime) {
        if let environment, source.env != environment { return }
        for index in self.outlets.indices
        where self.range.admits(self.outlets[index].days.day(of: receivedAt)) {
            self.outlets[index].counts.lines += 1
            self.outlets[index].counts.bytes += line.bytes.count + 1
            self.outlets[index].target.export(line, source, receivedAt: receivedAt, isShifted: false)
        }
    }

    private mutating func takeUser(
        _ line: ParsedLine, _ facts: EventFacts, _ reader: EventReader, at position: LinePosition,
        _ receivedAt: WallTime, isShifted: Bool, outlet index: Int
    ) {
        let provider = self.outlets[index].provider
        let isTaken =
            switch self.users {
            case .leftOut: false
            case .newest:
                self.traits.reduce(
                    line.bytes, facts, reader.source, for: provider,
                    isKept: { property, change in
                        switch change {
                        case .set: self.survey.isNewest(property, position, facts.time)
                        case .setOnce: !self.survey.isSet(property, after: position, facts.time)
                        }
                    })
            }
        guard isTaken else {
            self.outlets[index].counts.users += 1
            self.outlets[index].target.leaveOut(line, because: .user)
            return
        }
        let reduced = self.traits.line
        // The ranges in the facts refer to the original line.
        guard case .event(let facts) = reader.read(reduced) else {
            preconditionFailure("a line without some of its traits is an event: \(reduced.count) bytes")
        }
        self.outlets[index].target.export(
            reduced, facts, reader.source, at: line.streamOffset, receivedAt: receivedAt, isShifted: isShifted)
    }
}
