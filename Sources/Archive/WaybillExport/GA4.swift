internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for Google Analytics.
package struct GA4Options: ProviderOptions, Hashable {
    /// The handling of events older than 72 hours, whose time the server changes without an error.
    package enum TooOld: String, Hashable, Sendable, CaseIterable {
        case reject
        /// Exports them with the parameter `original_ts`.
        case clamp
    }

    package var tooOld = TooOld.reject
    /// The event that carries user properties.
    package var userEventName = "user_updated"
    /// Whether requests include language, system, model and country.
    package var includesDevice = false

    package init() {}

    /// Whether GA4 accepts an event of that name from an app.
    package static func isEventName(_ name: String) -> Bool {
        let bytes = Array(name.utf8)
        guard let first = bytes.first, bytes.count <= Limits.GA4.nameCharacterCountMax,
            0x41...0x5A ~= first || 0x61...0x7A ~= first
        else { return false }
        let isPlain = bytes.allSatisfy {
            0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == UInt8(ascii: "_")
        }
        return isPlain && !bytes.withUnsafeBytes(NameRule.event.isReserved)
    }
}

/// Google Analytics 4, Measurement Protocol for app streams: each line is one request body.
///
///     {"app_instance_id":…,"user_id":…,"events":[{"name":…,"params":{…},"timestamp_micros":…},…],"user_properties":{…}}
///     |<------------- head: same for all events ------------>|<--------- draft.json --------->|<------ tail ------->|
///
/// developers.google.com/analytics/devguides/collection/protocol/ga4, read 2026-11-20.
struct GA4: Provider {
    private let options: GA4Options

