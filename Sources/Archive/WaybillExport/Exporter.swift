package import WaybillEvent
internal import WaybillJSON
package import WaybillSystem

/// The options of an export.
package struct ExportOptions: Sendable {
    package var provider: Destination
    /// The report's time zone, which decides the day of each event.
    package var zone: TimeZoneRules
    /// When a day ends, in seconds after midnight of the next day.
    package var cutOffSecond = 4 * 3600
    /// How long a part takes records, from the receipt of its first; zero: until it is full.
    ///
    /// Not part of the ``fingerprint``: it decides where parts end, not what is in their records.
    package var closeAfter: Duration
    /// The environments whose events are exported.
    package var environments = EnvironmentSet.all
    /// The operator's changes, made before the provider's rules.
    package var mapping: OperatorMapping?
    /// The columns of a ``Destination/custom(_:)`` provider, which requires them.
    package var custom: CustomOptions?
    /// The options of providers, by their type; those that were not set are at their defaults.
    private var providerOptions: [ObjectIdentifier: any ProviderOptions] = [:]
    /// Whether dead letters hold the line itself, too; those of lines whose stream is not known always do.
    ///
    /// Not part of the ``fingerprint``: parts do not depend on it.
    package var keepsRefusedEvents = false

    /// The time of a replay, `nil` for a live export; events that the provider accepts by then are not held.
    ///
    /// Not part of the ``fingerprint``: a live export writes held events when the day is sealed.
    package var replayTime: WallTime?

    package init(provider: Destination, zone: TimeZoneRules = .utc) {
        self.provider = provider
        self.zone = zone
        self.closeAfter = provider.isDelivered ? Self.deliveredCloseAfter : .zero
    }

    /// The options of one type, for its providers.
    package subscript<Options: ProviderOptions>(_ type: Options.Type) -> Options {
        get { self.providerOptions[ObjectIdentifier(type)] as? Options ?? Options() }
        set { self.providerOptions[ObjectIdentifier(type)] = newValue }
    }

    /// The usual ``closeAfter`` of providers whose parts `deliver` sends.
    package static var deliveredCloseAfter: Duration { .seconds(300) }

    /// The version of the operator's mapping; 0 for none.
    package var mappingVersion: Int {
        self.mapping?.version ?? 0
    }
}

