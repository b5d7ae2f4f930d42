internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// Segment's HTTP tracking API: each line is one call, each part the `batch` of one request.
///
///     {"batch":[line,line,…],"writeKey":…}
///
/// No line has `sentAt`: Segment shifts every event by the difference between it and the time of receipt. Repository
/// segmentio/segment-docs (http-api, spec/common), read 2026-11-20.
struct Segment: Provider {
    init(_ options: ExportOptions) {}

    var description: ProviderDescription {
        ProviderDescription(
            id: .segment, fileExtension: "ndjson", recordsPerPartMax: Limits.Segment.callsPerRequestMax,
            partByteCountMax: Limits.Segment.requestByteCountMax)
    }

    var recordByteCountMax: Int { Limits.Segment.callByteCountMax }

    func takes(_ kind: EventKind) -> Bool {
        kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard let id = event.identifier, id.count <= Limits.Segment.messageIDCharacterCountMax else {
            return .refused(RefusalCause(.segmentNoMessageID, "id is missing or invalid", field: "id"))
        }
        guard event.text(.user) != nil || event.text(.anon) != nil else {
            return .refused(RefusalCause(.segmentNoUser, "neither user nor anon is known", field: "anon"))
        }
        if event.hasOnlyOtherTraits(takesOnce: false) { return .skipped(.nothing) }
        let commerce = Commerce(of: event)
        self.writeEnd(of: event, commerce, id: id, into: &draft)
        draft.moveToTail()

        draft.json.beginObject()
        draft.json.key("type")
        switch event.kind {
        case .screen:
            draft.json.string("screen")
            draft.member("name", event.text(.screen) ?? event.name)
            draft.json.key("properties")
            self.writeFields(event.fields(), commerce, of: event, into: &draft)
        case .user:
            draft.json.string("identify")
            // The call has one set of traits (spec/identify).
            draft.countUselessTraits(of: event)
            draft.dropTraits(.setOnce, of: event)
            draft.dropTraits(.add, of: event)
            draft.json.key("traits")
            self.writeFields(event.members(of: event.object(.traits)), commerce, of: event, into: &draft)
        case .action, .event, .meta:
            draft.json.string("track")
            draft.member("event", event.name)
            draft.json.key("properties")
            self.writeFields(event.fields(), commerce, of: event, into: &draft)
        }
        draft.appendTail()
        draft.json.endObject()
        guard draft.json.output.count < Limits.Segment.callByteCountMax else {
            return .refused(
                RefusalCause(
                    .segmentTooLarge, "the call is too large even without fields",
                    limit: Limits.Segment.callByteCountMax))
        }
        return .written
    }

    private func writeFields(
        _ fields: EventFields, _ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft
    ) {
        var fields = fields
        draft.json.beginObject()
        var room = Limits.Segment.propertyCountMax - commerce.writeRevenue(of: event, into: &draft)
        while let (key, value) = fields.next(in: event) {
            guard room > 0 else {
                draft.fixes.count(.dropField)
                continue
            }
            let isProducts = value == commerce.items
            guard
                isProducts
                    ? draft.beginField(TextSlice("products").body)
                    : self.beginField(key, commerce, of: event, into: &draft)
            else { continue }
            room -= 1
            if isProducts {
                self.writeProducts(value, of: event, into: &draft)
            } else {
                draft.value(value, of: event)
            }
        }
        // For two braces, a comma and the line feed.
        draft.dropFields(toFit: Limits.Segment.callByteCountMax - draft.tail.output.count - 4)
        draft.json.endObject()
    }

    /// Writes a field's name: an order's id has Segment's name for it (spec/ecommerce/v2).
    @inline(__always)
    private func beginField(
        _ key: Int, _ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft
    ) -> Bool {
        if commerce.flow != nil, JSONText.equals(event.tape.bytes(of: key), isEscaped: false, "transaction_id") {
            return draft.beginField(TextSlice("order_id").body)
        }
        return draft.beginField(key, of: event, limit: .max, unit: .utf16, isReserved: { _ in false })
    }

    /// GA4's names for what an item is, with Segment's (spec/ecommerce/v2, "Order Completed").
    private static let itemNames: [(StaticString, StaticString)] = [
        ("item_id", "product_id"), ("item_name", "name"), ("item_category", "category"), ("item_brand", "brand"),
        ("item_variant", "variant"), ("index", "position"),
    ]

