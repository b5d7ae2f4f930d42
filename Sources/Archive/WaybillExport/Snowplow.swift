internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for Snowplow.
package struct SnowplowOptions: ProviderOptions, Hashable {
    /// The schemas' owner; `nil`: the app's identifier.
    package var vendor: String?

    package init() {}

    /// Whether a schema's owner can have that name.
    package static func isVendor(_ name: String) -> Bool {
        1...Limits.Snowplow.vendorCharacterCountMax ~= name.utf8.count
            && name.utf8.allSatisfy {
                0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == UInt8(ascii: ".")
                    || $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "-")
            }
    }
}

/// Snowplow's tracker protocol 2: each line is one payload of strings, each part the `data` of one request.
///
///     {"schema":"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4","data":[line,line,…]}
///
/// Nothing is dropped to make an event fit, because its schema would no longer match. Repository snowplow/documentation
/// (http-requests, canonical-event, timestamps), read 2026-11-20.
struct Snowplow: Provider {
    private static let envelope: StaticString = "iglu:com.snowplowanalytics.snowplow/unstruct_event/jsonschema/1-0-0"
    private static let screenView: StaticString = "iglu:com.snowplowanalytics.mobile/screen_view/jsonschema/1-0-0"
    private static let nameRule = NameRule(
        limit: Limits.Snowplow.nameCharacterCountMax, cutLimit: Limits.Snowplow.cutNameCharacterCount,
        reserved: .schemas)

    private static let ownVendor = "com.snowplowanalytics"

    private let vendor: [UInt8]?

