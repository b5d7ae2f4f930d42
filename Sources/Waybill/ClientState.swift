internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// Both clocks at one instant.
struct Moment: Hashable, Sendable {
    let wall: WallTime
    let monotonic: MonotonicTime

    /// Whole milliseconds since an earlier moment, by the clock that never jumps.
    func milliseconds(since earlier: MonotonicTime) -> UInt64 {
        UInt64(max(0, self.monotonic.nanoseconds - earlier.nanoseconds) / 1_000_000)
    }

    /// The longer of what both clocks say: the monotonic one stands still while a device sleeps.
    func isIdle(since earlier: Moment) -> Bool {
        self.monotonic - earlier.monotonic >= Self.sessionIdle
            || .milliseconds(self.wall.milliseconds - earlier.wall.milliseconds) >= Self.sessionIdle
    }

    /// What ends a session: 30 minutes, as with Segment, PostHog, Snowplow and Firebase.
    private static let sessionIdle = Duration.seconds(30 * 60)
}

/// All that changes from event to event; behind the client's one lock, with the time as an argument.
struct ClientState<Files: FileSystem>: ~Copyable {
    private var spool: SpoolWriter<Files>
    private var context: EventContext
    private var line = LineBuffer(capacity: 2048)
    private var ids = UniqueIDSequence()
    private var generator: SeededGenerator
    private var identity: EventIdentity
    private var isAllowed = true
    private let start: MonotonicTime
    /// The last event, or the start before the first.
    private var activity: Moment
    private var lastStored: MonotonicTime?
    private var screenEntered: MonotonicTime
    private let zone: @Sendable (WallTime) -> Int
    private var zoneQuarter: Int64 = .min
    /// Drops that no `wb.dropped` event tells of yet.
    private var unreported = [UInt64](repeating: 0, count: Drop.Reason.allCases.count)
    private var hasUnreported = false
    private let report = EventPartsBox()
    private var reportCount: UInt64 = 0
    private(set) var counters = Counters()
    private var observations: [Observation] = []

    init(
        spool: consuming SpoolWriter<Files>, writer: UniqueID, origin: EventOrigin, install: Install,
        generator: SeededGenerator, at now: Moment, zone: @escaping @Sendable (WallTime) -> Int
    ) {
        self.spool = spool
        self.context = EventContext(writer: writer, origin: origin)
        self.generator = generator
        self.identity = EventIdentity(
            session: .timed(now.wall.milliseconds, &self.generator), sessionNumber: install.sessionNumber, user: nil,
            anonymous: install.anonymous)
        self.context.setIdentity(self.identity)
        self.start = now.monotonic
        self.activity = now
        self.screenEntered = now.monotonic
        self.zone = zone
    }

    /// What the next process must know.
    var install: Install {
        Install(anonymous: self.identity.anonymous, sessionNumber: self.identity.sessionNumber)
    }

    /// Rises when the install is worth saving: with a new session, and when a disk that refused writes again.
    var saveMark: UInt64 {
        self.identity.sessionNumber + self.reportCount
    }

    mutating func store(_ parts: borrowing EventParts, at now: Moment) -> TrackOutcome {
        guard self.isAllowed else { return self.drop(.optedOut) }
        return self.write(parts, at: now)
    }

    private mutating func write(_ parts: borrowing EventParts, at now: Moment) -> TrackOutcome {
        self.counters.repairs += parts.repairs
        guard parts.hasName else { return self.drop(.invalid) }
        self.advance(to: now)
        if self.hasUnreported, let drop = self.reportDrops(at: now) { return self.drop(drop) }
        let outcome = self.append(parts, at: now)
        if case .dropped(let drop) = outcome { return self.drop(drop) }
        return outcome
    }

    /// Begins a session after a long silence, and keeps the zone current.
    private mutating func advance(to now: Moment) {
        if now.isIdle(since: self.activity) { self.beginSession(at: now) }
        self.activity = now
        // Zones change their offset at quarters of an hour only.
        let quarter = now.wall.milliseconds / 900_000
        if quarter != self.zoneQuarter {
            self.zoneQuarter = quarter
            self.context.zoneMinutes = self.zone(now.wall)
        }
    }

    private mutating func beginSession(at now: Moment) {
        self.identity.session = .timed(now.wall.milliseconds, &self.generator)
        self.identity.sessionNumber += 1
        self.context.setIdentity(self.identity)
    }

