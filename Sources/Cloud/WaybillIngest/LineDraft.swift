internal import WaybillSystem
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON

/// A text of a line: one of the request's, as it stands there, or one of ours.
enum Piece {
    /// A string's entry of the tape.
    case entry(Int)
    case fixed(StaticString)
    case text(String)
}

/// One event on its way to a line; positions are entries of its request's tape.
struct LineDraft {
    enum Kind: String {
        case event
        case screen
        case user
    }

    /// Members of an object, without some.
    struct Members {
        let object: Int
        /// Some alone; empty: all.
        var only: [StaticString] = []
        var without: [StaticString] = []
        var isWithoutNull = false
    }

    var id: UniqueID
    let time: EventTime
    var kind: Kind
    var name: Piece
    var screen: Piece?
    var previousScreen: Piece?
    var session: Piece?
    var user: Piece?
    var anonymous: Piece?
    var traits = Traits()
    var app: Piece?
    var build: Piece?
    var os: Piece?
    var osVersion: Piece?
    var model: Piece?
    var language: Piece?
    var userAgent: Piece?
    var data = Fields()
    /// Providers that get the event; `nil`: all.
    var providers: [String]?
    /// Providers that do not get it.
    var skippedProviders: [String] = []

    init(id: UniqueID, time: EventTime, kind: Kind, name: Piece) {
        self.id = id
        self.time = time
        self.kind = kind
        self.name = name
    }
}

extension JSONWriter {
    mutating func value(_ piece: Piece, _ tape: borrowing JSONTape) {
        switch piece {
        case .entry(let index): self.string(plain: tape.bytes(of: index))
        case .fixed(let text): self.string(text)
        case .text(let text): self.string(text)
        }
    }

    fileprivate mutating func member(_ name: StaticString, _ piece: Piece?, _ tape: borrowing JSONTape) {
        guard let piece else { return }
        self.key(name)
        self.value(piece, tape)
    }

    fileprivate mutating func member(_ name: StaticString, time: Int64) {
        self.key(name)
        self.output.append("\"")
        TimeText.append(WallTime(milliseconds: time), to: &self.output)
        self.output.append("\"")
        self.needsComma = true
    }

    mutating func member(_ name: StaticString, _ time: EventTime.ClientTime?) {
        switch time {
        case .corrected(let time): self.member(name, time: time)
        case .unusable(let text): self.member(name, text)
        case nil: break
        }
    }

    /// Writes an object's members into the open object.
    fileprivate mutating func members(
        _ members: LineDraft.Members, except others: [StaticString] = [], _ tape: borrowing JSONTape
    ) {
        var walk = tape.members(of: members.object)
        while let (key, value) = walk.next(in: tape) {
            let name = tape.bytes(of: key)
            let isEscaped = tape[key].traits.contains(.hasEscapes)
            if members.isWithoutNull, tape[value].kind == .null { continue }
            if !members.only.isEmpty, !members.only.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) })
            {
                continue
            }
            if members.without.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) }) { continue }
            if others.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) }) { continue }
            self.key(plain: name)
            self.element(value, tape)
        }
    }

    /// Writes a value as it stands in the request, on one line.
    mutating func element(_ index: Int, _ tape: borrowing JSONTape) {
        let bytes = tape.bytes(of: index)
        if tape[index].kind == .string {
            self.string(plain: bytes)
        } else if bytes.contains(where: { $0 == 0x0A || $0 == 0x0D }) {
            // Between two tokens, for a string has none.
            let line = bytes.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 }
            line.withUnsafeBytes { self.verbatim($0) }
        } else {
            self.verbatim(bytes)
        }
    }
}

