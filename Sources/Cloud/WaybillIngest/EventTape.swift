internal import WaybillEvent
internal import WaybillJSON

/// The parts of a request that dialects ask for.
struct EventTape: ~Copyable {
    let tape: JSONTape
    /// Keeps a body's bytes; `nil`: the caller does.
    private let text: BodyText?
    /// Values that are not JSON: where they begin in the text, and where they end.
    private let broken: [Int: Int]

    /// One line, whose bytes the caller keeps.
    init(_ line: UnsafeRawBufferPointer) throws(JSONError) {
        var tape = JSONTape()
        try tape.parse(line, from: JSONText.byteOrderMarkByteCount(line))
        self.tape = tape
        self.text = nil
        self.broken = [:]
    }

    /// A body; events in it that are not JSON are taken out.
    ///
    /// - Throws: where no event can be told from another; ``JSONError/Code/tooLong`` for too many broken ones.
    init(body: [UInt8]) throws(JSONError) {
        let text = BodyText(body)
        var tape = JSONTape()
        var broken: [Int: Int] = [:]
        if !tape.accepts(text.bytes, from: text.start) {
            broken = try text.split()
            try tape.parse(text.bytes, from: text.start)
        }
        self.tape = tape
        self.text = text
        self.broken = broken
    }

    func value(_ name: StaticString, in object: Int?) -> Int? {
        guard let object else { return nil }
        return self.tape.firstValue(of: name, in: object)
    }

    func object(_ name: StaticString, in object: Int?) -> Int? {
        self.value(name, in: object).flatMap { self.tape[$0].kind == .object ? $0 : nil }
    }

