internal import WaybillJSON

/// A text that is looked for without regard to case.
struct Needle: Hashable, Sendable {
    private let text: String
    /// Lower case.
    private let bytes: [UInt8]

    init(_ text: String) {
        self.text = text.lowercased()
        self.bytes = Array(self.text.utf8)
    }

    /// Whether it stands for any text.
    var isAny: Bool { self.text == "*" }

    func equals(_ other: String) -> Bool {
        other.utf8.count == self.bytes.count && self.isPart(of: other) || other.lowercased() == self.text
    }

    /// Whether it is a version or the beginning of one: 1.4 is that of 1.4.0, and not of 1.40.
    func isVersion(of other: String) -> Bool {
        let other = other.lowercased()
        return other == self.text || other.hasPrefix(self.text + ".")
    }

    func isPart(of other: String) -> Bool {
        var other = other
        return other.withUTF8 { self.isPart(ofText: UnsafeRawBufferPointer($0)) }
    }

    /// Whether it is a part of a JSON string's text.
    func isPart(ofBody body: UnsafeRawBufferPointer, hasEscapes: Bool) -> Bool {
        hasEscapes ? self.isPart(of: JSONText.string(body)) : self.isPart(ofText: body)
    }

    private func isPart(ofText text: UnsafeRawBufferPointer) -> Bool {
        if text.allSatisfy({ $0 < 0x80 }) { return Self.contains(text, self.bytes, isFolding: true) }
        // Other letters change their length with their case.
        var lower = String(decoding: text, as: UTF8.self).lowercased()
        return lower.withUTF8 { Self.contains(UnsafeRawBufferPointer($0), self.bytes, isFolding: false) }
    }

    private static func contains(_ text: UnsafeRawBufferPointer, _ needle: [UInt8], isFolding: Bool) -> Bool {
        guard let first = needle.first, text.count >= needle.count else { return needle.isEmpty }
        for start in 0...(text.count - needle.count) where Self.folded(text[start], isFolding) == first {
            var index = 1
            while index < needle.count, Self.folded(text[start + index], isFolding) == needle[index] { index += 1 }
            if index == needle.count { return true }
        }
        return false
    }

    @inline(__always)
    private static func folded(_ byte: UInt8, _ isFolding: Bool) -> UInt8 {
        isFolding && 0x41...0x5A ~= byte ? byte | 0x20 : byte
    }
}
