internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillSystem

/// One line as it may be shown: without the values of masked members.
///
/// Everything that leaves the process about a line is read here, the filter's answers too. One owner: its buffers are
/// reused from line to line.
package struct ShownLine: ~Copyable {
    private let mask: Mask
    private var tape = JSONTape()
    private var buffer: UnsafeMutableRawBufferPointer
    private var count = 0
    private(set) var source = SourceDescription(env: .prod, bundle: "")
    private(set) var facts = EventFacts(
        time: WallTime(milliseconds: 0), env: .prod, bundle: nil, name: nil, kind: nil, timeOffset: 0)
    /// Whether a member of it is masked.
    private(set) var isMasked = false

    package init(mask: Mask) {
        self.mask = mask
        self.buffer = .allocate(byteCount: 4096, alignment: 16)
    }

    deinit {
        self.buffer.deallocate()
    }

    /// The line, without its line feed.
    var bytes: UnsafeRawBufferPointer {
        UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(self.buffer)[..<self.count])
    }

    /// The line's object, without what is around it.
    var object: UnsafeRawBufferPointer {
        let bytes = self.bytes
        return UnsafeRawBufferPointer(rebasing: bytes[JSONText.trimmed(bytes)])
    }

    /// Reads an event.
    package mutating func load(_ row: LiveRow) {
        row.withOriginal { _ = self.load($0, row.batch.reader) }
    }

    /// Reads a line.
    ///
    /// - Returns: whether it is an event.
    @discardableResult
    package mutating func load(_ line: UnsafeRawBufferPointer, _ reader: EventReader) -> Bool {
        self.source = reader.source
        guard case .event(let facts) = reader.read(line) else { return false }
        self.facts = facts
        self.isMasked = false
        self.store(line)
        guard self.parse() else { return false }
        guard let masked = self.mask.masked(self.tape, self.source) else { return true }
        self.isMasked = true
        masked.withUnsafeBytes { self.store($0) }
        guard self.parse() else { return false }
        if case .event(let facts) = reader.read(self.bytes) {
            self.facts = facts
        } else {
            // The ranges are those of the other bytes.
            self.facts.name = nil
            self.facts.bundle = nil
        }
        return true
    }

    private mutating func store(_ line: UnsafeRawBufferPointer) {
        if line.count > self.buffer.count || (self.buffer.count > 64 << 10 && line.count < 4096) {
            self.buffer.deallocate()
            self.buffer = .allocate(byteCount: max(4096, line.count), alignment: 16)
        }
        self.buffer.copyMemory(from: line)
        self.count = line.count
    }

    private mutating func parse() -> Bool {
        let bytes = self.bytes
        return self.tape.accepts(bytes, from: JSONText.byteOrderMarkByteCount(bytes))
    }

    // MARK: Members

    /// The event's name; a log of another program may have none.
    package var name: String { self.text(in: self.facts.name) ?? "log" }

    /// The app's identifier.
    package var app: String { self.text(in: self.facts.bundle) ?? self.source.bundle }

    /// What kind of event it is; `line` for lines of other programs' logs that name none.
    package var kind: String {
        guard let kind = self.text("kind") else { return self.source.isForeign ? "line" : EventKind.event.rawValue }
        return kind
    }

    package var env: String { self.facts.env.rawValue }
    package var user: String? { self.text(of: self.source.isForeign ? self.source.userMember ?? "user" : "user") }
    package var anon: String? { self.text(of: self.source.isForeign ? self.source.anonymousMember ?? "anon" : "anon") }

    private func text(in range: Range<Int>?) -> String? {
        range.map { JSONText.string(UnsafeRawBufferPointer(rebasing: self.bytes[$0])) }
    }

    /// The text of a member that is a string.
    package func text(_ name: StaticString) -> String? {
        self.tape.firstValue(of: name, in: 0).flatMap { self.text(at: $0) }
    }

    private func text(of name: String) -> String? {
        self.index(of: [name]).flatMap { self.text(at: $0) }
    }

    private func text(at index: Int) -> String? {
        self.tape[index].kind == .string ? JSONText.string(self.tape.bytes(of: index)) : nil
    }

    /// The number of a member that is a whole one.
    package func integer(_ name: StaticString) -> Int? {
        guard let index = self.tape.firstValue(of: name, in: 0), self.tape[index].kind == .number else { return nil }
        return Int(String(decoding: self.tape.bytes(of: index), as: UTF8.self))
    }

    /// The value at a path, as text: a string's own, anything else as it is written.
    ///
    /// A log of another program has its fields at the top, where `data.x` looks for them as well.
    package func value(at path: [String]) -> String? {
        self.typedValue(at: path)?.text
    }

    /// The value at a path like ``value(at:)``, and its type: one of JSON's, or `integer` for a number without a fraction.
    func typedValue(at path: [String]) -> (type: String, text: String)? {
        var index = self.index(of: path)
        if index == nil, self.source.isForeign, path.first == "data" { index = self.index(of: Array(path.dropFirst())) }
        return index.map { index in
            (
                self.type(of: index),
                self.text(at: index) ?? String(decoding: self.tape.bytes(of: index), as: UTF8.self)
            )
        }
    }

    private func index(of path: [String]) -> Int? {
        guard !path.isEmpty else { return nil }
        var index = 0
        for var name in path {
            let next = name.withUTF8 { self.tape.firstValue(of: UnsafeRawBufferPointer($0), in: index) }
            guard let next else { return nil }
            index = next
        }
        return index
    }

    /// Calls `body` with each string in the line, keys too, until it returns `true`.
    func hasText(where body: (UnsafeRawBufferPointer, _ hasEscapes: Bool) -> Bool) -> Bool {
        for entry in self.tape.all where entry.kind == .string || entry.kind == .number {
            let text = UnsafeRawBufferPointer(rebasing: self.tape.source[Int(entry.start)..<Int(entry.end)])
            if body(text, entry.traits.contains(.hasEscapes)) { return true }
        }
        return false
    }

    /// Calls `body` with the names and kinds of the event's own fields.
    func forEachProperty(_ body: (_ key: String, _ type: String) -> Void) {
        if let data = self.tape.firstValue(of: "data", in: 0), self.tape[data].kind == .object {
            self.forEachMember(of: data, "data.", body)
        } else if self.source.isForeign {
            self.forEachMember(of: 0, "", body)
        }
        if let traits = self.tape.firstValue(of: "traits", in: 0) { self.forEachMember(of: traits, "traits.", body) }
    }

    private func forEachMember(of object: Int, _ prefix: String, _ body: (String, String) -> Void) {
        guard self.tape[object].kind == .object else { return }
        var members = self.tape.members(of: object)
        while let (key, value) = members.next(in: self.tape) {
            body(prefix + JSONText.string(self.tape.bytes(of: key)), self.type(of: value))
        }
    }

    private func type(of index: Int) -> String {
        switch self.tape[index].kind {
        case .null: "null"
        case .false, .true: "boolean"
        case .string: "string"
        case .array: "array"
        case .object: "object"
        case .number:
            self.tape.bytes(of: index).allSatisfy { 0x30...0x39 ~= $0 || $0 == UInt8(ascii: "-") }
                ? "integer" : "number"
        }
    }
}
