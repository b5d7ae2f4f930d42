internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// An operator's options for Mixpanel.
package struct MixpanelOptions: ProviderOptions, Hashable {
    /// How the project merges anonymous and known people.
    package enum IdentityMerge: String, Hashable, Sendable, CaseIterable {
        /// A device is identified by `$device:` and its id.
        case simplified
        /// A device is identified by its id alone.
        case original
    }

    package var identityMerge = IdentityMerge.simplified
    package var screenEventName = "Screen View"

    package init() {}
}

/// Mixpanel's `/import`: each line is one event, each part one request.
///
/// Repository mixpanel/docs (import-events, data-type, reserved-properties), read 2026-11-20.
struct Mixpanel: Provider {
    private let options: MixpanelOptions

    init(_ options: ExportOptions) {
        self.options = options.mixpanel
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .mixpanel, fileExtension: "ndjson",
            recordsPerPartMax: Limits.Mixpanel.eventsPerRequestMax,
            partByteCountMax: Limits.Mixpanel.requestByteCountMax)
    }

    var recordByteCountMax: Int { Limits.Mixpanel.eventByteCountMax }

    /// User profiles go to another endpoint, `/engage`.
    func takes(_ kind: EventKind) -> Bool {
        switch kind {
        case .screen, .action, .event: true
        case .user, .meta: false
        }
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        let lead = context.isAgeJudged ? -context.age(of: event) : 0
        guard lead <= Limits.Mixpanel.holdMillisecondsMax else {
            return .refused(
                RefusalCause(.mixpanelFuture, "the event is more than 24 hours ahead", field: "ts", limit: 24))
        }
        draft.json.beginObject()
        draft.json.key("event")
        if event.kind == .screen {
            draft.json.string(self.options.screenEventName)
        } else {
            draft.eventName(
                event.name, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes, fix: .reservedName,
                isReserved: Self.isReservedEvent)
        }
        draft.json.key("properties")
        draft.json.beginObject()
        draft.json.member("time", event.facts.time.milliseconds)
        var count = 1
        if let cause = self.writeIdentity(of: event, count: &count, into: &draft) { return .refused(cause) }
        count += self.writeContext(of: event, into: &draft)
        count += Commerce(of: event).writeRevenue(of: event, into: &draft)
        self.writeFields(of: event, room: Limits.Mixpanel.propertyCountMax - count, into: &draft)
        // For two closing braces and the line feed.
        draft.dropFields(toFit: Limits.Mixpanel.eventByteCountMax - 3)
        guard draft.json.output.count <= Limits.Mixpanel.eventByteCountMax - 3 else {
            return .refused(
                RefusalCause(
                    .mixpanelTooLarge, "the event is too large even without fields",
                    limit: Limits.Mixpanel.eventByteCountMax))
        }
        draft.json.endObject()
        draft.json.endObject()
        guard lead > Limits.Mixpanel.futureMillisecondsMax else { return .written }
        return .held(
            notBefore: WallTime(milliseconds: event.facts.time.milliseconds - Limits.Mixpanel.futureMillisecondsMax))
    }

    // MARK: Identity

    /// Writes the event's identity: `distinct_id`, `$insert_id`, `$device_id`, `$user_id`.
    private func writeIdentity(
        of event: borrowing MappedEvent, count: inout Int, into draft: inout Draft
    ) -> RefusalCause? {
        guard let id = event.identifier, id.count <= Limits.Mixpanel.insertIDByteCountMax,
            event.identifierTraits.contains(.insertID)
        else {
            return RefusalCause(
                .mixpanelNoInsertID, "id is missing or not 1 to 36 letters, digits and dashes", field: "id",
                limit: Limits.Mixpanel.insertIDByteCountMax)
        }
        guard !PlaceholderID.matches(TextSlice(body: id, isEscaped: false)) else {
            return RefusalCause(.mixpanelBadInsertID, "id is a placeholder that Mixpanel refuses", field: "id")
        }
        var user: TextSlice?
        if let cause = self.findSubject(of: event, &user, into: &draft) { return cause }
        self.writeSubject(user, key: "distinct_id", of: event, into: &draft)
        draft.json.member("$insert_id", plain: id)
        count += 2
        if let anon = event.text(.anon) {
            draft.unescape(anon)
            if draft.text.count <= self.idByteCountMax(isDevice: true) {
                count += self.writeProperty("$device_id", anon, into: &draft)
            } else {
                // With a user, the event does not need it; cut, it could be another device's.
                draft.fixes.count(.dropField)
            }
        }
        count += self.writeProperty("$user_id", user, into: &draft)
        return nil
    }

    /// Finds the event's user, `nil` for the device or if there is neither, or returns why the id is not valid.
    func findSubject(of event: borrowing MappedEvent, _ user: inout TextSlice?, into draft: inout Draft)
        -> RefusalCause?
    {
        let anon = event.text(.anon)
        if let anon, PlaceholderID.matches(anon) {
            return RefusalCause(.mixpanelBadID, "anon is a placeholder that Mixpanel refuses", field: "anon")
        }
        user = Self.user(of: event, in: &draft)
        if user == nil, event.text(.user) != nil { draft.fixes.count(.dropNull) }
        guard let subject = user ?? anon else { return nil }
        draft.unescape(subject)
        // If cut, it could match another person's id.
        let limit = self.idByteCountMax(isDevice: user == nil)
        guard draft.text.count <= limit else {
            return RefusalCause(
                .mixpanelBadID, "the id is too long", field: user == nil ? "anon" : "user", limit: limit)
        }
        return nil
    }

    static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? {
        guard let user = event.text(.user), !PlaceholderID.matches(user), !Self.isDevice(user, in: &draft) else {
            return nil
        }
        return user
    }

    /// The longest id; the server writes `$device:` in front of a device's, unless the project merges as it once did.
    private func idByteCountMax(isDevice: Bool) -> Int {
        Limits.Mixpanel.stringByteCountMax - (isDevice && self.options.identityMerge == .simplified ? 8 : 0)
    }

    /// Whether an id has the prefix by which Mixpanel knows devices, and would be the person of a stranger's device.
    private static func isDevice(_ id: TextSlice, in draft: inout Draft) -> Bool {
        guard id.body.first == UInt8(ascii: "$") || id.isEscaped else { return false }
        draft.unescape(id)
        return draft.text.bytes.starts(with: "$device:".utf8)
    }

    /// Writes the id of the user, or of the device if there is no user; an event without both has an empty one.
    func writeSubject(
        _ user: TextSlice?, key: StaticString = "$distinct_id", of event: borrowing MappedEvent, into draft: inout Draft
    ) {
        draft.json.key(key)
        guard let subject = user ?? event.text(.anon) else { return draft.json.string("") }
        draft.unescape(subject)
        if user == nil, self.options.identityMerge == .simplified {
            draft.json.string(prefix: "$device:", draft.text.bytes)
        } else {
            draft.json.string(draft.text.bytes)
        }
    }

    // MARK: Properties

    /// Writes the properties of app, device and screen; returns their number.
    private func writeContext(of event: borrowing MappedEvent, into draft: inout Draft) -> Int {
        var count = self.writeProperty("$os", event.text(.os), into: &draft)
        count += self.writeProperty("$os_version", event.text(.osVersion), into: &draft)
        count += self.writeProperty("$app_version_string", event.text(.app), into: &draft)
        count += self.writeProperty("$app_build_number", event.text(.build), into: &draft)
        count += self.writeProperty("$model", event.text(.model), into: &draft)
        count += self.writeProperty("mp_country_code", event.text(.country), into: &draft)
        count += self.writeOwnProperty("wb_session", event.text(.session), into: &draft)
        if let seq = event.number(.seq), seq.count <= Limits.Mixpanel.stringByteCountMax {
            draft.beginContextField("wb_seq")
            draft.json.verbatim(seq)
            count += 1
        }
        count += self.writeOwnProperty("wb_log", event.text(.log), into: &draft)
        draft.json.member("ip", "0")
        count += self.writeOwnProperty("screen", event.text(.screen), into: &draft)
        count += self.writeOwnProperty("screen_class", event.text(.screenClass), into: &draft)
        return count + 1
    }

    /// Writes a property with a reserved name, which no field can have.
    @inline(__always)
    private func writeProperty(_ key: StaticString, _ text: TextSlice?, into draft: inout Draft) -> Int {
        guard let text else { return 0 }
        draft.json.key(key)
        draft.string(text, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
        return 1
    }

    @inline(__always)
    private func writeOwnProperty(_ key: StaticString, _ text: TextSlice?, into draft: inout Draft) -> Int {
        guard let text else { return 0 }
        draft.beginContextField(key)
        draft.string(text, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
        return 1
    }

    private func writeFields(of event: borrowing MappedEvent, room: Int, into draft: inout Draft) {
        var room = room
        var fields = event.fields()
        while let (key, value) = fields.next(in: event, room: room, droppedTo: &draft.fixes) {
            guard self.beginField(key, of: event, into: &draft) else { continue }
            room -= 1
            switch event.tape[value].kind {
            case .string:
                let isEscaped = event.tape[value].traits.contains(.hasEscapes)
                draft.string(
                    TextSlice(body: event.tape.bytes(of: value), isEscaped: isEscaped),
                    limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
            case .number, .true, .false, .null:
                draft.json.verbatim(event.tape.bytes(of: value))
            case .array, .object:
                self.writeNested(value, of: event, into: &draft)
            }
        }
    }

    /// Writes a field's name, renamed if Mixpanel reserves it; false if it was already written.
    @inline(__always)
    private func beginField(_ key: Int, of event: borrowing MappedEvent, into draft: inout Draft) -> Bool {
        let body = event.tape.bytes(of: key)
        if !event.tape[key].traits.contains(.hasEscapes), 1...Limits.Mixpanel.stringByteCountMax ~= body.count,
            !Self.isReserved(body)
        {
            return draft.beginField(body)
        }
        return self.beginRenamedField(key, of: event, into: &draft)
    }

    private func beginRenamedField(_ key: Int, of event: borrowing MappedEvent, into draft: inout Draft) -> Bool {
        let body = event.tape.bytes(of: key)
        draft.unescape(TextSlice(body: body, isEscaped: event.tape[key].traits.contains(.hasEscapes)))
        let isRenamed = draft.text.isEmpty || Self.isReserved(draft.text.bytes)
        if isRenamed { draft.fixes.count(.rename) }
        let name = draft.prefixed(isRenamed ? "x_" : "")
        let kept = TextLimit.keptByteCount(of: name, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
        if kept < name.count { draft.fixes.count(.truncateName) }
        return draft.beginEscapedField(UnsafeRawBufferPointer(rebasing: name[..<kept]))
    }

    /// Whether Mixpanel keeps names of this form to itself; `$identify`, `$create_alias` and `$merge` join people.
    private static func isReservedEvent(_ name: UnsafeRawBufferPointer) -> Bool {
        name.first == UInt8(ascii: "$") || name.starts(with: "mp_".utf8)
    }

    /// Whether Mixpanel interprets the name; `$ignore` would even discard the event.
    @inline(__always)
    private static func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        switch name[0] {
        case UInt8(ascii: "$"): true
        case UInt8(ascii: "m"): name.count >= 3 && name[1] == UInt8(ascii: "p") && name[2] == UInt8(ascii: "_")
        case UInt8(ascii: "b"): JSONText.equals(name, isEscaped: false, "bucket")
        case UInt8(ascii: "d"): JSONText.equals(name, isEscaped: false, "distinct_id")
        case UInt8(ascii: "i"): JSONText.equals(name, isEscaped: false, "ip")
        case UInt8(ascii: "t"):
            JSONText.equals(name, isEscaped: false, "time") || JSONText.equals(name, isEscaped: false, "token")
        default: false
        }
    }
}

/// Ids that usually come from a mistake and would make a provider merge many people into one.
enum PlaceholderID {
    /// Repository mixpanel/docs, import-events, "distinct_id" and "$insert_id".
    private static let all: [StaticString] = [
        "00000000-0000-0000-0000-000000000000", "anon", "anonymous", "nil", "none", "null", "n/a", "na", "undefined",
        "unknown", "<nil>", "0", "-1", "true", "false", "[]", "{}",
    ]

    /// Whether Mixpanel refuses the id.
    static func matches(_ text: TextSlice) -> Bool {
        // The longest, apart from the first, has nine bytes; the first byte excludes most UUIDs.
        if !text.isEscaped, text.body.count > 9, text.body[0] != UInt8(ascii: "0") { return false }
        return Self.all.contains { text.equals($0) }
    }
}

extension Mixpanel {
    static let name = "mixpanel"
    static let refusals: [RefusalReason] = [
        .mixpanelNoInsertID, .mixpanelBadInsertID, .mixpanelBadID, .mixpanelFuture, .mixpanelTooLarge,
    ]
    static let sendKey = SendKey.members(
        [["event"], ["properties", "time"], ["properties", "distinct_id"], ["properties", "$insert_id"]], dayCount: nil)

    static let hosts = (us: "https://api.mixpanel.com", eu: "https://api-eu.mixpanel.com")

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: Self.hosts, path: "/import",
            credentials: [.mixpanelProjectID, .mixpanelServiceAccount, .mixpanelServiceSecret],
            recordsPerRequestMax: Limits.Mixpanel.eventsPerRequestMax,
            requestByteCountMax: Limits.Mixpanel.requestByteCountMax)
        facts.eventsPerSecondMax = Limits.Mixpanel.eventsPerSecondMax
        facts.isRepeatableForEver = true
        facts.query = RequestText([.plain("?strict=1&project_id="), .query(.mixpanelProjectID)])
        facts.contentType = "application/x-ndjson"
        facts.authorization = RequestText([.plain("Basic "), .basic(.mixpanelServiceAccount, .mixpanelServiceSecret)])
        facts.isCompressed = true
        facts.separator = "\n"
        facts.suffix = "\n"
        facts.answers.acceptedCount = "num_records_imported"
        facts.answers.refusals = .failedRecords
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] {
        [
            Self.identityMerge(keys),
            keys.text("screen_event", \.mixpanel.screenEventName, "The name of screens."),
        ]
    }

    static func identityMerge<Keys: ProviderOptionKeys>(_ keys: Keys) -> Keys.Key {
        keys.choice(
            "id_merge", \.mixpanel.identityMerge,
            "How the project joins people; `simplified` writes `$device:` before a device's id.")
    }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        let usual = MixpanelOptions()
        text.add("id_merge", options.mixpanel.identityMerge.rawValue, unless: usual.identityMerge.rawValue)
        text.add("screen_event", options.mixpanel.screenEventName, unless: usual.screenEventName)
    }
}