    init(_ options: ExportOptions) {
        self.options = options.ga4
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .ga4, fileExtension: "ndjson", recordsPerPartMax: Limits.GA4.recordsPerPartMax,
            partByteCountMax: Limits.GA4.partByteCountMax)
    }

    var eventsPerRecordMax: Int { Limits.GA4.eventsPerRequestMax }
    var recordByteCountMax: Int { Limits.GA4.requestByteCountMax }

    func takes(_ kind: EventKind) -> Bool {
        kind != .meta
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        if event.hasOnlyOtherTraits(takesOnce: false) { return .skipped(.nothing) }
        if let cause = self.writeHead(of: event, into: &draft) { return .refused(cause) }
        let isTooOld = context.isAgeJudged && context.age(of: event) > Limits.GA4.ageMillisecondsMax
        if isTooOld, self.options.tooOld == .reject {
            return .refused(
                RefusalCause(.ga4TooOld, "the event is older than 72 hours", field: "ts", limit: 72))
        }
        self.writeTail(of: event, into: &draft)
        draft.startsGroup = event.kind == .user

        draft.json.beginObject()
        draft.json.key("name")
        self.writeName(of: event, into: &draft)
        draft.json.key("params")
        draft.json.beginObject()
        let contextCount = self.writeContext(of: event, isTooOld: isTooOld, into: &draft)
        self.writeFields(of: event, room: Limits.GA4.parameterCountMax - contextCount, into: &draft)

        // For `},"timestamp_micros":`, at most 20 digits, `}` and the line feed.
        let frameByteCount = draft.head.output.count + draft.tail.output.count + 48
        draft.dropFields(toFit: Limits.GA4.requestByteCountMax - frameByteCount)
        guard draft.json.output.count <= Limits.GA4.requestByteCountMax - frameByteCount else {
            return .refused(
                RefusalCause(
                    .ga4TooLarge, "the event is too large even without fields",
                    limit: Limits.GA4.requestByteCountMax))
        }
        draft.json.endObject()
        draft.json.member("timestamp_micros", event.facts.time.milliseconds * 1000)
        draft.json.endObject()
        return .written
    }

    // MARK: Request

    private func writeHead(of event: borrowing MappedEvent, into draft: inout Draft) -> RefusalCause? {
        guard let ids = event.object(.ids), let index = event.tape.firstValue(of: "ga4", in: ids),
            let instance = event.text(at: index)
        else { return RefusalCause(.ga4NoAppInstanceID, "ids.ga4 is missing", field: "ids.ga4") }
        guard Self.isAppInstanceID(instance) else {
            return RefusalCause(
                .ga4NoAppInstanceID, "ids.ga4 is not 32 hexadecimal digits", field: "ids.ga4",
                limit: Limits.GA4.appInstanceIDCharacterCount)
        }
        draft.head.beginObject()
        draft.head.member("app_instance_id", plain: instance.body)
        if let user = event.text(.user) {
            draft.unescape(user)
            guard TextLimit.utf16Count(draft.text.bytes) <= Limits.GA4.userIDCharacterCountMax else {
                // If cut, it could match another person's id.
                return RefusalCause(
                    .ga4BadUserID, "user is too long", field: "user", limit: Limits.GA4.userIDCharacterCountMax)
            }
            draft.head.member("user_id", draft.text.bytes)
        }
        if let ads = event.flag(.consent, "ads") {
            let answer: StaticString = ads ? "GRANTED" : "DENIED"
            draft.head.key("consent")
            draft.head.beginObject()
            draft.head.member("ad_user_data", answer)
            draft.head.member("ad_personalization", answer)
            draft.head.endObject()
        }
        if self.options.includesDevice {
            self.writeDevice(of: event, into: &draft)
            self.writeLocation(of: event, into: &draft)
        }
        draft.head.key("events")
        draft.head.beginArray()
        return nil
    }

    private func writeDevice(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.head.key("device")
        draft.head.beginObject()
        self.writeDevice("language", event.text(.lang), into: &draft)
        self.writeDevice("operating_system", event.text(.os), into: &draft)
        self.writeDevice("operating_system_version", event.text(.osVersion), into: &draft)
        self.writeDevice("model", event.text(.model), into: &draft)
        draft.head.endObject()
    }

    private func writeLocation(of event: borrowing MappedEvent, into draft: inout Draft) {
        guard let country = event.text(.country) else { return }
        draft.head.key("user_location")
        draft.head.beginObject()
        self.writeDevice("country_id", country, into: &draft)
        draft.head.endObject()
    }

    private func writeDevice(_ key: StaticString, _ text: TextSlice?, into draft: inout Draft) {
        guard let text else { return }
        draft.unescape(text)
        let kept = TextLimit.keptByteCount(
            of: draft.text.bytes, limit: Limits.GA4.valueCharacterCountMax, unit: .utf16)
        if kept < draft.text.count { draft.fixes.count(.truncateValue) }
        draft.head.key(key)
        draft.head.string(UnsafeRawBufferPointer(rebasing: draft.text.bytes[..<kept]))
    }

    private static func isAppInstanceID(_ text: TextSlice) -> Bool {
        guard text.body.count == Limits.GA4.appInstanceIDCharacterCount else { return false }
        return text.body.allSatisfy { 0x30...0x39 ~= $0 || 0x41...0x46 ~= $0 || 0x61...0x66 ~= $0 }
    }

    /// Closes the list of events, and adds the properties that a `user` event sets.
    private func writeTail(of event: borrowing MappedEvent, into draft: inout Draft) {
        draft.tail.endArray()
        if event.kind == .user {
            // A user property can only be set.
            draft.countUselessTraits(of: event)
            draft.dropTraits(.setOnce, of: event)
            draft.dropTraits(.add, of: event)
            if let traits = event.object(.traits) { self.writeUserProperties(traits, of: event, into: &draft) }
        }
        draft.tail.endObject()
    }

    /// Writes the properties at the event's place, where the writer counts and cuts, and then moves them.
    private func writeUserProperties(_ traits: Int, of event: borrowing MappedEvent, into draft: inout Draft) {
        var room = Limits.GA4.userPropertyCountMax
        var members = event.members(of: traits)
        draft.json.beginObject()
        while let (key, value) = members.next(in: event, room: room, droppedTo: &draft.fixes) {
            guard draft.beginField(draft.key(key, of: event, rule: .userProperty)) else { continue }
            room -= 1
            draft.json.beginObject()
            draft.json.key("value")
            draft.scalarOrNestedString(
                value, of: event, limit: Limits.GA4.userPropertyValueCharacterCountMax, unit: .utf16)
            draft.json.member("timestamp_micros", event.facts.time.milliseconds * 1000)
            draft.json.endObject()
        }
        draft.json.endObject()
        if room < Limits.GA4.userPropertyCountMax {
            draft.tail.member("user_properties", verbatim: draft.json.output.bytes)
        }
        draft.restartRecord()
    }

    // MARK: Event

    private func writeName(of event: borrowing MappedEvent, into draft: inout Draft) {
        switch event.kind {
        case .screen:
            draft.json.string("screen_view")
        case .user:
            draft.json.string(self.options.userEventName)
        case .action, .event, .meta:
            let name = draft.mappedName(event.name, rule: .event)
            draft.noteEventName(name, env: event.facts.env)
            draft.json.string(plain: name)
        }
    }

    /// Writes the parameters that describe the event itself; returns their number.
    private func writeContext(of event: borrowing MappedEvent, isTooOld: Bool, into draft: inout Draft) -> Int {
        var count = 1
        if let start = event.sessionStart {
            draft.beginContextField("session_id")
            draft.json.quotedInteger(start / 1000)
            count += 1
        }
        draft.beginContextField("engagement_time_msec")
        draft.json.integer(Int64(max(event.integer(.dt) ?? 1, 1)))
        if event.kind == .screen {
            count += self.writeContext("screen_name", event.text(.screen), into: &draft)
            count += self.writeContext("screen_class", event.text(.screenClass), into: &draft)
            count += self.writeContext("screen_id", event.text(.screenID), into: &draft)
        }
        if event.facts.env == .dev {
            draft.beginContextField("debug_mode")
            draft.json.integer(1)
            count += 1
        }
        if isTooOld { count += self.writeContext("original_ts", event.text(.ts), into: &draft) }
        return count
    }

    @inline(__always)
    private func writeContext(_ key: StaticString, _ text: TextSlice?, into draft: inout Draft) -> Int {
        guard let text else { return 0 }
        draft.beginContextField(key)
        draft.string(text, limit: Limits.GA4.valueCharacterCountMax, unit: .utf16)
        return 1
    }

    private func writeFields(of event: borrowing MappedEvent, room: Int, into draft: inout Draft) {
        var room = room
        var fields = event.fields()
        while let (key, value) = fields.next(in: event, room: room, droppedTo: &draft.fixes) {
            let name = draft.key(key, of: event, rule: .parameter)
            let isItems = JSONText.equals(name, isEscaped: false, "items")
            let otherName = Self.otherName(of: name, value, of: event)
            if otherName != nil { draft.fixes.count(.rename) }
            guard draft.beginField(otherName.map { TextSlice($0).body } ?? name) else { continue }
            room -= 1
            if isItems, otherName == nil {
                self.writeItems(value, of: event, into: &draft)
            } else {
                draft.scalarOrNestedString(value, of: event, limit: Self.valueLimit(name), unit: .utf16)
            }
        }
    }

    /// The name of a field whose own one means something that its value is not: a session's number, or items.
    @inline(__always)
    private static func otherName(
        of name: UnsafeRawBufferPointer, _ value: Int, of event: borrowing MappedEvent
    ) -> StaticString? {
        switch name.count {
        case 5 where JSONText.equals(name, isEscaped: false, "items"):
            return event.tape[value].kind == .array ? nil : "x_items"
        case 10 where JSONText.equals(name, isEscaped: false, "session_id"):
            let digits = event.tape.bytes(of: value)
            switch event.tape[value].kind {
            case .number, .string:
                return !digits.isEmpty && digits.allSatisfy { 0x30...0x39 ~= $0 } ? nil : "x_session_id"
            case .null, .false, .true, .array, .object: return "x_session_id"
            }
        default: return nil
        }
    }

    @inline(__always)
    private static func valueLimit(_ name: UnsafeRawBufferPointer) -> Int {
        // All three names begin alike and have 10 to 13 characters.
        guard 10...13 ~= name.count, name[4] == UInt8(ascii: "_") else { return Limits.GA4.valueCharacterCountMax }
        if JSONText.equals(name, isEscaped: false, "page_title") { return Limits.GA4.pageTitleCharacterCountMax }
        if JSONText.equals(name, isEscaped: false, "page_referrer") { return Limits.GA4.pageReferrerCharacterCountMax }
        if JSONText.equals(name, isEscaped: false, "page_location") { return Limits.GA4.pageLocationCharacterCountMax }
        return Limits.GA4.valueCharacterCountMax
    }
}

