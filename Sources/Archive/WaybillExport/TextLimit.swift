/// The unit in which a provider limits the length of text.
package enum LengthUnit {
    case bytes
    /// For providers that document "characters".
    case utf16
}

/// Cuts text to a provider's limit, never inside a user-perceived character.
enum TextLimit {
    /// How many bytes of `text` to keep so that at most `limit` units are left; all bytes if the text fits.
    ///
    /// - Parameter text: well-formed UTF-8.
    static func keptByteCount(of text: UnsafeRawBufferPointer, limit: Int, unit: LengthUnit) -> Int {
        if text.count <= limit { return text.count }
        // A unit of UTF-16 has at most three bytes of UTF-8. The end of the last character that fits depends only on
        // the text up to one unit more than the limit and the whole scalar of that unit: a break depends on nothing
        // after that scalar.
        let reach = unit == .bytes ? limit + 4 : limit * 3 + 8
        var end = min(text.count, reach)
        while end < text.count, text[end] & 0xC0 == 0x80 { end += 1 }
        let head = UnsafeRawBufferPointer(rebasing: text[..<end])
        if head.allSatisfy({ $0 < 0x80 }) { return Self.keptASCII(head, limit: limit) }
        if unit == .utf16, end == text.count, Self.utf16Count(text) <= limit { return text.count }

        var kept = 0
        var units = 0
        for character in String(decoding: head, as: UTF8.self) {
            let byteCount = character.utf8.count
            units += unit == .bytes ? byteCount : character.utf16.count
            if units > limit { break }
            kept += byteCount
        }
        return kept
    }

    /// The count for ASCII, in which only CR LF is one character of two bytes.
    private static func keptASCII(_ text: UnsafeRawBufferPointer, limit: Int) -> Int {
        guard limit > 0, text.count > limit else { return min(text.count, limit) }
        return text[limit] == 0x0A && text[limit - 1] == 0x0D ? limit - 1 : limit
    }

    /// The UTF-16 units of well-formed UTF-8: two for a sequence of four bytes, one for any other.
    static func utf16Count(_ text: UnsafeRawBufferPointer) -> Int {
        var count = 0
        for byte in text {
            if byte & 0xC0 != 0x80 { count += byte >= 0xF0 ? 2 : 1 }
        }
        return count
    }
}
