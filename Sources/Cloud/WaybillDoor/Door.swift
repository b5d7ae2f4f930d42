internal import NIOCore
internal import NIOHTTP1

internal import WaybillHost
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// An HTTPS door for programs without Waybill's library: what they send becomes lines of spools, durable before the answer.
///
///     SDK ─▶ DoorHandler (event loops) ─▶ IngestBody ─▶ DoorCommitter (one thread) ─▶ spool ─▶ an agent ships it
///                        └─▶ DoorReaders (two threads), if it is large or compressed ─┘
///
/// It holds nothing: a request whose answer was lost comes again, with the same ids. Memory: bodies that arrive or wait, at
/// most ``DoorLimits/memoryByteCountMax`` (``DoorMemory``); the idle connections (``ConnectionPlaces``); the ids of the last
/// minutes. What a reload changes applies to requests whose head comes after it (``DoorSettings``).
///
/// - SeeAlso: `Documentation/ingest.md`; requests with their lines and faults in `Protocol/vectors/ingest/`.
final class Door: Sendable {
    /// A request whose events are to be stored.
    struct Reading: Sendable {
        let request: DoorRequest
        let standing: DoorStanding
    }

    struct Refusal: Error {
        let reason: DoorTelemetry.RefusalReason
        var headers: [(String, String)] = []
        /// What the answer says instead of the reason's own text.
        var text: [UInt8]?
        var standing: DoorStanding?
    }

    let telemetry: DoorTelemetry
    let committer = DoorCommitter()
    let room = DoorMemory()
    let places = ConnectionPlaces()
    let readers = DoorReaders()
    let clock = POSIXClock()
    private let present: Lock<DoorSettings>
    private let seeds = Lock(SeededGenerator(seed: SystemRandom.seed()))
    private let stopping = Atomic(0)
    private let openTunnels = Lock<Tunnels?>(nil)

    init(_ configuration: DoorConfiguration, telemetry: DoorTelemetry) {
        self.telemetry = telemetry
        self.present = Lock(DoorSettings(configuration, now: self.clock.monotonicTime()))
    }

    /// The way of agents to the receiver; `nil`: there is none.
    var tunnels: Tunnels? {
        get { self.openTunnels.withLock { $0 } }
        set { self.openTunnels.withLock { $0 = newValue } }
    }

    /// What the next request is judged by.
    var settings: DoorSettings { self.present.withLock { $0 } }

    /// Requests whose head comes later are judged by this configuration; those under way, by the former one.
    func use(_ configuration: DoorConfiguration) {
        let now = self.clock.monotonicTime()
        self.present.withLock { $0 = DoorSettings(configuration, after: $0, now: now) }
        self.committer.use(configuration)
    }

    var isStopping: Bool { self.stopping.load(ordering: .relaxed) > 0 }
    func stop() { _ = self.stopping.add(1, ordering: .relaxed) }

    /// Judges a request by its head: one whose key is unknown, or which comes from a page that may not use it, is refused
    /// before its body arrives.
    ///
    /// - Returns: `nil` if the key is in the body.
    func standing(
        atHead headers: HTTPHeaders, query: Substring, _ dialect: Dialect, _ settings: DoorSettings
    ) throws(Refusal) -> DoorStanding? {
        let named = RequestKey.named(query: query, authorization: headers.first(name: "authorization"))
        guard let key = named else {
            if dialect == .native || dialect == .pixel { throw Refusal(reason: .noKey) }
            return nil
        }
        return try self.standing(of: key, headers, settings)
    }

    private func standing(
        of key: String, _ headers: HTTPHeaders, _ settings: DoorSettings
    ) throws(Refusal) -> DoorStanding {
        guard let standing = settings[key] else { throw Refusal(reason: .unknownKey) }
        guard standing.key.hasOrigins else { return standing }
        switch PageOrigin(headers) {
        case .none: return standing
        case .known(let origin) where standing.key.allows(origin): return standing
        case .known, .hidden: throw Refusal(reason: .origin, standing: standing)
        }
    }

    /// Reads a request's events away from the event loops, within the time that its address has for that.
    ///
    /// - Parameter take: called once, on another thread.
    func read(_ reading: DoorReading, then take: @escaping @Sendable (Result<Reading, Refusal>) -> Void) {
        let address = AddressGroup(reading.address)
        self.readers.submit { [self] isStopping in
            let began = self.clock.monotonicTime()
            guard !isStopping else { return take(.failure(Refusal(reason: .stopping, standing: reading.standing))) }
            guard self.readers.hasTime(address, at: began) else {
                return take(.failure(Refusal(reason: .share, standing: reading.standing)))
            }
            let result = self.result(of: reading)
            var isStranger = false
            if case .failure(let refusal) = result { isStranger = reading.standing == nil && refusal.standing == nil }
            let now = self.clock.monotonicTime()
            self.readers.spend(now - began, isStranger ? .stranger : .keyHolder, address, at: now)
            take(result)
        }
    }

