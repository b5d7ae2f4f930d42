package import WaybillSystem

extension TimeText {
    /// Parses a time in RFC 3339 that a person wrote.
    package static func parse(text: String) -> WallTime? {
        var text = text
        return text.withUTF8 { Self.parse(UnsafeRawBufferPointer($0)) }.map(WallTime.init(milliseconds:))
    }
}
