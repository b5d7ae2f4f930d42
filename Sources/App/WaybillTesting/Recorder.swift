/// For tests of an app that tracks: a client with a disk in memory and a clock that the test advances.
///
///     let recorder = try Recorder()
///     let cart = Cart(waybill: recorder.waybill)
///     cart.add("toaster")
///     try recorder.expectTracked(AddedToCart(product: "toaster"))
///
/// Nothing is global: each recorder has its own client, with its own install, session and ids, which are the same in
/// every run. It records the lines that a real client would have stored, byte for byte, except for ids and the hashes
/// of private values, whose salt is the same in every run.
public import Waybill
internal import WaybillEvent
internal import WaybillSpool
package import WaybillSystem

/// Records what an app tracks, in memory.
public final class Recorder: Sendable {
    /// The client for the app under test.
    public let waybill: WaybillClient
    private let disk = RecorderDisk()
    private let clock = ManualClock()
    private let core: ClientCore<RecorderDisk, ManualClock>
    private let witness = Witness()
    private let token: ObserverToken

    /// Creates a recorder whose client has the app's configuration, as far as a test needs it.
    ///
    /// The configured spool and durability are ignored: each event is stored at once. The time is
    /// 2025-03-01T09:14:15.926Z until ``advance(by:)``; the zone is UTC.
    public init(configuring configure: (inout WaybillClient.Configuration) -> Void = { _ in }) throws(WaybillError) {
        var configuration = WaybillClient.Configuration(
            spool: "/spool", environment: .dev, bundle: "com.example.test", version: "1.0", build: "1")
        configuration.device = WaybillClient.Device(os: "Test")
        configuration.language = nil
        configure(&configuration)
        configuration.spool = "/spool"
        // Lines gathered in memory are not on the disk, from which the recorder reads.
        configuration.durability = .process
        let salts = SaltSource()
        self.core = try ClientCore(
            configuration, on: self.disk, clock: self.clock, seed: 1, zone: { _ in 0 }, makeSalt: { salts.next() })
        self.waybill = WaybillClient(core: self.core)
        self.token = self.core.observe(.all(self.witness))
    }

    deinit {
        self.token.cancel()
    }

    /// All stored events in order, including Waybill's own.
    public var events: [EventView] {
        self.disk.names(in: "/spool").compactMap { SegmentName(parsing: $0) }.sorted().flatMap { name in
            self.disk.bytes(of: "/spool/\(name)").split(separator: UInt8(ascii: "\n"))
                .compactMap { EventView(line: Array($0) + [UInt8(ascii: "\n")]) }
        }
    }

    /// The names of all stored events, in order.
    public var names: [String] {
        self.events.map(\.name)
    }

    /// The stored events of one type, in order.
    ///
    /// At most 4096 events may be tracked between two calls of this or ``last(_:)``.
    public func events(of type: any Event.Type) -> [EventView] {
        self.token.drain()
        precondition(self.token.missedCount == 0, "more than 4096 events were tracked since the last call")
        let sequences = self.witness.sequences(of: type)
        return self.events.filter { sequences.contains($0.sequence) }
    }

    /// The last stored event of one type; `nil` if none was stored.
    ///
    ///     #expect(recorder.last(OrderCompleted.self)?.fields["coupon"] == nil)
    public func last(_ type: any Event.Type) -> EventView? {
        self.events(of: type).last
    }

    /// Advances the clock, as if nothing happened for this duration.
    public func advance(by duration: Duration) {
        self.clock.advance(milliseconds: duration.nanoseconds / 1_000_000)
    }

    /// Makes all writes fail from now on, as on a full disk.
    public func fillDisk() {
        self.disk.setFull(true)
    }

    /// Makes writes succeed again.
    public func freeDisk() {
        self.disk.setFull(false)
    }
}

/// Keeps the events with their types, which lines do not have.
private final class Witness: EventObserver {
    private let events = Lock<[EventView]>([])

