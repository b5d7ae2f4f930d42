internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON

/// Segment's calls: one event, or `{"batch":[…],"sentAt":…}`.
///
/// `track` becomes an event, `page` and `screen` a screen view, `identify` a user event with traits, `group` and `alias` an
/// event `$group` or `$alias`. RudderStack's libraries speak it, too. `integrations` becomes `providers`; of `context` what a line has a member for, and the rest is
/// `data.context`. The sender's address is dropped unless its source keeps it.
struct SegmentDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext
    let type: SegmentType?

    mutating func read(into batch: inout IngestBatch) {
        let sentAt = self.tape.sendingTime("sentAt", in: 0)
        let list = self.tape.list("batch")
        for event in list.map({ self.tape.elements(of: $0) }) ?? [0] {
            batch.event(at: self.tape.range(of: event)) { (batch) throws(IngestFault) in
                if let fault = self.tape.fault(of: event) { throw fault }
                let draft = try self.draft(
                    event, sentAt: (list == nil ? nil : self.tape.sendingTime("sentAt", in: event)) ?? sentAt)
                try batch.add(draft, self.tape.tape, self.context.source)
            }
        }
    }

    private mutating func draft(_ event: Int, sentAt: Int64?) throws(IngestFault) -> LineDraft {
        guard let type = self.tape.string("type", in: event).flatMap(SegmentType.init(rawValue:)) ?? self.type else {
            throw .unknownType
        }
        let surroundings = self.tape.object("context", in: event)
        // In a line it is one container further inside than in a single call.
        if event == 0, let surroundings, self.tape.depth(of: surroundings) > JSONLimits.depthMax - 2 { throw .notJSON }
        let isLate = Self.stampsEarly(self.tape.string("name", in: self.tape.object("library", in: surroundings)))
        let sent =
            self.tape.time("originalTimestamp", in: event, sentAt: sentAt)
            ?? self.tape.time("timestamp", in: event, sentAt: sentAt)
        var draft = LineDraft(
            id: self.context.id("messageId", in: event, self.tape),
            time: self.context.time(sent, sentAt: sentAt, isLate: isLate, self.tape), kind: .event,
            name: .fixed("$alias"))
        draft.user = try self.tape.user("userId", in: event)
        draft.anonymous = self.tape.identifier("anonymousId", in: event)
        guard draft.user != nil || draft.anonymous != nil else { throw .noPerson }
        try self.fill(&draft, type, event, surroundings)
        // RudderStack's libraries have an identify's traits there alone.
        let areTraitsAround = draft.kind == .user && draft.traits.set == nil
        if areTraitsAround { draft.traits.set = self.tape.object("traits", in: surroundings).map { .init(object: $0) } }
        self.describe(&draft, surroundings, withoutTraits: areTraitsAround && draft.traits.set != nil)
        self.takeProviders(&draft, event)
        return draft
    }

    /// Libraries that say when a batch was complete instead of when it was sent.
    private static func stampsEarly(_ library: String?) -> Bool {
        ["analytics-swift", "analytics-kotlin", "Analytics-CSharp"].contains(library)
    }

    private func fill(
        _ draft: inout LineDraft, _ type: SegmentType, _ event: Int, _ surroundings: Int?
    ) throws(IngestFault) {
        let properties = try self.tape.object("properties", in: event, else: .badMember)
        switch type {
        case .track:
            draft.name = try self.tape.name("event", in: event)
            if let properties { draft.data.fields.append(.init(object: properties)) }
        case .page, .screen:
            draft.kind = .screen
            draft.name = .fixed("screen_view")
            draft.screen = self.screen(event, properties, self.tape.object("page", in: surroundings))
            if let category = self.tape.piece("category", in: event) { draft.data.extra.append(("category", category)) }
            if let properties { draft.data.fields.append(.init(object: properties)) }
        case .identify:
            draft.kind = .user
            draft.name = .fixed("set_user")
            if let traits = try self.tape.object("traits", in: event, else: .badTraits) {
                draft.traits.set = .init(object: traits)
            }
        case .group:
            draft.name = .fixed("$group")
            if let group = self.tape.identifier("groupId", in: event) { draft.data.extra.append(("group_id", group)) }
            if let traits = try self.tape.object("traits", in: event, else: .badTraits) {
                draft.data.fields.append(.init(object: traits))
            }
        case .alias:
            if let former = self.tape.identifier("previousId", in: event) {
                draft.data.extra.append(("previous_id", former))
            }
        }
    }

    /// What was seen: its name, else its path, else its title.
    private func screen(_ event: Int, _ properties: Int?, _ page: Int?) -> Piece {
        self.tape.piece("name", in: event) ?? self.tape.piece("name", in: properties)
            ?? self.tape.piece("path", in: properties) ?? self.tape.piece("path", in: page)
            ?? self.tape.piece("title", in: properties) ?? self.tape.piece("title", in: page) ?? .fixed("page")
    }

    /// - Parameter withoutTraits: whether the context's traits have their place already.
    private func describe(_ draft: inout LineDraft, _ surroundings: Int?, withoutTraits: Bool) {
        draft.data.address = self.context.address
        guard let surroundings else {
            draft.userAgent = self.context.userAgent.map { .text($0) }
            return
        }
        let app = self.tape.object("app", in: surroundings)
        let os = self.tape.object("os", in: surroundings)
        let device = self.tape.object("device", in: surroundings)
        draft.app = self.tape.identifier("version", in: app)
        draft.build = self.tape.identifier("build", in: app)
        draft.os = self.tape.piece("name", in: os)
        draft.osVersion = self.tape.identifier("version", in: os)
        draft.model = self.tape.piece("model", in: device)
        draft.language = self.tape.piece("locale", in: surroundings)
        draft.userAgent = self.tape.userAgent("userAgent", in: surroundings, else: self.context.userAgent)
        if let address = self.tape.string("ip", in: surroundings) {
            draft.data.address = self.context.source.addressPolicy.apply(to: address)
        }
        for (name, object, mapped) in [
            ("app", app, ["version", "build"]), ("os", os, ["name", "version"]), ("device", device, ["model"]),
        ] as [(StaticString, Int?, [StaticString])] {
            if let object, self.tape.hasMembers(object, without: mapped) {
                draft.data.context.append(.object(name: name, .init(object: object, without: mapped)))
            }
        }
        var others: [StaticString] = ["ip", "locale", "userAgent"]
        if withoutTraits { others.append("traits") }
        if app != nil { others.append("app") }
        if os != nil { others.append("os") }
        if device != nil { others.append("device") }
        if self.tape.hasMembers(surroundings, without: others) {
            draft.data.context.append(.members(.init(object: surroundings, without: others)))
        }
    }

    /// `integrations`: with `"All":false` the named ones alone get the event, else all but those that are `false`.
    private func takeProviders(_ draft: inout LineDraft, _ event: Int) {
        guard let integrations = self.tape.object("integrations", in: event) else { return }
        var isAll = true
        var named: [String: Bool] = [:]
        var walk = self.tape.tape.members(of: integrations)
        while let (key, value) = walk.next(in: self.tape.tape) {
            let isOn = self.tape.tape[value].kind != .false
            let name = JSONText.string(self.tape.tape.bytes(of: key))
            if name == "All" || name == "all" {
                isAll = isOn
            } else if let provider = Self.providers[name] {
                named[provider] = isOn
            }
        }
        if !isAll { draft.providers = named.filter(\.value).keys.sorted() }
        if isAll { draft.skippedProviders = named.filter { !$0.value }.keys.sorted() }
    }

    /// Segment's names of destinations, and Waybill's of providers.
    private static let providers = [
        "Google Analytics 4": "ga4", "Google Analytics 4 Web": "ga4", "Firebase": "ga4", "Mixpanel": "mixpanel",
        "Amplitude": "amplitude", "Actions Amplitude": "amplitude", "PostHog": "posthog", "Snowplow": "snowplow",
        "Flurry": "flurry", "Segment.io": "segment",
    ]
}
