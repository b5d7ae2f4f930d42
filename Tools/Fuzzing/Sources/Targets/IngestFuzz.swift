internal import WaybillEvent
internal import WaybillExport
internal import WaybillIngest
internal import WaybillJSON
internal import WaybillSystem
internal import WaybillTestSupport

/// Requests of other products' SDKs, good and broken, through every dialect.
///
/// The first byte of an input chooses the path and what the source keeps of addresses; the rest is the body, or a pixel's query.
enum IngestFuzz {
    private static let writer = "019aa0b4-7a80-7c3e-9f21-5d0c8b1e4f60"
    private static let receivedAt: Int64 = 1_795_165_200_000
    private static let browser = "Safari \"é\"\u{1}"

    @Sendable static func segment(_ input: [UInt8]) throws { try Self.run(input, .segment) }
    @Sendable static func posthog(_ input: [UInt8]) throws { try Self.run(input, .posthog) }
    @Sendable static func amplitude(_ input: [UInt8]) throws { try Self.run(input, .amplitude) }
    @Sendable static func native(_ input: [UInt8]) throws { try Self.run(input, .native) }
    @Sendable static func pixel(_ input: [UInt8]) throws { try Self.run(input, .pixel) }

    private struct Outcome {
        let reading: IngestReading
        let events: IngestedEvents
        let key: KeySearch.Finding
        let hasSeveralKeys: Bool
    }

    private static func run(_ input: [UInt8], _ dialect: Dialect) throws {
        var input = FuzzInput(input)
        let choice = Int(input.byte())
        let sent = input.rest()
        let policy = AddressPolicy.allCases[choice % AddressPolicy.allCases.count]
        let type = choice / 3 % 7 == 0 ? nil : SegmentType.allCases[choice / 3 % 7 - 1]
        let body: [UInt8]
        do throws(RequestBody.Refusal) {
            body = try RequestBody.text(
                of: sent, encoding: choice / 21 % 4 == 0 ? "gzip" : nil,
                query: String(decoding: sent, as: UTF8.self)[...], dialect)
        } catch {
            return
        }
        try require(body.count <= IngestLimits.bodyByteCountMax, "\(body.count) bytes of a body")
        let outcome = Self.read(body, dialect, type, policy, seed: 1)
        try Self.check(outcome, body, dialect)
        for line in outcome.events.lines { try Self.check(line, of: outcome.events) }
        // The same request again, and later in another process.
        let again = Self.read(body, dialect, type, policy, seed: 1)
        try require(again.events.bytes == outcome.events.bytes, "other lines: \(shown(body))")
        try require(again.events.lines.map(\.id) == outcome.events.lines.map(\.id), "other ids: \(shown(body))")
        try Self.checkRetry(outcome, Self.read(body, dialect, type, policy, seed: 2), body, dialect)
    }

    private static func read(
        _ body: [UInt8], _ dialect: Dialect, _ type: SegmentType?, _ policy: AddressPolicy, seed: UInt64
    ) -> Outcome {
        let context = IngestContext(
            source: IngestSource(
                key: "wk_test0001", bundle: "com.example.shop", environment: .prod, addressPolicy: policy),
            receivedAt: Self.receivedAt, address: policy.apply(to: "192.0.2.33"), userAgent: Self.browser,
            generator: SeededGenerator(seed: seed))
        var batch = IngestBatch()
        let read = IngestBody(body, as: dialect)
        let hasSeveralKeys = read.hasSeveralKeys
        let reading = read.read(type: type, context, into: &batch)
        let key = KeySearch.find(in: body) { _ in true }
        return Outcome(reading: reading, events: batch.finish(), key: key, hasSeveralKeys: hasSeveralKeys)
    }

    /// Every event of the request is taken or a fault, and nothing else is.
    private static func check(_ outcome: Outcome, _ body: [UInt8], _ dialect: Dialect) throws {
        let (lines, faults) = (outcome.events.lines, outcome.events.faults)
        if outcome.reading == .tooManyEvents {
            // Each has a byte at least. Its caller stores nothing of it.
            try require(body.count >= IngestLimits.eventCountMax, "too many events in \(body.count) bytes")
            return
        }
        if outcome.reading != .read {
            try require(dialect != .native && dialect != .pixel, "\(dialect) is \(outcome.reading): \(shown(body))")
            try require(lines.isEmpty && faults.isEmpty, "lines of a refused body: \(shown(body))")
        }
        let taken = lines.count { !$0.isAddition }
        if let count = Self.events(of: body, dialect)?.count {
            try require(outcome.reading == .read, "a good body is \(outcome.reading): \(shown(body))")
            try require(taken + faults.count == count, "\(taken) + \(faults.count) of \(count): \(shown(body))")
        }
        var last: IngestedEvents.Line?
        for line in lines {
            let follows = last.map { !$0.isAddition } ?? false
            try require(!line.isAddition || follows, "an addition to nothing: \(shown(body))")
            last = line
        }
        for fault in faults {
            try require(fault.range.upperBound <= body.count, "a fault outside the body: \(shown(body))")
            try require(!fault.range.isEmpty || body.isEmpty, "a fault of nothing: \(shown(body))")
        }
        let byteCountMax = 3 * body.count + 4096 * (taken + 1)
        try require(outcome.events.bytes.count <= byteCountMax, "\(outcome.events.bytes.count) bytes: \(shown(body))")
        try require(outcome.key != .known(""), "an empty key")
        if dialect != .native { try Self.checkKey(of: outcome, body) }
    }

