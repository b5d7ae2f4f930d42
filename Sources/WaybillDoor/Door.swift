internal import NIOCore
internal import NIOHTTP1

internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem

/// An HTTPS door for programs without Waybill's library: what they send becomes lines of spools, durable before the answer.
///
///     SDK ─▶ DoorHandler (event loops) ─▶ IngestReader ─▶ DoorCommitter (one thread) ─▶ spool ─▶ an agent ships it
///
/// It holds nothing: a request whose answer was lost comes again, with the same ids. Memory: bodies that arrive or wait, at
/// most ``DoorConfiguration/memoryByteCountMax``; the idle connections; the ids of the last minutes.
///
/// - SeeAlso: `Documentation/ingest.md`.
final class Door: Sendable {
    /// A request whose events are to be stored.
    struct Reading: Sendable {
        let request: DoorRequest
        let key: Int
    }

    struct Refusal: Error {
        let reason: DoorTelemetry.RefusalReason
        var headers: [(String, String)] = []
        var key: Int?
    }

    let configuration: DoorConfiguration
    let telemetry: DoorTelemetry
    let committer = DoorCommitter()
    let clock = POSIXClock()
    private let indexes: [String: Int]
    private let rates: Lock<[EventRate]>
    private let seeds = Lock(SeededGenerator(seed: SystemRandom.seed()))
    private let stopping = Atomic(0)

    init(_ configuration: DoorConfiguration, telemetry: DoorTelemetry) {
        self.configuration = configuration
        self.telemetry = telemetry
        self.indexes = Dictionary(
            configuration.keys.enumerated().map { ($0.element.source.key, $0.offset) }, uniquingKeysWith: { $1 })
        let now = self.clock.monotonicTime()
        self.rates = Lock(configuration.keys.map { EventRate($0.eventRateMax, now: now) })
    }

    var isStopping: Bool { self.stopping.load(ordering: .relaxed) > 0 }
    func stop() { _ = self.stopping.add(1, ordering: .relaxed) }

    func index(ofKey key: String) -> Int? { self.indexes[key] }

    /// Whether a page may read the answer: of its key, or of any while the key is not known.
    func allows(_ origin: String, _ key: Int?) -> Bool {
        if let key { return self.configuration.keys[key].allows(origin) }
        return self.configuration.keys.contains { $0.allows(origin) }
    }

    /// Reads a request's events.
    func read(_ reading: borrowing DoorReading) throws(Refusal) -> Reading {
        let body = try self.body(of: reading)
        let index = try self.key(of: reading, body)
        let key = self.configuration.keys[index]
        guard key.source.dialects.contains(reading.dialect) else { throw Refusal(reason: .dialect, key: index) }
        if let origin = reading.headers.first(name: "origin"), !key.allows(origin) {
            throw Refusal(reason: .origin, key: index)
        }
        let context = IngestContext(
            source: key.source, receivedAt: self.clock.wallTime().milliseconds,
            address: self.address(of: reading).flatMap { key.source.addressPolicy.apply(to: $0) },
            userAgent: reading.headers.first(name: "user-agent").map {
                String(decoding: $0.utf8.prefix(512), as: UTF8.self)
            },
            generator: SeededGenerator(seed: self.seeds.withLock { $0.next() }))
        var batch = IngestBatch()
        switch IngestReader.read(body, as: reading.dialect, type: reading.type, context, into: &batch) {
        case .read: break
        case .malformed: throw Refusal(reason: .malformed, key: index)
        case .tooManyEvents: throw Refusal(reason: .tooLarge, key: index)
        }
        let events = batch.finish()
        let now = self.clock.monotonicTime()
        let count = events.lines.count + events.faults.count
        if let pause = self.rates.withLock({ $0[index].take(count, at: now) }) {
            let seconds = Int((pause / .seconds(1)).rounded(.up))
            throw Refusal(reason: .tooFast, headers: [("Retry-After", "\(max(1, seconds))")], key: index)
        }
        self.telemetry.faulty(events.faults)
        return Reading(
            request: DoorRequest(
                source: index, dialect: reading.dialect, events, body: events.faults.isEmpty ? [] : body),
            key: index)
    }

