internal import WaybillDigest
internal import WaybillEvent
internal import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

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
        var without: [StaticString] = []
    }

    var id: UniqueID
    var time: Int64
    /// The sender's time, where ``time`` is corrected.
    var clientTime: Int64?
    var kind: Kind
    var name: Piece
    var screen: Piece?
    var previousScreen: Piece?
    var session: Piece?
    var user: Piece?
    var anonymous: Piece?
    var traits: Members?
    var traitsOnce: Members?
    var traitsAdd: Members?
    /// Names of traits that are removed.
    var traitsUnset: [Int] = []
    var app: Piece?
    var build: Piece?
    var os: Piece?
    var osVersion: Piece?
    var model: Piece?
    var language: Piece?
    var userAgent: Piece?
    /// Objects whose members become `data`, the first ones first.
    var fields: [Members] = []
    /// Further members of `data`.
    var extra: [(name: StaticString, value: Piece)] = []
    /// `data.context`: the rest of Segment's context.
    var context: [NestedMembers] = []
    var address: String?
    /// Providers that get the event; `nil`: all.
    var providers: [String]?
    /// Providers that do not get it.
    var skippedProviders: [String] = []

    /// A member of `data.context`.
    enum NestedMembers {
        case members(Members)
        /// An object under a name, without some members.
        case object(name: StaticString, Members)
    }

    init(id: UniqueID, time: Int64, kind: Kind, name: Piece) {
        self.id = id
        self.time = time
        self.kind = kind
        self.name = name
    }
}

