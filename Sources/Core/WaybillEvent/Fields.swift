/// The ordered fields of an event, written directly as bytes of its line.
///
///     fields.put("product", "토스터")          "product":"토스터"
///     fields.put("price", 39_900)              ,"price":39900
///     fields.put("coupon", nil as String?)     (no field)
///
/// Fields keep the order in which they are put. A repeated key and a number that JSON cannot represent are left out and
/// counted; integers above 2^53 are written as strings.
///
/// Values come from ``FieldValue`` types, or from an `Encodable` event's own `encode(to:)`.
public struct Fields: ~Copyable {
    /// `"key":value` joined by commas, without braces.
    package internal(set) var buffer: LineBuffer
    var keys = FieldKeys()
    /// The first of `keys` that belongs to the object being written.
    private var scopeStart = 0
    var isScopeEmpty = true
    var hasObjects = false
    /// Whether a value that is not an object is being written: no fields can be put into it.
    private var isValueOpen = false
    /// Whether the value for the current key is still missing.
    private var isValueAwaited = false
    /// Whether nothing is counted if no value comes: it was `nil`, or is counted already.
    private var isValueSkipped = false
    package internal(set) var repairs = FieldRepairs()
    /// The first values that their type refused or failed to give, for a message.
    package private(set) var faults: [FieldFault] = []
    /// The last encoding of an `Encodable` event, with memory that the next one reuses.
    private var encoding: FieldEncoding?
    private var timestamp = Timestamp()
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
        self.isValueOpen = false
        self.isValueAwaited = false
        self.isValueSkipped = false
        self.repairs = FieldRepairs()
        if !self.faults.isEmpty { self.faults.removeAll(keepingCapacity: true) }
    }

    /// Adds a field; writes nothing if `value` is `nil`.
    @inlinable
    public mutating func put<Value: FieldValue>(_ key: String, _ value: Value?) {
        guard let value else { return }
        guard self.begin(key, isFinite: value.isFinite) else { return }
        value.append(to: &self)
        self.endValue()
    }

    /// Adds a field; writes nothing if `value` is `nil`.
    @inlinable
    public mutating func put<Value: FieldValue>(_ key: StaticString, _ value: Value?) {
        guard let value else { return }
        guard self.begin(key, isFinite: value.isFinite) else { return }
        value.append(to: &self)
        self.endValue()
    }

    /// Adds a number that is to be added to a trait.
    ///
    /// One that the line can only have as text, as an integer above 2^53, is left out and counted.
    package mutating func put(amount key: String, _ value: some NumberFieldValue) {
        guard self.begin(key, isFinite: value.isFinite) else { return }
        let start = self.buffer.count
        value.append(to: &self)
        let isText = start < self.buffer.count && self.buffer.bytes[start] == UInt8(ascii: "\"")
        self.endValue()
        guard isText else { return }
        self.dropMember()
        self.repairs.nonFinite += 1
    }

    /// Adds a field with the raw value of an enumeration; writes nothing if `value` is `nil`.
    ///
    /// A type that is itself a ``FieldValue`` can also stand in lists and dictionaries: `enum Method: String, FieldValue`.
    @_disfavoredOverload
    @inlinable
    public mutating func put<Value: RawRepresentable>(
        _ key: String, _ value: Value?
    ) where Value.RawValue: ScalarFieldValue {
        self.put(key, value?.rawValue)
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
        guard self.admitsObjects(), self.begin(key, isFinite: true) else { return }
        self.putObject(body)
        self.endValue()
    }

    /// Adds a field whose value is a list of flat objects, one for each of `elements`.
    public mutating func put<Element>(
        _ key: String, objects elements: some Sequence<Element>, _ body: (inout Fields, Element) -> Void
    ) {
        guard self.admitsObjects(), self.begin(key, isFinite: true), self.openList() else { return }
        var isFirst = true
        for element in elements {
            _ = self.beginElement(isFirst: isFirst)
            isFirst = false
            self.putObject { fields in body(&fields, element) }
        }
        self.closeList()
        self.endValue()
    }

    private mutating func admitsObjects() -> Bool {
        if self.scopeStart == 0 { return true }
        self.repairs.nested += 1
        return false
    }

    private mutating func putObject(_ body: (inout Fields) -> Void) {
        guard let outerKeyCount = self.openObject() else { return }
        body(&self)
        self.closeObject(outerKeyCount)
    }

    /// Ends a member, and leaves it out if its type wrote no value.
    @usableFromInline
    mutating func endValue() {
        self.isValueOpen = false
        guard self.isValueAwaited else { return }
        self.isValueAwaited = false
        self.dropMember()
        self.countMissing()
    }

    /// Removes the last member, whose value is missing or incomplete.
    private mutating func dropMember() {
        guard !self.buffer.isOverflowing, self.keys.count > self.scopeStart else { return }
        let key = self.keys[self.keys.count - 1]
        self.keys.truncate(to: self.keys.count - 1)
        self.isScopeEmpty = self.keys.count == self.scopeStart
        self.buffer.truncate(to: self.isScopeEmpty ? key.start : key.start - 1)
    }

    private mutating func countMissing() {
        if self.isValueSkipped {
            self.isValueSkipped = false
        } else {
            self.repairs.nonFinite += 1
        }
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
        let text = self.buffer[keyStart..<self.buffer.count]
        let key = FieldKey(hash: Self.hash(text), start: keyStart, byteCount: text.count)
        if self.hasKey(key.hash, text, from: self.scopeStart) {
            self.repairs.duplicate += 1
            self.buffer.truncate(to: start)
            return false
        }
        self.buffer.append(UInt8(ascii: ":"))
        guard !self.buffer.isOverflowing else { return false }
        self.keys.append(key)
        self.isScopeEmpty = false
        self.isValueOpen = true
        self.isValueAwaited = true
        self.isValueSkipped = false
        return true
    }

    @inline(__always)
    func hasKey(_ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>, from start: Int) -> Bool {
        var index = start
        while index < self.keys.count {
            if self.isEqual(self.keys[index], hash, text) { return true }
            index &+= 1
        }
        return false
    }

    @inline(__always)
    func isEqual(_ key: FieldKey, _ hash: UInt32, _ text: UnsafeBufferPointer<UInt8>) -> Bool {
        guard key.hash == hash, key.byteCount == text.count else { return false }
        return self.buffer[key.range].elementsEqual(text)
    }

    /// A hash that rules out nearly all pairs of keys before their bytes are compared; eight bytes per step, the last
    /// from the end.
    ///
    /// The high bits of a product depend on all bits of its factors, the low ones do not, so each step folds the high
    /// bits back.
    @inline(__always)
    static func hash(_ bytes: UnsafeBufferPointer<UInt8>) -> UInt32 {
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
}

