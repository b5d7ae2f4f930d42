/// For the tests of an app that tracks: a client whose disk is memory and whose clock the test moves.
///
///     let recorder = try Recorder()
///     let cart = Cart(waybill: recorder.waybill)
///     cart.add("toaster")
///     try recorder.expectTracked(AddedToCart(product: "toaster"))
///
/// Nothing is global: each recorder is a client of its own, with an install, a session and ids of its own, and the same
/// in every run. What it records are the lines that a real client would have stored, byte for byte, but for its ids and
/// for the hashes of private values, whose key is the same in every run.
internal import Synchronization
public import Waybill
internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// Records what an app tracks, in memory.
public final class Recorder: Sendable {
    /// What the app under test tracks with.
    public let waybill: WaybillClient
    private let disk = FaultyFileSystem()
    private let clock = ManualClock()
    private let core: ClientCore<FaultyFileSystem, ManualClock>

    /// A recorder whose client is configured as the app's, where that matters to a test.
    ///
    /// Spool and durability are the recorder's own, whatever is configured: each event is stored at once. It is
    /// 2025-03-01T09:14:15.926Z until ``advance(by:)``; the zone is UTC.
    public init(configuring configure: (inout WaybillClient.Configuration) -> Void = { _ in }) throws(WaybillError) {
        var configuration = WaybillClient.Configuration(
            spool: "/spool", environment: .dev, bundle: "com.example.test", version: "1.0", build: "1")
        configuration.device = WaybillClient.Device(os: "Test")
        configuration.language = nil
        configure(&configuration)
        configuration.spool = "/spool"
        // Lines that gather in memory are on no disk, where this looks for them.
        configuration.durability = .process
        let salts = SaltSource()
        self.core = try ClientCore(
            configuration, on: self.disk, clock: self.clock, seed: 1, zone: { _ in 0 }, makeSalt: { salts.next() })
        self.waybill = WaybillClient(core: self.core)
    }

    /// Everything that was stored, in order, Waybill's own events among it.
    public var events: [EventView] {
        self.disk.names("/spool").compactMap { SegmentName(parsing: $0) }.sorted().flatMap { name in
            (self.disk.bytes("/spool/\(name)") ?? []).split(separator: UInt8(ascii: "\n"))
                .compactMap { EventView(line: Array($0) + [UInt8(ascii: "\n")]) }
        }
    }

    /// The names of everything that was stored, in order.
    public var names: [String] {
        self.events.map(\.name)
    }

    /// Moves the clock, as if nothing happened for so long.
    public func advance(by duration: Duration) {
        self.clock.advance(milliseconds: duration.nanoseconds / 1_000_000)
    }

    /// Lets the disk refuse everything from now on, as a full one does.
    public func fillDisk() {
        self.disk.setFaults { _ in .error(Errno.noSpace) }
    }

    /// Gives the disk room again.
    public func freeDisk() {
        self.disk.clearFaults()
    }
}

/// Keys of private values: another one after each reset, and the same ones in every run.
private final class SaltSource: Sendable {
    private let generator = Mutex(SeededGenerator(seed: 1))

    func next() -> PrivacySalt {
        self.generator.withLock { PrivacySalt(&$0) }
    }
}

extension Recorder {
    /// Checks that an event like this one was tracked: its kind, name and screen, and its fields among those stored.
    ///
    /// An event that does not say on which screen it happened may be on any.
    ///
    /// - Parameter count: how often; at least once when it is `nil`.
    public func expectTracked(_ event: some Event, times count: Int? = nil) throws(ExpectationFailure) {
        try self.expect(self.expectation(of: event), count)
    }

    /// Checks that an event of this name was tracked, with these fields among its own.
    ///
    /// - Parameter count: how often; at least once when it is `nil`.
    public func expectTracked(
        _ name: String, _ fields: KeyValuePairs<String, Scalar> = [:], times count: Int? = nil
    ) throws(ExpectationFailure) {
        let fields = fields.map { (name: $0.key, json: $0.value.json(self.core.salt)) }
        try self.expect(Expectation(name: name, fields: fields), count)
    }

    /// Checks that no event like this one was tracked: none of its kind, name and screen that has its fields.
    public func expectNotTracked(_ event: some Event) throws(ExpectationFailure) {
        try self.expect(self.expectation(of: event), 0)
    }

    /// Checks that no event of this name was tracked.
    public func expectNotTracked(_ name: String) throws(ExpectationFailure) {
        try self.expect(Expectation(name: name), 0)
    }

    private func expectation(of event: some Event) -> Expectation {
        var draft = EventDraft()
        draft.take(event, EventRules(), self.core.salt) { _ in }
        let names = draft.fieldNames
        let fields = names.map { name in (name: name, json: draft.json(of: name) ?? "null") }
        // The client calls a screen without a name by its event's.
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

/// What an event must have to be the expected one.
struct Expectation {
    let name: String
    /// `nil`: any.
    var kind: EventKind?
    /// `nil`: any, and none.
    var screen: ScreenRef?
    /// Among the event's own.
    var fields: [(name: String, json: String)] = []

    func isMet(by event: EventView) -> Bool {
        guard event.name == self.name, self.kind == nil || event.kind == self.kind else { return false }
        guard self.screen == nil || event.screenRef == self.screen else { return false }
        let stored = event.fields
        return self.fields.allSatisfy { field in
            stored.contains { $0.name == field.name && $0.json == field.json }
        }
    }
}

extension EventView {
    /// The screen that the event happened on.
    fileprivate var screenRef: ScreenRef? {
        self["screen"].map { ScreenRef($0, type: self["screen_class"], id: self["screen_id"]) }
    }
}

extension Scalar {
    /// The value as it is in a line.
    func json(_ salt: PrivacySalt?) -> String {
        var draft = EventDraft()
        draft.take(.event, "e", nil, EventRules(), salt) { $0.put("value", self) }
        return draft.json(of: "value") ?? "null"
    }
}

/// What a test expected, and what was tracked instead.
public struct ExpectationFailure: Error, Hashable, Sendable, CustomStringConvertible {
    /// For a person: what was expected, and everything that was tracked.
    public let description: String

    init(_ expectation: Expectation, expected: Int?, found: Int, among events: [EventView]) {
        let wanted = Self.text(expectation.kind, expectation.name, expectation.fields, on: expectation.screen)
        let times = expected.map { $0 == 0 ? "not" : "\($0) times" } ?? "at least once"
        let tracked = events.map { event in
            let fields = event.fields.map { (name: $0.name, json: $0.json) }
            return "  \(event.sequence). " + Self.text(event.kind, event.name, fields, on: event.screenRef)
        }
        self.description =
            "\(wanted) was to be tracked \(times), and was \(found) times; tracked"
            + (tracked.isEmpty ? " was nothing" : ":\n" + tracked.joined(separator: "\n"))
    }

    /// As in `screen screen_view(songs: 12) on Playlist, class PlaylistView, id p-7`.
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