extension Destination {
    package static var mixpanel: Destination { Destination(Mixpanel.self) }
}

extension ExportOptions {
    package var mixpanel: MixpanelOptions {
        get { self[MixpanelOptions.self] }
        set { self[MixpanelOptions.self] = newValue }
    }
}

extension CredentialName {
    fileprivate static let mixpanelProjectID = CredentialName(rawValue: "MIXPANEL_PROJECT_ID")
    fileprivate static let mixpanelServiceAccount = CredentialName(rawValue: "MIXPANEL_SERVICE_ACCOUNT")
    fileprivate static let mixpanelServiceSecret = CredentialName(rawValue: "MIXPANEL_SERVICE_SECRET")
}

extension RefusalReason {
    package static let mixpanelNoInsertID = RefusalReason("mixpanel.no_insert_id", remedy: Remedy.giveID)
    package static let mixpanelBadInsertID = RefusalReason(
        "mixpanel.bad_insert_id", remedy: "let the app give each event an id of its own, a UUID")
    package static let mixpanelBadID = RefusalReason("mixpanel.bad_id", remedy: Remedy.nameThePerson)
    package static let mixpanelFuture = RefusalReason("mixpanel.future", remedy: Remedy.setClock)
    package static let mixpanelTooLarge = RefusalReason("mixpanel.too_large", remedy: Remedy.sendLess)
}

extension Limits {
    /// Repository mixpanel/docs: import-events.mdx, data-type.mdx, reserved-properties.mdx.
    package enum Mixpanel {
        package static let eventsPerRequestMax = 2000
        /// 10 MB uncompressed, minus the uploader's additions.
        package static let requestByteCountMax = 9_500_000
        /// "Less than 1 MB"; read as 10^6.
        package static let eventByteCountMax = 999_999
        /// "Fewer than 255".
        package static let propertyCountMax = 254
        /// One page has bytes, another characters; bytes are safe for both.
        package static let stringByteCountMax = 255
        package static let elementCountMax = 254
        package static let depthMax = 3
        package static let nestedByteCountMax = 8192
        package static let insertIDByteCountMax = 36
        package static let futureMillisecondsMax: Int64 = 3_600_000
        package static let holdMillisecondsMax: Int64 = 24 * 3_600_000
        package static let eventsPerSecondMax = 30_000.0
    }
}
