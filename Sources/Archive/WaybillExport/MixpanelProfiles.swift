internal import WaybillEvent
internal import WaybillJSON
internal import WaybillSystem

/// Mixpanel's `/engage`: each part is one JSON array of updates, one request.
///
///     [{"$token":"${MIXPANEL_TOKEN}","$distinct_id":…,"$set":{…}},{…,"$unset":[…]},
///     {…}]
///
/// A `user` event makes one update for what it sets, and others for what it removes, sets once and adds. Repository
/// mixpanel/docs (profile-set, user-profile-limits), read 2026-11-20; docs.mixpanel.com (profile-set-property-once,
/// profile-numerical-add), read 2026-11-23.
struct MixpanelProfiles: Provider {
    private let mixpanel: Mixpanel

    init(_ options: ExportOptions) {
        self.mixpanel = Mixpanel(options)
    }

    var description: ProviderDescription {
        ProviderDescription(
            id: .mixpanelProfiles, fileExtension: "json", header: Array("[".utf8), separator: Array(",\n".utf8),
            footer: Array("]\n".utf8), recordsPerPartMax: Limits.MixpanelProfiles.eventsPerRequestMax,
            partByteCountMax: Limits.MixpanelProfiles.requestByteCountMax)
    }

    var recordByteCountMax: Int { Limits.MixpanelProfiles.requestByteCountMax }
    var terminator: StaticString { "" }

    func takes(_ kind: EventKind) -> Bool {
        kind == .user
    }

    static func user(of event: borrowing MappedEvent, in draft: inout Draft) -> TextSlice? {
        Mixpanel.user(of: event, in: &draft)
    }

    func map(_ event: borrowing MappedEvent, _ context: MappingContext, into draft: inout Draft) -> MappingOutcome {
        guard Self.operations.contains(where: { event.hasTraits($0.operation) }) else { return .skipped(.nothing) }
        var subject: TextSlice?
        if let cause = self.mixpanel.findSubject(of: event, &subject, into: &draft) { return .refused(cause) }
        guard subject != nil || event.text(.anon) != nil else {
            return .refused(RefusalCause(.mixpanelBadID, "neither user nor anon is known", field: "anon"))
        }
        draft.countUselessTraits(of: event)
        for (operation, name) in Self.operations where event.hasTraits(operation) {
            let mark = draft.json.mark
            let start = draft.json.output.count
            self.beginUpdate(of: event, subject, into: &draft)
            draft.json.key(name)
            if operation == .unset {
                draft.json.beginArray()
                self.writeNames(of: event, into: &draft)
                draft.json.endArray()
                if let cause = Self.endUpdate(from: start, braces: 1, into: &draft) { return .refused(cause) }
            } else {
                draft.json.beginObject()
                guard self.writeValues(operation, of: event, into: &draft) else {
                    draft.json.rewind(to: mark)
                    continue
                }
                if let cause = Self.endUpdate(from: start, braces: 2, into: &draft) { return .refused(cause) }
                draft.json.endObject()
            }
            draft.json.endObject()
        }
        return .written
    }

    /// The members of updates, each in an update of its own, in this order.
    private static let operations: [(operation: TraitOperation, name: StaticString)] = [
        (.set, "$set"), (.unset, "$unset"), (.setOnce, "$set_once"), (.add, "$add"),
    ]

    private func beginUpdate(of event: borrowing MappedEvent, _ subject: TextSlice?, into draft: inout Draft) {
        draft.json.beginObject()
        draft.json.key("$token")
        // The uploader fills in the token; a file never contains it.
        draft.json.string("${MIXPANEL_TOKEN}")
        self.mixpanel.writeSubject(subject, of: event, into: &draft)
    }

    /// Drops fields of an update until it fits.
    private static func endUpdate(from start: Int, braces: Int, into draft: inout Draft) -> RefusalCause? {
        let end = start + Limits.MixpanelProfiles.updateByteCountMax - braces
        draft.dropFields(toFit: end)
        draft.keepFields()
        guard draft.json.output.count <= end else {
            return RefusalCause(
                .mixpanelTooLarge, "the update is too large", limit: Limits.MixpanelProfiles.updateByteCountMax)
        }
        return nil
    }

