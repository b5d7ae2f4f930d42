internal import WaybillEvent
internal import WaybillJSON

/// PostHog's captures: one event, a list, or `{"batch":[…]}`.
///
/// `distinct_id` is a user's id once someone signed in, and a device's before: it is the anonymous id if it equals
/// `$device_id`, or if the sender says that it identifies no one. `$identify`, `$set` and `$set_once` become user events,
/// `$pageview` and `$screen` screen views; `$groupidentify` an event `$group` of no one, `$create_alias` an event `$alias` as
/// Segment's; `$set` and `$set_once` of other events a second, user event, whose id is made of the event's.
struct PostHogDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext

    /// Members that a line has a place for.
    private static let mapped: [StaticString] = [
        "token", "distinct_id", "$device_id", "$anon_distinct_id", "$set", "$set_once", "$unset", "$os", "$os_version",
        "$app_version", "$app_build", "$device_model", "$locale", "$raw_user_agent", "$ip", "$insert_id",
        "$process_person_profile", "$is_identified",
    ]

    mutating func read(into batch: inout IngestBatch) {
        let sentAt = self.tape.sendingTime("sent_at", in: 0) ?? self.tape.sendingTime("sentAt", in: 0)
        let list = self.tape.list("batch") ?? self.tape.list("data")
        for event in list.map({ self.tape.elements(of: $0) }) ?? [0] {
            batch.event(at: self.tape.range(of: event)) { (batch) throws(IngestFault) in
                if let fault = self.tape.fault(of: event) { throw fault }
                let draft = try self.draft(event, sentAt)
                try batch.add(draft, self.tape.tape, self.context.source)
                guard draft.kind != .user, let person = self.person(event, draft) else { return }
                try batch.add(person, isAddition: true, self.tape.tape, self.context.source)
            }
        }
    }

    private mutating func draft(_ event: Int, _ sentAt: Int64?) throws(IngestFault) -> LineDraft {
        let name = try self.tape.name("event", in: event)
        let properties = try self.tape.object("properties", in: event, else: .badMember)
        let time = self.time(of: event, properties, sentAt)
        let hasID = self.tape.identifierText("uuid", in: event) != nil
        let id =
            hasID
            ? self.context.id("uuid", in: event, self.tape) : self.context.id("$insert_id", in: properties, self.tape)
        var draft = LineDraft(id: id, time: time, kind: .event, name: name)
        try self.identify(&draft, event, properties)
        switch self.tape.string("event", in: event) {
        case "$groupidentify":
            draft.name = .fixed("$group")
            if let group = self.tape.identifier("$group_key", in: properties) {
                draft.data.extra.append(("group_id", group))
            }
            // A library may have made it up for the call.
            if let sender = draft.user ?? draft.anonymous { draft.data.extra.append(("distinct_id", sender)) }
            (draft.user, draft.anonymous) = (nil, nil)
        case "$create_alias":
            draft.name = .fixed("$alias")
            if let former = draft.user ?? draft.anonymous { draft.data.extra.append(("previous_id", former)) }
            (draft.user, draft.anonymous) = (try self.tape.user("alias", in: properties), nil)
            guard draft.user != nil else { throw .noPerson }
        case "$identify", "$set", "$set_once":
            draft.kind = .user
            draft.name = .fixed("set_user")
            self.takeTraits(&draft, event, properties)
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
            let session: [StaticString] = draft.session == nil ? [] : ["$session_id"]
            draft.data.fields.append(.init(object: properties, without: Self.mapped + session))
        }
        return draft
    }

    /// `timestamp`; else `offset`, how long before the sending it happened, in milliseconds.
    private func time(of event: Int, _ properties: Int?, _ sentAt: Int64?) -> EventTime {
        let sentAt = self.tape.isTrue("$ignore_sent_at", in: properties) ? nil : sentAt
        if let sent = self.tape.time("timestamp", in: event, sentAt: sentAt) {
            return self.context.time(sent, sentAt: sentAt, self.tape)
        }
        let milliseconds = self.tape.value("offset", in: event).flatMap {
            Int64(String(decoding: self.tape.tape.bytes(of: $0), as: UTF8.self))
        }
        guard let milliseconds, (0...2_592_000_000).contains(milliseconds) else {
            return EventTime(time: self.context.receivedAt)
        }
        return EventTime(time: self.context.receivedAt - milliseconds)
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
            draft.user = try self.tape.user("distinct_id", in: event)
            if draft.user == nil { draft.user = try self.tape.user("distinct_id", in: properties) }
            draft.anonymous =
                self.tape.piece("$anon_distinct_id", in: properties) ?? self.tape.piece("$device_id", in: properties)
        }
        if let session = self.tape.string("$session_id", in: properties),
            let id = UniqueID(text: session.lowercased()), id.isSession
        {
            draft.session = .text(id.text)
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
        draft.userAgent = self.tape.userAgent("$raw_user_agent", in: properties, else: self.context.userAgent)
        let named = self.tape.string("$ip", in: properties)
        draft.data.address = named.flatMap { self.context.source.addressPolicy.apply(to: $0) } ?? self.context.address
    }

    /// `$set`, `$set_once` and `$unset`, a list of names.
    private func takeTraits(_ draft: inout LineDraft, _ event: Int, _ properties: Int?) {
        draft.traits.set = self.members("$set", event, properties)
        draft.traits.once = self.members("$set_once", event, properties)
        draft.traits.once?.isWithoutNull = true
        guard let unset = self.tape.value("$unset", in: event) ?? self.tape.value("$unset", in: properties),
            self.tape.tape[unset].kind == .array
        else { return }
        self.tape.unset(self.tape.elements(of: unset).filter { self.tape.tape[$0].kind == .string }, of: &draft.traits)
    }

    /// The user event of an event that sets traits, too.
    private func person(_ event: Int, _ draft: LineDraft) -> LineDraft? {
        // A group's are none of a person.
        guard draft.user != nil || draft.anonymous != nil else { return nil }
        var person = LineDraft(
            id: self.context.additionID(of: draft.id), time: draft.time, kind: .user, name: .fixed("set_user"))
        self.takeTraits(&person, event, self.tape.object("properties", in: event))
        guard !person.traits.isEmpty else { return nil }
        person.session = draft.session
        person.user = draft.user
        person.anonymous = draft.anonymous
        return person
    }
}
