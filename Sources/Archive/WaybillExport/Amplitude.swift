internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for Amplitude.
package struct AmplitudeOptions: ProviderOptions, Hashable {
    /// The endpoint that the uploader posts parts to.
    package enum Mode: String, Hashable, Sendable, CaseIterable {
        /// `/batch`: large requests, for exports.
        case batch
        /// `/2/httpapi`: small requests, for events that are needed soon.
        case httpAPI = "httpapi"
    }

    package var mode = Mode.batch

    package init() {}
}

/// Amplitude's Batch API and HTTP API V2: each line is one event, each part the `events` of one request.
///
///     {"api_key":…,"events":[line,line,…],"options":{"min_id_length":5}}
///
/// Repository amplitude/amplitude-dev-center (http-v2-api, batch-event-upload-api), read 2026-11-20;
/// amplitude.com/docs/apis/analytics/identify, read 2026-11-23.
struct Amplitude: Provider {
    private let options: AmplitudeOptions

    init(_ options: ExportOptions) {
        self.options = options.amplitude
    }

    var description: ProviderDescription {
        let isBatch = self.options.mode == .batch
        return ProviderDescription(
            id: .amplitude, fileExtension: "ndjson",
            recordsPerPartMax: isBatch ? Limits.Amplitude.batchEventsMax : Limits.Amplitude.requestEventsMax,
            partByteCountMax: self.recordByteCountMax)
    }

    var recordByteCountMax: Int {
        self.options.mode == .batch ? Limits.Amplitude.batchByteCountMax : Limits.Amplitude.requestByteCountMax
    }

    func takes(_ kind: EventKind) -> Bool {
        kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard let id = event.identifier else {
            return .refused(RefusalCause(.amplitudeNoInsertID, "id is missing or invalid", field: "id"))
        }
        let screen = event.kind == .user ? nil : event.text(.screen)
        if event.kind != .screen, let screen {
            // It comes after the fields, which are dropped first.
            draft.member("screen", screen, limit: Limits.Amplitude.stringCharacterCountMax)
            draft.moveToTail()
        }
        draft.json.beginObject()
        draft.json.key("event_type")
        switch event.kind {
        case .screen: draft.json.string("[Amplitude] Screen Viewed")
        case .user: draft.json.string("$identify")
        case .action, .event, .meta:
            draft.eventName(
                event.name, limit: Limits.Amplitude.stringCharacterCountMax, unit: .utf16, isReserved: Self.isReserved)
        }
        if let cause = self.writeIdentity(of: event, into: &draft) { return .refused(cause) }
        self.writeContext(of: event, id: id, into: &draft)
        if event.kind == .user {
            self.writeUserProperties(of: event, into: &draft)
        } else {
            self.writeEventProperties(of: event, screen, into: &draft)
        }
        guard draft.json.output.count < self.recordByteCountMax else {
            return .refused(
                RefusalCause(
                    .amplitudeTooLarge, "the event is too large even without fields", limit: self.recordByteCountMax))
        }
        return .written
    }

