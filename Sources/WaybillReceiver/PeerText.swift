/// What a peer says about itself, for people: short, and without anything that a terminal obeys.
enum PeerText {
    static let countMax = 64

    /// `nil` for nothing.
    static func clean(_ text: String?) -> String? {
        guard let text, !text.isEmpty else { return nil }
        let scalars = text.unicodeScalars.prefix(Self.countMax).map { (0x20...0x7E).contains($0.value) ? $0 : "?" }
        return String(String.UnicodeScalarView(scalars))
    }
}