    /// Reads a request's events.
    func result(of reading: DoorReading) -> Result<Reading, Refusal> {
        do throws(Refusal) {
            return .success(try self.read(reading))
        } catch {
            return .failure(error)
        }
    }

    private func read(_ reading: borrowing DoorReading) throws(Refusal) -> Reading {
        let bytes = try self.body(of: reading)
        let standing = try self.standing(of: reading, bytes)
        let body = IngestBody(bytes, as: reading.dialect)
        if reading.standing == nil, body.hasSeveralKeys { throw .severalKeys }
        let dialect = body.dialect
        let source = standing.key.source
        guard source.dialects.contains(dialect) else { throw Refusal(reason: .dialect, standing: standing) }
        let context = IngestContext(
            source: source, receivedAt: self.clock.wallTime().milliseconds,
            address: reading.address.flatMap { source.addressPolicy.apply(to: $0) },
            userAgent: reading.headers.first(name: "user-agent").map { IngestLimits.userAgent($0) },
            generator: SeededGenerator(seed: self.seeds.withLock { $0.next() }))
        var batch = IngestBatch()
        switch body.read(type: reading.type, context, into: &batch) {
        case .read: break
        case .malformed: throw Refusal(reason: .malformed, standing: standing)
        case .tooManyEvents: throw Refusal(reason: .tooLarge, standing: standing)
        }
        let events = batch.finish()
        if let refusal = standing.take(events, from: AddressGroup(reading.address), at: self.clock.monotonicTime()) {
            throw Refusal(refusal, events, for: dialect, standing)
        }
        self.telemetry.faulty(events.faults + events.remarks)
        return Reading(
            request: DoorRequest(
                source: source, address: AddressGroup(reading.address), dialect: dialect, events,
                body: events.faults.isEmpty ? [] : bytes),
            standing: standing)
    }

    private func body(of reading: borrowing DoorReading) throws(Refusal) -> [UInt8] {
        do throws(RequestBody.Refusal) {
            return try RequestBody.text(
                of: reading.body, encoding: reading.headers.first(name: "content-encoding")?.lowercased(),
                query: reading.query, reading.dialect,
                byteCountMax: reading.settings.configuration.limits.bodyByteCountMax)
        } catch {
            switch error {
            case .tooLarge: throw Refusal(reason: .tooLarge)
            case .inflation:
                throw Refusal(
                    reason: .tooLarge,
                    text: JSONWriter.object {
                        $0.member("error", "inflated, the body is more than 100 times larger; nothing was stored")
                    })
            case .encoding: throw Refusal(reason: .encoding)
            case .notCompressedAsSaid: throw Refusal(reason: .malformed)
            }
        }
    }

    /// The standing of the key in the head, else of the one in the body.
    private func standing(of reading: borrowing DoorReading, _ body: [UInt8]) throws(Refusal) -> DoorStanding {
        if let standing = reading.standing { return standing }
        let settings = reading.settings
        switch KeySearch.find(in: body, isKnown: { settings[$0] != nil }) {
        case .known(let key): return try self.standing(of: key, reading.headers, settings)
        case .unknown: throw Refusal(reason: .unknownKey)
        case .several: throw .severalKeys
        case .noKey: throw Refusal(reason: .noKey)
        case .unreadable: throw Refusal(reason: .malformed)
        }
    }

    /// The sender's address: behind proxies that are trusted, the last one that is not theirs; `nil`: they name none.
    func address(of peer: String?, _ headers: HTTPHeaders, _ settings: DoorSettings) -> String? {
        guard let peer, settings.configuration.isProxy(peer) else { return peer }
        for named in headers[canonicalForm: "x-forwarded-for"].reversed() {
            guard let address = AddressText.plain(String(named)) else { return nil }
            if !settings.configuration.isProxy(address) { return address }
        }
        return peer
    }
}

extension Door.Refusal {
    static var severalKeys: Self {
        Self(
            reason: .malformed,
            text: JSONWriter.object { $0.member("error", "the body names several keys; nothing of it was stored") })
    }