extension GA4 {
    static let name = "ga4"
    static let refusals: [RefusalReason] = [.ga4NoAppInstanceID, .ga4BadUserID, .ga4TooOld, .ga4TooLarge]
    static let sendKey = SendKey.none
    static let appliesUsersInOrder = true
    static let eventAgeMillisecondsMax: Int64? = Limits.GA4.ageMillisecondsMax

    static func oldestMilliseconds(of record: [UInt8]) -> Int64? {
        guard let events = JSONValue(record)?["events"]?.elements else { return nil }
        // Events with `original_ts` were too old when they came: the operator lets GA4 change their time.
        let judged = events.filter { $0["params"]?["original_ts"] == nil }
        let times = judged.compactMap { $0["timestamp_micros"]?.integer }
        return times.count < judged.count ? nil : times.min().map { Int64($0 / 1000) } ?? .max
    }

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: (us: "https://www.google-analytics.com", eu: "https://region1.google-analytics.com"),
            path: "/mp/collect", credentials: [.ga4APISecret, .ga4FirebaseAppID], recordsPerRequestMax: 1,
            requestByteCountMax: Limits.GA4.requestByteCountMax)
        facts.validationPath = "/debug/mp/collect"
        facts.inFlightMax = 4
        facts.repetition = .counted
        facts.query = RequestText([
            .plain("?firebase_app_id="), .query(.ga4FirebaseAppID), .plain("&api_secret="), .query(.ga4APISecret),
        ])
        // It answers everything with 2xx, so the body is useless.
        facts.answers.isBodyNeeded = false
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            keys.choice(
                "too_old", \.ga4.tooOld,
                "Events older than 72 hours: refuse them, or export them with their time in `original_ts`."),
            keys.text(
                "user_event",
                rule: "a letter and up to \(Limits.GA4.nameCharacterCountMax - 1) letters, digits and _, "
                    + "and not a name that GA4 reserves", isValid: GA4Options.isEventName,
                \.ga4.userEventName, "The event that carries user properties."),
            keys.flag("device", \.ga4.includesDevice, "Requests name language, system, model and country."),
        ]
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        let usual = GA4Options()
        text.add("too_old", options.ga4.tooOld.rawValue, unless: usual.tooOld.rawValue)
        text.add("user_event", options.ga4.userEventName, unless: usual.userEventName)
        text.add("device", options.ga4.includesDevice, unless: usual.includesDevice)
    }
}

