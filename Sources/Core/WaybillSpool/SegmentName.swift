internal import WaybillSystem

/// The name of a segment: its writer, and the sequence number of its first line.
///
///     0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson
///     |<------------- writer ------------>| |<-- 20 digits -->|
///     0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042:c0ffee0123456789.ndjson      reshipped
///                                                               |<- SHA-256 -->|
///
/// Sorted by bytes, names are in the order in which their writers started (version 7 UUIDs), and a writer's segments
/// are in the order of their lines. A name is never used twice.
package struct SegmentName: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// A UUID of 36 lower-case characters.
    package let writer: String
    /// The sequence number of the first line, at least 1.
    package let firstSequence: UInt64
    /// The first 16 hexadecimal digits of the content's SHA-256, if the segment is shipped under another id than its
    /// writer gave it; empty otherwise.
    package let contentDigest: String

    package static let contentDigestDigitCount = 16
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
        self.contentDigest = ""
    }

    /// The name under which a segment with this content is shipped again.
    package init(reshipping name: SegmentName, contentDigest: String) {
        precondition(Self.isContentDigest(contentDigest.utf8[...]), "\(contentDigest) is not 16 digits of a hash")
        self.writer = name.writer
        self.firstSequence = name.firstSequence
        self.contentDigest = contentDigest
    }

    /// The name that the writer gave it.
    package var original: SegmentName {
        SegmentName(writer: self.writer, firstSequence: self.firstSequence)
    }

    /// The stream's id.
    package var id: String {
        String(self.description.dropLast(Self.suffix.utf8.count))
    }

    /// `nil` for any other name.
    package init?(parsing name: String) {
        let bytes = name.utf8
        guard bytes.count >= 36 + 1 + 20 + Self.suffix.utf8.count, name.hasSuffix(Self.suffix) else { return nil }
        let writerEnd = bytes.index(bytes.startIndex, offsetBy: 36)
        let digitsStart = bytes.index(after: writerEnd)
        let digitsEnd = bytes.index(digitsStart, offsetBy: 20)
        guard Self.isUUID(bytes[..<writerEnd]), bytes[writerEnd] == UInt8(ascii: "-") else { return nil }
        let digits = bytes[digitsStart..<digitsEnd]
        guard digits.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }) else { return nil }
        guard let sequence = UInt64(Substring(digits)), sequence > 0 else { return nil }
        let rest = bytes[digitsEnd...].dropLast(Self.suffix.utf8.count)
        guard rest.isEmpty || rest.first == UInt8(ascii: ":") && Self.isContentDigest(rest.dropFirst()) else {
            return nil
        }
        self.contentDigest = String(Substring(rest.dropFirst()))
        self.writer = String(Substring(bytes[..<writerEnd]))
        self.firstSequence = sequence
    }

    /// Whether a file is a segment, or one that is being created or evicted, judged by its name.
    package static func begins(_ name: String) -> Bool {
        guard let suffix = name.firstRange(of: Self.suffix) else { return false }
        return Self(parsing: String(name[..<suffix.upperBound])) != nil
    }

    package var description: String {
        let digits = ZeroPadded.text(self.firstSequence, digitCount: 20)
        let content = self.contentDigest.isEmpty ? "" : ":" + self.contentDigest
        return "\(self.writer)-\(digits)\(content)\(Self.suffix)"
    }

    package static func < (left: SegmentName, right: SegmentName) -> Bool {
        (left.writer, left.firstSequence, left.contentDigest) < (right.writer, right.firstSequence, right.contentDigest)
    }

    private static func isContentDigest(_ bytes: Substring.UTF8View) -> Bool {
        bytes.count == Self.contentDigestDigitCount && bytes.allSatisfy(Self.isHexadecimal)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
    }

    private static func isUUID(_ bytes: Substring.UTF8View) -> Bool {
        bytes.count == 36
            && bytes.enumerated().allSatisfy { index, byte in
                switch index {
                case 8, 13, 18, 23: byte == UInt8(ascii: "-")
                default: Self.isHexadecimal(byte)
                }
            }
    }
}
