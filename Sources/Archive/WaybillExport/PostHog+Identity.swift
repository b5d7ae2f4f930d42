internal import WaybillJSON
internal import WaybillSystem

/// Distinct ids that PostHog refuses to make a person of (repository PostHog/posthog.com, docs/data/identify.mdx).
///
/// Other ids that look like mistakes are valid there. A blank one makes the server refuse the whole batch.
extension PostHog {
    /// In any case of their letters.
    private static let illegalWords: [StaticString] = [
        "anonymous", "guest", "distinctid", "distinct_id", "id", "not_authenticated", "email", "undefined", "true",
        "false",
    ]
    private static let illegalTexts: [StaticString] = ["[object Object]", "NaN", "None", "none", "null", "0"]
    /// The longest of both with two quotes.
    private static let illegalByteCountMax = 19

    /// Whether PostHog refuses the text as an id: blank, or one of the illegal ones, also in quotes.
    static func isIllegal(_ id: TextSlice, in draft: inout Draft) -> Bool {
        draft.unescape(id)
        let text = draft.text.bytes
        var body = text[Self.trimmedRange(of: text)]
        guard body.count <= Self.illegalByteCountMax else { return false }
        if body.isEmpty { return true }
        if body.count > 2, let quote = body.first, quote == body.last,
            quote == UInt8(ascii: "\"") || quote == UInt8(ascii: "'")
        {
            body = body.dropFirst().dropLast()
        }
        return Self.illegalTexts.contains { Self.equals(body, $0) }
            || Self.illegalWords.contains { Self.equals(body, $0, ignoresCase: true) }
    }

    private static func equals(
        _ body: Slice<UnsafeRawBufferPointer>, _ text: StaticString, ignoresCase: Bool = false
    ) -> Bool {
        guard body.count == text.utf8CodeUnitCount else { return false }
        for (index, byte) in body.enumerated() {
            let letter = ignoresCase && 0x41...0x5A ~= byte ? byte | 0x20 : byte
            guard letter == text.utf8Start[index] else { return false }
        }
        return true
    }

    /// The range without white space at both ends.
    private static func trimmedRange(of text: UnsafeRawBufferPointer) -> Range<Int> {
        if let first = text.first, let last = text.last, 0x21...0x7E ~= first, 0x21...0x7E ~= last {
            return 0..<text.count
        }
        let scalars = String(decoding: text, as: UTF8.self).unicodeScalars
        let blank = scalars.prefix(while: Self.isBlank)
        guard blank.endIndex != scalars.endIndex else { return 0..<0 }
        var end = text.count
        for scalar in scalars.reversed() {
            guard Self.isBlank(scalar) else { break }
            end -= UTF8.width(scalar)
        }
        return blank.reduce(0) { $0 + UTF8.width($1) }..<end
    }

    /// White space, and the byte order mark, which PostHog's servers in JavaScript trim as well.
    private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
        scalar.properties.isWhitespace || scalar == "\u{FEFF}"
    }
}
