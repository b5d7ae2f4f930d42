internal import WaybillEvent
internal import WaybillJSON

/// PostHog's captures: one event, a list, or `{"batch":[…]}`.
///
/// `distinct_id` is a user's id once somebody signed in, and a device's before: it is the anonymous id if it equals
/// `$device_id`, or if the sender says that it identifies nobody. `$identify` and `$set` become user events, `$pageview` and
/// `$screen` screen views; `$set` and `$set_once` of other events a second, user event, whose id is made of the event's.
struct PostHogDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext

    /// Members that a line has a place for.
    private static let mapped: [StaticString] = [
        "token", "distinct_id", "$device_id", "$anon_distinct_id", "$session_id", "$set", "$set_once", "$os",
        "$os_version",
        "$app_version", "$app_build", "$device_model", "$locale", "$raw_user_agent", "$ip", "$insert_id",
        "$process_person_profile", "$is_identified",
    ]

    mutating func read(into batch: inout IngestBatch) {
        let sentAt = self.sentAt()
        guard let list = self.tape.value("batch", in: 0) ?? self.tape.value("data", in: 0),
            self.tape.tape[list].kind == .array
        else { return self.read(0, sentAt, into: &batch) }
        for event in self.tape.elements(of: list) {
            guard self.tape.tape[event].kind == .object else {
                batch.faults.append(.init(reason: .notAnObject, range: self.tape.range(of: event)))
                continue
            }
            self.read(event, sentAt, into: &batch)
        }
    }

    private func sentAt() -> Int64? {
        do throws(IngestFault) {
            return try self.tape.time("sent_at", in: 0)
        } catch {
            return nil
        }
    }

    private mutating func read(_ event: Int, _ sentAt: Int64?, into batch: inout IngestBatch) {
        do throws(IngestFault) {
            let draft = try self.draft(event, sentAt)
            let range = self.tape.range(of: event)
            let count = batch.lines.count
            batch.add(draft, range, self.tape.tape, self.context.source)
            guard batch.lines.count > count, draft.kind != .user, let person = self.person(event, draft) else { return }
            batch.add(person, range, self.tape.tape, self.context.source)
        } catch {
            batch.faults.append(.init(reason: error, range: self.tape.range(of: event)))
        }
    }

    private mutating func draft(_ event: Int, _ sentAt: Int64?) throws(IngestFault) -> LineDraft {
        guard let name = self.tape.piece("event", in: event) else { throw .noName }
        let properties = self.tape.object("properties", in: event)
        let sent = try self.tape.time("timestamp", in: event)
        let time = sent.map { self.context.corrected($0, sentAt: sentAt) } ?? self.offset(event)
        let hasID = self.tape.identifierText("uuid", in: event) != nil
        let id =
            hasID
            ? self.context.id("uuid", in: event, self.tape) : self.context.id("$insert_id", in: properties, self.tape)
        var draft = LineDraft(
            id: id, time: time.time, kind: .event, name: name)
        draft.clientTime = time.client
        try self.identify(&draft, event, properties)
        switch self.tape.string("event", in: event) {
        case "$identify", "$set":
            draft.kind = .user
            draft.name = .fixed("set_user")
            draft.traits = self.members("$set", event, properties)
            draft.traitsOnce = self.members("$set_once", event, properties)
        case "$pageview", "$screen":
            draft.kind = .screen
            draft.name = .fixed("screen_view")
            draft.screen =
                self.tape.piece("$screen_name", in: properties) ?? self.tape.piece("$pathname", in: properties)
                ?? self.tape.piece("$current_url", in: properties) ?? .fixed("page")
        default: break
        }
        self.describe(&draft, properties)
        if draft.kind != .user, let properties {
            draft.fields.append(.init(object: properties, without: Self.mapped))
        }
        return draft
    }

    /// `offset`: how long before the sending it happened, in milliseconds.
    private func offset(_ event: Int) -> (time: Int64, client: Int64?) {
        let milliseconds = self.tape.value("offset", in: event).flatMap {
            Int64(String(decoding: self.tape.tape.bytes(of: $0), as: UTF8.self))
        }
        guard let milliseconds, (0...2_592_000_000).contains(milliseconds) else {
            return (self.context.receivedAt, nil)
        }
        return (self.context.receivedAt - milliseconds, nil)
    }

    private func identify(_ draft: inout LineDraft, _ event: Int, _ properties: Int?) throws(IngestFault) {
        let distinct =
            self.tape.identifier("distinct_id", in: event) ?? self.tape.identifier("distinct_id", in: properties)
        guard let distinct else { throw .noPerson }
        let text = self.tape.string("distinct_id", in: event) ?? self.tape.string("distinct_id", in: properties)
        let device = self.tape.string("$device_id", in: properties)
        let identifiesNobody =
            self.isFalse("$process_person_profile", properties) || self.isFalse("$is_identified", properties)
            || device != nil && device == text
        if identifiesNobody {
            draft.anonymous = distinct
        } else {
            draft.user = distinct
            draft.anonymous =
                self.tape.piece("$anon_distinct_id", in: properties) ?? self.tape.piece("$device_id", in: properties)
        }
        if let session = self.tape.text("$session_id", in: properties),
            UniqueID(text: JSONText.string(self.tape.tape.bytes(of: session))) != nil
        {
            draft.session = .entry(session)
        }
    }

    private func isFalse(_ name: StaticString, _ object: Int?) -> Bool {
        self.tape.value(name, in: object).map { self.tape.tape[$0].kind == .false } ?? false
    }

    private func members(_ name: StaticString, _ event: Int, _ properties: Int?) -> LineDraft.Members? {
        (self.tape.object(name, in: event) ?? self.tape.object(name, in: properties)).map { .init(object: $0) }
    }

    private func describe(_ draft: inout LineDraft, _ properties: Int?) {
        draft.os = self.tape.piece("$os", in: properties)
        draft.osVersion = self.tape.identifier("$os_version", in: properties)
        draft.app = self.tape.identifier("$app_version", in: properties)
        draft.build = self.tape.identifier("$app_build", in: properties)
        draft.model = self.tape.piece("$device_model", in: properties)
        draft.language = self.tape.piece("$locale", in: properties)
        draft.userAgent =
            self.tape.piece("$raw_user_agent", in: properties) ?? self.context.userAgent.map { .text($0) }
        let named = self.tape.string("$ip", in: properties)
        draft.address = named.flatMap { self.context.source.addressPolicy.apply(to: $0) } ?? self.context.address
    }

    /// The user event of an event that sets traits, too.
    private func person(_ event: Int, _ draft: LineDraft) -> LineDraft? {
        let properties = self.tape.object("properties", in: event)
        let traits = self.members("$set", event, properties)
        let once = self.members("$set_once", event, properties)
        guard traits != nil || once != nil else { return nil }
        var person = LineDraft(
            id: self.context.derivedID("traits \(draft.id.text)"), time: draft.time, kind: .user,
            name: .fixed("set_user"))
        person.clientTime = draft.clientTime
        person.session = draft.session
        person.user = draft.user
        person.anonymous = draft.anonymous
        person.traits = traits
        person.traitsOnce = once
        return person
    }
}
