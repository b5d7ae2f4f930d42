/// The name of a segment: its writer, and the sequence number of its first line.
///
///     0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson
///     |<------------- writer ------------>| |<-- 20 digits -->|
///
/// Sorted by bytes, names are in the order in which their writers started (version 7 UUIDs), and a writer's segments
/// are in the order of their lines. A name is never used twice.
package struct SegmentName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// A UUID of 36 lower-case characters.
    package let writer: String
    /// The sequence number of the first line, at least 1.
    package let firstSequence: UInt64

    package static let suffix = ".ndjson"
    /// Stands for the first sequence in the names of segments with lines kept from evicted ones: 2^53, which no line's
    /// number reaches.
    package static let keptSequence: UInt64 = 1 << 53

    /// Whether the segment holds another writer's lines, kept from an evicted segment.
    package var isKept: Bool {
        self.firstSequence == Self.keptSequence
    }

    package init(writer: String, firstSequence: UInt64) {
        precondition(Self.isUUID(writer.utf8[...]), "\(writer) is not a lower-case UUID")
        self.writer = writer
        self.firstSequence = firstSequence
    }

    /// `nil` for any other name.
    package init?(parsing name: String) {
        let bytes = name.utf8
        guard bytes.count == 36 + 1 + 20 + Self.suffix.utf8.count, name.hasSuffix(Self.suffix) else { return nil }
        let writerEnd = bytes.index(bytes.startIndex, offsetBy: 36)
        let digitsStart = bytes.index(after: writerEnd)
        let digitsEnd = bytes.index(digitsStart, offsetBy: 20)
        guard Self.isUUID(bytes[..<writerEnd]), bytes[writerEnd] == UInt8(ascii: "-") else { return nil }
        let digits = bytes[digitsStart..<digitsEnd]
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        guard let sequence = UInt64(Substring(digits)), sequence > 0 else { return nil }
        self.writer = String(Substring(bytes[..<writerEnd]))
        self.firstSequence = sequence
    }

    /// Whether a file is a segment, or one that is being created or evicted, judged by its name.
    package static func begins(_ name: String) -> Bool {
        Self(parsing: String(decoding: name.utf8.prefix(36 + 1 + 20 + Self.suffix.utf8.count), as: UTF8.self)) != nil
    }

    package var description: String {
        let digits = String(self.firstSequence)
        return "\(self.writer)-\(String(repeating: "0", count: 20 - digits.utf8.count))\(digits)\(Self.suffix)"
    }

    package static func < (left: SegmentName, right: SegmentName) -> Bool {
        left.writer == right.writer
            ? left.firstSequence < right.firstSequence
            : left.writer.utf8.lexicographicallyPrecedes(right.writer.utf8)
    }

    private static func isUUID(_ bytes: Substring.UTF8View) -> Bool {
        bytes.count == 36
            && bytes.enumerated().allSatisfy { index, byte in
                switch index {
                case 8, 13, 18, 23: byte == UInt8(ascii: "-")
                default:
                    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                        || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
                }
            }
    }
}
