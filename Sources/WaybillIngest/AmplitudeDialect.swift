internal import WaybillEvent
internal import WaybillJSON

/// Amplitude's HTTP API: `{"api_key":…,"events":[…]}`.
///
/// `insert_id` makes the id, `device_id` the anonymous one. `$identify` becomes a user event with its operations; the
/// properties of a user at other events a second, user event, whose id is made of the event's.
struct AmplitudeDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext

    /// Members that a line has a place for.
    private static let mapped: [StaticString] = [
        "event_type", "event_properties", "user_properties", "user_id", "device_id", "time", "insert_id", "app_version",
        "os_name", "os_version", "device_model", "language", "ip", "user_agent",
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
                guard draft.kind != .user, let properties = try self.userProperties(of: event) else { return }
                var person = LineDraft(
                    id: self.context.derivedID("traits \(draft.id.text)"), time: draft.time, kind: .user,
                    name: .fixed("set_user"))
                person.clientTime = draft.clientTime
                person.user = draft.user
                person.anonymous = draft.anonymous
                try self.operate(&person, properties)
                try batch.add(person, isAddition: true, self.tape.tape, self.context.source)
            }
        }
    }

    private func userProperties(of event: Int) throws(IngestFault) -> Int? {
        try self.tape.object("user_properties", in: event, else: .badTraits)
    }

    private mutating func draft(_ event: Int, _ uploadedAt: Int64?) throws(IngestFault) -> LineDraft {
        let name = try self.tape.name("event_type", in: event)
        let time = try self.tape.time("time", in: event).map { (sent) throws(IngestFault) in
            try self.context.corrected(sent, sentAt: uploadedAt)
        }
        var draft = LineDraft(
            id: self.context.id("insert_id", in: event, self.tape), time: time?.time ?? self.context.receivedAt,
            kind: .event, name: name)
        draft.clientTime = time?.client
        draft.user = try self.tape.user("user_id", in: event)
        draft.anonymous = self.tape.identifier("device_id", in: event)
        guard draft.user != nil || draft.anonymous != nil else { throw .noPerson }
        if self.tape.string("event_type", in: event) == "$identify" {
            draft.kind = .user
            draft.name = .fixed("set_user")
            if let properties = try self.userProperties(of: event) { try self.operate(&draft, properties) }
        } else {
            if let properties = try self.tape.object("event_properties", in: event, else: .badMember) {
                draft.fields.append(.init(object: properties))
            }
            if self.tape.hasMembers(event, without: Self.mapped) {
                draft.context.append(.members(.init(object: event, without: Self.mapped)))
            }
        }
        self.describe(&draft, event)
        return draft
    }

    private func describe(_ draft: inout LineDraft, _ event: Int) {
        draft.app = self.tape.identifier("app_version", in: event)
        draft.os = self.tape.piece("os_name", in: event) ?? self.tape.piece("platform", in: event)
        draft.osVersion = self.tape.identifier("os_version", in: event)
        draft.model = self.tape.piece("device_model", in: event)
        draft.language = self.tape.piece("language", in: event)
        draft.userAgent = self.tape.userAgent("user_agent", in: event, else: self.context.userAgent)
        guard let named = self.tape.string("ip", in: event), named != "$remote" else {
            draft.address = self.context.address
            return
        }
        draft.address = self.context.source.addressPolicy.apply(to: named)
    }

    /// Takes `$set`, `$setOnce`, `$add` and `$unset`.
    ///
    /// Properties without an operation are set; operations on lists are left out.
    private func operate(_ draft: inout LineDraft, _ properties: Int) throws(IngestFault) {
        if let set = self.tape.object("$set", in: properties) {
            draft.traits = .init(object: set)
        } else {
            draft.traits = .init(object: properties, without: Self.operations)
        }
        draft.traitsOnce = self.tape.object("$setOnce", in: properties).map { .init(object: $0, isWithoutNull: true) }
        if let add = self.tape.object("$add", in: properties) {
            var walk = self.tape.tape.members(of: add)
            while let (_, value) = walk.next(in: self.tape.tape) {
                guard self.tape.tape[value].kind == .number else { throw .badTraits }
            }
            draft.traitsAdd = .init(object: add)
        }
        if let unset = self.tape.object("$unset", in: properties) {
            var walk = self.tape.tape.members(of: unset)
            var names: [Int] = []
            while let (key, _) = walk.next(in: self.tape.tape) { names.append(key) }
            self.tape.unset(names, of: &draft)
        }
    }

    private static let operations: [StaticString] = [
        "$set", "$setOnce", "$add", "$unset", "$append", "$prepend", "$preInsert", "$postInsert", "$remove",
        "$clearAll",
    ]
}
