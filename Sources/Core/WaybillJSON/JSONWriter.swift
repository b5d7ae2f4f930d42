/// Writes JSON into a reused buffer and inserts commas.
///
///     writer.beginObject()
///     writer.key("name"); writer.string(bytes)
///     writer.key("price"); writer.verbatim(numberText)
///     writer.endObject()
///
/// It does not check that keys and values alternate; golden files check the output of its callers.
@usableFromInline
package struct JSONWriter: ~Copyable {
    /// The output; callers may append finished JSON to it and truncate it.
    @usableFromInline package var output: ByteBuilder
    /// Whether the next key or value follows another one in the same container.
    @usableFromInline package var needsComma = false

    package init(capacity: Int = 4096) {
        self.output = ByteBuilder(capacity: capacity)
    }

    package mutating func removeAll() {
        self.output.removeAll()
        self.needsComma = false
    }

    /// A position in the output to return to.
    @usableFromInline
    package struct Mark: Sendable {
        @usableFromInline package let byteCount: Int
        @usableFromInline let needsComma: Bool

        @inlinable
        init(byteCount: Int, needsComma: Bool) {
            self.byteCount = byteCount
            self.needsComma = needsComma
        }
    }

    @inlinable
    package var mark: Mark {
        Mark(byteCount: self.output.count, needsComma: self.needsComma)
    }

    /// Removes what was written since `mark`.
    @inlinable
    package mutating func rewind(to mark: Mark) {
        self.output.truncate(to: mark.byteCount)
        self.needsComma = mark.needsComma
    }

    @inlinable
    @inline(__always)
    mutating func separate() {
        if self.needsComma { self.output.append(UInt8(ascii: ",")) }
        self.needsComma = true
    }

    @inlinable
    @inline(__always)
    mutating func begin(_ bracket: UInt8) {
        self.separate()
        self.output.append(bracket)
        self.needsComma = false
    }

    @inlinable
    @inline(__always)
    mutating func end(_ bracket: UInt8) {
        self.output.append(bracket)
        self.needsComma = true
    }

    @inlinable
    package mutating func beginObject() {
        self.begin(UInt8(ascii: "{"))
    }

    @inlinable
    package mutating func endObject() {
        self.end(UInt8(ascii: "}"))
    }

    @inlinable
    package mutating func beginArray() {
        self.begin(UInt8(ascii: "["))
    }

    @inlinable
    package mutating func endArray() {
        self.end(UInt8(ascii: "]"))
    }

    /// Writes a key that needs no escapes.
    @inlinable
    @inline(__always)
    package mutating func key(_ name: StaticString) {
        self.key(plain: UnsafeRawBufferPointer(start: name.utf8Start, count: name.utf8CodeUnitCount))
    }

    /// Writes a key whose bytes are already a string's body.
    @inlinable
    @inline(__always)
    package mutating func key(plain body: UnsafeRawBufferPointer) {
        self.output.reserve(body.count &+ 4)
        self.string(plain: body)
        self.output.append(UInt8(ascii: ":"))
        self.needsComma = false
    }

    /// Writes a key, with escapes where needed.
    @inlinable
    package mutating func key(_ name: UnsafeRawBufferPointer) {
        self.string(name)
        self.output.append(UInt8(ascii: ":"))
        self.needsComma = false
    }

    /// Writes a key, with escapes where needed.
    package mutating func key(text name: String) {
        var name = name
        name.withUTF8 { self.key(UnsafeRawBufferPointer($0)) }
    }

    /// Writes UTF-8 text as a string, with escapes where needed.
    @inlinable
    package mutating func string(_ text: UnsafeRawBufferPointer) {
        self.separate()
        self.output.append(UInt8(ascii: "\""))
        JSONText.escape(text, into: &self.output)
        self.output.append(UInt8(ascii: "\""))
    }

    /// Writes a string made of a prefix that needs no escapes and text that may need them.
    package mutating func string(prefix: StaticString, _ text: UnsafeRawBufferPointer) {
        self.separate()
        self.output.append(UInt8(ascii: "\""))
        self.output.append(prefix)
        JSONText.escape(text, into: &self.output)
        self.output.append(UInt8(ascii: "\""))
    }

    /// Writes a string whose bytes are already a string's body.
    @inlinable
    @inline(__always)
    package mutating func string(plain body: UnsafeRawBufferPointer) {
        self.separate()
        self.output.append(UInt8(ascii: "\""))
        self.output.append(body)
        self.output.append(UInt8(ascii: "\""))
    }

    @inlinable
    package mutating func string(_ text: StaticString) {
        self.string(UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount))
    }

    @usableFromInline
    package mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { self.string(UnsafeRawBufferPointer($0)) }
    }

    @usableFromInline
    package mutating func integer(_ value: Int64) {
        self.separate()
        self.output.append(decimal: value)
    }

    /// Writes an integer as a string.
    package mutating func quotedInteger(_ value: UInt64) {
        self.separate()
        self.output.append(UInt8(ascii: "\""))
        self.output.append(decimal: value)
        self.output.append(UInt8(ascii: "\""))
    }

    /// Writes a finished value: a number as it was read, `true`, or a whole object.
    @inlinable
    @inline(__always)
    package mutating func verbatim(_ json: UnsafeRawBufferPointer) {
        self.separate()
        self.output.append(json)
    }

    @inlinable
    package mutating func verbatim(_ json: StaticString) {
        self.separate()
        self.output.append(json)
    }

    @inlinable
    package mutating func null() {
        self.verbatim("null")
    }

    @inlinable
    package mutating func bool(_ value: Bool) {
        self.verbatim(value ? "true" : "false")
    }
}