// MARK: Values

extension Fields {
    /// Writes the value for the current key; a second value, or one in the wrong place, is left out.
    @inline(__always)
    package mutating func putValue(_ write: (inout LineBuffer) -> Void) {
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

    /// Writes a time as the value for the current key, in the form of an event's `ts`.
    package mutating func putTime(_ milliseconds: Int64) {
        guard self.admitsValue() else { return }
        self.buffer.append(UInt8(ascii: "\""))
        self.timestamp.append(exactly: milliseconds, to: &self.buffer)
        self.buffer.append(UInt8(ascii: "\""))
    }

    /// Writes a number as the value for the current key, in the digits of a text that is a JSON number.
    package mutating func putNumber(_ digits: String) {
        var digits = digits
        digits.withUTF8 { bytes in self.putValue { $0.append(bytes) } }
    }

    /// Leaves the value for the current key out, without counting it.
    mutating func skipValue() {
        if self.isValueAwaited { self.isValueSkipped = true }
    }

    /// Leaves the value for the current key out, because an object or a list cannot stand there.
    mutating func refuseNesting() {
        self.skipValue()
        self.repairs.nested += 1
    }

    /// Leaves the value for the current key out, because its type has no form in an event.
    mutating func refuseValue(_ fault: FieldFault) {
        self.skipValue()
        self.repairs.refused += 1
        self.report(fault)
    }

    /// Removes the member or element whose value an app's code failed to write.
    mutating func abandonMember(_ fault: FieldFault) {
        self.isValueOpen = false
        self.isValueAwaited = false
        self.dropMember()
        self.fail(fault)
    }

    /// Removes the element from index `start` on, whose value an app's code failed to write.
    mutating func abandonElement(_ start: Int, _ fault: FieldFault) {
        self.isValueAwaited = false
        self.buffer.truncate(to: min(start, self.buffer.count))
        self.fail(fault)
    }

    mutating func fail(_ fault: FieldFault) {
        self.repairs.failed += 1
        self.report(fault)
    }

    mutating func report(_ fault: FieldFault) {
        if self.faults.count < Self.faultCountMax { self.faults.append(fault) }
    }

    /// More faults of one event are counted only.
    private static var faultCountMax: Int { 4 }

    /// Begins an object as the awaited value; returns what ``closeObject(_:)`` needs, or `nil` where none can stand.
    mutating func openObject() -> Int? {
        guard self.isValueAwaited, self.scopeStart == 0 else {
            self.refuseNesting()
            return nil
        }
        let outerKeyCount = self.keys.count
        self.buffer.append(UInt8(ascii: "{"))
        self.scopeStart = outerKeyCount
        self.isScopeEmpty = true
        self.hasObjects = true
        self.isValueOpen = false
        self.isValueAwaited = false
        return outerKeyCount
    }

    mutating func closeObject(_ outerKeyCount: Int) {
        self.keys.truncate(to: outerKeyCount)
        self.scopeStart = 0
        self.isScopeEmpty = false
        self.isValueOpen = true
        self.isValueAwaited = false
        self.buffer.append(UInt8(ascii: "}"))
    }

    /// Begins a list as the awaited value; returns `false` if none is awaited.
    mutating func openList() -> Bool {
        guard self.admitsValue() else { return false }
        self.buffer.append(UInt8(ascii: "["))
        return true
    }

    mutating func closeList() {
        self.buffer.append(UInt8(ascii: "]"))
    }

    /// Awaits the next element of a list; returns the start of its bytes.
    mutating func beginElement(isFirst: Bool) -> Int {
        let start = self.buffer.count
        if !isFirst { self.buffer.append(UInt8(ascii: ",")) }
        self.isValueAwaited = true
        self.isValueSkipped = false
        return start
    }

    /// Ends an element; returns `false` if it was left out because its type wrote no value.
    mutating func endElement(_ start: Int) -> Bool {
        guard self.isValueAwaited else { return true }
        self.isValueAwaited = false
        self.buffer.truncate(to: start)
        self.countMissing()
        return false
    }

    /// Writes a list as the value for the current key; elements that write nothing are left out.
    mutating func putList(_ elements: some Sequence<some ScalarFieldValue>) {
        guard self.openList() else { return }
        var isFirst = true
        for element in elements {
            let start = self.beginElement(isFirst: isFirst)
            element.append(to: &self)
            if self.endElement(start) { isFirst = false }
        }
        self.closeList()
    }

    /// Writes an object as the value for the current key, its members sorted by their names.
    mutating func putObject(_ members: [String: some FieldValue]) {
        guard let outerKeyCount = self.openObject() else { return }
        for (key, value) in members.sorted(by: { $0.key < $1.key }) { self.put(key, value) }
        self.closeObject(outerKeyCount)
    }
}

// MARK: Encodable

extension Fields {
    /// Adds the members that an event's `encode(to:)` writes, except its name (``FieldEncoding``).
    mutating func encode(_ event: some Encodable, named name: String) {
        let encoding = self.encoding ?? FieldEncoding()
        self.encoding = encoding
        withUnsafeMutablePointer(to: &self) { encoding.run(event, named: name, into: $0) }
    }

    /// Counts an event that stores no fields although its type has properties for them.
    package mutating func checkFieldless(_ event: some FieldlessEvent) {
        let names = Mirror(reflecting: event).children.compactMap(\.label).filter { $0 != "name" && $0 != "screen" }
        guard !names.isEmpty else { return }
        self.repairs.forgotten += 1
        self.report(
            FieldFault(
                field: names.joined(separator: ", "), type: String(reflecting: type(of: event)),
                remedy: "a FieldlessEvent stores no fields: conform to Encodable instead, or declare encode(into:)"))
    }
}