    private func body(of reading: borrowing DoorReading) throws(Refusal) -> [UInt8] {
        guard reading.dialect != .pixel else { return PixelQuery.event(of: Array(reading.query.utf8)) }
        do throws(RequestBody.Refusal) {
            let body = try RequestBody.inflate(
                reading.body, encoding: reading.headers.first(name: "content-encoding")?.lowercased(),
                byteCountMax: self.configuration.bodyByteCountMax)
            return reading.dialect == .native ? body : RequestBody.unwrap(body)
        } catch {
            switch error {
            case .tooLarge: throw Refusal(reason: .tooLarge)
            case .encoding: throw Refusal(reason: .encoding)
            case .notCompressedAsSaid: throw Refusal(reason: .malformed)
            }
        }
    }

    /// The key: of the query, of the header, of the body.
    private func key(of reading: borrowing DoorReading, _ body: [UInt8]) throws(Refusal) -> Int {
        let query = Array(reading.query.utf8)
        var key: String?
        for name in ["writeKey", "key", "api_key"] as [StaticString] {
            if key == nil { key = FormText.value(of: name, in: query).map { String(decoding: $0, as: UTF8.self) } }
        }
        if key == nil, let header = reading.headers.first(name: "authorization") { key = Self.key(inHeader: header) }
        if key == nil { key = IngestReader.key(in: body, reading.dialect) }
        guard let key else { throw Refusal(reason: .noKey) }
        guard let index = self.indexes[key] else { throw Refusal(reason: .unknownKey) }
        return index
    }

    /// `Basic` with the key as the user's name, or `Bearer`.
    private static func key(inHeader header: String) -> String? {
        let parts = header.split(separator: " ", maxSplits: 1)
        guard parts.count == 2 else { return nil }
        switch parts[0].lowercased() {
        case "bearer": return String(parts[1])
        case "basic":
            return Base64Text.decode(Array(parts[1].utf8)).map { bytes in
                String(decoding: bytes.prefix { $0 != UInt8(ascii: ":") }, as: UTF8.self)
            }
        default: return nil
        }
    }

    /// The sender's address: behind proxies that are trusted, the last one that is not theirs.
    private func address(of reading: borrowing DoorReading) -> String? {
        guard let peer = reading.peer else { return nil }
        let proxies = self.configuration.trustedProxies
        guard proxies.contains(where: { $0.contains(peer) }) else { return peer }
        let named = reading.headers[canonicalForm: "x-forwarded-for"].map { String($0) }
        return named.last { address in !proxies.contains { $0.contains(address) } } ?? peer
    }
}

/// What a request brings.
struct DoorReading {
    let dialect: Dialect
    let type: SegmentType?
    let body: [UInt8]
    let query: Substring
    let headers: HTTPHeaders
    let peer: String?
}

/// How many events a key may send, as a bucket that fills with time.
struct EventRate {
    private let rate: Int?
    private var available: Double
    private var last: MonotonicTime

    init(_ rate: Int?, now: MonotonicTime) {
        self.rate = rate
        // Two seconds' worth at once, for batches.
        self.available = Double((rate ?? 0) * 2)
        self.last = now
    }

    /// Takes events out, or says how long to wait.
    ///
    /// A batch larger than the bucket is taken once it is full.
    mutating func take(_ count: Int, at now: MonotonicTime) -> Duration? {
        guard let rate else { return nil }
        let capacity = Double(rate * 2)
        self.available = min(capacity, self.available + (now - self.last) / .seconds(1) * Double(rate))
        self.last = now
        let needed = min(Double(count), capacity)
        guard self.available >= needed else {
            return .milliseconds(Int64((needed - self.available) / Double(rate) * 1000))
        }
        self.available -= Double(count)
        return nil
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
        case .tooFast: 429
        case .memory, .stopping: 503
        case .slow: 408
        }
    }

    var headers: [(String, String)] {
        switch self {
        case .memory, .stopping: [("Retry-After", "1")]
        default: []
        }
    }

    /// For people who write senders; an unknown key is told nothing.
    var text: [UInt8]? {
        let text: String
        switch self {
        case .noKey, .unknownKey, .slow: return []
        case .notFound: text = "no such path; Documentation/ingest.md lists them"
        case .method: text = "this path takes another method"
        case .dialect: text = "this key does not allow this kind of request"
        case .origin: text = "pages of this origin may not use this key"
        case .tooLarge: text = "the body is too large; send smaller batches"
        case .encoding: text = "this content encoding is not known; send gzip, deflate or none"
        case .malformed: text = "the body cannot be read as a whole; nothing of it was stored"
        case .tooFast: text = "too many events a second for this key; send them again later"
        case .memory, .stopping: text = "nothing was stored; send it again"
        }
        return JSONWriter.object { $0.member("error", text) }
    }
}
