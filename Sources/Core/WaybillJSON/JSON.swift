/// JSON as Waybill needs it: one object per line, fully checked, kept in order, never rebuilt from values.
///
/// Constraints:
/// - an event has 250 to 600 bytes and 20 to 40 members; a foreign line has up to 1 MiB;
/// - every archived line is scanned once (goal: 1.2 GB/s per core), every exported one is also parsed into a tape and
///   written once (goal: 250 MB/s per core for all of it);
/// - no allocation per line once the buffers have grown to the longest line seen.
///
/// The life of one line: ``JSONScanner`` checks the full grammar (RFC 8259), strict UTF-8 (RFC 3629) and the depth, and
/// reports where each top-level member is. Exporters parse the line into a ``JSONTape``, a flat list of positions in
/// document order, and copy slices of it with a ``JSONWriter``. Numbers stay text from end to end: a `Double` in
/// between would change `1.10`, `1e400` and integers above 2^53.
///
/// Why not a dictionary or an enum of values: both allocate per member, and a dictionary loses the order of an app's
/// fields.

/// The kind of a JSON value.
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

/// Properties of a string that a reader needs to know before it copies the bytes.
@usableFromInline
package struct JSONStringTraits: OptionSet, Hashable, Sendable {
    @usableFromInline package let rawValue: UInt8

    @inlinable
    package init(rawValue: UInt8) {
        self.rawValue = rawValue
    }

    /// The string has an escape, so its bytes are not its text.
    @inlinable package static var hasEscapes: JSONStringTraits { JSONStringTraits(rawValue: 1) }
    /// The string has a byte above 0x7F, so its counts of bytes, UTF-16 units and characters differ.
    @inlinable package static var hasNonASCII: JSONStringTraits { JSONStringTraits(rawValue: 2) }
}

/// Limits on input; both apply to scanner and tape.
@usableFromInline
package enum JSONLimits {
    /// Maximum depth of nested containers, including the outermost.
    @inlinable package static var depthMax: Int { 64 }
    /// Maximum length: positions are stored in 32 bits.
    @inlinable package static var byteCountMax: Int { Int(UInt32.max >> 1) }
}

/// Why bytes are not one JSON object, and where the error is.
@usableFromInline
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The kind of error, a closed set; its text is a metric label and never contains input.
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
    /// The position of the first wrong byte.
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