extension JSONWriter {
    fileprivate mutating func value(_ piece: Piece, _ tape: borrowing JSONTape) {
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

    /// Writes an object's members into the open object.
    fileprivate mutating func members(_ members: LineDraft.Members, _ tape: borrowing JSONTape) {
        var walk = tape.members(of: members.object)
        while let (key, value) = walk.next(in: tape) {
            let name = tape.bytes(of: key)
            let isEscaped = tape[key].traits.contains(.hasEscapes)
            if members.without.contains(where: { JSONText.equals(name, isEscaped: isEscaped, $0) }) { continue }
            self.key(plain: name)
            self.element(value, tape)
        }
    }

    /// Writes a value as it stands in the request, on one line.
    fileprivate mutating func element(_ index: Int, _ tape: borrowing JSONTape) {
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
    /// Writes an event's line; a line that is too long is a fault.
    ///
    /// - Parameter event: the event in the body.
    mutating func add(_ draft: LineDraft, _ event: Range<Int>, _ tape: borrowing JSONTape, _ source: IngestSource) {
        let mark = self.json.mark
        let start = self.json.output.count
        self.json.needsComma = true
        self.json.member("ts", time: draft.time)
        self.json.member("kind", draft.kind.rawValue)
        self.json.member("name", draft.name, tape)
        self.json.member("screen", draft.screen, tape)
        self.json.member("prev", draft.previousScreen, tape)
        self.json.member("session", draft.session, tape)
        self.json.member("user", draft.user, tape)
        self.json.member("anon", draft.anonymous, tape)
        self.addTraits(draft, tape)
        self.json.member("app", draft.app, tape)
        self.json.member("build", draft.build, tape)
        self.json.member("bundle", source.bundle)
        self.json.member("os", draft.os, tape)
        self.json.member("os_version", draft.osVersion, tape)
        self.json.member("model", draft.model, tape)
        self.json.member("lang", draft.language, tape)
        self.json.member("user_agent", draft.userAgent, tape)
        self.json.member("env", source.environment.rawValue)
        self.addData(draft, tape)
        if let providers = draft.providers {
            self.json.member("providers", array: providers) { $0.string($1) }
        }
        if !draft.skippedProviders.isEmpty {
            self.json.member("overrides") { json in
                for provider in draft.skippedProviders {
                    json.key(text: provider)
                    json.verbatim("{\"skip\":true}")
                }
            }
        }
        if let time = draft.clientTime { self.json.member("ts_client", time: time) }
        self.finish(draft.id, start, mark, event)
    }

    /// Writes the line of one of Waybill's own events.
    mutating func add(
        own id: UniqueID, at time: Int64, _ name: Piece, _ rest: LineDraft.Members, _ event: Range<Int>,
        _ tape: borrowing JSONTape, _ source: IngestSource
    ) {
        let mark = self.json.mark
        let start = self.json.output.count
        self.json.needsComma = true
        self.json.member("ts", time: time)
        self.json.member("name", name, tape)
        self.json.members(rest, tape)
        self.json.member("bundle", source.bundle)
        self.json.member("env", source.environment.rawValue)
        self.finish(id, start, mark, event)
    }

    private mutating func finish(_ id: UniqueID, _ start: Int, _ mark: JSONWriter.Mark, _ event: Range<Int>) {
        self.json.output.append("}\n")
        let range = start..<self.json.output.count
        guard range.count + IngestLimits.lineHeadByteCount <= IngestLimits.lineByteCountMax else {
            self.json.rewind(to: mark)
            self.faults.append(.init(reason: .tooLong, range: event))
            return
        }
        self.lines.append(.init(id: id, range: range))
    }

    private mutating func addTraits(_ draft: LineDraft, _ tape: borrowing JSONTape) {
        guard draft.kind == .user else { return }
        self.json.key("traits")
        self.json.beginObject()
        if let traits = draft.traits { self.json.members(traits, tape) }
        for name in draft.traitsUnset {
            self.json.key(plain: tape.bytes(of: name))
            self.json.null()
        }
        self.json.endObject()
        self.addObject("traits_once", draft.traitsOnce, tape)
        self.addObject("traits_add", draft.traitsAdd, tape)
    }

    private mutating func addObject(
        _ name: StaticString, _ members: LineDraft.Members?, _ tape: borrowing JSONTape
    ) {
        guard let members else { return }
        self.json.key(name)
        self.json.beginObject()
        self.json.members(members, tape)
        self.json.endObject()
    }

    private mutating func addData(_ draft: LineDraft, _ tape: borrowing JSONTape) {
        guard !draft.fields.isEmpty || !draft.extra.isEmpty || !draft.context.isEmpty || draft.address != nil else {
            return
        }
        self.json.key("data")
        self.json.beginObject()
        for members in draft.fields { self.json.members(members, tape) }
        for (name, value) in draft.extra { self.json.member(name, value, tape) }
        if !draft.context.isEmpty || draft.address != nil {
            self.json.key("context")
            self.json.beginObject()
            if let address = draft.address { self.json.member("ip", address) }
            for item in draft.context {
                switch item {
                case .members(let members): self.json.members(members, tape)
                case .object(let name, let members): self.addObject(name, members, tape)
                }
            }
            self.json.endObject()
        }
        self.json.endObject()
    }
}

/// The parts of a request that dialects ask for.
struct EventTape: ~Copyable {
    let tape: JSONTape

    init(_ bytes: UnsafeRawBufferPointer) throws(JSONError) {
        var tape = JSONTape()
        try tape.parse(bytes, from: JSONText.byteOrderMarkByteCount(bytes))
        self.tape = tape
    }

    func value(_ name: StaticString, in object: Int?) -> Int? {
        guard let object else { return nil }
        return self.tape.firstValue(of: name, in: object)
    }

    func object(_ name: StaticString, in object: Int?) -> Int? {
        self.value(name, in: object).flatMap { self.tape[$0].kind == .object ? $0 : nil }
    }

    /// A string that is not empty.
    func text(_ name: StaticString, in object: Int?) -> Int? {
        self.value(name, in: object).flatMap { index in
            let entry = self.tape[index]
            return entry.kind == .string && entry.end > entry.start ? index : nil
        }
    }

    func piece(_ name: StaticString, in object: Int?) -> Piece? {
        self.text(name, in: object).map { .entry($0) }
    }

    /// An id: a string that is not empty, or a number, which some libraries send.
    func identifier(_ name: StaticString, in object: Int?) -> Piece? {
        guard let index = self.value(name, in: object) else { return nil }
        switch self.tape[index].kind {
        case .string: return self.piece(name, in: object)
        case .number: return .text(String(decoding: self.tape.bytes(of: index), as: UTF8.self))
        default: return nil
        }
    }

    /// The text of an ``identifier(_:in:)``.
    func identifierText(_ name: StaticString, in object: Int?) -> String? {
        guard let index = self.value(name, in: object) else { return nil }
        return switch self.tape[index].kind {
        case .string: self.string(name, in: object)
        case .number: String(decoding: self.tape.bytes(of: index), as: UTF8.self)
        default: nil
        }
    }

    func string(_ name: StaticString, in object: Int?) -> String? {
        self.text(name, in: object).map { JSONText.string(self.tape.bytes(of: $0)) }
    }

    /// Whether a member is there and is `true`.
    func isTrue(_ name: StaticString, in object: Int?) -> Bool {
        self.value(name, in: object).map { self.tape[$0].kind == .true } ?? false
    }

    func elements(of array: Int) -> [Int] {
        var elements: [Int] = []
        var index = array + 1
        let end = Int(self.tape[array].next)
        while index < end, elements.count <= IngestLimits.eventCountMax {
            elements.append(index)
            index = Int(self.tape[index].next)
        }
        return elements
    }

    func range(of index: Int) -> Range<Int> {
        Int(self.tape[index].start)..<Int(self.tape[index].end)
    }

    /// A time: RFC 3339, or milliseconds since 1970.
    ///
    /// - Throws: ``IngestFault/badTime`` if the member is there and is no time of this century.
    func time(_ name: StaticString, in object: Int?) throws(IngestFault) -> Int64? {
        guard let index = self.value(name, in: object), self.tape[index].kind != .null else { return nil }
        let bytes = self.tape.bytes(of: index)
        let time: Int64?
        switch self.tape[index].kind {
        case .string: time = TimeText.parse(bytes) ?? Self.wholeNumber(bytes)
        case .number: time = Self.wholeNumber(bytes)
        default: time = nil
        }
        guard let time, (946_684_800_000...4_102_444_799_999).contains(time) else { throw .badTime }
        return time
    }

    /// A number without its fraction, which some libraries send with milliseconds.
    private static func wholeNumber(_ bytes: UnsafeRawBufferPointer) -> Int64? {
        let digits = bytes.prefix { $0 != UInt8(ascii: ".") }
        guard digits.count < 15 else { return nil }
        return Int64(String(decoding: digits, as: UTF8.self))
    }
}

/// Ids and times, for every dialect.
extension IngestContext {
    /// The id of an event: the sender's if it is a UUID, else one made of it, else a new one.
    mutating func id(_ name: StaticString, in event: Int?, _ tape: borrowing EventTape) -> UniqueID {
        guard let text = tape.identifierText(name, in: event) else { return .timed(self.receivedAt, &self.generator) }
        return UniqueID(text: text.lowercased()) ?? self.derivedID(text)
    }

    /// A UUID (version 8) of the key and a text, the same each time.
    func derivedID(_ text: String) -> UniqueID {
        let digest = SHA256.digest(Array("\(self.source.key)\u{0}\(text)".utf8))
        let high = digest[..<8].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        let low = digest[8..<16].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return UniqueID(
            high: high & 0xFFFF_FFFF_FFFF_0FFF | 0x8000, low: low & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
    }

    /// The time of an event by this host's clock.
    ///
    /// - Parameters:
    ///   - time: the sender's.
    ///   - sentAt: the sender's, when it sent; `nil`: unknown.
    ///   - isLate: whether `sentAt` may be long before the sending, so that only a clock that is ahead can be told.
    func corrected(
        _ time: Int64, sentAt: Int64?, isLate: Bool = false
    ) -> (time: Int64, client: Int64?) {
        guard let sentAt else { return (time, nil) }
        let difference = self.receivedAt - sentAt
        guard abs(difference) > IngestLimits.clockDifferenceMin, !isLate || difference < 0 else { return (time, nil) }
        return (time + difference, time)
    }
}
