internal import WaybillJSON

/// Text in a line: the body of a JSON string.
package struct TextSlice {
    let body: UnsafeRawBufferPointer
    /// Whether the body has escapes and must be unescaped before it is counted or cut.
    let isEscaped: Bool

    init(body: UnsafeRawBufferPointer, isEscaped: Bool) {
        self.body = body
        self.isEscaped = isEscaped
    }

    init(_ text: StaticString) {
        self.init(
            body: UnsafeRawBufferPointer(start: text.utf8Start, count: text.utf8CodeUnitCount), isEscaped: false)
    }

    func equals(_ text: StaticString) -> Bool {
        JSONText.equals(self.body, isEscaped: self.isEscaped, text)
    }

    func equals(_ text: UnsafeRawBufferPointer) -> Bool {
        self.isEscaped ? JSONText.unescapedEquals(self.body, text) : JSONText.equals(self.body, text)
    }

    /// Whether both spell the same text, with whatever escapes.
    func equals(_ other: TextSlice) -> Bool {
        guard other.isEscaped else { return self.equals(other.body) }
        var text = ByteBuilder(capacity: max(other.body.count, 1))
        JSONText.unescape(other.body, into: &text)
        return self.equals(text.bytes)
    }
}
