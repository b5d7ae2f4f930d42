/// For the tests of an app that tracks: a client whose disk is memory and whose clock the test moves.
///
///     let recorder = try Recorder()
///     let cart = Cart(waybill: recorder.waybill)
///     cart.add("toaster")
///     try recorder.expectTracked(AddedToCart(product: "toaster"))
///
/// Nothing is global: each recorder is a client of its own, with an install, a session and ids of its own, and the same
/// in every run. What it records are the lines that a real client would have stored, byte for byte, but for its ids.
public import Waybill
internal import WaybillEvent
internal import WaybillSpool
internal import WaybillSystem

/// Records what an app tracks, in memory.
public final class Recorder: Sendable {
    /// What the app under test tracks with.
    public let waybill: Waybill
    private let disk = FaultyFileSystem()
    private let clock = ManualClock()
    private let core: ClientCore<FaultyFileSystem, ManualClock>

    /// A recorder whose client is configured as the app's, where that matters to a test.
    ///
    /// It is 2025-03-01T09:14:15.926Z until ``advance(by:)``; the zone is UTC.
    public init(configuring configure: (inout Waybill.Configuration) -> Void = { _ in }) throws(WaybillError) {
        var configuration = Waybill.Configuration(
            spool: "/spool", environment: .dev, bundle: "com.example.test", version: "1.0", build: "1")
        configuration.device = Waybill.Device(os: "Test")
        configuration.language = nil
        configure(&configuration)
        configuration.spool = "/spool"
        self.core = try ClientCore(configuration, on: self.disk, clock: self.clock, seed: 1, zone: { _ in 0 })
        self.waybill = Waybill(core: self.core)
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
        self.disk.setFaults { _ in .error(SystemErrorText.noSpace) }
    }

    /// Gives the disk room again.
    public func freeDisk() {
        self.disk.clearFaults()
    }
}

extension Recorder {
    /// Checks that an event like this one was tracked: its name, and its fields among those stored.
    ///
    /// - Parameter count: how often; at least once when it is `nil`.
    public func expectTracked(_ event: some Event, times count: Int? = nil) throws(ExpectationFailure) {
        var draft = EventDraft()
        draft.take(event, EventRules(), self.core.salt) { _ in }
        let names = draft.fieldNames
        let fields = names.map { name in (name, draft.json(of: name) ?? "null") }
        try self.expect(draft.name, fields, count)
    }

    /// Checks that an event of this name was tracked, with these fields among its own.
    ///
    /// - Parameter count: how often; at least once when it is `nil`.
    public func expectTracked(
        _ name: String, _ fields: KeyValuePairs<String, Scalar> = [:], times count: Int? = nil
    ) throws(ExpectationFailure) {
        try self.expect(name, fields.map { ($0.key, $0.value.json(self.core.salt)) }, count)
    }

    /// Checks that no event of this name was tracked.
    public func expectNotTracked(_ name: String) throws(ExpectationFailure) {
        try self.expect(name, [], 0)
    }

    private func expect(
        _ name: String, _ fields: [(name: String, json: String)], _ count: Int?
    ) throws(ExpectationFailure) {
        let events = self.events
        let found = events.count { event in
            guard event.name == name else { return false }
            let stored = event.fields
            return fields.allSatisfy { field in
                stored.contains { $0.name == field.name && $0.json == field.json }
            }
        }
        guard count.map({ $0 == found }) ?? (found > 0) else {
            throw ExpectationFailure(name: name, fields: fields, expected: count, found: found, among: events)
        }
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

    init(
        name: String, fields: [(name: String, json: String)], expected: Int?, found: Int, among events: [EventView]
    ) {
        let wanted = fields.map { "\($0.name): \($0.json)" }.joined(separator: ", ")
        let times = expected.map { $0 == 0 ? "not" : "\($0) times" } ?? "at least once"
        let tracked = events.map { event in
            let fields = event.fields.map { "\($0.name): \($0.json)" }.joined(separator: ", ")
            return "  \(event.sequence). \(event.name)(\(fields))"
        }
        self.description =
            "\(name)(\(wanted)) was to be tracked \(times), and was \(found) times; tracked"
            + (tracked.isEmpty ? " was nothing" : ":\n" + tracked.joined(separator: "\n"))
    }
}
