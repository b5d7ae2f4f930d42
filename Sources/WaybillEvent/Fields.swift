internal import WaybillJSON

/// Counters for values that were left out of events or truncated.
public struct FieldRepairs: Hashable, Sendable {
    /// Fields left out because their value is NaN or infinite.
    ///
    /// Values of an app's own ``FieldValue`` type that write nothing are also counted here, including elements of
    /// lists.
    public internal(set) var nonFinite = 0
    /// Fields left out because the event already has one with that name; the first is kept.
    public internal(set) var duplicate = 0
    /// Objects left out because they were nested in an object; also fields and values that an app's own ``FieldValue``
    /// wrote in addition to its one value.
    public internal(set) var nested = 0
    /// Names truncated to 255 bytes.
    public internal(set) var cutName = 0
    /// User agents of visitors truncated to 512 bytes.
    public internal(set) var cutUserAgent = 0

    /// Creates counters without any repairs.
    public init() {}

    package static func += (left: inout FieldRepairs, right: FieldRepairs) {
        left.nonFinite += right.nonFinite
        left.duplicate += right.duplicate
        left.nested += right.nested
        left.cutName += right.cutName
        left.cutUserAgent += right.cutUserAgent
    }
}

/// The ordered fields of an event, written directly as bytes of its line.
///
///     fields.put("product", "토스터")          "product":"토스터"
///     fields.put("price", 39_900)              ,"price":39900
///     fields.put("coupon", nil as String?)     (no field)
///
/// Fields keep the order in which they are put. A repeated key and a number that JSON cannot represent are left out and
/// counted; integers beyond 2^53 are written as strings.
public struct Fields: ~Copyable {
    /// `"key":value` joined by commas, without braces.
    package private(set) var buffer: LineBuffer
    private var keys = FieldKeys()
    /// The first of `keys` that belongs to the object being written.
    private var scopeStart = 0
    private var isScopeEmpty = true
    private var hasObjects = false
    /// Whether anything was put, even `nil`.
    @usableFromInline private(set) var isTouched = false
    /// Whether a value that is not an object is being written: no fields can be put into it.
    private var isValueOpen = false
    /// Whether the value for the current key is still missing.
    private var isValueAwaited = false
    package internal(set) var repairs = FieldRepairs()
    /// The salt for hashing private values.
    var salt: PrivacySalt?

    package init(capacity: Int = 256) {
        self.buffer = LineBuffer(capacity: capacity)
    }

    package var isEmpty: Bool {
        self.buffer.isEmpty
    }

    package mutating func removeAll() {
        self.buffer.removeAll()
        self.keys.truncate(to: 0)
        self.scopeStart = 0
        self.isScopeEmpty = true
        self.hasObjects = false
        self.isTouched = false
        self.isValueOpen = false
        self.isValueAwaited = false
        self.repairs = FieldRepairs()
    }

    /// Adds a field; writes nothing if `value` is `nil`.
    @inlinable
    public mutating func put<Value: FieldValue>(_ key: String, _ value: Value?) {
        guard let value else { return self.touch() }
        guard self.begin(key, isFinite: value.isFinite) else { return }
        value.append(to: &self)
        self.endValue()
    }

    /// Adds a field; writes nothing if `value` is `nil`.
    @inlinable
    public mutating func put<Value: FieldValue>(_ key: StaticString, _ value: Value?) {
        guard let value else { return self.touch() }
        guard self.begin(key, isFinite: value.isFinite) else { return }
        value.append(to: &self)
        self.endValue()
    }

    /// Adds a private text, which is stored only as its salted hash of 32 hexadecimal digits.
    ///
    /// Equal texts have equal hashes within an install, but not in different installs. Writes nothing if `text` is
    /// `nil`.
    public mutating func put(_ key: String, private text: String?) {
        self.put(key, text.map { self.hash(of: $0.utf8) })
    }

    func hash(of text: some Sequence<UInt8>) -> String {
        self.salt?.hash(text) ?? "private"
    }

    /// Adds a field with the JSON value `null`; as a trait, it removes the trait.
    public mutating func putNull(_ key: String) {
        guard self.begin(key, isFinite: true) else { return }
        self.putValue { $0.append("null") }
        self.endValue()
    }

    /// Adds a field whose value is an object with the fields that `body` puts; objects cannot be nested.
    public mutating func put(_ key: String, object body: (inout Fields) -> Void) {
        guard self.scopeStart == 0 else {
            self.repairs.nested += 1
            return
        }
        guard self.begin(key, isFinite: true) else { return }
        self.putObject(body)
        self.endValue()
    }