    /// Names that Amplitude uses for its own events.
    private static func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        let own: StaticString = "[Amplitude]"
        return name.first == UInt8(ascii: "$")
            || name.count >= own.utf8CodeUnitCount
                && JSONText.equals(
                    UnsafeRawBufferPointer(rebasing: name[..<own.utf8CodeUnitCount]), isEscaped: false, own)
    }

    // MARK: Identity

    /// Ids that Amplitude rejects (http-v2-api, "Device IDs and User IDs").
    private static let placeholders: [StaticString] = [
        "anonymous", "nil", "none", "null", "n/a", "na", "undefined", "unknown", "",
        "00000000-0000-0000-0000-000000000000", "{}", "lmy47d", "0", "-1",
    ]

    private static func isUsable(_ id: TextSlice, _ draft: inout Draft) -> Bool {
        // The longest placeholder, apart from the one of zeros, has nine bytes.
        if !id.isEscaped, id.body.count > 9, id.body[0] != UInt8(ascii: "0") {
            return TextLimit.utf16Count(id.body) >= Limits.Amplitude.idCharacterCountMin
        }
        draft.unescape(id)
        return TextLimit.utf16Count(draft.text.bytes) >= Limits.Amplitude.idCharacterCountMin
            && !Self.placeholders.contains { JSONText.equals(draft.text.bytes, isEscaped: false, $0) }
    }

    static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? {
        guard let user = event.text(.user), Self.isUsable(user, &draft) else { return nil }
        return user
    }

    private func writeIdentity(of event: borrowing MappedEvent, into draft: inout Draft) -> RefusalCause? {
        let limit = Limits.Amplitude.stringCharacterCountMax
        let anon = event.text(.anon)
        if let anon, !Self.isUsable(anon, &draft) {
            return RefusalCause(
                .amplitudeBadID, "anon is a placeholder or too short", field: "anon",
                limit: Limits.Amplitude.idCharacterCountMin)
        }
        let user = Self.user(of: event, in: &draft)
        if user == nil, event.text(.user) != nil { draft.fixes.count(.dropNull) }
        guard user != nil || anon != nil else {
            return RefusalCause(.amplitudeBadID, "neither user nor anon is known", field: "anon")
        }
        // If cut, they could match another person's id.
        if let user, !user.fits(limit, in: &draft) {
            return RefusalCause(.amplitudeBadID, "the id is too long", field: "user", limit: limit)
        }
        if let anon, !anon.fits(limit, in: &draft) {
            return RefusalCause(.amplitudeBadID, "the id is too long", field: "anon", limit: limit)
        }
        draft.member("user_id", user)
        draft.member("device_id", anon)
        return nil
    }

    // MARK: Properties

    private func writeContext(of event: borrowing MappedEvent, id: UnsafeRawBufferPointer, into draft: inout Draft) {
        let limit = Limits.Amplitude.stringCharacterCountMax
        draft.json.member("time", event.facts.time.milliseconds)
        draft.json.member("insert_id", plain: id)
        if let seq = event.integer(.seq), seq >= 0 {
            draft.json.member("event_id", seq)
        }
        draft.json.member("session_id", event.sessionStart.map { Int64(clamping: $0) } ?? -1)
        draft.member("app_version", event.text(.app), limit: limit)
        draft.member("platform", event.text(.os), limit: limit)
        draft.lowercaseMember("os_name", event.text(.os), limit: limit)
        draft.member("os_version", event.text(.osVersion), limit: limit)
        draft.member("device_model", event.text(.model), limit: limit)
        draft.member("language", event.text(.lang), limit: limit)
        draft.member("country", event.text(.country), limit: limit)
        self.writeCommerce(Commerce(of: event), of: event, into: &draft)
    }

    /// Writes the fields that revenue and groups are counted by (http-v2-api, "Keys for the event argument").
    private func writeCommerce(_ commerce: Commerce, of event: borrowing MappedEvent, into draft: inout Draft) {
        let limit = Limits.Amplitude.stringCharacterCountMax
        let isCounted = commerce.quantity.map { self.isQuantity($0, of: event) } ?? true
        if commerce.flow != nil, commerce.value == nil, commerce.price != nil, !isCounted {
            // Both stay properties: without its quantity, a price would be another revenue.
            draft.fixes.count(.dropField)
        } else if commerce.flow != nil, let amount = commerce.value ?? commerce.price {
            // With a price, Amplitude would compute the revenue from it.
            let isPrice = commerce.value == nil
            draft.json.key(isPrice ? "price" : "revenue")
            commerce.write(amount: amount, of: event, into: &draft)
            if isPrice, let quantity = commerce.quantity {
                draft.json.member("quantity", verbatim: event.tape.bytes(of: quantity))
            }
            draft.member("productId", commerce.product ?? commerce.onlyItemText("item_id", of: event), limit: limit)
            draft.member("revenueType", event.name, limit: limit)
            draft.member("currency", commerce.currency, limit: limit)
        }
        if let group = commerce.group(in: &draft) {
            draft.json.key("groups")
            draft.json.beginObject()
            draft.member("group", group)
            draft.json.endObject()
        }
    }

    private func isQuantity(_ index: Int, of event: borrowing MappedEvent) -> Bool {
        event.integer(at: index).map { $0 <= Limits.Amplitude.quantityMax } ?? false
    }

    private func writeEventProperties(of event: borrowing MappedEvent, _ screen: TextSlice?, into draft: inout Draft) {
        draft.json.key("event_properties")
        draft.json.beginObject()
        var room = Limits.Amplitude.propertyCountMax
        if let screen {
            room -= 1
            if event.kind == .screen {
                draft.beginContextField("[Amplitude] Screen Name")
                draft.text(screen, limit: Limits.Amplitude.stringCharacterCountMax)
            }
        }
        let hasScreenBehind = !draft.tail.output.isEmpty
        var fields = event.fields()
        while let (key, value) = fields.next(in: event) {
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            if hasScreenBehind, JSONText.equals(event.tape.bytes(of: key), isEscaped: isEscaped, "screen") {
                draft.fixes.count(.collide)
                continue
            }
            self.writeProperty(key, value, of: event, room: &room, into: &draft)
        }
        // For a comma before the tail, two braces and the line feed.
        draft.dropFields(toFit: self.recordByteCountMax - draft.tail.output.count - 4)
        draft.appendTail()
        draft.json.endObject()
        draft.json.endObject()
    }

    private func writeProperty(
        _ key: Int, _ value: Int, of event: borrowing MappedEvent, room: inout Int, into draft: inout Draft
    ) {
        guard self.beginProperty(key, of: event, room: &room, into: &draft) else { return }
        draft.value(
            value, of: event, limit: Limits.Amplitude.stringCharacterCountMax,
            depthMax: Limits.Amplitude.depthMax - 1)
    }

    /// Writes a property's name; false if it was already written or the event has too many properties.
    @inline(__always)
    private func beginProperty(
        _ key: Int, of event: borrowing MappedEvent, room: inout Int, into draft: inout Draft
    ) -> Bool {
        guard room > 0 else {
            draft.fixes.count(.dropField)
            return false
        }
        guard
            draft.beginField(
                key, of: event, limit: Limits.Amplitude.stringCharacterCountMax, unit: .utf16,
                isReserved: { _ in false })
        else { return false }
        room -= 1
        return true
    }

    /// The operations on user properties (identify, "user_properties supported operations"), in this order.
    private static let operations: [(operation: TraitOperation, name: StaticString)] = [
        (.set, "$set"), (.setOnce, "$setOnce"), (.add, "$add"), (.unset, "$unset"),
    ]

    /// Writes the properties that a `user` event changes, by operation; each property is in one of them.
    private func writeUserProperties(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.countUselessTraits(of: event)
        draft.json.key("user_properties")
        draft.json.beginObject()
        var room = Limits.Amplitude.propertyCountMax
        // Three braces, the line feed, and for each operation its name and four bytes around an empty object.
        var reserve = 4
        for (_, name) in Self.operations { reserve += name.utf8CodeUnitCount + 6 }
        for (operation, name) in Self.operations {
            reserve -= name.utf8CodeUnitCount + 6
            guard event.hasTraits(operation) else { continue }
            draft.json.key(name)
            draft.json.beginObject()
            draft.keepFields()
            self.writeProperties(operation, of: event, room: &room, into: &draft)
            draft.dropFields(toFit: self.recordByteCountMax - reserve)
            draft.json.endObject()
        }
        draft.json.endObject()
        draft.json.endObject()
    }

    private func writeProperties(
        _ operation: TraitOperation, of event: borrowing MappedEvent, room: inout Int, into draft: inout Draft
    ) {
        var traits = event.traits(operation)
        while let (key, value) = traits.next(in: event) {
            if operation == .unset {
                guard self.beginProperty(key, of: event, room: &room, into: &draft) else { continue }
                draft.json.string("-")
            } else {
                self.writeProperty(key, value, of: event, room: &room, into: &draft)
            }
        }
    }
}