    func eventStored(_ event: EventView) {
        self.events.withLock { $0.append(event) }
    }

    func sequences(of type: any Event.Type) -> Set<UInt64> {
        self.events.withLock { events in Set(events.filter { $0.isOf(type) }.map(\.sequence)) }
    }
}

/// Salts of private values: a different one after each reset, but the same ones in every run.
private final class SaltSource: Sendable {
    private let generator = Lock(SeededGenerator(seed: 1))

    func next() -> PrivacySalt {
        self.generator.withLock { PrivacySalt(&$0) }
    }
}

extension Recorder {
    /// Checks that an event with the same kind, name and screen, and with at least the same fields, was tracked.
    ///
    /// An event without a screen of its own matches any screen.
    ///
    /// - Parameter count: the expected number; `nil` means at least once.
    public func expectTracked(_ event: some Event, times count: Int? = nil) throws(ExpectationFailure) {
        try self.expect(self.expectation(of: event), count)
    }

    /// Checks that an event with this name, and with at least these fields, was tracked.
    ///
    /// - Parameter count: the expected number; `nil` means at least once.
    public func expectTracked(
        _ name: String, _ fields: KeyValuePairs<String, Scalar> = [:], times count: Int? = nil
    ) throws(ExpectationFailure) {
        let fields = fields.map { (name: $0.key, json: $0.value.json(self.core.salt)) }
        try self.expect(Expectation(name: name, fields: fields), count)
    }

    /// Checks that no event with the same kind, name and screen, and with the same fields, was tracked.
    public func expectNotTracked(_ event: some Event) throws(ExpectationFailure) {
        try self.expect(self.expectation(of: event), 0)
    }

    /// Checks that no event with this name was tracked.
    public func expectNotTracked(_ name: String) throws(ExpectationFailure) {
        try self.expect(Expectation(name: name), 0)
    }

    /// Checks that an event changed at least these traits of the user in this way; `nil` is a removed trait.
    ///
    ///     try recorder.expectTraits(.setOnce, ["first_seen": "2025-03-01"])
    ///     try recorder.expectTraits(.add, ["visits": 1], times: 2)
    ///
    /// - Parameter count: the expected number; `nil` means at least once.
    public func expectTraits(
        _ change: TraitChange, _ traits: KeyValuePairs<String, Scalar?>, times count: Int? = nil
    ) throws(ExpectationFailure) {
        let fields = traits.map { (name: $0.key, json: $0.value?.json(self.core.salt) ?? "null") }
        try self.expect(Expectation(name: "set_user", kind: .user, traitChange: change, fields: fields), count)
    }

    private func expectation(of event: some Event) -> Expectation {
        var draft = EventDraft()
        draft.take(event, EventRules(), self.core.salt) { _ in }
        let names = draft.fieldNames
        let fields = names.map { name in (name: name, json: draft.json(of: name) ?? "null") }
        // The client uses the event's name for a screen without a name.
        let screen = event.screen ?? (draft.kind == .screen ? ScreenRef(draft.name) : nil)
        return Expectation(name: draft.name, kind: draft.kind, screen: screen, fields: fields)
    }

    private func expect(_ expectation: Expectation, _ count: Int?) throws(ExpectationFailure) {
        let events = self.events
        let found = events.count { expectation.isMet(by: $0) }
        guard count.map({ $0 == found }) ?? (found > 0) else {
            throw ExpectationFailure(expectation, expected: count, found: found, among: events)
        }
    }
}

/// The properties that an expected event must have.
struct Expectation {
    let name: String
    /// `nil`: any.
    var kind: EventKind?
    /// `nil`: any, and none.
    var screen: ScreenRef?
    /// What the fields do to the user's traits; `nil` for the fields of an event.
    var traitChange: TraitChange?
    /// Fields that the event must have.
    var fields: [(name: String, json: String)] = []