extension IngestBatch {
    /// Writes an event's line.
    ///
    /// - Parameter isAddition: whether it is the user event that another event's properties make.
    /// - Throws: ``IngestFault/tooLong``; the line is not there then.
    mutating func add(
        _ draft: LineDraft, isAddition: Bool = false, _ tape: borrowing JSONTape, _ source: IngestSource
    ) throws(IngestFault) {
        try self.addLine(draft.id, isAddition: isAddition, at: draft.time.time) { json in
            json.member("kind", draft.kind.rawValue)
            json.member("name", draft.name, tape)
            json.member("screen", draft.screen, tape)
            json.member("prev", draft.previousScreen, tape)
            json.member("session", draft.session, tape)
            json.member("user", draft.user, tape)
            json.member("anon", draft.anonymous, tape)
            if draft.kind == .user { draft.traits.write(to: &json, tape) }
            json.member("app", draft.app, tape)
            json.member("build", draft.build, tape)
            json.member("bundle", source.bundle)
            json.member("os", draft.os, tape)
            json.member("os_version", draft.osVersion, tape)
            json.member("model", draft.model, tape)
            json.member("lang", draft.language, tape)
            json.member("user_agent", draft.userAgent, tape)
            json.member("env", source.environment.rawValue)
            draft.data.write(to: &json, tape)
            json.providers(draft)
            json.member("ts_client", draft.time.client)
        }
        if !isAddition, draft.time.isUnusable { self.remark(.badTime) }
    }

    /// Writes a line from `ts` on.
    ///
    /// - Throws: ``IngestFault/tooLong``; the line is not there then.
    mutating func addLine(
        _ id: UniqueID, isAddition: Bool = false, at time: Int64, _ write: (inout JSONWriter) -> Void
    ) throws(IngestFault) {
        let mark = self.json.mark
        let start = self.json.output.count
        self.json.needsComma = true
        self.json.member("ts", time: time)
        write(&self.json)
        self.json.output.append("}\n")
        let range = start..<self.json.output.count
        guard range.count + IngestLimits.lineHeadByteCount <= IngestLimits.lineByteCountMax else {
            self.json.rewind(to: mark)
            throw .tooLong
        }
        self.lines.append(.init(id: id, range: range, isAddition: isAddition))
    }
}

extension LineDraft {
    /// The members of `traits`, `traits_once` and `traits_add`.
    struct Traits {
        var set: Members?
        var once: Members?
        var added: Members?
        /// Names of traits that are removed.
        var unset: [Int] = []

        var isEmpty: Bool { self.set == nil && self.once == nil && self.added == nil && self.unset.isEmpty }

        func write(to json: inout JSONWriter, _ tape: borrowing JSONTape) {
            json.key("traits")
            json.beginObject()
            if let set { json.members(set, tape) }
            for name in self.unset {
                json.key(plain: tape.bytes(of: name))
                json.null()
            }
            json.endObject()
            json.object("traits_once", self.once, tape)
            json.object("traits_add", self.added, tape)
        }
    }

    /// The members of `data`.
    struct Fields {
        /// A member of `data.context`.
        enum Nested {
            case members(Members)
            /// An object under a name, without some members.
            case object(name: StaticString, Members)
        }

        /// Objects whose members become `data`, the first ones first.
        var fields: [Members] = []
        /// Further members of `data`.
        var extra: [(name: StaticString, value: Piece)] = []
        /// `data.context`: the rest of Segment's context.
        var context: [Nested] = []
        var address: String?

        private var hasContext: Bool { !self.context.isEmpty || self.address != nil }

        /// Writes nothing if there is none.
        ///
        /// The event's own fields go first; a field `context` of its own takes the place of the sender's.
        func write(to json: inout JSONWriter, _ tape: borrowing JSONTape) {
            guard !self.fields.isEmpty || !self.extra.isEmpty || self.hasContext else { return }
            json.key("data")
            json.beginObject()
            var isReplaced = false
            for members in self.fields {
                if tape.firstValue(of: "context", in: members.object) != nil { isReplaced = true }
                json.members(members, except: self.extra.map(\.name), tape)
            }
            for (name, value) in self.extra { json.member(name, value, tape) }
            if !isReplaced, self.hasContext { self.writeContext(to: &json, tape) }
            json.endObject()
        }

        private func writeContext(to json: inout JSONWriter, _ tape: borrowing JSONTape) {
            json.key("context")
            json.beginObject()
            if let address { json.member("ip", address) }
            for item in self.context {
                switch item {
                case .members(let members): json.members(members, tape)
                case .object(let name, let members): json.object(name, members, tape)
                }
            }
            json.endObject()
        }
    }
}

