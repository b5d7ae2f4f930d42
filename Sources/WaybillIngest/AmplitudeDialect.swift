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
        "os_name", "os_version", "device_model", "language", "ip", "session_id", "user_agent", "platform",
    ]

    mutating func read(into batch: inout IngestBatch) {
        let uploadedAt = self.uploadedAt()
        guard let list = self.tape.value("events", in: 0), self.tape.tape[list].kind == .array else {
            batch.faults.append(.init(reason: .unknownType, range: self.tape.range(of: 0)))
            return
        }
        for event in self.tape.elements(of: list) {
            guard self.tape.tape[event].kind == .object else {
                batch.faults.append(.init(reason: .notAnObject, range: self.tape.range(of: event)))
                continue
            }
            self.read(event, uploadedAt, into: &batch)
        }
    }

    private func uploadedAt() -> Int64? {
        do throws(IngestFault) {
            return try self.tape.time("client_upload_time", in: 0)
        } catch {
            return nil
        }
    }

    private mutating func read(_ event: Int, _ uploadedAt: Int64?, into batch: inout IngestBatch) {
        do throws(IngestFault) {
            let draft = try self.draft(event, uploadedAt)
            let range = self.tape.range(of: event)
            let count = batch.lines.count
            batch.add(draft, range, self.tape.tape, self.context.source)
            guard batch.lines.count > count, draft.kind != .user,
                let properties = self.tape.object("user_properties", in: event)
            else { return }
            var person = LineDraft(
                id: self.context.derivedID("traits \(draft.id.text)"), time: draft.time, kind: .user,
                name: .fixed("set_user"))
            person.clientTime = draft.clientTime
            person.user = draft.user
            person.anonymous = draft.anonymous
            self.operate(&person, properties)
            batch.add(person, range, self.tape.tape, self.context.source)
        } catch {
            batch.faults.append(.init(reason: error, range: self.tape.range(of: event)))
        }
    }

    private mutating func draft(_ event: Int, _ uploadedAt: Int64?) throws(IngestFault) -> LineDraft {
        guard let name = self.tape.piece("event_type", in: event) else { throw .noName }
        let sent = try self.tape.time("time", in: event)
        let time = sent.map { self.context.corrected($0, sentAt: uploadedAt) }
        var draft = LineDraft(
            id: self.context.id("insert_id", in: event, self.tape), time: time?.time ?? self.context.receivedAt,
            kind: .event, name: name)
        draft.clientTime = time?.client
        draft.user = self.tape.identifier("user_id", in: event)
        draft.anonymous = self.tape.identifier("device_id", in: event)
        guard draft.user != nil || draft.anonymous != nil else { throw .noPerson }
        if self.tape.string("event_type", in: event) == "$identify" {
            draft.kind = .user
            draft.name = .fixed("set_user")
            if let properties = self.tape.object("user_properties", in: event) { self.operate(&draft, properties) }
        } else {
            if let properties = self.tape.object("event_properties", in: event) {
                draft.fields.append(.init(object: properties))
            }
            draft.context.append(.members(.init(object: event, without: Self.mapped)))
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
        draft.userAgent = self.tape.piece("user_agent", in: event) ?? self.context.userAgent.map { .text($0) }
        guard let named = self.tape.string("ip", in: event), named != "$remote" else {
            draft.address = self.context.address
            return
        }
        draft.address = self.context.source.addressPolicy.apply(to: named)
    }

    /// `$set`, `$setOnce`, `$add` and `$unset`; properties without an operation are set.
    private func operate(_ draft: inout LineDraft, _ properties: Int) {
        draft.traitsOnce = self.tape.object("$setOnce", in: properties).map { .init(object: $0) }
        draft.traitsAdd = self.tape.object("$add", in: properties).map { .init(object: $0) }
        if let unset = self.tape.object("$unset", in: properties) {
            var walk = self.tape.tape.members(of: unset)
            while let (key, _) = walk.next(in: self.tape.tape) { draft.traitsUnset.append(key) }
        }
        if let set = self.tape.object("$set", in: properties) {
            draft.traits = .init(object: set)
        } else {
            draft.traits = .init(
                object: properties,
                without: [
                    "$setOnce", "$add", "$unset", "$append", "$prepend", "$preInsert", "$postInsert", "$remove",
                    "$clearAll",
                ])
        }
    }
}