    /// An object; `null` and an empty list, which PHP makes of an empty object, are none.
    ///
    /// - Throws: `fault` for anything else.
    func object(_ name: StaticString, in object: Int?, else fault: IngestFault) throws(IngestFault) -> Int? {
        guard let index = self.value(name, in: object) else { return nil }
        switch self.tape[index].kind {
        case .object: return index
        case .null: return nil
        case .array where Int(self.tape[index].next) == index + 1: return nil
        case .false, .true, .number, .string, .array: throw fault
        }
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

    /// An event's name.
    func name(_ name: StaticString, in object: Int?) throws(IngestFault) -> Piece {
        guard let index = self.text(name, in: object) else { throw .noName }
        guard self.byteCount(of: index) <= IngestLimits.nameByteCountMax else { throw .badMember }
        return .entry(index)
    }

    /// An id: a string that is not empty, or a number, which some libraries send.
    func identifier(_ name: StaticString, in object: Int?) -> Piece? {
        guard let index = self.value(name, in: object) else { return nil }
        switch self.tape[index].kind {
        case .string: return self.piece(name, in: object)
        case .number: return .text(String(decoding: self.tape.bytes(of: index), as: UTF8.self))
        case .null, .false, .true, .array, .object: return nil
        }
    }

    /// A user's id.
    func user(_ name: StaticString, in object: Int?) throws(IngestFault) -> Piece? {
        guard let user = self.identifier(name, in: object) else { return nil }
        let byteCount = self.value(name, in: object).map { self.byteCount(of: $0) } ?? 0
        guard byteCount <= IngestLimits.userByteCountMax else { throw .badMember }
        return user
    }

    /// The text of an ``identifier(_:in:)``.
    func identifierText(_ name: StaticString, in object: Int?) -> String? {
        guard let index = self.value(name, in: object) else { return nil }
        return switch self.tape[index].kind {
        case .string: self.string(name, in: object)
        case .number: String(decoding: self.tape.bytes(of: index), as: UTF8.self)
        case .null, .false, .true, .array, .object: nil
        }
    }

    func string(_ name: StaticString, in object: Int?) -> String? {
        self.text(name, in: object).map { JSONText.string(self.tape.bytes(of: $0)) }
    }

    /// How a browser or an app names itself: what the event says, else what the request said, cut to its limit.
    func userAgent(_ name: StaticString, in object: Int?, else header: String?) -> Piece? {
        guard let index = self.text(name, in: object) else { return header.map { .text($0) } }
        guard self.byteCount(of: index) > IngestLimits.userAgentByteCountMax else { return .entry(index) }
        return .text(IngestLimits.userAgent(JSONText.string(self.tape.bytes(of: index))))
    }

    /// The bytes of a value's text, without escapes.
    func byteCount(of index: Int) -> Int {
        let bytes = self.tape.bytes(of: index)
        guard self.tape[index].traits.contains(.hasEscapes) else { return bytes.count }
        return JSONText.string(bytes).utf8.count
    }

    func hasMembers(_ object: Int, without names: [StaticString]) -> Bool {
        var walk = self.tape.members(of: object)
        while let (key, _) = walk.next(in: self.tape) {
            if !self.isName(key, ofAny: names) { return true }
        }
        return false
    }

    private func isName(_ key: Int, ofAny names: [StaticString]) -> Bool {
        let name = self.tape.bytes(of: key)
        let isEscaped = self.tape[key].traits.contains(.hasEscapes)
        return names.contains { JSONText.equals(name, isEscaped: isEscaped, $0) }
    }

    /// Whether a member is there and is `true`.
    func isTrue(_ name: StaticString, in object: Int?) -> Bool {
        self.value(name, in: object).map { self.tape[$0].kind == .true } ?? false
    }

    /// Takes the names of traits that are removed, but those that the same event sets.
    func unset(_ names: [Int], of traits: inout LineDraft.Traits) {
        guard !names.isEmpty else { return }
        var set: Set<[UInt8]> = []
        if let members = traits.set {
            var walk = self.tape.members(of: members.object)
            while let (key, _) = walk.next(in: self.tape) { set.insert(self.text(of: key)) }
        }
        traits.unset += names.filter { !set.contains(self.text(of: $0)) }
    }

    /// The bytes of a string, without escapes.
    private func text(of string: Int) -> [UInt8] {
        let bytes = self.tape.bytes(of: string)
        guard self.tape[string].traits.contains(.hasEscapes) else { return Array(bytes) }
        return Array(JSONText.string(bytes).utf8)
    }

    /// How many containers are inside each other in a value, with the value itself.
    func depth(of index: Int) -> Int {
        var ends: [Int] = []
        var depth = 0
        for entry in index..<Int(self.tape[index].next) {
            while let end = ends.last, entry >= end { ends.removeLast() }
            guard self.tape[entry].kind == .object || self.tape[entry].kind == .array else { continue }
            ends.append(Int(self.tape[entry].next))
            depth = max(depth, ends.count)
        }
        return depth
    }

    /// A time by the sender's clock, which may show any; `nil`: there is none, as `null` and an empty text say, too.
    ///
    /// - Parameter sentAt: the sender's, when it sent; `nil`: unknown.
    func time(_ name: StaticString, in object: Int?, sentAt: Int64? = nil) -> SenderTime? {
        guard let index = self.value(name, in: object) else { return nil }
        let isClockEarly = sentAt.map { $0 < IngestLimits.times.lowerBound } ?? false
        switch self.tape[index].kind {
        case .null: return nil
        case .string:
            let text = self.text(of: index)
            guard text.contains(where: { !$0.isBlank }) else { return nil }
            return SenderTime(
                milliseconds: text.withUnsafeBytes { SenderTimeReader.read($0, isClockEarly: isClockEarly) },
                entry: index)
        case .number:
            return SenderTime(
                milliseconds: SenderTimeReader.read(self.tape.bytes(of: index), isClockEarly: isClockEarly),
                entry: index)
        case .false, .true, .array, .object: return SenderTime(milliseconds: nil, entry: index)
        }
    }

    /// When a request was sent; a wrong time of sending says nothing about the event.
    func sendingTime(_ name: StaticString, in object: Int?) -> Int64? {
        self.time(name, in: object)?.milliseconds
    }

    /// A value's text as it came, cut to what a line keeps of a time.
    func timeText(of index: Int) -> String {
        let bytes = self.tape.bytes(of: index)
        let text =
            self.tape[index].kind == .string ? JSONText.string(bytes) : String(decoding: bytes, as: UTF8.self)
        return IngestLimits.cut(text, to: IngestLimits.timeByteCountMax)
    }
}

/// A body and its events.
extension EventTape {
    /// Whether two keys of the body's own differ.
    var hasSeveralKeys: Bool {
        var first: [UInt8]?
        var walk = self.tape.members(of: 0)
        while let (name, value) = walk.next(in: self.tape) {
            guard self.tape[value].kind == .string, self.isName(name, ofAny: Self.keyNames) else { continue }
            let key = self.text(of: value)
            if let first, !key.isEmpty, first != key { return true }
            if !key.isEmpty { first = key }
        }
        return false
    }

