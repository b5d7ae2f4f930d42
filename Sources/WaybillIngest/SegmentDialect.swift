internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON

/// Segment's calls: one event, or `{"batch":[…],"sentAt":…}`.
///
/// `track` becomes an event, `page` and `screen` a screen view, `identify` a user event with traits, `group` and `alias` an
/// event `$group` or `$alias`. `integrations` becomes `providers`; of `context` what a line has a member for, and the rest is
/// `data.context`. The sender's address is dropped unless its source keeps it.
struct SegmentDialect: ~Copyable {
    let tape: EventTape
    var context: IngestContext
    let type: SegmentType?

    mutating func read(into batch: inout IngestBatch) {
        let sentAt = self.sentAt(0)
        guard let list = self.tape.value("batch", in: 0), self.tape.tape[list].kind == .array else {
            self.read(0, sentAt: sentAt, into: &batch)
            return
        }
        for event in self.tape.elements(of: list) {
            guard self.tape.tape[event].kind == .object else {
                batch.faults.append(.init(reason: .notAnObject, range: self.tape.range(of: event)))
                continue
            }
            self.read(event, sentAt: self.sentAt(event) ?? sentAt, into: &batch)
        }
    }

    /// A wrong time of sending says nothing about the event.
    private func sentAt(_ object: Int) -> Int64? {
        do throws(IngestFault) {
            return try self.tape.time("sentAt", in: object)
        } catch {
            return nil
        }
    }

    private mutating func read(_ event: Int, sentAt: Int64?, into batch: inout IngestBatch) {
        do throws(IngestFault) {
            let draft = try self.draft(event, sentAt: sentAt)
            batch.add(draft, self.tape.range(of: event), self.tape.tape, self.context.source)
        } catch {
            batch.faults.append(.init(reason: error, range: self.tape.range(of: event)))
        }
    }

    private mutating func draft(_ event: Int, sentAt: Int64?) throws(IngestFault) -> LineDraft {
        guard let type = self.tape.string("type", in: event).flatMap(SegmentType.init(rawValue:)) ?? self.type else {
            throw .unknownType
        }
        let surroundings = self.tape.object("context", in: event)
        let isLate = Self.stampsEarly(self.tape.string("name", in: self.tape.object("library", in: surroundings)))
        var sent = try self.tape.time("originalTimestamp", in: event)
        if sent == nil { sent = try self.tape.time("timestamp", in: event) }
        let time = sent.map { self.context.corrected($0, sentAt: sentAt, isLate: isLate) }
        var draft = LineDraft(
            id: self.context.id("messageId", in: event, self.tape), time: time?.time ?? self.context.receivedAt,
            kind: .event, name: .fixed("$alias"))
        draft.clientTime = time?.client
        draft.user = self.tape.identifier("userId", in: event)
        draft.anonymous = self.tape.identifier("anonymousId", in: event)
        guard draft.user != nil || draft.anonymous != nil else { throw .noPerson }
        try self.fill(&draft, type, event, surroundings)
        self.describe(&draft, surroundings)
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
        let properties = self.tape.object("properties", in: event)
        switch type {
        case .track:
            guard let name = self.tape.piece("event", in: event) else { throw .noName }
            draft.name = name
            if let properties { draft.fields.append(.init(object: properties)) }
        case .page, .screen:
            draft.kind = .screen
            draft.name = .fixed("screen_view")
            draft.screen = self.screen(event, properties, self.tape.object("page", in: surroundings))
            if let category = self.tape.piece("category", in: event) { draft.extra.append(("category", category)) }
            if let properties {
                draft.fields.append(.init(object: properties, without: draft.extra.isEmpty ? [] : ["category"]))
            }
        case .identify:
            draft.kind = .user
            draft.name = .fixed("set_user")
            if let traits = self.tape.value("traits", in: event), self.tape.tape[traits].kind != .null {
                guard self.tape.tape[traits].kind == .object else { throw .badTraits }
                draft.traits = .init(object: traits)
            }
        case .group:
            draft.name = .fixed("$group")
            if let group = self.tape.identifier("groupId", in: event) { draft.extra.append(("group_id", group)) }
            if let traits = self.tape.object("traits", in: event) { draft.fields.append(.init(object: traits)) }
        case .alias:
            if let former = self.tape.identifier("previousId", in: event) {
                draft.extra.append(("previous_id", former))
            }
        }
    }

    /// What was seen: its name, else its path, else its title.
    private func screen(_ event: Int, _ properties: Int?, _ page: Int?) -> Piece {
        self.tape.piece("name", in: event) ?? self.tape.piece("name", in: properties)
            ?? self.tape.piece("path", in: properties) ?? self.tape.piece("path", in: page)
            ?? self.tape.piece("title", in: properties) ?? self.tape.piece("title", in: page) ?? .fixed("page")
    }

    private func describe(_ draft: inout LineDraft, _ surroundings: Int?) {
        draft.address = self.context.address
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
        draft.userAgent =
            self.tape.piece("userAgent", in: surroundings) ?? self.context.userAgent.map { .text($0) }
        // Data may have a member of that name.
        guard !draft.fields.contains(where: { self.tape.value("context", in: $0.object) != nil }) else { return }
        if let address = self.tape.string("ip", in: surroundings) {
            draft.address = self.context.source.addressPolicy.apply(to: address)
        }
        for (name, object, mapped) in [
            ("app", app, ["version", "build"]), ("os", os, ["name", "version"]), ("device", device, ["model"]),
        ] as [(StaticString, Int?, [StaticString])] {
            if let object, self.hasMembers(object, without: mapped) {
                draft.context.append(.object(name: name, .init(object: object, without: mapped)))
            }
        }
        var others: [StaticString] = ["ip", "locale", "userAgent"]
        if app != nil { others.append("app") }
        if os != nil { others.append("os") }
        if device != nil { others.append("device") }
        if self.hasMembers(surroundings, without: others) {
            draft.context.append(.members(.init(object: surroundings, without: others)))
        }
    }

    private func hasMembers(_ object: Int, without names: [StaticString]) -> Bool {
        var walk = self.tape.tape.members(of: object)
        while let (key, _) = walk.next(in: self.tape.tape) {
            let name = self.tape.tape.bytes(of: key)
            let isEscaped = self.tape.tape[key].traits.contains(.hasEscapes)
            if !names.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) }) { return true }
        }
        return false
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

extension AddressPolicy {
    /// What is kept of an address.
    package func apply(to address: String) -> String? {
        switch self {
        case .drop: nil
        case .keep: address.utf8.count <= 45 ? address : nil
        case .truncate: Self.network(of: address)
        }
    }

    private static func network(of address: String) -> String? {
        let numbers = address.split(separator: ".", omittingEmptySubsequences: false)
        if numbers.count == 4, numbers.allSatisfy({ UInt8($0) != nil }) {
            return numbers.prefix(3).joined(separator: ".") + ".0"
        }
        let groups = address.split(separator: ":", omittingEmptySubsequences: false)
        guard (3...8).contains(groups.count), groups.prefix(3).allSatisfy({ UInt16($0, radix: 16) != nil }) else {
            return nil
        }
        return groups.prefix(3).joined(separator: ":") + "::"
    }
}
