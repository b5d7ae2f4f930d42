internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for PostHog.
package struct PostHogOptions: ProviderOptions, Hashable {
    /// Whether events without a user create no person profile.
    package var isPersonless = false

    package init() {}
}

/// PostHog's `/batch`: each line is one event, each part the `batch` of one request.
///
///     {"api_key":…,"historical_migration":…,"batch":[line,line,…]}
///
/// No line has `sent_at`: the server would shift every event by the difference between it and the time of receipt.
/// Repository PostHog/posthog.com (docs/api/capture), read 2026-11-20; posthog.com/docs/product-analytics/person-properties,
/// read 2026-11-23: `$set_once` exists, adding to a property does not.
struct PostHog: Provider {
    private let options: PostHogOptions

    init(_ options: ExportOptions) {
        self.options = options.posthog
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .posthog, fileExtension: "ndjson", recordsPerPartMax: Limits.PostHog.eventsPerRequestMax,
            partByteCountMax: Limits.PostHog.requestByteCountMax)
    }

    var recordByteCountMax: Int { Limits.PostHog.eventByteCountMax }

    func takes(_ kind: EventKind) -> Bool {
        kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard let uuid = event.uuid else {
            return .refused(RefusalCause(.posthogNoUUID, "id is missing or not a UUID", field: "id"))
        }
        if event.hasOnlyOtherTraits(takesOnce: true) { return .skipped(.nothing) }
        let lead = context.isAgeJudged ? -context.age(of: event) : 0
        guard lead <= Limits.PostHog.holdMillisecondsMax else {
            return .refused(
                RefusalCause(.posthogFuture, "the event is more than 24 hours ahead", field: "ts", limit: 24))
        }
        let anon = event.text(.anon)
        var user: TextSlice?
        if let cause = self.check(event, anon: anon, &user, into: &draft) {
            return .refused(cause)
        }
        guard let subject = user ?? anon else {
            return .refused(RefusalCause(.posthogBadID, "neither user nor anon is known", field: "anon"))
        }
        var isKnown = user != nil
        if let anon, let user, anon.equals(user) { isKnown = false }
        let commerce = Commerce(of: event)
        self.writeContext(
            of: event, commerce, isPersonless: user == nil && self.options.isPersonless, into: &draft)
        draft.moveToTail()

        draft.json.beginObject()
        draft.json.key("event")
        switch event.kind {
        case .screen: draft.json.string("$screen")
        // A device that is identified as itself could never be merged with a user.
        case .user: draft.json.string(isKnown ? "$identify" : "$set")
        case .action, .event, .meta:
            draft.eventName(event.name, limit: .max, unit: .utf16, isReserved: Self.isReserved)
        }
        draft.json.member("uuid", plain: uuid)
        draft.member("distinct_id", subject)
        draft.json.key("timestamp")
        draft.time(event.facts.time)
        draft.json.key("properties")
        draft.json.beginObject()
        // For two braces, a comma and the line feed.
        let end = Limits.PostHog.eventByteCountMax - draft.tail.output.count - 4
        if event.kind == .user {
            if isKnown { draft.member("$anon_distinct_id", anon) }
            self.writePersonProperties(of: event, end: end, into: &draft)
        } else {
            if event.kind == .screen { draft.member("$screen_name", event.text(.screen)) }
            _ = commerce.writeRevenue(of: event, into: &draft)
            var fields = event.fields()
            while let (key, value) = fields.next(in: event) { self.write(key, value, of: event, into: &draft) }
            draft.dropFields(toFit: end)
        }
        guard draft.json.output.count <= end else {
            return .refused(
                RefusalCause(
                    .posthogTooLarge, "the event is too large even without fields",
                    limit: Limits.PostHog.eventByteCountMax))
        }
        draft.appendTail()
        draft.json.endObject()
        draft.json.endObject()
        guard lead > Limits.PostHog.futureMillisecondsMax else { return .written }
        return .held(
            notBefore: WallTime(milliseconds: event.facts.time.milliseconds - Limits.PostHog.futureMillisecondsMax))
    }

    static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? {
        guard let user = event.text(.user), !Self.isIllegal(user, in: &draft) else { return nil }
        return user
    }

    /// Finds the user, whom PostHog may not accept, or returns why the id is not valid.
    private func check(
        _ event: borrowing MappedEvent, anon: TextSlice?, _ user: inout TextSlice?, into draft: inout Draft
    ) -> RefusalCause? {
        if let anon, Self.isIllegal(anon, in: &draft) {
            return RefusalCause(.posthogBadID, "anon is an id that PostHog refuses", field: "anon")
        }
        user = Self.user(of: event, in: &draft)
        if user == nil, event.text(.user) != nil { draft.fixes.count(.dropNull) }
        // The server would cut them, and they could then match another person's id.
        let limit = Limits.PostHog.distinctIDCharacterCountMax
        if let user, !user.fits(limit, in: &draft) {
            return RefusalCause(.posthogBadID, "the id is too long", field: "user", limit: limit)
        }
        if let anon, user == nil || event.kind == .user, !anon.fits(limit, in: &draft) {
            return RefusalCause(.posthogBadID, "the id is too long", field: "anon", limit: limit)
        }
        return nil
    }

    /// Names that PostHog uses for its own events and properties.
    private static func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        name.first == UInt8(ascii: "$")
    }

    private func write(_ key: Int, _ value: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        guard draft.beginField(key, of: event, limit: .max, unit: .utf16, isReserved: Self.isReserved) else { return }
        draft.value(value, of: event)
    }

    /// Writes the properties that a `user` event sets or sets once, and the names of those it removes.
    private func writePersonProperties(of event: borrowing MappedEvent, end: Int, into draft: inout Draft) {
        draft.countUselessTraits(of: event)
        draft.dropTraits(.add, of: event)
        self.writePersonProperties("$set", .set, of: event, end: end, into: &draft)
        // The object's own bytes: `,"$set_once":{}`.
        if draft.json.output.count + 15 > end {
            draft.dropTraits(.setOnce, of: event)
        } else if event.hasTraits(.setOnce) {
            draft.keepFields()
            self.writePersonProperties("$set_once", .setOnce, of: event, end: end, into: &draft)
        }
        if event.hasTraits(.unset) { self.writeUnset(of: event, end: end, into: &draft) }
    }

    private func writePersonProperties(
        _ name: StaticString, _ operation: TraitOperation, of event: borrowing MappedEvent, end: Int,
        into draft: inout Draft
    ) {
        draft.json.key(name)
        draft.json.beginObject()
        var traits = event.traits(operation)
        while let (key, value) = traits.next(in: event) { self.write(key, value, of: event, into: &draft) }
        draft.dropFields(toFit: end - 1)
        draft.json.endObject()
    }

    private func writeUnset(of event: borrowing MappedEvent, end: Int, into draft: inout Draft) {
        let mark = draft.json.mark
        draft.json.key("$unset")
        draft.json.beginArray()
        var traits = event.traits(.unset)
        while let (key, _) = traits.next(in: event) {
            let mark = draft.json.mark
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            draft.eventName(
                TextSlice(body: event.tape.bytes(of: key), isEscaped: isEscaped), limit: .max, unit: .utf16,
                isReserved: { $0.isEmpty || Self.isReserved($0) })
            // The bracket follows.
            if draft.json.output.count >= end {
                draft.json.rewind(to: mark)
                draft.fixes.count(.dropField)
            } else if !draft.insertString(since: mark) {
                draft.json.rewind(to: mark)
                draft.fixes.count(.collide)
            }
        }
        draft.json.endArray()
        // Without a name, only the list's own bytes can be too many.
        if draft.json.output.count > end { draft.json.rewind(to: mark) }
    }

    /// Writes properties with reserved names, which no field can have.
    private func writeContext(
        of event: borrowing MappedEvent, _ commerce: Commerce, isPersonless: Bool, into draft: inout Draft
    ) {
        if let session = event.text(.session) {
            let age = event.sessionStart.map { event.facts.time.milliseconds - Int64(clamping: $0) }
            if let age, 0...Limits.PostHog.sessionMillisecondsMax ~= age {
                draft.member("$session_id", session)
            } else {
                draft.fixes.count(.dropField)
            }
        }
        draft.member("$device_id", event.text(.anon))
        draft.member("$os", event.text(.os))
        draft.member("$os_version", event.text(.osVersion))
        draft.member("$app_version", event.text(.app))
        draft.member("$app_build", event.text(.build))
        draft.member("$raw_user_agent", event.text(.userAgent))
        draft.member("$geoip_country_code", event.text(.country))
        // The address of the request is the exporter's.
        draft.json.member("$geoip_disable", true)
        draft.json.member("$lib", "waybill")
        if isPersonless {
            draft.json.member("$process_person_profile", false)
        } else if let group = commerce.group(in: &draft) {
            // Groups belong to events of people.
            draft.json.key("$groups")
            draft.json.beginObject()
            draft.member("group", group)
            draft.json.endObject()
        }
    }
}

