package import WaybillData

/// A line's place in the journal, `182786.3`: the position of its batch, and its number there, from 1; 0 is the place
/// before the batch.
///
/// It stays the same for as long as the journal is kept, whichever process reads it; so it is the id of a row and the
/// cursor of a stream.
package struct LineID: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let batch: JournalPosition
    package let line: Int

    package init(batch: JournalPosition, line: Int) {
        self.batch = batch
        self.line = line
    }

    /// Reads what ``description`` writes; `nil` for any other text.
    package init?(_ text: String) {
        let parts = text.split(separator: ".", omittingEmptySubsequences: false)
        guard parts.count == 2, let batch = Self.number(parts[0]), let line = Self.number(parts[1]) else { return nil }
        self.init(batch: JournalPosition(batch), line: line)
    }

    private static func number(_ digits: Substring) -> Int? {
        guard (1...16).contains(digits.utf8.count), digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return nil }
        return Int(digits)
    }

    package var description: String { "\(self.batch.rawValue).\(self.line)" }

    package static func < (left: LineID, right: LineID) -> Bool {
        (left.batch, left.line) < (right.batch, right.line)
    }
}