/// Maps events to the records of one provider, one line at a time.
///
///     var exporter = Exporter(options)
///     for each line of a batch: exporter.export(line, facts, source: …, to: &sink)
///     exporter.finishGroup(to: &sink)
///
/// Has at most one open group of events, which contains every event not yet passed to the sink. One owner: its buffers
/// are reused from line to line.
package struct Exporter: ~Copyable {
    /// How the provider's records are assembled; asked for once, not for each event.
    private struct RecordForm {
        let eventsPerRecordMax: Int
        let byteCountMax: Int
        let terminator: StaticString

        init(_ provider: some Provider) {
            self.eventsPerRecordMax = provider.eventsPerRecordMax
            self.byteCountMax = provider.recordByteCountMax
            self.terminator = provider.terminator
        }
    }

    package let options: ExportOptions
    private let provider: any Provider
    private let form: RecordForm
    private var days: DayCursor
    /// The provider's name in events.
    private var subscription = ByteBuilder(capacity: 32)
    private var event = MappedEvent()
    private var repair = LineRepair()
    private var patch = FieldPatch()
    private var draft = Draft()
    private var group = RecordGroup()
    private var deadLetter = DeadLetter()
    private var census = OutcomeCensus()

    package init(_ options: ExportOptions) {
        self.options = options
        self.days = DayCursor(options.zone)
        let provider = options.provider.type.init(options)
        self.provider = provider
        self.form = RecordForm(provider)
        self.subscription.append(options.provider.subscriptionName)
    }

    /// Whether the last line has an id: a valid one of its own or, if it is foreign, a UUID of its own or a made one.
    package var isIdentified: Bool { self.event.isIdentified }

    /// The format of this exporter's files.
    package var description: ProviderDescription { self.provider.description }

    /// The format of a built-in provider's files with its default options.
    package static func description(of provider: Destination) -> ProviderDescription {
        Exporter(ExportOptions(provider: provider)).description
    }

    /// What happened to the events of each app since the last call.
    package mutating func takeCensus() -> OutcomeCensus {
        self.census.take()
    }

    /// How many different event names GA4 received for an environment, up to 1000; it keeps 500 per app user.
    package func eventNameCount(in env: DeploymentEnvironment) -> Int {
        self.draft.eventNames.count(in: env)
    }

    /// Maps one line that `EventReader` accepted, and passes finished records to the sink.
    ///
    /// - Parameters:
    ///   - line: without its line feed.
    ///   - offset: where the line begins in its stream.
    ///   - isAgeJudged: whether rules that compare the event's time with `receivedAt` apply; off for replays.
    ///   - isShifted: whether it counts on the day of its receipt, because its own day was one too many.
    package mutating func export<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, source: SourceDescription, at offset: UInt64,
        receivedAt: WallTime, isAgeJudged: Bool, isShifted: Bool = false, to sink: inout Sink
    ) {
        guard self.options.environments.contains(facts.env) else {
            return self.skipEnvironment(line, facts, source, to: &sink)
        }
        do throws(JSONError) {
            try self.event.load(line, facts, source, at: offset)
        } catch {
            self.refuseUnread(
                RefusalCause(.unreadable, "the line is not one JSON object"), app: self.count(line, facts, source),
                source, at: offset, receivedAt: receivedAt, env: facts.env,
                day: self.days.day(of: isShifted ? receivedAt : facts.time), to: &sink)
            return
        }
        self.exportLoaded(
            line, source, receivedAt: receivedAt, isAgeJudged: isAgeJudged, isShifted: isShifted, to: &sink)
    }

    /// Whether this export refuses a line that some do not read; `nil`: it reads it; `false`: the quarantine has it.
    private func isRefused(_ readers: Set<String>) -> Bool? {
        if readers.contains(PoisonOffsets.archive) { return false }
        return readers.contains(PoisonOffsets.exports) || readers.contains(self.options.provider.rawValue) ? true : nil
    }

    /// Refuses a line without reading it, because that ended the program before: in the environment of its stream, on
    /// the day of its receipt.
    package mutating func refusePoison<Sink: ExportSink & ~Copyable>(
        _ source: SourceDescription, at offset: UInt64, receivedAt: WallTime, to sink: inout Sink
    ) {
        let app = self.census.index(ofApp: source.bundle)
        self.census.addLines(1, of: app)
        guard self.options.environments.contains(source.env) else {
            self.census.add(1, .skipped(.environment), of: app)
            return sink.skip(.environment)
        }
        self.refuseUnread(
            RefusalCause(.poison, "reading the line ended the program"), app: app, source, at: offset,
            receivedAt: receivedAt, env: source.env, day: self.days.day(of: receivedAt), to: &sink)
    }

    private mutating func refuseUnread<Sink: ExportSink & ~Copyable>(
        _ cause: RefusalCause, app: Int, _ source: SourceDescription, at offset: UInt64, receivedAt: WallTime,
        env: DeploymentEnvironment, day: CalendarDay, to sink: inout Sink
    ) {
        self.census.add(1, .refused(cause.reason), of: app)
        self.deadLetter.writeUnread(
            cause, provider: self.options.provider, place: source.stream.map { ($0, offset) }, at: receivedAt,
            mappingVersion: self.options.mappingVersion)
        sink.refuse(Refusal(reason: cause.reason, deadLetter: self.deadLetter.bytes, env: env, day: day))
    }

    /// Reads one line like `reader`, and maps it if it is an event.
    ///
    /// - Parameter offset: where the line begins in its stream.
    /// - Returns: whether it is an event.
    package mutating func export<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, _ reader: EventReader, at offset: UInt64, receivedAt: WallTime,
        isAgeJudged: Bool, isShifted: Bool = false, to sink: inout Sink
    ) -> Bool {
        if let readers = reader.poison.readers(at: offset), let isRefused = self.isRefused(readers) {
            if isRefused { self.refusePoison(reader.source, at: offset, receivedAt: receivedAt, to: &sink) }
            return isRefused
        }
        guard case .event(let facts) = self.event.load(line, reader, at: offset) else { return false }
        if self.options.environments.contains(facts.env) {
            self.exportLoaded(
                line, reader.source, receivedAt: receivedAt, isAgeJudged: isAgeJudged, isShifted: isShifted, to: &sink)
        } else {
            self.skipEnvironment(line, facts, reader.source, to: &sink)
        }
        return true
    }

    /// Maps a line that was already read and parsed, if it is an event.
    ///
    /// - Returns: whether it is an event.
    package mutating func export<Sink: ExportSink & ~Copyable>(
        _ line: ParsedLine, source: SourceDescription, receivedAt: WallTime, isAgeJudged: Bool, isShifted: Bool = false,
        to sink: inout Sink
    ) -> Bool {
        if let readers = line.poison, let isRefused = self.isRefused(readers) {
            if isRefused { self.refusePoison(source, at: line.streamOffset, receivedAt: receivedAt, to: &sink) }
            return isRefused
        }
        guard case .event(let facts) = line.reading else { return false }
        if self.options.environments.contains(facts.env) {
            self.event.load(
                line.parsed, facts, of: line.bytes, source, at: line.streamOffset, madeID: line.madeID)
            self.exportLoaded(
                line.bytes, source, receivedAt: receivedAt, isAgeJudged: isAgeJudged, isShifted: isShifted, to: &sink)
        } else {
            self.skipEnvironment(line.bytes, facts, source, to: &sink)
        }
        return true
    }

    /// Counts an event for its app.
    ///
    /// - Returns: the app's index in the census.
    private mutating func count(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription
    ) -> Int {
        let app: Int
        if let bundle = facts.bundle {
            app = self.census.index(ofApp: UnsafeRawBufferPointer(rebasing: line[bundle]))
        } else {
            app = self.census.index(ofApp: source.bundle)
        }
        self.census.addLines(1, of: app)
        return app
    }

    private mutating func skipEnvironment<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, _ facts: EventFacts, _ source: SourceDescription, to sink: inout Sink
    ) {
        self.census.add(1, .skipped(.environment), of: self.count(line, facts, source))
        sink.skip(.environment)
    }

    /// Maps the event that was loaded from `line`.
    private mutating func exportLoaded<Sink: ExportSink & ~Copyable>(
        _ line: UnsafeRawBufferPointer, _ source: SourceDescription, receivedAt: WallTime, isAgeJudged: Bool,
        isShifted: Bool, to sink: inout Sink
    ) {
        let isAgeJudged = isAgeJudged && receivedAt != .unknown
        let app = self.count(line, self.event.facts, source)
        let day = self.days.day(of: isShifted ? receivedAt : self.event.facts.time)
        let outcome = self.map(receivedAt: receivedAt, isAgeJudged: isAgeJudged)
        let fate = self.fate(day: day, receivedAt: receivedAt, isAgeJudged: isAgeJudged)
        switch self.released(outcome) {
        case .written:
            self.census.add(self.draft.fixes, of: app)
            if self.form.eventsPerRecordMax > 1 {
                self.addToGroup(fate, to: &sink)
            } else {
                sink.write(self.record(fate))
            }
        case .skipped(let reason):
            self.census.add(1, .skipped(reason), of: app)
            sink.skip(reason)
        case .held(let notBefore):
            self.census.add(self.draft.fixes, of: app)
            self.census.add(1, .held, of: app)
            precondition(self.form.eventsPerRecordMax == 1, "a held event has a record of its own")
            sink.hold(HeldEvent(record: self.record(fate), notBefore: notBefore))
        case .refused(let cause):
            self.census.add(1, .refused(cause.reason), of: app)
            let isKept = self.options.keepsRefusedEvents || source.stream == nil
            self.deadLetter.write(
                cause, provider: self.options.provider, of: self.event, place: source.stream,
                line: isKept && cause.reason != .consent ? line : nil, at: receivedAt,
                mappingVersion: self.options.mappingVersion)
            sink.refuse(
                Refusal(reason: cause.reason, deadLetter: self.deadLetter.bytes, env: fate.env, day: fate.day))
        }
    }

    /// Passes the open group's record to the sink; called at the end of each batch.
    package mutating func finishGroup<Sink: ExportSink & ~Copyable>(to sink: inout Sink) {
        guard self.group.eventCount > 0 else { return }
        self.group.close(self.form.terminator)
        let ids = self.group.ids.bytes
        sink.write(
            ExportRecord(
                bytes: self.group.output.bytes, ids: ids, eventCount: self.group.eventCount, env: self.group.env,
                day: self.group.day, oldest: self.group.oldest, fixes: self.group.fixes,
                firstID: UnsafeRawBufferPointer(rebasing: ids[..<self.group.firstIDByteCount]),
                lastID: UnsafeRawBufferPointer(rebasing: ids[(ids.count - self.group.lastIDByteCount)...]),
                late48HoursCount: self.group.late48HoursCount, late24HoursCount: self.group.late24HoursCount))
        self.group.removeAll()
    }

    // MARK: Steps

    /// Selects, overrides, applies the operator's mapping and the provider's own rules.
    private mutating func map(receivedAt: WallTime, isAgeJudged: Bool) -> MappingOutcome {
        let context = MappingContext(
            receivedAt: receivedAt, isAgeJudged: isAgeJudged,
            offsetSeconds: self.days.offsetSeconds(at: self.event.facts.time))
        return self.map(self.provider, context)
    }

    private mutating func map(_ provider: some Provider, _ context: MappingContext) -> MappingOutcome {
        var fixes = FixCounts()
        if let cause = self.repairEvent(isStrict: provider.isJSON, &fixes) { return cause }
        if let reason = self.select(provider) { return reason }
        self.draft.removeAll()
        self.draft.fixes = fixes
        return provider.map(self.event, context, into: &self.draft)
    }

    /// Repairs what the provider's JSON reader would refuse; returns why that is impossible, if it is.
    @inline(__always)
    private mutating func repairEvent(isStrict: Bool, _ fixes: inout FixCounts) -> MappingOutcome? {
        guard self.event.needsRepair(isStrict: isStrict) else { return nil }
        self.repair.write(self.event, isStrict: isStrict)
        fixes = self.repair.fixes
        do throws(JSONError) {
            try self.event.take(self.repair)
            return nil
        } catch {
            return .refused(RefusalCause(.unreadable, "the line is too large to be repaired"))
        }
    }

    /// Returns why the event is not mapped; otherwise applies its override and the operator's mapping.
    @inline(__always)
    private mutating func select(_ provider: some Provider) -> MappingOutcome? {
        let name = self.subscription.bytes
        guard self.event.isSubscribed(by: name) else { return .skipped(.notSubscribed) }
        var override: Int?
        if let overrides = self.event.object(.overrides),
            let index = self.event.tape.firstValue(of: name, in: overrides), self.event.tape[index].kind == .object
        {
            if let skip = self.event.tape.firstValue(of: "skip", in: index), self.event.tape[skip].kind == .true {
                return .skipped(.override)
            }
            override = index
        }
        guard provider.takes(self.event.kind) else { return .skipped(.kind) }
        if self.event.flag(.consent, "analytics") == false {
            return .refused(
                RefusalCause(.consent, "the person did not consent to analytics", field: "consent.analytics"))
        }
        if let override { self.event.apply(override: override) }
        guard let mapping = self.options.mapping?.compiled else { return nil }
        return self.apply(mapping)
    }

    /// Applies the operator's mapping; returns why the event is not mapped, if it is not.
    private mutating func apply(_ mapping: CompiledMapping) -> MappingOutcome? {
        guard let rules = self.patch.select(self.event, mapping) else { return .skipped(.mapping) }
        if !rules.isEmpty {
            self.patch.write(rules, of: self.event, mapping)
            do throws(JSONError) {
                try self.event.take(fieldsOf: self.patch)
            } catch {
                return .refused(RefusalCause(.unreadable, "the mapped fields are too large to be read"))
            }
        }
        if let name = self.patch.name(for: self.event, mapping) { self.event.rename(to: name) }
        return nil
    }

    private func fate(day: CalendarDay, receivedAt: WallTime, isAgeJudged: Bool) -> EventFate {
        let time = self.event.facts.time
        var isLate24Hours = false
        if isAgeJudged, let start = self.event.sessionStart {
            isLate24Hours =
                receivedAt.milliseconds > Int64(clamping: start) + Limits.GA4.attributionMillisecondsMax
        }
        return EventFate(
            id: self.event.identifier ?? TextSlice("-").body, env: self.event.facts.env, day: day, time: time,
            isLate48Hours: isAgeJudged
                && receivedAt.milliseconds - time.milliseconds > Limits.GA4.joinMillisecondsMax,
            isLate24Hours: isLate24Hours)
    }

    // MARK: Records

    /// Turns a held event into a written one if its hold has ended by the time of a replay.
    private func released(_ outcome: MappingOutcome) -> MappingOutcome {
        guard case .held(let notBefore) = outcome, let time = self.options.replayTime, notBefore <= time else {
            return outcome
        }
        return .written
    }

    /// The record of one event, which is in the draft.
    private mutating func record(_ fate: EventFate) -> ExportRecord {
        self.draft.json.output.append(self.form.terminator)
        return ExportRecord(
            bytes: self.draft.json.output.bytes, ids: fate.id, eventCount: 1, env: fate.env, day: fate.day,
            oldest: fate.time, fixes: self.draft.fixes, firstID: fate.id, lastID: fate.id,
            late48HoursCount: fate.isLate48Hours ? 1 : 0, late24HoursCount: fate.isLate24Hours ? 1 : 0)
    }

    private mutating func addToGroup<Sink: ExportSink & ~Copyable>(_ fate: EventFate, to sink: inout Sink) {
        if self.group.eventCount > 0,
            !self.group.accepts(
                self.draft, fate, eventCountMax: self.form.eventsPerRecordMax, byteCountMax: self.form.byteCountMax)
        {
            self.finishGroup(to: &sink)
        }
        if self.group.eventCount == 0 { self.group.open(self.draft, fate) }
        self.group.append(self.draft, fate)
    }
}