extension Destination {
    package static var ga4: Destination { Destination(GA4.self) }
}

extension ExportOptions {
    package var ga4: GA4Options {
        get { self[GA4Options.self] }
        set { self[GA4Options.self] = newValue }
    }
}

extension CredentialName {
    fileprivate static let ga4APISecret = CredentialName(rawValue: "GA4_API_SECRET")
    fileprivate static let ga4FirebaseAppID = CredentialName(rawValue: "GA4_FIREBASE_APP_ID")
}

extension RefusalReason {
    package static let ga4NoAppInstanceID = RefusalReason(
        "ga4.no_app_instance_id",
        remedy: "GA4 takes only events with the app instance of Firebase's SDK (ids.ga4): let the app set it, or leave "
            + "this app out of the export by its env: or a mapping")
    package static let ga4BadUserID = RefusalReason("ga4.bad_user_id", remedy: Remedy.shortenUser)
    package static let ga4TooOld = RefusalReason(
        "ga4.too_old",
        remedy: "GA4 takes events of the last 72 hours: let agents ship sooner, and check the app's clock")
    package static let ga4TooLarge = RefusalReason("ga4.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// developers.google.com/analytics/devguides/collection/protocol/ga4 and support.google.com/analytics/answer/9267744.
    package enum GA4 {
        package static let eventsPerRequestMax = 25
        /// The documented maximum is below 130 kB; this leaves room for the uploader's additions.
        package static let requestByteCountMax = 120_000
        package static let parameterCountMax = 25
        package static let nameCharacterCountMax = 40
        /// 40 minus `_` and eight hexadecimal digits.
        package static let cutNameCharacterCount = 31
        package static let valueCharacterCountMax = 100
        package static let pageTitleCharacterCountMax = 300
        package static let pageReferrerCharacterCountMax = 420
        package static let pageLocationCharacterCountMax = 1000
        package static let userPropertyCountMax = 25
        package static let userPropertyNameCharacterCountMax = 24
        /// 24 minus `_` and eight hexadecimal digits.
        package static let cutUserPropertyNameCharacterCount = 15
        package static let userPropertyValueCharacterCountMax = 36
        package static let itemCountMax = 200
        package static let customParametersPerItemMax = 27
        package static let userIDCharacterCountMax = 256
        package static let appInstanceIDCharacterCount = 32
        package static let ageMillisecondsMax: Int64 = 72 * 3_600_000
        /// Later events are no longer joined with those that the SDK sent.
        package static let joinMillisecondsMax: Int64 = 48 * 3_600_000
        /// Events later than this after the session's start are attributed to no session.
        package static let attributionMillisecondsMax: Int64 = 24 * 3_600_000
        /// Not documented; keeps parts small enough for common tools.
        package static let recordsPerPartMax = 1_000_000
        package static let partByteCountMax = 256 << 20
    }
}