extension Amplitude {
    static let name = "amplitude"
    static let refusals: [RefusalReason] = [.amplitudeNoInsertID, .amplitudeBadID, .amplitudeTooLarge]
    static let sendKey = SendKey.members([["insert_id"], ["device_id"]], dayCount: 7)
    static let appliesUsersInOrder = true

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: (us: "https://api2.amplitude.com", eu: "https://api.eu.amplitude.com"), path: "/batch",
            credentials: [.amplitudeAPIKey], recordsPerRequestMax: Limits.Amplitude.batchEventsMax,
            requestByteCountMax: Limits.Amplitude.batchByteCountMax)
        facts.prefix = RequestText([.plain("{\"api_key\":\""), .json(.amplitudeAPIKey), .plain("\",\"events\":[")])
        facts.suffix = "],\"options\":{\"min_id_length\":5}}"
        facts.answers.acceptedCount = "events_ingested"
        facts.answers.refusals = .eventsByField
        // What `/batch` requires after a 429 (amplitude.com/docs/apis/analytics/batch-event-upload).
        facts.answers.throttlingPause = .seconds(15)
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.choice(
                "mode", \.amplitude.mode,
                "The size of parts: for `/batch`, or for `/2/httpapi` (1000 events, 900 kB).")
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        text.add("mode", options.amplitude.mode.rawValue, unless: AmplitudeOptions().mode.rawValue)
    }
}

extension Destination {
    package static var amplitude: Destination { Destination(Amplitude.self) }
}

extension ExportOptions {
    package var amplitude: AmplitudeOptions {
        get { self[AmplitudeOptions.self] }
        set { self[AmplitudeOptions.self] = newValue }
    }
}

extension CredentialName {
    fileprivate static let amplitudeAPIKey = CredentialName(rawValue: "AMPLITUDE_API_KEY")
}

extension RefusalReason {
    package static let amplitudeNoInsertID = RefusalReason("amplitude.no_insert_id", remedy: Remedy.giveID)
    package static let amplitudeBadID = RefusalReason("amplitude.bad_id", remedy: Remedy.nameThePerson)
    package static let amplitudeTooLarge = RefusalReason("amplitude.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// Repository amplitude/amplitude-dev-center: http-v2-api.md, batch-event-upload-api.md.
    package enum Amplitude {
        package static let batchEventsMax = 2000
        /// 20 MB, minus the envelope.
        package static let batchByteCountMax = 18_000_000
        /// "Fewer than 2000"; half of that is recommended.
        package static let requestEventsMax = 1000
        /// Below 1 MB, minus the envelope.
        package static let requestByteCountMax = 900_000
        package static let stringCharacterCountMax = 1024
        package static let propertyCountMax = 1024
        /// `event_properties` itself is the first level.
        package static let depthMax = 40
        package static let idCharacterCountMin = 5
        /// A `quantity` is an integer of 32 bits.
        package static let quantityMax = Int(Int32.max)
    }
}