extension PostHog {
    static let name = "posthog"
    static let refusals: [RefusalReason] = [.posthogNoUUID, .posthogBadID, .posthogFuture, .posthogTooLarge]
    static let sendKey = SendKey.members([["uuid"], ["event"], ["timestamp"], ["distinct_id"]], dayCount: nil)
    static let appliesUsersInOrder = true

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: (us: "https://us.i.posthog.com", eu: "https://eu.i.posthog.com"), path: "/batch/",
            credentials: [.posthogAPIKey], recordsPerRequestMax: Limits.PostHog.eventsPerRequestMax,
            requestByteCountMax: Limits.PostHog.requestByteCountMax)
        facts.eventsPerSecondMax = Limits.PostHog.eventsPerMinuteMax / 60
        facts.isRepeatableForEver = true
        facts.historicalMillisecondsMin = Limits.PostHog.historicalMillisecondsMin
        facts.prefix = RequestText([
            .plain("{\"api_key\":\""), .json(.posthogAPIKey), .plain("\",\"historical_migration\":"), .isHistorical,
            .plain(",\"batch\":["),
        ])
        facts.suffix = "]}"
        facts.answers.quota = (list: "quota_limited", element: "events")
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [keys.flag("personless", \.posthog.isPersonless, "Events without a user create no person.")]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        text.add("personless", options.posthog.isPersonless, unless: PostHogOptions().isPersonless)
    }
}