    /// Returns false if other operations have all the properties.
    private func writeValues(
        _ operation: TraitOperation, of event: borrowing MappedEvent, into draft: inout Draft
    ) -> Bool {
        var traits = event.traits(operation)
        var room = Limits.Mixpanel.propertyCountMax
        while let (key, value) = traits.next(in: event) {
            guard room > 0 else {
                draft.fixes.count(.dropField)
                continue
            }
            guard
                draft.beginField(
                    key, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes,
                    isReserved: Self.isReserved)
            else { continue }
            room -= 1
            switch event.tape[value].kind {
            case .array, .object:
                self.mixpanel.writeNested(
                    value, of: event, listByteCountMax: Limits.MixpanelProfiles.listByteCountMax, into: &draft)
            case .null, .false, .true, .number, .string:
                draft.value(value, of: event, limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes)
            }
        }
        return room < Limits.Mixpanel.propertyCountMax
    }

    private func writeNames(of event: borrowing MappedEvent, into draft: inout Draft) {
        var traits = event.traits(.unset)
        var room = Limits.Mixpanel.propertyCountMax
        while let (key, _) = traits.next(in: event) {
            guard room > 0 else {
                draft.fixes.count(.dropField)
                continue
            }
            room -= 1
            let isEscaped = event.tape[key].traits.contains(.hasEscapes)
            draft.eventName(
                TextSlice(body: event.tape.bytes(of: key), isEscaped: isEscaped),
                limit: Limits.Mixpanel.stringByteCountMax, unit: .bytes, isReserved: Self.isReserved)
        }
    }

    /// The members of an update, which are no properties of a person.
    private static let reserved: [StaticString] = [
        "$distinct_id", "$ignore_alias", "$ignore_time", "$ip", "$mp_first_event_time", "$token",
    ]

    private static func isReserved(_ name: UnsafeRawBufferPointer) -> Bool {
        name.isEmpty
            || name[0] == UInt8(ascii: "$") && Self.reserved.contains { JSONText.equals(name, isEscaped: false, $0) }
    }
}

extension MixpanelProfiles {
    static let name = "mixpanel-profiles"
    static let subscriptionName: String? = Mixpanel.name
    static let refusals = Mixpanel.refusals
    static let appliesUsersInOrder = true

    static var delivery: DeliveryFacts? {
        var facts = DeliveryFacts(
            hosts: Mixpanel.hosts, path: "/engage", credentials: [.mixpanelToken],
            recordsPerRequestMax: Limits.MixpanelProfiles.eventsPerRequestMax,
            requestByteCountMax: Limits.MixpanelProfiles.requestByteCountMax)
        facts.repetition = .addsNumbers
        // The sender's address must not become the person's location.
        facts.query = "?strict=1&verbose=1&ip=0"
        facts.prefix = "["
        facts.suffix = "]"
        facts.updateToken = .mixpanelToken
        // Even a refused profile update is answered with 200.
        facts.answers.failure = (member: "status", literal: "0")
        facts.answers.failureIsBadRequest = true
        facts.answers.refusals = .failedUpdates
        return facts
    }

    static func options<Keys: ProviderOptionKeys>(_ keys: Keys) -> [Keys.Key] { [Mixpanel.identityMerge(keys)] }

    static func addOptions(of options: ExportOptions, to text: inout CanonicalOptions) {
        Mixpanel.addOptions(of: options, to: &text)
    }
}

extension Destination {
    /// Mixpanel's user profiles, which go to a different endpoint than its events.
    package static var mixpanelProfiles: Destination { Destination(MixpanelProfiles.self) }
}

extension CredentialName {
    fileprivate static let mixpanelToken = CredentialName(rawValue: "MIXPANEL_TOKEN")
}

extension Limits {
    /// Repository mixpanel/docs: profile-set.mdx, user-profile-limits.mdx.
    package enum MixpanelProfiles {
        /// 2000 updates; an event makes up to two.
        package static let eventsPerRequestMax = 1000
        /// Not documented; the limit of `/import`.
        package static let requestByteCountMax = 9_500_000
        /// "1 MB"; read as 10^6 minus one, as for events.
        package static let updateByteCountMax = 999_999
        package static let listByteCountMax = 256 * 1000
    }
}