    private func writeProducts(_ items: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        var item = items + 1
        draft.json.beginArray()
        while item < Int(event.tape[items].next) {
            var members = event.tape.members(of: item)
            draft.itemNames.removeAll()
            draft.json.beginObject()
            while let (key, value) = members.next(in: event.tape) {
                let body = event.tape.bytes(of: key)
                let name = Self.itemNames.first { JSONText.equals(body, isEscaped: false, $0.0) }?.1
                if draft.beginItemField(name.map { TextSlice($0).body } ?? body) { draft.value(value, of: event) }
            }
            draft.json.endObject()
            item = Int(event.tape[item].next)
        }
        draft.json.endArray()
    }

    /// Writes the members after the fields.
    private func writeEnd(
        of event: borrowing MappedEvent, _ commerce: Commerce, id: UnsafeRawBufferPointer, into draft: inout Draft
    ) {
        draft.json.member("messageId", plain: id)
        draft.member("anonymousId", event.text(.anon))
        draft.json.key("timestamp")
        draft.time(event.facts.time)
        draft.json.key("context")
        draft.json.beginObject()
        draft.json.key("app")
        draft.json.beginObject()
        draft.member("version", event.text(.app))
        draft.member("build", event.text(.build))
        draft.member("namespace", event.bundle)
        draft.json.endObject()
        draft.json.key("os")
        draft.json.beginObject()
        draft.member("name", event.text(.os))
        draft.member("version", event.text(.osVersion))
        draft.json.endObject()
        draft.json.key("device")
        draft.json.beginObject()
        draft.member("id", event.text(.anon))
        draft.member("model", event.text(.model))
        draft.lowercaseMember("type", event.text(.os))
        draft.json.endObject()
        draft.member("locale", event.text(.lang))
        draft.member("userAgent", event.text(.userAgent))
        if let country = event.text(.country) {
            draft.json.key("location")
            draft.json.beginObject()
            draft.member("country", country)
            draft.json.endObject()
        }
        draft.member("groupId", commerce.group(in: &draft))
        draft.json.key("library")
        draft.json.beginObject()
        draft.json.member("name", "waybill")
        draft.json.member("version", "1")
        draft.json.endObject()
        draft.json.endObject()
        draft.member("userId", event.text(.user))
    }
}

extension Segment {
    static let name = "segment"
    static let refusals: [RefusalReason] = [.segmentNoMessageID, .segmentNoUser, .segmentTooLarge]
    static let sendKey = SendKey.members([["messageId"]], dayCount: 1)
    static let appliesUsersInOrder = true

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: (us: "https://api.segment.io", eu: "https://events.eu1.segmentapis.com"), path: "/v1/batch",
            credentials: [.segmentWriteKey], recordsPerRequestMax: Limits.Segment.callsPerRequestMax,
            requestByteCountMax: Limits.Segment.requestByteCountMax)
        facts.eventsPerSecondMax = Limits.Segment.eventsPerSecondMax
        facts.prefix = "{\"batch\":["
        facts.suffix = RequestText([.plain("],\"writeKey\":\""), .json(.segmentWriteKey), .plain("\"}")])
        facts.answers.failure = (member: "success", literal: "false")
        return facts
    }
}

extension Destination {
    package static var segment: Destination { Destination(Segment.self) }
}

extension CredentialName {
    fileprivate static let segmentWriteKey = CredentialName(rawValue: "SEGMENT_WRITE_KEY")
}

extension RefusalReason {
    package static let segmentNoMessageID = RefusalReason("segment.no_message_id", remedy: Remedy.giveID)
    package static let segmentNoUser = RefusalReason("segment.no_user", remedy: Remedy.nameThePerson)
    package static let segmentTooLarge = RefusalReason("segment.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// Repository segmentio/segment-docs: server/http-api/index.md, rate-limits.md.
    package enum Segment {
        /// 2500 are accepted; above that, the server answers 200 and drops them.
        package static let callsPerRequestMax = 2000
        /// 500 KB, minus the envelope.
        package static let requestByteCountMax = 450_000
        /// "32 KB"; read as 32 000.
        package static let callByteCountMax = 32_000
        package static let messageIDCharacterCountMax = 100
        package static let propertyCountMax = 10_000
        package static let eventsPerSecondMax = 1000.0
    }
}
