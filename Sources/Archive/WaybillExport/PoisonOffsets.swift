/// The lines of one stream that are not read, because reading them ended the program: where each begins, and for whom.
///
///     archive         nothing reads the line: it is in the quarantine
///     erased          the same, and the quarantine has it no more, because it was a person's whose events were erased
///     exports         no export reads it: it is a dead letter of each
///     ga4, csv …      this export does not read it: it is a dead letter of its own
package struct PoisonOffsets: Hashable, Sendable {
    package static let archive = "archive"
    package static let exports = "exports"
    package static let erased = "erased"

    package static let none = PoisonOffsets([:])

    private let readers: [UInt64: Set<String>]

    package init(_ readers: [UInt64: Set<String>]) {
        self.readers = readers
    }

    /// Those who do not read the line at `offset`; `nil`: everyone reads it.
    @inline(__always)
    package func readers(at offset: UInt64) -> Set<String>? {
        self.readers.isEmpty ? nil : self.readers[offset]
    }

    /// Whether a reader does not read the line at `offset`.
    package func has(_ offset: UInt64, for reader: String) -> Bool {
        guard let readers = self.readers(at: offset) else { return false }
        return readers.contains(Self.archive) || readers.contains(reader)
            || (reader != Self.archive && readers.contains(Self.exports))
    }
}
