/// JSON as Waybill needs it: one object on one line, checked whole, kept in order, never rebuilt from values.
///
/// Constraints, in numbers:
/// - an event has 250 to 600 bytes and 20 to 40 members; a foreign line has up to 1 MiB;
/// - every archived line is scanned once (goal 1.2 GB/s a core), every exported one is parsed once more into a tape
///   and written once (goal 250 MB/s a core for all of it);
/// - nothing is allocated per line once the buffers have grown to the longest line seen.
///
/// The life of one line: ``JSONScanner`` checks the full grammar (RFC 8259), strict UTF-8 (RFC 3629) and the depth, and
/// reports where each top-level member lies. Whoever maps the line parses it into a ``JSONTape``, a flat list of
/// positions in document order, and copies slices of it through a ``JSONWriter``. Numbers stay text from end to end:
/// a `Double` in between would change `1.10`, `1e400` and integers beyond 2^53.
///
/// Why no dictionary, no enum of values: both allocate per member, and a dictionary loses the order that apps gave to
/// their fields.

/// What kind of value stands at a place.
@usableFromInline
package enum JSONKind: UInt8, Hashable, Sendable {
    case null
    case `false`
    case `true`
    case number
    case string
    case array
    case object
}

/// What a reader of a string has to know before it copies the bytes.
@usableFromInline
package struct JSONStringTraits: OptionSet, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// At least one backslash escape: the bytes are not the text.
    @inlinable package static var hasEscapes: JSONStringTraits { JSONStringTraits(rawValue: 1) }
    /// At least one byte above 0x7F: bytes, UTF-16 units and characters are three different counts.
    @inlinable package static var hasNonASCII: JSONStringTraits { JSONStringTraits(rawValue: 2) }
}

/// Limits of what is read; both hold for scanner and tape.
@usableFromInline
package enum JSONLimits {
    /// Containers inside each other, the outermost included.
    @inlinable package static var depthMax: Int { 64 }
    /// Positions are kept in 32 bits.
    @inlinable package static var byteCountMax: Int { Int(UInt32.max >> 1) }
}

/// Why bytes are not one JSON object, and where that shows.
@usableFromInline
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// A closed set; its text is a metric label and holds no input.
    @usableFromInline
    package enum Code: String, Hashable, Sendable, CaseIterable {
        case empty
        case notObject = "not-object"
        case truncated
        case trailingBytes = "trailing-bytes"
        case expectedKey = "expected-key"
        case expectedColon = "expected-colon"
        case expectedValue = "expected-value"
        case expectedCommaOrEnd = "expected-comma-or-end"
        case badNumber = "bad-number"
        case badEscape = "bad-escape"
        case controlCharacter = "control-character"
        case badUTF8 = "bad-utf8"
        case tooDeep = "too-deep"
        case tooLong = "too-long"
    }

    @usableFromInline package let code: Code
    /// The first byte that cannot be right.
    @usableFromInline package let offset: Int

    @inlinable
    package init(_ code: Code, at offset: Int) {
        self.code = code
        self.offset = offset
    }

    @usableFromInline package var description: String {
        "not one JSON object: \(self.code.rawValue) at byte \(self.offset); write one complete object on each line"
    }
}
