internal import WaybillEvent
internal import WaybillJSON

/// Amplitude's HTTP API: `{"api_key":…,"events":[…]}`.
///
/// `insert_id` makes the id, `device_id` the anonymous one. `$identify` becomes a user event with its operations,
/// `$groupidentify` an event `$group` of no one; the properties of a user at other events a second, user event, whose id is made
/// of the event's.
struct AmplitudeDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext

    /// Members that a line has a place for.
    private static let mapped: [StaticString] = ["user_properties", "user_id", "device_id"] + Self.mappedOfGroups
    /// Members of a group's event that a line has a place for: it has no user.
    private static let mappedOfGroups: [StaticString] = [
        "event_type", "event_properties", "time", "insert_id", "app_version", "os_name", "os_version", "device_model",
        "language", "ip", "user_agent",
    ]

    mutating func read(into batch: inout IngestBatch) {
        let uploadedAt = self.tape.sendingTime("client_upload_time", in: 0)
        guard let list = self.tape.list("events") else {
            return batch.event(at: self.tape.range(of: 0)) { (_) throws(IngestFault) in throw .unknownType }
        }
        for event in self.tape.elements(of: list) {
            batch.event(at: self.tape.range(of: event)) { (batch) throws(IngestFault) in
                if let fault = self.tape.fault(of: event) { throw fault }
                let draft = try self.draft(event, uploadedAt)
                try batch.add(draft, self.tape.tape, self.context.source)
                if let person = try self.person(of: event, draft) {
                    try batch.add(person, isAddition: true, self.tape.tape, self.context.source)
                }
                if self.hasUnplacedOperations(event, draft) { batch.remark(.badTraits) }
            }
        }
    }

    private func userProperties(of event: Int) throws(IngestFault) -> Int? {
        try self.tape.object("user_properties", in: event, else: .badTraits)
    }

    private mutating func draft(_ event: Int, _ uploadedAt: Int64?) throws(IngestFault) -> LineDraft {
        let name = try self.tape.name("event_type", in: event)
        let sent = self.tape.time("time", in: event, sentAt: uploadedAt)
        var draft = LineDraft(
            id: self.context.id("insert_id", in: event, self.tape),
            time: self.context.time(sent, sentAt: uploadedAt, self.tape), kind: .event, name: name)
        let type = self.tape.string("event_type", in: event)
        if type == "$identify" {
            draft.kind = .user
            draft.name = .fixed("set_user")
            if let properties = try self.userProperties(of: event) { try self.operate(&draft, properties) }
        } else {
            if let properties = try self.tape.object("event_properties", in: event, else: .badMember) {
                draft.data.fields.append(.init(object: properties))
            }
            let isGroup = type == "$groupidentify"
            if isGroup { draft.name = .fixed("$group") }
            let mapped = isGroup ? Self.mappedOfGroups : Self.mapped
            if self.tape.hasMembers(event, without: mapped) {
                draft.data.context.append(.members(.init(object: event, without: mapped)))
            }
        }
        if type != "$groupidentify" {
            draft.user = try self.tape.user("user_id", in: event)
            draft.anonymous = self.tape.identifier("device_id", in: event)
            guard draft.user != nil || draft.anonymous != nil else { throw .noPerson }
        }
        self.describe(&draft, event)
        return draft
    }

    /// The user event of an event that sets traits, too.
    private func person(of event: Int, _ draft: LineDraft) throws(IngestFault) -> LineDraft? {
        // A group's are none of a person.
        guard draft.kind != .user, draft.user != nil || draft.anonymous != nil,
            let properties = try self.userProperties(of: event)
        else { return nil }
        var person = LineDraft(
            id: self.context.additionID(of: draft.id), time: draft.time, kind: .user, name: .fixed("set_user"))
        person.user = draft.user
        person.anonymous = draft.anonymous
        try self.operate(&person, properties)
        return person
    }

    private func hasUnplacedOperations(_ event: Int, _ draft: LineDraft) -> Bool {
        guard draft.user != nil || draft.anonymous != nil,
            let properties = self.tape.object("user_properties", in: event)
        else { return false }
        return Self.unplaced.contains { self.tape.value($0, in: properties) != nil }
    }

    private func describe(_ draft: inout LineDraft, _ event: Int) {
        draft.app = self.tape.identifier("app_version", in: event)
        draft.os = self.tape.piece("os_name", in: event) ?? self.tape.piece("platform", in: event)
        draft.osVersion = self.tape.identifier("os_version", in: event)
        draft.model = self.tape.piece("device_model", in: event)
        draft.language = self.tape.piece("language", in: event)
        draft.userAgent = self.tape.userAgent("user_agent", in: event, else: self.context.userAgent)
        guard let named = self.tape.string("ip", in: event), named != "$remote" else {
            draft.data.address = self.context.address
            return
        }
        draft.data.address = self.context.source.addressPolicy.apply(to: named)
    }

    /// Takes `$set`, `$setOnce`, `$add` and `$unset`.
    ///
    /// Properties without an operation are set. Other operations change what no one knows here: they become `data`.
    private func operate(_ draft: inout LineDraft, _ properties: Int) throws(IngestFault) {
        if let set = self.tape.object("$set", in: properties) {
            draft.traits.set = .init(object: set)
        } else {
            draft.traits.set = .init(object: properties, without: Self.placed + Self.unplaced)
        }
        if Self.unplaced.contains(where: { self.tape.value($0, in: properties) != nil }) {
            draft.data.fields.append(.init(object: properties, only: Self.unplaced))
        }
        draft.traits.once = self.tape.object("$setOnce", in: properties).map { .init(object: $0, isWithoutNull: true) }
        if let add = self.tape.object("$add", in: properties) {
            var walk = self.tape.tape.members(of: add)
            while let (_, value) = walk.next(in: self.tape.tape) {
                guard self.tape.tape[value].kind == .number else { throw .badTraits }
            }
            draft.traits.added = .init(object: add)
        }
        if let unset = self.tape.object("$unset", in: properties) {
            var walk = self.tape.tape.members(of: unset)
            var names: [Int] = []
            while let (key, _) = walk.next(in: self.tape.tape) { names.append(key) }
            self.tape.unset(names, of: &draft.traits)
        }
    }

    private static let placed: [StaticString] = ["$set", "$setOnce", "$add", "$unset"]
    /// Operations that a line has no place for.
    private static let unplaced: [StaticString] = [
        "$append", "$prepend", "$preInsert", "$postInsert", "$remove", "$clearAll",
    ]
}