/// A key and its value.
extension JSONWriter {
    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ text: UnsafeRawBufferPointer) {
        self.key(name)
        self.string(text)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, plain body: UnsafeRawBufferPointer) {
        self.key(name)
        self.string(plain: body)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ text: StaticString) {
        self.key(name)
        self.string(text)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ text: String) {
        self.key(name)
        self.string(text)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ value: Int64) {
        self.key(name)
        self.integer(value)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ value: Int) {
        self.key(name)
        self.integer(Int64(value))
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, _ value: Bool) {
        self.key(name)
        self.bool(value)
    }

    /// Writes a finished value: a number as it was read, `true`, a whole object.
    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, verbatim json: UnsafeRawBufferPointer) {
        self.key(name)
        self.verbatim(json)
    }

    @inlinable
    @inline(__always)
    package mutating func member(_ name: StaticString, verbatim json: StaticString) {
        self.key(name)
        self.verbatim(json)
    }

    /// Writes a text, or `null`.
    package mutating func member(_ name: StaticString, _ text: String?) {
        self.key(name)
        if let text { self.string(text) } else { self.null() }
    }

    /// Writes a number, or `null`.
    package mutating func member(_ name: StaticString, _ value: Int?) {
        self.key(name)
        if let value { self.integer(Int64(value)) } else { self.null() }
    }

    /// Writes counts as an object, sorted by name.
    package mutating func member(_ name: StaticString, _ counts: [String: Int]) {
        self.key(name)
        self.beginObject()
        for (name, count) in counts.sorted(by: { $0.key < $1.key }) {
            self.key(text: name)
            self.integer(Int64(count))
        }
        self.endObject()
    }

    /// Writes counts as an object, sorted by name.
    package mutating func member<Key: RawRepresentable<String> & Hashable>(_ name: StaticString, _ counts: [Key: Int]) {
        self.member(name, Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) }))
    }

    /// Writes an array.
    package mutating func member<Element>(
        _ name: StaticString, array elements: some Sequence<Element>, _ write: (inout JSONWriter, Element) -> Void
    ) {
        self.key(name)
        self.beginArray()
        for element in elements { write(&self, element) }
        self.endArray()
    }

    /// Writes an array of objects.
    ///
    /// - Parameter write: the members of one.
    package mutating func member<Element>(
        _ name: StaticString, objects elements: some Sequence<Element>, _ write: (inout JSONWriter, Element) -> Void
    ) {
        self.member(name, array: elements) { json, element in
            json.beginObject()
            write(&json, element)
            json.endObject()
        }
    }

    /// Writes an object.
    package mutating func member(_ name: StaticString, _ write: (inout JSONWriter) -> Void) {
        self.key(name)
        self.beginObject()
        write(&self)
        self.endObject()
    }

    /// One object as bytes.
    package static func object(_ write: (inout JSONWriter) -> Void) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        write(&json)
        json.endObject()
        return Array(json.output.bytes)
    }

    /// One object as text.
    package static func text(_ write: (inout JSONWriter) -> Void) -> String {
        String(decoding: Self.object(write), as: UTF8.self)
    }
}