    private mutating func append(_ parts: borrowing EventParts, at now: Moment) -> TrackOutcome {
        let sequence = self.spool.nextSequence
        let stamp = EventStamp(
            id: self.ids.next(at: now.wall.milliseconds, random: self.generator.next()),
            sequence: sequence,
            wallMilliseconds: now.wall.milliseconds,
            upMilliseconds: now.milliseconds(since: self.start),
            sincePreviousMilliseconds: self.lastStored.map { now.milliseconds(since: $0) },
            onScreenMilliseconds: now.milliseconds(since: self.screenEntered))
        self.context.encode(parts, stamp, into: &self.line)
        if parts.kind == .screen {
            self.context.enterScreen(of: parts)
            self.screenEntered = now.monotonic
        }
        guard !self.line.isOverflowing else { return .dropped(.tooLarge) }
        do throws(FileSystemError) {
            try self.spool.append(UnsafeRawBufferPointer(self.line.bytes))
        } catch {
            return .dropped(error.isDiskFull ? .diskFull : .diskError)
        }
        self.lastStored = now.monotonic
        self.counters.count(storedByteCount: self.line.count)
        if !self.observations.isEmpty { self.show(parts, sequence) }
        return .stored(seq: sequence)
    }

    /// Hands the line that was just stored to whoever watches.
    private mutating func show(_ parts: borrowing EventParts, _ sequence: UInt64) {
        self.observations.removeAll(where: \.isCancelled)
        var event: EventView?
        for observation in self.observations where observation.includes(parts.type, parts.kind) {
            let seen = event ?? EventView(sequence: sequence, kind: parts.kind, line: Array(self.line.bytes))
            observation.take(seen)
            event = seen
        }
    }

    private mutating func drop(_ drop: Drop) -> TrackOutcome {
        self.counters.count(drop)
        if drop != .optedOut {
            self.unreported[drop.reason.rawValue] += 1
            self.hasUnreported = true
        }
        return .dropped(drop)
    }

    /// Stores `wb.dropped` with the numbers; returns why it could not.
    private mutating func reportDrops(at now: Moment) -> Drop? {
        let counts = self.unreported
        self.report.parts.take(.meta, "wb.dropped", nil, []) { fields in
            fields.put("count", counts.reduce(0, +))
            for reason in Drop.Reason.allCases where counts[reason.rawValue] > 0 {
                fields.put(Drop(reason: reason).description, counts[reason.rawValue])
            }
        }
        let report = self.report
        if case .dropped(let drop) = self.append(report.parts, at: now) { return drop }
        for index in self.unreported.indices { self.unreported[index] = 0 }
        self.hasUnreported = false
        self.reportCount += 1
        return nil
    }
}

extension ClientState {
    mutating func observe(_ observation: Observation) {
        self.observations.append(observation)
    }

    /// No event comes any more.
    mutating func cancelObservations() {
        for observation in self.observations { observation.cancel() }
    }

    mutating func setUser(_ id: String?, _ parts: borrowing EventParts, at now: Moment) -> TrackOutcome {
        guard self.isAllowed else { return self.drop(.optedOut) }
        if let id, id.isEmpty || id.utf8.count > EventLimits.userByteCountMax { return self.drop(.invalid) }
        self.identity.user = id
        self.context.setIdentity(self.identity)
        return self.write(parts, at: now)
    }

    mutating func setVendorID(_ id: String?, for provider: ProviderID) {
        self.identity.vendor.removeAll { $0.provider == provider }
        if let id { self.identity.vendor.append(EventIdentity.VendorID(provider: provider, id: id)) }
        self.context.setIdentity(self.identity)
    }

    mutating func register(_ common: EventPartsBox) {
        self.context.common = common
        self.counters.repairs += common.parts.repairs
    }

    mutating func setConsent(analytics: Bool, ads: Bool, _ parts: borrowing EventParts, at now: Moment) -> TrackOutcome
    {
        self.isAllowed = analytics
        self.context.setConsent(analytics: analytics, ads: ads)
        return self.write(parts, at: now)
    }

    mutating func reset(at now: Moment) {
        self.identity.user = nil
        self.identity.vendor = []
        self.identity.anonymous = UniqueID.random(&self.generator).text
        self.context.leaveScreen()
        self.beginSession(at: now)
        self.activity = now
    }

    mutating func installFailed() {
        self.counters.installFailures += 1
    }

    var flush: SpoolFlush {
        self.spool.flush
    }

    mutating func flushEnded(_ flush: SpoolFlush, _ error: FileSystemError?) {
        if error == nil {
            self.spool.flushed(flush)
        } else {
            self.spool.flushFailed(flush)
        }
    }
}
