/// What a provider counts when it limits the length of text.
enum LengthUnit {
    case bytes
    /// Where a provider says "characters".
    case utf16
}

/// Cuts text to a provider's limit, never inside what a reader sees as one character.
enum TextLimit {
    /// How many bytes of `text` to keep so that at most `limit` units are left; all of them when it fits.
    ///
    /// - Parameter text: well-formed UTF-8.
    static func keptByteCount(of text: UnsafeRawBufferPointer, limit: Int, unit: LengthUnit) -> Int {
        if text.count <= limit { return text.count }
        // At most three bytes of UTF-8 make one unit of UTF-16. One unit more than the limit, and the whole scalar it
        // belongs to, decide where the last character that fits ends: a break depends on nothing behind that scalar.
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

    /// In ASCII only CR LF is one character of two bytes.
    private static func keptASCII(_ text: UnsafeRawBufferPointer, limit: Int) -> Int {
        guard limit > 0, text.count > limit else { return min(text.count, limit) }
        return text[limit] == 0x0A && text[limit - 1] == 0x0D ? limit - 1 : limit
    }

    /// UTF-16 units of well-formed UTF-8: one for each sequence, two for one of four bytes.
    static func utf16Count(_ text: UnsafeRawBufferPointer) -> Int {
        var count = 0
        for byte in text {
            if byte & 0xC0 != 0x80 { count += byte >= 0xF0 ? 2 : 1 }
        }
        return count
    }
}