    /// The body's own key is found, whatever else is in the body, and another one behind it.
    private static func checkKey(of outcome: Outcome, _ body: [UInt8]) throws {
        // A name with escapes is no key's.
        guard !body.contains(UInt8(ascii: "\\")), case .object(let members)? = ReferenceJSON(body) else { return }
        let key = outcome.key
        try require(key != .unreadable, "a good body is unreadable: \(shown(body))")
        let names = ["writeKey", "api_key", "token"].map { Array($0.utf8) }
        let own = members.filter { names.contains($0.key) }.compactMap(\.value.text).filter { !$0.isEmpty }
        if let first = own.first { try require(key == .known(first), "the key is \(key): \(shown(body))") }
        try require(outcome.hasSeveralKeys == (Set(own).count > 1), "one key, or several? \(shown(body))")
    }

    /// The events of a body that is JSON; `nil` for one that is none.
    private static func events(of body: [UInt8], _ dialect: Dialect) -> [ReferenceJSON]? {
        let mark = body.starts(with: [0xEF, 0xBB, 0xBF]) ? 3 : 0
        let isBlank = { (byte: UInt8) in [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
        if dialect == .native {
            let lines = body[mark...].split(separator: 0x0A).filter { !$0.allSatisfy(isBlank) }
            return lines.map { ReferenceJSON(Array($0)) ?? .null }
        }
        let isList = body[mark...].first { !isBlank($0) } == UInt8(ascii: "[")
        let text = isList ? Array("{\"batch\":".utf8) + body[mark...] + [0x7D] : Array(body[mark...])
        guard let request = ReferenceJSON(text), case .object = request else { return nil }
        for name in Self.lists(of: request, dialect) {
            if let events = request[name]?.elements { return events }
        }
        return [request]
    }

    private static func lists(of request: ReferenceJSON, _ dialect: Dialect) -> [String] {
        switch dialect {
        case .amplitude: ["events"]
        case .posthog: request["events"] != nil ? ["events"] : ["batch", "data"]
        case .segment, .pixel, .native: ["batch"]
        }
    }

    /// Whether an event brings an id.
    private static func hasID(_ event: ReferenceJSON, _ dialect: Dialect) -> Bool {
        let named =
            switch dialect {
            case .segment, .pixel: [event["messageId"]]
            case .posthog: [event["uuid"], event["properties"]?["$insert_id"], event["insert_id"]]
            case .amplitude: [event["insert_id"]]
            case .native: [event["id"]]
            }
        return named.contains { value in
            switch value {
            case .string(let text): !text.isEmpty
            case .number: true
            default: false
            }
        }
    }

    private static func check(_ line: IngestedEvents.Line, of events: IngestedEvents) throws {
        var buffer = ByteBuilder()
        events.append(
            line, number: 9_007_199_254_740_991, writer: Self.writer, via: .amplitude, to: &buffer)
        let bytes = Array(buffer.bytes)
        try require(bytes.count { $0 == 0x0A } == 1 && bytes.last == 0x0A, "not one line: \(shown(bytes))")
        try require(bytes.count <= IngestLimits.lineByteCountMax, "\(bytes.count) bytes: \(shown(bytes))")
        guard let event = ReferenceJSON(Array(bytes.dropLast())), case .object = event else {
            throw Violation("no JSON: \(shown(bytes))")
        }
        if let violation = EventShape.violation(of: event) { throw Violation("\(violation): \(shown(bytes))") }
        let reader = EventReader(source: SourceDescription(env: .prod, bundle: "com.example.shop"))
        let reading = withExactBytes(bytes.dropLast()) { reader.read($0) }
        guard case .event(let facts) = reading else { throw Violation("a receiver says \(reading): \(shown(bytes))") }
        try require(facts.env == .prod, "another environment: \(shown(bytes))")
        try require(event["bundle"]?.text == "com.example.shop", "another app: \(shown(bytes))")
        guard case .object(let members) = event else { return }
        for name in ["v", "id", "writer", "seq", "via", "ts", "kind", "name", "bundle", "env"] {
            let count = members.count { $0.key.elementsEqual(name.utf8) }
            try require(count == 1, "\(count) members \(name): \(shown(bytes))")
        }
    }

    /// A repeated request has the same ids, but for events that bring none.
    private static func checkRetry(
        _ first: Outcome, _ second: Outcome, _ body: [UInt8], _ dialect: Dialect
    ) throws {
        try require(first.events.lines.count == second.events.lines.count, "other lines: \(shown(body))")
        try require(first.events.faults == second.events.faults, "other faults: \(shown(body))")
        var newCount = 0
        var isNew = false
        for (one, other) in zip(first.events.lines, second.events.lines) {
            if one.isAddition {
                try require(isNew || one.id == other.id, "another id of an addition: \(shown(body))")
                continue
            }
            isNew = one.id != other.id
            if isNew { newCount += 1 }
        }
        guard let events = Self.events(of: body, dialect) else { return }
        let withoutID = events.count { !Self.hasID($0, dialect) }
        try require(newCount <= withoutID, "\(newCount) new ids, \(withoutID) events without one: \(shown(body))")
    }
}

/// What `Protocol/event.schema.json` says about a line that came over HTTP.
private enum EventShape {
    private static let texts = [
        "screen": 0, "screen_class": 0, "screen_id": 0, "prev": 0, "os_version": 0, "model": 0, "lang": 0, "anon": 1,
        "app": 1, "build": 1, "os": 1, "log": 1, "bundle": 1,
    ]
    private static let limitedTexts = ["name": 1...255, "user": 1...256, "user_agent": 0...512]
    private static let objects = ["traits", "traits_once", "traits_add", "data", "overrides", "consent", "ids"]

    /// - Returns: what is wrong; `nil`: nothing.
    static func violation(of event: ReferenceJSON) -> String? {
        for (name, least) in Self.texts {
            if let value = event[name], (value.text?.utf8.count ?? -1) < least { return name }
        }
        for (name, byteCounts) in Self.limitedTexts {
            if let value = event[name], !byteCounts.contains(value.text?.utf8.count ?? -1) { return name }
        }
        for name in Self.objects {
            if let value = event[name], Self.members(value) == nil { return name }
        }
        let required = ["v", "id", "ts", "kind", "name", "env", "bundle", "writer", "seq"]
        if let missing = required.first(where: { event[$0] == nil }) { return missing }
        for name in ["up", "dt"] where event[name] != nil { return name }
        if let time = event["ts"], !Self.isTime(time.text ?? "") { return "ts" }
        if let time = event["ts_client"], (time.text?.utf8.count ?? .max) > 64 { return "ts_client" }
        if event["v"] != .number("1") || event["env"]?.text != "prod" || event["seq"]?.integer == nil { return "head" }
        if let session = event["session"] {
            let version = session.text.flatMap { UniqueID(text: $0) }.map { $0.high >> 12 & 15 }
            if version != 7 { return "session" }
        }
        return Self.violationOfKind(event) ?? Self.violationOfTraits(event) ?? Self.violationOfProviders(event)
    }

    private static func members(_ value: ReferenceJSON) -> [ReferenceJSON]? {
        if case .object(let members) = value { members.map(\.value) } else { nil }
    }

    private static func isTime(_ text: String) -> Bool {
        text.utf8.count == 24 && text.utf8.last == UInt8(ascii: "Z") && text.utf8.dropFirst(17).first ?? 0x39 < 0x36
            && Array(text.utf8).withUnsafeBytes { TimeText.parse($0) } != nil
    }

    private static func violationOfKind(_ event: ReferenceJSON) -> String? {
        switch event["kind"]?.text {
        case "event", "action": nil
        case "screen": event["screen"] == nil ? "screen" : nil
        case "user": event["traits"] == nil ? "traits" : nil
        case "meta": event["name"]?.text?.hasPrefix("wb.") == true ? nil : "name"
        default: "kind"
        }
    }

    private static func violationOfTraits(_ event: ReferenceJSON) -> String? {
        if let once = event["traits_once"].flatMap(Self.members), once.contains(.null) { return "traits_once" }
        let added = event["traits_add"].flatMap(Self.members) ?? []
        let areNumbers = added.allSatisfy { if case .number = $0 { true } else { false } }
        return areNumbers ? nil : "traits_add"
    }

    private static func violationOfProviders(_ event: ReferenceJSON) -> String? {
        if let providers = event["providers"] {
            guard let names = providers.elements, names.allSatisfy({ $0.text?.isEmpty == false }) else {
                return "providers"
            }
        }
        let overrides = event["overrides"].flatMap(Self.members) ?? []
        return overrides.allSatisfy { Self.members($0)?.isEmpty == false } ? nil : "overrides"
    }
}