    func isMet(by event: EventView) -> Bool {
        guard event.name == self.name, self.kind == nil || event.kind == self.kind else { return false }
        guard self.screen == nil || event.screenRef == self.screen else { return false }
        let stored = self.traitChange.map { event.traits($0) } ?? event.fields
        return self.fields.allSatisfy { field in
            stored.contains { $0.name == field.name && $0.json == field.json }
        }
    }
}

extension EventView {
    /// The screen of the event.
    fileprivate var screenRef: ScreenRef? {
        self[member: "screen"].map { ScreenRef($0, type: self[member: "screen_class"], id: self[member: "screen_id"]) }
    }
}

extension Scalar {
    /// The value as encoded in a line.
    func json(_ salt: PrivacySalt?) -> String {
        var draft = EventDraft()
        draft.take(.event, "e", nil, EventRules(), salt) { $0.put("value", self) }
        return draft.json(of: "value") ?? "null"
    }
}

/// A failed expectation: what a test expected, and what was tracked instead.
public struct ExpectationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// A text for people: the expected event, and all tracked events.
    public let description: String

    init(_ expectation: Expectation, expected: Int?, found: Int, among events: [EventView]) {
        let expectedFields = expectation.fields.map {
            (name: Self.name($0.name, expectation.traitChange ?? .set), json: $0.json)
        }
        let wanted = Self.text(expectation.kind, expectation.name, expectedFields, on: expectation.screen)
        let times = expected.map { $0 == 0 ? "not to be tracked" : "to be tracked \($0) times" }
        let tracked = events.map { event in
            let once = event.traits(.setOnce).map { (name: Self.name($0.name, .setOnce), json: $0.json) }
            let added = event.traits(.add).map { (name: Self.name($0.name, .add), json: $0.json) }
            let fields = event.fields.map { (name: $0.name, json: $0.json) } + once + added
            return "  \(event.sequence). " + Self.text(event.kind, event.name, fields, on: event.screenRef)
        }
        self.description =
            "expected \(wanted) \(times ?? "to be tracked at least once"), found \(found); "
            + (tracked.isEmpty ? "nothing was tracked" : "tracked:\n" + tracked.joined(separator: "\n"))
    }

    private static func name(_ name: String, _ change: TraitChange) -> String {
        switch change {
        case .set: name
        case .setOnce: "once \(name)"
        case .add: "add \(name)"
        }
    }

    /// The event as text, such as `screen screen_view(songs: 12) on Playlist, class PlaylistView, id p-7`.
    private static func text(
        _ kind: EventKind?, _ name: String, _ fields: [(name: String, json: String)], on screen: ScreenRef?
    ) -> String {
        let values = fields.map { "\($0.name): \($0.json)" }.joined(separator: ", ")
        var text = kind.map { "\($0.rawValue) " } ?? ""
        text += "\(name)(\(values))"
        guard let screen else { return text }
        text += " on \(screen.name)"
        if let type = screen.type { text += ", class \(type)" }
        if let id = screen.id { text += ", id \(id)" }
        return text
    }
}

/// A clock that tests set.
package final class ManualClock: SystemClock {
    private let times = Lock((wall: Int64(1_740_820_455_926), monotonic: Int64(1_000_000_000)))

    /// Creates a clock that starts `milliseconds` after 2025-03-01T09:14:15.926Z.
    package init(after milliseconds: Int64 = 0) {
        self.advance(milliseconds: milliseconds)
    }

    package func wallTime() -> WallTime { self.times.withLock { WallTime(milliseconds: $0.wall) } }
    package func monotonicTime() -> MonotonicTime { self.times.withLock { MonotonicTime(nanoseconds: $0.monotonic) } }

    /// Advances both clocks.
    package func advance(milliseconds: Int64) {
        self.jump(milliseconds: milliseconds)
        self.times.withLock { $0.monotonic += milliseconds * 1_000_000 }
    }

    /// Moves only the wall clock.
    package func jump(milliseconds: Int64) {
        self.times.withLock { $0.wall += milliseconds }
    }
}