    /// Adds a field whose value is a list of flat objects, one for each of `elements`.
    public mutating func put<Element>(
        _ key: String, objects elements: some Sequence<Element>, _ body: (inout Fields, Element) -> Void
    ) {
        guard self.scopeStart == 0 else {
            self.repairs.nested += 1
            return
        }
        guard self.begin(key, isFinite: true) else { return }
        self.buffer.append(UInt8(ascii: "["))
        var isFirst = true
        for element in elements {
            if !isFirst { self.buffer.append(UInt8(ascii: ",")) }
            isFirst = false
            self.putObject { fields in body(&fields, element) }
        }
        self.isValueAwaited = false
        self.buffer.append(UInt8(ascii: "]"))
        self.endValue()
    }

    private mutating func putObject(_ body: (inout Fields) -> Void) {
        self.buffer.append(UInt8(ascii: "{"))
        let outerKeyCount = self.keys.count
        self.scopeStart = outerKeyCount
        self.isScopeEmpty = true
        self.hasObjects = true
        self.isValueOpen = false
        self.isValueAwaited = false
        body(&self)
        self.keys.truncate(to: outerKeyCount)
        self.scopeStart = 0
        self.isScopeEmpty = false
        self.buffer.append(UInt8(ascii: "}"))
    }

    @usableFromInline
    mutating func touch() {
        self.isTouched = true
    }

    /// Ends a member, and leaves it out if its type wrote no value.
    @usableFromInline
    mutating func endValue() {
        self.isValueOpen = false
        guard self.isValueAwaited else { return }
        self.isValueAwaited = false
        guard !self.buffer.isOverflowing, self.keys.count > 0 else { return }
        let key = self.keys[self.keys.count - 1]
        self.keys.truncate(to: self.keys.count - 1)
        self.isScopeEmpty = self.keys.count == self.scopeStart
        self.buffer.truncate(to: self.isScopeEmpty ? key.start : key.start - 1)
        self.repairs.nonFinite += 1
    }

    /// Writes the key; returns `false` without writing if the event already has it or the value cannot be written.
    @usableFromInline
    mutating func begin(_ key: String, isFinite: Bool) -> Bool {
        guard self.admitsMember(isFinite: isFinite) else { return false }
        let start = self.beginMember()
        self.buffer.appendString(key)
        return self.endKey(start)
    }

    @usableFromInline
    mutating func begin(_ key: StaticString, isFinite: Bool) -> Bool {
        guard self.admitsMember(isFinite: isFinite) else { return false }
        let start = self.beginMember()
        self.buffer.appendString(UnsafeBufferPointer(start: key.utf8Start, count: key.utf8CodeUnitCount))
        return self.endKey(start)
    }

    /// Whether a member is allowed here, outside of a value, and can be written; counts a repair if not.
    @inline(__always)
    private mutating func admitsMember(isFinite: Bool) -> Bool {
        self.isTouched = true
        if isFinite, !self.isValueOpen { return true }
        if isFinite { self.repairs.nested += 1 } else { self.repairs.nonFinite += 1 }
        return false
    }

    /// Separates the member from the previous one; returns its start, to which a refused key is truncated.
    @inline(__always)
    private mutating func beginMember() -> Int {
        let start = self.buffer.count
        if !self.isScopeEmpty { self.buffer.append(UInt8(ascii: ",")) }
        return start
    }

    private mutating func endKey(_ start: Int) -> Bool {
        guard !self.buffer.isOverflowing else { return false }
        let keyStart = self.isScopeEmpty ? start : start + 1
        let text = UnsafeBufferPointer(rebasing: self.buffer.bytes[keyStart...])
        let key = FieldKey(hash: Self.hash(text), start: keyStart, byteCount: text.count)
        if self.hasKey(key.hash, text, from: self.scopeStart) {
            self.repairs.duplicate += 1
            self.buffer.truncate(to: start)
            return false
        }
        self.keys.append(key)
        self.isScopeEmpty = false
        self.isValueOpen = true
        self.isValueAwaited = true
        self.buffer.append(UInt8(ascii: ":"))
        return true
    }

    @inline(__always)
    private func hasKey(_ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Bool {
        var index = start
        while index < self.keys.count {
            if self.isEqual(self.keys[index], hash, text) { return true }
            index &+= 1
        }
        return false
    }

    @inline(__always)
    private func isEqual(_ key: FieldKey, _ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard key.hash == hash, key.byteCount == text.count else { return false }
        return self.buffer.bytes[key.start..<key.start + key.byteCount].elementsEqual(text)
    }

    /// A hash that rules out nearly all pairs of keys before their bytes are compared; eight bytes per step, the last
    /// from the end.
    ///
    /// The high bits of a product depend on all bits of its factors, the low ones do not, so each step folds the high
    /// bits back.
    @inline(__always)
    private static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt32 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        func mix(_ word: UInt64) {
            hash = (hash ^ word) &* 0x9E37_79B9_7F4A_7C15
            hash ^= hash >> 32
        }
        if let base = bytes.baseAddress, bytes.count >= 8 {
            let last = UnsafeRawPointer(base) + (bytes.count &- 8)
            var next = UnsafeRawPointer(base)
            while next < last {
                mix(next.loadUnaligned(as: UInt64.self))
                next += 8
            }
            mix(last.loadUnaligned(as: UInt64.self))
        } else {
            for byte in bytes { mix(UInt64(byte)) }
        }
        return UInt32(truncatingIfNeeded: hash)
    }

