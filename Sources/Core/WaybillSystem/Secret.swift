/// A text that is never printed.
package struct Secret: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let text: String

    /// `nil` for an empty text.
    package init?(_ text: String) {
        guard !text.isEmpty else { return nil }
        self.text = text
    }

    /// The text itself, for the wire.
    package var revealed: String {
        self.text
    }

    /// Whether `other` is the same, in constant time wherever they differ.
    package func isEqual(to other: String) -> Bool {
        let own = Array(self.text.utf8)
        let others = Array(other.utf8)
        var difference = UInt8(own.count == others.count ? 0 : 1)
        for (index, byte) in own.enumerated() { difference |= byte ^ (index < others.count ? others[index] : 0) }
        return difference == 0
    }

    package var description: String { "<secret>" }
    package var debugDescription: String { "<secret>" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
