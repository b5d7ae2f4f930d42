/// A problem in the data: where it is, how many bytes it affects, and what it means.
package struct Problem: Hashable, Sendable {
    /// A closed set of words that are stable for scripts.
    package enum Code: String, Hashable, Sendable, CaseIterable {
        /// A file or folder cannot be read.
        case unreadable
        /// A file that another file refers to is gone.
        case missing
        /// A file is shorter than another file states.
        case short
        /// Bytes that cannot be decoded, or whose checksum does not match.
        case damaged
        /// Acknowledged lines are missing where they belong.
        case lost
        /// Lines or records are stored more than once.
        case repeated
        /// Bytes differ from their source.
        case different
        /// Lines or records that nothing explains.
        case unexplained
        /// Two files that must agree do not.
        case disagreement
        /// A file that does not belong to the directory.
        case stray
    }

    package let code: Code
    package let path: String
    /// The byte in the file; `nil` for the file as a whole.
    package let offset: Int?
    package let byteCount: Int?
    package let text: String
    /// What it means for the data, and the command or the step that repairs it.
    package var repair = Repair()

    package init(_ code: Code, _ path: String, at offset: Int? = nil, byteCount: Int? = nil, _ text: String) {
        self.code = code
        self.path = path
        self.offset = offset
        self.byteCount = byteCount
        self.text = text
    }

    /// `path:offset: code: text (bytes)`, and below it what it means and how to repair it.
    package var line: String {
        let place = self.offset.map { ":\($0)" } ?? ""
        let length = self.byteCount.map { " (\($0) bytes)" } ?? ""
        return "\(self.path)\(place): \(self.code.rawValue): \(self.text)\(length)\n"
            + "    \(self.repair.meaning); repair: \(self.repair.step)"
    }
}

/// What a problem means, and what repairs it.
package struct Repair: Hashable, Sendable {
    package var meaning = ""
    /// A command, or what to do by hand.
    package var step = ""

    package init(meaning: String = "", step: String = "") {
        self.meaning = meaning
        self.step = step
    }
}