    /// Writes the value for the current key; a second value, or one in the wrong place, is left out.
    @inline(__always)
    mutating func putValue(_ write: (inout LineBuffer) -> Void) {
        if self.admitsValue() { write(&self.buffer) }
    }

    @inline(__always)
    private mutating func admitsValue() -> Bool {
        guard self.isValueAwaited else {
            self.repairs.nested += 1
            return false
        }
        self.isValueAwaited = false
        return true
    }

    /// Writes a list as the value for the current key; elements that write nothing are left out.
    mutating func putList(_ elements: some Sequence<some ScalarFieldValue>) {
        guard self.admitsValue() else { return }
        self.buffer.append(UInt8(ascii: "["))
        var isFirst = true
        for element in elements {
            let start = self.buffer.count
            if !isFirst { self.buffer.append(UInt8(ascii: ",")) }
            self.isValueAwaited = true
            element.append(to: &self)
            if self.isValueAwaited {
                self.isValueAwaited = false
                self.buffer.truncate(to: start)
                self.repairs.nonFinite += 1
            } else {
                isFirst = false
            }
        }
        self.buffer.append(UInt8(ascii: "]"))
    }

    /// The number of fields.
    var count: Int { self.keys.count }

    /// Copies the fields of `other` from index `start` on, except those that already exist.
    mutating func add(_ other: borrowing Fields, from start: Int) {
        guard !other.buffer.isOverflowing else { return }
        self.hasObjects = self.hasObjects || other.hasObjects
        for index in start..<other.keys.count {
            let key = other.keys[index]
            let text = other.text(key.start..<key.start + key.byteCount)
            guard !self.contains(key.hash, text) else { continue }
            if !self.isScopeEmpty { self.buffer.append(UInt8(ascii: ",")) }
            self.keys.append(FieldKey(hash: key.hash, start: self.buffer.count, byteCount: key.byteCount))
            self.buffer.append(other.text(key.start..<other.value(at: index).upperBound))
            self.isScopeEmpty = false
        }
    }

    /// Appends the members whose keys are not in `winners` to `line`, each after a comma unless `isFirst`.
    package func appendMembers(to line: inout LineBuffer, without winners: borrowing Fields) {
        var needsComma = !winners.isEmpty
        for index in 0..<self.keys.count {
            let key = self.keys[index]
            let text = UnsafeBufferPointer(rebasing: self.buffer.bytes[key.start..<key.start + key.byteCount])
            if winners.contains(key.hash, text) { continue }
            let end = index + 1 < self.keys.count ? self.keys[index + 1].start - 1 : self.buffer.count
            if needsComma { line.append(UInt8(ascii: ",")) }
            needsComma = true
            line.append(self.buffer, key.start..<end)
        }
    }

    // MARK: Filters

    /// The fields' names, in order.
    var names: [String] {
        guard !self.buffer.isOverflowing else { return [] }
        return (0..<self.keys.count).map { index in
            let key = self.keys[index]
            return JSONText.string(UnsafeRawBufferPointer(self.text(key.start + 1..<key.start + key.byteCount - 1)))
        }
    }

    func json(of name: String) -> String? {
        self.index(of: name).map { String(decoding: self.text(self.value(at: $0)), as: UTF8.self) }
    }

    mutating func remove(_ name: String) {
        if let index = self.index(of: name) {
            let start = self.keys[index].start
            let end = index + 1 < self.keys.count ? self.keys[index + 1].start : self.buffer.count
            // The comma before the last member is removed with it.
            let isLast = index + 1 == self.keys.count
            self.replace((isLast && index > 0 ? start - 1 : start)..<end, with: [])
            self.keys.remove(at: index)
            self.isScopeEmpty = self.keys.count == 0
        }
        self.editObjects(name) { _ in nil }
    }

    /// Replaces a value with the hash of its text, for a string without quotes and escapes; `null` is kept.
    mutating func hash(_ name: String) {
        let salt = self.salt
        func hashed(_ value: UnsafeBufferPointer<UInt8>) -> [UInt8] {
            if value.elementsEqual("null".utf8) { return Array(value) }
            let isString = value.first == UInt8(ascii: "\"")
            let inside = isString ? UnsafeBufferPointer(rebasing: value[1..<value.count - 1]) : value
            let plain =
                isString ? JSONText.string(UnsafeRawBufferPointer(inside)) : String(decoding: inside, as: UTF8.self)
            return Array("\"\(salt?.hash(plain.utf8) ?? "private")\"".utf8)
        }
        if let index = self.index(of: name) {
            let range = self.value(at: index)
            self.replace(range, with: hashed(self.text(range)))
        }
        self.editObjects(name, hashed)
    }