    private static let keyNames: [StaticString] = ["writeKey", "api_key", "token"]

    /// A list, if the body has one.
    func list(_ name: StaticString) -> Int? {
        self.value(name, in: 0).flatMap { self.tape[$0].kind == .array ? $0 : nil }
    }

    /// The elements of a list, up to one more than a request may have.
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

    /// Why a value is not an event: an element of a list, or the whole body, at 0.
    func fault(of event: Int) -> IngestFault? {
        if event == 0 { return self.broken.isEmpty ? nil : .notJSON }
        if self.broken[Int(self.tape[event].start)] != nil { return .notJSON }
        return self.tape[event].kind == .object ? nil : .notAnObject
    }

    /// Where an event stands in the body.
    func range(of event: Int) -> Range<Int> {
        guard let text = self.text else { return Int(self.tape[event].start)..<Int(self.tape[event].end) }
        guard event > 0 else { return 0..<text.bodyByteCount }
        // A string's entry is what stands between its quotes.
        let quoteCount = self.tape[event].kind == .string ? 1 : 0
        let start = Int(self.tape[event].start) - quoteCount
        let end = self.broken[start] ?? Int(self.tape[event].end) + quoteCount
        return text.place(of: start)..<text.place(of: end)
    }
}

/// A body's bytes, as an object: a list, which PostHog's SDKs send, is its `batch`.
final class BodyText {
    private static let listHead = Array("{\"batch\":".utf8)

    private let buffer: UnsafeMutableRawBufferPointer
    /// Where the object begins, behind a byte order mark.
    let start: Int
    let bodyByteCount: Int
    /// How much further a byte stands here than in the body.
    private let shift: Int

    init(_ body: [UInt8]) {
        let mark = body.withUnsafeBytes { JSONText.byteOrderMarkByteCount($0) }
        let isList = body[mark...].first { !$0.isBlank } == UInt8(ascii: "[")
        let head = isList ? Self.listHead : []
        self.shift = isList ? head.count - mark : 0
        self.start = isList ? 0 : mark
        self.bodyByteCount = body.count
        let source = isList ? body[mark...] : body[...]
        self.buffer = .allocate(byteCount: head.count + source.count + (isList ? 1 : 0), alignment: 1)
        self.buffer.copyBytes(from: head)
        UnsafeMutableRawBufferPointer(rebasing: self.buffer[head.count...]).copyBytes(from: source)
        if isList { self.buffer[self.buffer.count - 1] = UInt8(ascii: "}") }
    }

    deinit {
        self.buffer.deallocate()
    }

    var bytes: UnsafeRawBufferPointer { UnsafeRawBufferPointer(self.buffer) }

    /// Where a byte stands in the body.
    func place(of position: Int) -> Int {
        min(self.bodyByteCount, max(0, position - self.shift))
    }

    /// Takes out the events that are not JSON.
    func split() throws(JSONError) -> [Int: Int] {
        var splitter = BodySplitter(self.buffer)
        try splitter.split(from: self.start)
        return splitter.broken
    }
}