/// Parts of a line.
extension JSONWriter {
    fileprivate mutating func providers(_ draft: LineDraft) {
        if let providers = draft.providers {
            self.member("providers", array: providers) { $0.string($1) }
        }
        guard !draft.skippedProviders.isEmpty else { return }
        self.member("overrides") { json in
            for provider in draft.skippedProviders {
                json.key(text: provider)
                json.verbatim("{\"skip\":true}")
            }
        }
    }

    fileprivate mutating func object(_ name: StaticString, _ members: LineDraft.Members?, _ tape: borrowing JSONTape) {
        guard let members else { return }
        self.key(name)
        self.beginObject()
        self.members(members, tape)
        self.endObject()
    }
}

/// Ids and times, for every dialect.
extension IngestContext {
    /// The id of an event: the sender's if it is a UUID, else one made of it, else a new one.
    ///
    /// A UUID that could be one of ours is a text: no one outside names an id that is made here.
    mutating func id(_ name: StaticString, in event: Int?, _ tape: borrowing EventTape) -> UniqueID {
        guard let text = tape.identifierText(name, in: event) else { return .timed(self.receivedAt, &self.generator) }
        let id = UniqueID(text: text.lowercased())
        if let id, !id.isDerived { return id }
        return self.derivedID("\(self.source.key)\u{0}\(id?.text ?? text)")
    }

    /// The id of the user event that another event's properties make.
    ///
    /// Its text begins as no text of a sender does, which a key is before.
    func additionID(of event: UniqueID) -> UniqueID {
        self.derivedID("\u{0}traits\u{0}\(self.source.key)\u{0}\(event.text)")
    }

    /// A UUID (version 8) of a text, the same each time.
    private func derivedID(_ text: String) -> UniqueID {
        let digest = SHA256.digest(Array(text.utf8))
        let high = digest[..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let low = digest[8..<16].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return UniqueID(
            high: high & 0xFFFF_FFFF_FFFF_0FFF | 0x8000, low: low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// The time of an event by this host's clock.
    ///
    /// It was as long ago when it came as it had been when it was sent, whatever the sender's clock shows: one that is at 1970
    /// when it sends was so when the event happened. What has no time of this century then has the time of receipt.
    ///
    /// - Parameters:
    ///   - sent: the sender's; `nil`: it gave none.
    ///   - sentAt: the sender's, when it sent; `nil`: unknown.
    ///   - isLate: whether `sentAt` may be long before the sending, so that only a clock that is ahead can be told.
    func time(
        _ sent: SenderTime?, sentAt: Int64? = nil, isLate: Bool = false, _ tape: borrowing EventTape
    ) -> EventTime {
        guard let sent else { return EventTime(time: self.receivedAt) }
        if let time = sent.milliseconds {
            let difference = self.difference(at: time, sentAt: sentAt, isLate: isLate)
            if IngestLimits.times.contains(time + difference) {
                return EventTime(time: time + difference, client: difference == 0 ? nil : .corrected(time))
            }
        }
        return EventTime(time: self.receivedAt, client: .unusable(tape.timeText(of: sent.entry)))
    }

    /// How far the sender's clock was behind; 0: not by so much that it counts.
    private func difference(at time: Int64, sentAt: Int64?, isLate: Bool) -> Int64 {
        guard let sentAt else { return 0 }
        let difference = self.receivedAt - sentAt
        guard abs(difference) > IngestLimits.clockDifferenceMin else { return 0 }
        guard IngestLimits.times.contains(time) else { return difference }
        guard IngestLimits.times.contains(sentAt) else {
            // A clock that lost its time between the event and the sending says nothing about the event.
            return sentAt >= time && IngestLimits.times.contains(time + difference) ? difference : 0
        }
        return isLate && difference > 0 ? 0 : difference
    }
}

extension EventTime {
    var isUnusable: Bool {
        guard case .unusable = self.client else { return false }
        return true
    }
}

extension UniqueID {
    /// Whether it is one that can be made of a text: version 8.
    var isDerived: Bool { self.high & 0xF000 == 0x8000 && self.low >> 62 == 2 }
}