    /// Changes the members with that name in nested objects; `nil` removes a member.
    private mutating func editObjects(_ name: String, _ edit: (UnsafeBufferPointer<UInt8>) -> [UInt8]?) {
        guard self.hasObjects, !self.buffer.isOverflowing else { return }
        for index in 0..<self.keys.count {
            let range = self.value(at: index)
            let value = self.text(range)
            guard value.first == UInt8(ascii: "{") || value.first == UInt8(ascii: "[") else { continue }
            self.replace(range, with: ObjectEditor.edit(Array(value), name, edit))
            guard !self.buffer.isOverflowing else { return }
        }
    }

    private func index(of name: String) -> Int? {
        guard !self.buffer.isOverflowing else { return nil }
        var key = LineBuffer(capacity: 64)
        key.appendString(name)
        let hash = Self.hash(key.bytes)
        return (0..<self.keys.count).first { self.isEqual(self.keys[$0], hash, key.bytes) }
    }

    private func value(at index: Int) -> Range<Int> {
        let key = self.keys[index]
        let end = index + 1 < self.keys.count ? self.keys[index + 1].start - 1 : self.buffer.count
        return key.start + key.byteCount + 1..<end
    }

    private func text(_ range: Range<Int>) -> UnsafeBufferPointer<UInt8> {
        UnsafeBufferPointer(rebasing: self.buffer.bytes[range])
    }

    private mutating func replace(_ range: Range<Int>, with bytes: [UInt8]) {
        let rest = Array(self.buffer.bytes[range.upperBound...])
        self.buffer.truncate(to: range.lowerBound)
        bytes.withUnsafeBufferPointer { self.buffer.append($0) }
        rest.withUnsafeBufferPointer { self.buffer.append($0) }
        for index in 0..<self.keys.count where self.keys[index].start >= range.upperBound {
            self.keys[index].start += bytes.count - range.count
        }
    }

    private func contains(_ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        self.hasKey(hash, text, from: 0)
    }
}

/// Changes members of objects in a value.
private enum ObjectEditor {
    /// - Parameter value: JSON that the client wrote: an object or a list.
    static func edit(
        _ value: [UInt8], _ name: String, _ change: (UnsafeBufferPointer<UInt8>) -> [UInt8]?
    ) -> [UInt8] {
        let wrapped = Array("{\"v\":".utf8) + value + Array("}".utf8)
        return wrapped.withUnsafeBytes { bytes in
            var tape = JSONTape()
            do throws(JSONError) {
                try tape.parse(bytes)
            } catch {
                preconditionFailure("the client wrote a value that is not JSON: \(error)")
            }
            var output: [UInt8] = []
            Self.write(2, of: tape, name, change, into: &output)
            return output
        }
    }

    private static func write(
        _ index: Int, of tape: borrowing JSONTape, _ name: String,
        _ change: (UnsafeBufferPointer<UInt8>) -> [UInt8]?, into output: inout [UInt8]
    ) {
        switch tape[index].kind {
        case .object:
            output.append(UInt8(ascii: "{"))
            var members = tape.members(of: index)
            var isFirst = true
            while let (key, value) = members.next(in: tape) {
                var changed: [UInt8]?
                if JSONText.string(tape.bytes(of: key)) == name {
                    changed = Self.text(of: value, tape).withUnsafeBufferPointer(change)
                    if changed == nil { continue }
                }
                if !isFirst { output.append(UInt8(ascii: ",")) }
                isFirst = false
                output += Self.text(of: key, tape) + [UInt8(ascii: ":")]
                if let changed {
                    output += changed
                } else {
                    Self.write(value, of: tape, name, change, into: &output)
                }
            }
            output.append(UInt8(ascii: "}"))
        case .array:
            output.append(UInt8(ascii: "["))
            var element = index + 1
            while element < Int(tape[index].next) {
                if element > index + 1 { output.append(UInt8(ascii: ",")) }
                Self.write(element, of: tape, name, change, into: &output)
                element = Int(tape[element].next)
            }
            output.append(UInt8(ascii: "]"))
        case .string, .number, .true, .false, .null:
            output += Self.text(of: index, tape)
        }
    }

    /// The value as written, with quotes if it is a string.
    private static func text(of index: Int, _ tape: borrowing JSONTape) -> [UInt8] {
        let bytes = Array(tape.bytes(of: index))
        guard tape[index].kind == .string else { return bytes }
        return [UInt8(ascii: "\"")] + bytes + [UInt8(ascii: "\"")]
    }
}
