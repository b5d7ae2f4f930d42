package import WaybillSystem

extension TimeText {
    /// Reads a time that a person wrote, in RFC 3339.
    package static func parse(text: String) -> WallTime? {
        var text = text
        return text.withUTF8 { Self.parse(UnsafeRawBufferPointer($0)) }.map(WallTime.init(milliseconds:))
    }
}