    /// What a sender of too many events is told.
    init(
        _ refusal: EventQuota.Refusal, _ events: IngestedEvents, for dialect: Dialect, _ standing: DoorStanding
    ) {
        let (wait, text): (Duration, StaticString)
        switch refusal {
        case .tooMany(let countMax):
            self.init(reason: .tooLarge, text: IngestedEvents.tooManyText(countMax, for: dialect), standing: standing)
            return
        case .address(let time):
            (wait, text) = (time, "too many events a second from this address; send them again later")
        case .key(let time): (wait, text) = (time, "too many events a second for this key; send them again later")
        }
        self.init(
            reason: .tooFast, headers: [("Retry-After", "\(Int((wait / .seconds(1)).rounded(.up)))")],
            text: events.laterText(text, for: dialect), standing: standing)
    }
}

/// What a request brings.
struct DoorReading {
    /// By the path.
    let dialect: Dialect
    let type: SegmentType?
    let body: [UInt8]
    let query: Substring
    let headers: HTTPHeaders
    /// The sender's.
    let address: String?
    let settings: DoorSettings
    /// `nil` if the key is in the body.
    let standing: DoorStanding?

    /// What is larger, or grows as it is inflated, costs much more than its arrival.
    private static let plainByteCountMax = 64 << 10

    /// Whether it can be read where it arrived: handing it to another thread costs more than reading it.
    var isPlain: Bool {
        // A capture in a query is unwrapped as a body is.
        guard !self.body.isEmpty else { return self.dialect == .pixel }
        return self.body.count <= Self.plainByteCountMax
            && !RequestBody.isCompressed(self.body, encoding: self.headers.first(name: "content-encoding"))
    }
}

/// The page that a browser sends a request for.
///
/// An image has no `Origin`: then `Referer` names the page, and a browser that hides it says in `Sec-Fetch-Site` that there is
/// one (Fetch Metadata, W3C Working Draft of 2021-07-20).
enum PageOrigin: Equatable {
    case known(String)
    /// A page of another site that does not say which.
    case hidden
    /// No page: a program, or an address that someone typed.
    case none

    init(_ headers: HTTPHeaders) {
        if let origin = headers.first(name: "origin") {
            self = .known(origin)
        } else if let referrer = headers.first(name: "referer"), let origin = Self.origin(of: referrer) {
            self = .known(origin)
        } else {
            self = headers.first(name: "sec-fetch-site") == "cross-site" ? .hidden : .none
        }
    }

    /// Scheme, host and port of a URL; `nil` if it has no host.
    private static func origin(of url: String) -> String? {
        guard let scheme = url.firstRange(of: "://") else { return nil }
        let host = url[scheme.upperBound...].prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        return host.isEmpty ? nil : String(url[..<host.endIndex])
    }
}

extension DoorTelemetry.RefusalReason {
    /// A 4xx means that the sender gives its events up, so it is for what no repetition can cure.
    var status: Int {
        switch self {
        case .notFound: 404
        case .method: 405
        case .noKey, .unknownKey: 401
        case .dialect, .origin: 403
        case .tooLarge: 413
        case .encoding: 415
        case .malformed: 400
        case .tooFast, .share: 429
        case .memory, .displaced, .disk, .stopping: 503
        case .slow: 408
        }
    }

    var headers: [(String, String)] {
        switch self {
        case .memory, .displaced, .share, .stopping: [("Retry-After", "1")]
        case .disk: [("Retry-After", "5")]
        default: []
        }
    }

    /// For people who write senders; an unknown key is told nothing.
    var text: [UInt8]? {
        let text: String
        switch self {
        case .noKey, .unknownKey, .slow: return []
        case .notFound:
            // Mixpanel's library shows its user the error if there is a status.
            return JSONWriter.object { json in
                json.member("status", 0)
                json.member(
                    "error",
                    "no such path: libraries of Segment, RudderStack, PostHog and Amplitude are taken, and none of Mixpanel or Snowplow; Documentation/ingest.md lists the paths"
                )
            }
        case .method: text = "this path takes another method"
        case .dialect: text = "this key does not allow this kind of request"
        case .origin: text = "pages of this origin may not use this key"
        case .tooLarge: text = "the body is too large; send smaller batches"
        case .encoding: text = "this content encoding is not known; send gzip, deflate or none"
        case .malformed: text = "the body cannot be read as a whole; nothing of it was stored"
        case .tooFast: text = "too many events a second"
        case .share: text = "this address sends too much at once; nothing was stored; send it again later"
        case .memory, .displaced, .disk, .stopping: text = "nothing was stored; send it again"
        }
        return JSONWriter.object { $0.member("error", text) }
    }
}