    init(_ options: ExportOptions) {
        self.vendor = options.snowplow.vendor.map { Array($0.utf8) }
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .snowplow, fileExtension: "ndjson", recordsPerPartMax: Limits.Snowplow.eventsPerRequestMax,
            partByteCountMax: Limits.Snowplow.requestByteCountMax)
    }

    var recordByteCountMax: Int { Limits.Snowplow.eventByteCountMax }

    func takes(_ kind: EventKind) -> Bool {
        kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard let id = event.uuid else {
            return .refused(RefusalCause(.snowplowNoEventID, "id is missing or not a UUID", field: "id"))
        }
        let anon = event.text(.anon)
        let user = event.text(.user)
        // If cut, they could match another person's id.
        if let anon, !anon.fits(Limits.Snowplow.deviceIDCharacterCountMax, in: &draft) {
            return .refused(
                RefusalCause(
                    .snowplowBadID, "the id is too long", field: "anon",
                    limit: Limits.Snowplow.deviceIDCharacterCountMax))
        }
        if let user, !user.fits(Limits.Snowplow.userIDCharacterCountMax, in: &draft) {
            return .refused(
                RefusalCause(
                    .snowplowBadID, "the id is too long", field: "user", limit: Limits.Snowplow.userIDCharacterCountMax)
            )
        }
        self.writeEntities(of: event, into: &draft)
        self.writeEnvelope(of: event, id: id, into: &draft)
        draft.moveToTail()

        draft.json.beginObject()
        draft.json.member("e", "ue")
        draft.json.member("eid", plain: id)
        draft.json.key("dtm")
        self.writeTime(of: event, into: &draft)
        draft.json.key("ttm")
        self.writeTime(of: event, into: &draft)
        draft.json.member("p", "mob")
        draft.member("aid", event.bundle, limit: Limits.Snowplow.userIDCharacterCountMax)
        draft.json.member("tna", "waybill")
        draft.json.member("tv", "wb-1")
        draft.member("duid", anon)
        draft.member("uid", user)
        // The payload's schema requires a UUID.
        if event.text(.session) != nil, event.sessionID == nil { draft.fixes.count(.dropField) }
        draft.member("sid", event.sessionID)
        draft.member("lang", event.text(.lang), limit: Limits.Snowplow.userIDCharacterCountMax)
        draft.member("ua", event.text(.userAgent))
        draft.json.member("ue_pr", draft.tail.output.bytes)
        if !draft.head.output.isEmpty { draft.json.member("co", draft.head.output.bytes) }
        draft.json.endObject()
        guard draft.json.output.count < Limits.Snowplow.eventByteCountMax else {
            return .refused(
                RefusalCause(.snowplowTooLarge, "the event is too large", limit: Limits.Snowplow.eventByteCountMax))
        }
        return .written
    }

    private func writeTime(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.json.quotedInteger(UInt64(clamping: event.facts.time.milliseconds))
    }

    // MARK: Envelope

    private func writeEnvelope(of event: borrowing MappedEvent, id: UnsafeRawBufferPointer, into draft: inout Draft) {
        draft.json.beginObject()
        draft.json.member("schema", Self.envelope)
        draft.json.key("data")
        draft.json.beginObject()
        draft.json.key("schema")
        if event.kind == .screen {
            draft.json.string(Self.screenView)
            draft.json.key("data")
            self.writeScreen(of: event, id: id, into: &draft)
        } else {
            let isUser = event.kind == .user
            self.writeSchema(named: isUser ? "user_traits" : nil, of: event, into: &draft)
            draft.json.key("data")
            let fields = isUser ? event.members(of: event.object(.traits)) : event.fields()
            // Two envelopes and the object itself.
            self.writeFields(fields, of: event, level: 3, into: &draft)
        }
        draft.json.endObject()
        draft.json.endObject()
    }

    /// Writes an object of fields; what would be nested too deep becomes text.
    ///
    /// - Parameter level: the object's own depth.
    func writeFields(_ fields: EventFields, of event: borrowing MappedEvent, level: Int, into draft: inout Draft) {
        var fields = fields
        draft.json.beginObject()
        while let (key, value) = fields.next(in: event) {
            guard draft.beginField(key, of: event, limit: .max, unit: .utf16, isReserved: { _ in false }) else {
                continue
            }
            draft.value(value, of: event, depthMax: Limits.Snowplow.depthMax - level)
        }
        draft.json.endObject()
    }

    /// Writes the members of the schema of screen views; the fields are an entity.
    private func writeScreen(of event: borrowing MappedEvent, id: UnsafeRawBufferPointer, into draft: inout Draft) {
        draft.json.beginObject()
        draft.json.member("id", plain: id)
        draft.member("name", event.text(.screen) ?? event.name)
        draft.member("previousName", event.text(.prev))
        draft.json.endObject()
    }

    /// Writes `iglu:<vendor>/<name>/jsonschema/<version>`.
    ///
    /// - Parameter name: `nil` for the event's.
    func writeSchema(named name: StaticString?, of event: borrowing MappedEvent, into draft: inout Draft) {
        // It needs no escapes.
        draft.json.verbatim("\"iglu:")
        self.appendVendor(of: event, into: &draft)
        draft.json.output.append(UInt8(ascii: "/"))
        if let name {
            draft.json.output.append(name)
        } else {
            draft.json.output.append(draft.mappedName(event.name, rule: Self.nameRule))
        }
        draft.json.output.append("/jsonschema/")
        self.appendVersion(of: event, into: &draft)
        draft.json.output.append(UInt8(ascii: "\""))
    }

    /// Appends letters, digits, `.`, `_` and `-`, and `_` for anything else.
    private func appendVendor(of event: borrowing MappedEvent, into draft: inout Draft) {
        if let vendor {
            vendor.withUnsafeBytes { Self.append(vendor: $0, to: &draft.json.output) }
        } else if event.bundle.isEscaped {
            draft.unescape(event.bundle)
            Self.append(vendor: draft.text.bytes, to: &draft.json.output)
        } else {
            Self.append(vendor: event.bundle.body, to: &draft.json.output)
        }
    }

    private static func append(vendor: UnsafeRawBufferPointer, to output: inout ByteBuilder) {
        let start = output.count
        for byte in vendor where byte & 0xC0 != 0x80 {
            guard output.count - start < Limits.Snowplow.vendorCharacterCountMax else { break }
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): output.append(byte)
            // It becomes the name of a folder, so it must not begin with a dot.
            case UInt8(ascii: ".") where output.count > start: output.append(byte)
            default: output.append(UInt8(ascii: "_"))
            }
        }
        if output.count == start { output.append("unknown") }
        // Schemas of Snowplow's own vendors are known; an app's would not match them.
        if output.bytes[start...].starts(with: Self.ownVendor.utf8) {
            let vendor = Array(output.bytes[start...].prefix(Limits.Snowplow.vendorCharacterCountMax - 2))
            output.truncate(to: start)
            output.append("x_")
            output.append(vendor)
        }
    }

    /// Appends the log version `M.m` as the SchemaVer `M-0-m`, or `1-0-0` if it is not valid.
    private func appendVersion(of event: borrowing MappedEvent, into draft: inout Draft) {
        guard let log = event.text(.log) else { return draft.json.output.append("1-0-0") }
        let parts = log.body.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard !log.isEscaped, 1...2 ~= parts.count, parts.allSatisfy(Self.isNumber), parts[0].first != 0x30 else {
            draft.fixes.count(.coerce)
            return draft.json.output.append("1-0-0")
        }
        draft.json.output.append(UnsafeRawBufferPointer(rebasing: parts[0]))
        draft.json.output.append("-0-")
        if parts.count == 2 {
            draft.json.output.append(UnsafeRawBufferPointer(rebasing: parts[1]))
        } else {
            draft.json.output.append(UInt8(ascii: "0"))
        }
    }

    /// Whether text is a number of one to nine digits without leading zeros.
    private static func isNumber(_ text: Slice<UnsafeRawBufferPointer>) -> Bool {
        1...9 ~= text.count && text.allSatisfy { 0x30...0x39 ~= $0 } && (text.count == 1 || text.first != 0x30)
    }
}

