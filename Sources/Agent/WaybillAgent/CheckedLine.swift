internal import WaybillSystem

/// The content of a file that keeps one text, and tells when it is damaged.
///
///     edge-1 1f2e3d4c5b6a7988      the text, FNV-1a 64 of it
enum CheckedLine {
    static func bytes(of text: String) -> [UInt8] {
        Array("\(text) \(Hexadecimal.text(FNV1a.hash(text.utf8), digitCount: 16))\n".utf8)
    }

    /// - Returns: `nil` if the content is not as it was written.
    static func text(of content: [UInt8]) -> String? {
        guard let space = content.lastIndex(of: UInt8(ascii: " ")) else { return nil }
        let text = String(decoding: content[..<space], as: UTF8.self)
        return content == self.bytes(of: text) ? text : nil
    }
}
