/// Reads the elements of a DER encoding one by one.
///
/// - SeeAlso: X.690, section 10; RFC 5280, section 4.1.
struct DER {
    /// The tags that certificates and revocation lists need.
    enum Tag {
        static let boolean: UInt8 = 0x01
        static let integer: UInt8 = 0x02
        static let octets: UInt8 = 0x04
        static let identifier: UInt8 = 0x06
        static let utcTime: UInt8 = 0x17
        static let generalizedTime: UInt8 = 0x18
        static let sequence: UInt8 = 0x30

        /// `[number]` of a choice or an optional member.
        static func context(_ number: UInt8, isConstructed: Bool) -> UInt8 {
            (isConstructed ? 0xA0 : 0x80) | number
        }
    }

    struct Element {
        let tag: UInt8
        let content: ArraySlice<UInt8>
        /// The element with its tag and length.
        let whole: ArraySlice<UInt8>

        /// The elements of the content.
        var elements: DER { DER(self.content) }
    }

    private var rest: ArraySlice<UInt8>

    init(_ bytes: ArraySlice<UInt8>) {
        self.rest = bytes
    }

    /// The next element; `nil` at the end, and when the rest is not DER.
    mutating func next() -> Element? {
        let start = self.rest.startIndex
        guard self.rest.count >= 2 else { return nil }
        let tag = self.rest[start]
        var contentStart = start + 2
        var count = Int(self.rest[start + 1])
        if count >= 0x80 {
            let digitCount = count & 0x7F
            guard (1...4).contains(digitCount), self.rest.count >= 2 + digitCount else { return nil }
            count = self.rest[contentStart..<(contentStart + digitCount)].reduce(0) { $0 << 8 | Int($1) }
            contentStart += digitCount
        }
        guard count <= self.rest.endIndex - contentStart else { return nil }
        let end = contentStart + count
        let element = Element(tag: tag, content: self.rest[contentStart..<end], whole: self.rest[start..<end])
        self.rest = self.rest[end...]
        return element
    }

    /// The next element, if it has this tag; otherwise it is not taken.
    mutating func next(_ tag: UInt8) -> Element? {
        guard self.rest.first == tag else { return nil }
        return self.next()
    }
}