extension Snowplow {
    static let name = "snowplow"
    static let refusals: [RefusalReason] = [.snowplowNoEventID, .snowplowBadID, .snowplowTooLarge]
    static let hasSchemas = true

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: nil, path: "/com.snowplowanalytics.snowplow/tp2", credentials: [],
            recordsPerRequestMax: Limits.Snowplow.eventsPerRequestMax,
            requestByteCountMax: Limits.Snowplow.requestByteCountMax)
        facts.isRepeatableForEver = true
        facts.prefix = "{\"schema\":\"iglu:com.snowplowanalytics.snowplow/payload_data/jsonschema/1-0-4\",\"data\":["
        facts.suffix = "]}"
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.text(
                "vendor",
                rule: "1 to \(Limits.Snowplow.vendorCharacterCountMax) letters, digits, '.', '_' and '-', "
                    + "e.g. com.example", isValid: SnowplowOptions.isVendor,
                optional: \.snowplow.vendor, default: "the app's identifier", example: "com.example",
                "The vendor of the schemas.")
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        text.add("vendor", options.snowplow.vendor ?? "", unless: "")
    }
}

extension Destination {
    package static var snowplow: Destination { Destination(Snowplow.self) }
}

extension ExportOptions {
    package var snowplow: SnowplowOptions {
        get { self[SnowplowOptions.self] }
        set { self[SnowplowOptions.self] = newValue }
    }
}

extension RefusalReason {
    package static let snowplowNoEventID = RefusalReason("snowplow.no_event_id", remedy: Remedy.giveID)
    package static let snowplowBadID = RefusalReason("snowplow.bad_id", remedy: Remedy.shortenUser)
    package static let snowplowTooLarge = RefusalReason("snowplow.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// Repository snowplow/documentation: canonical-event, stream-collector/configure.
    package enum Snowplow {
        package static let eventsPerRequestMax = 500
        /// A collector rejects more than 2 MiB; this is half of that, minus the envelope.
        package static let requestByteCountMax = 900_000
        /// A collector's `maxPayloadSize` is 1 MiB, including what it adds.
        package static let eventByteCountMax = 1_000_000
        package static let deviceIDCharacterCountMax = 128
        /// Enrich refuses JSON that is nested deeper than its `maxJsonDepth`, for which its own tests take 40; `ue_pr`
        /// and `co` count as a whole.
        package static let depthMax = 40
        package static let userIDCharacterCountMax = 255
        /// The texts of a product and a transaction (repository snowplow/iglu-central).
        package static let entityTextCharacterCountMax = 4096
        /// A product's brand and variant.
        package static let entityLabelCharacterCountMax = 256
        package static let paymentMethodCharacterCountMax = 128
        package static let discountCodeCharacterCountMax = 99
        package static let entityNumberMax = 9_999_999
        /// A vendor is part of a table's name, which has at most 127 characters with the event's name and model.
        package static let vendorCharacterCountMax = 64
        package static let nameCharacterCountMax = 40
        /// 40 minus `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
        /// Drafts of schemas of a day, their members, and the members' names: senders choose all of them.
        package static let draftCountMax = 1000
        package static let draftMemberCountMax = 500
        package static let draftNameByteCountMax = 255
    }
}