extension Destination {
    package static var posthog: Destination { Destination(PostHog.self) }
}

extension ExportOptions {
    package var posthog: PostHogOptions {
        get { self[PostHogOptions.self] }
        set { self[PostHogOptions.self] = newValue }
    }
}

extension CredentialName {
    fileprivate static let posthogAPIKey = CredentialName(rawValue: "POSTHOG_API_KEY")
}

extension RefusalReason {
    package static let posthogNoUUID = RefusalReason("posthog.no_uuid", remedy: Remedy.giveID)
    package static let posthogBadID = RefusalReason("posthog.bad_id", remedy: Remedy.nameThePerson)
    package static let posthogFuture = RefusalReason("posthog.future", remedy: Remedy.setClock)
    package static let posthogTooLarge = RefusalReason("posthog.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// Repository PostHog/posthog.com, docs/api/capture.mdx, docs/data/ingestion-warnings.mdx, and PostHog/posthog,
    /// rust/capture.
    package enum PostHog {
        package static let eventsPerRequestMax = 1000
        /// A body must be below 20 MB.
        package static let requestByteCountMax = 10_000_000
        /// The server silently cuts longer ids.
        package static let distinctIDCharacterCountMax = 200
        /// A session's id is valid for this long after its time.
        package static let sessionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Above this rate, PostHog asks for advance notice.
        package static let eventsPerMinuteMax = 10_000.0
        /// A larger event is discarded although the answer is 200.
        ///
        /// "1 MB"; read as 10^6 minus one.
        package static let eventByteCountMax = 999_999
        /// Events further ahead are stored and never shown.
        package static let futureMillisecondsMax: Int64 = 23 * 3_600_000
        package static let holdMillisecondsMax: Int64 = 24 * 3_600_000
        /// Older events are an import, not live traffic.
        package static let historicalMillisecondsMin: Int64 = 48 * 3_600_000
    }
}
