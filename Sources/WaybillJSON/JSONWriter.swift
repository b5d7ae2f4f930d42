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

    package mutating func string(_ text: String) {
        var text = text
        text.withUTF8 { self.string(UnsafeRawBufferPointer($0)) }
    }

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
