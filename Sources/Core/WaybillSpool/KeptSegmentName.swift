/// The name of a segment that was shipped and is kept for a while.
///
///     0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson.shipped-3-1795176000
///     |<---------------------- segment ------------------------------>|        | |<- seconds since 1970
///                                                                              the agent's number of the receiver
///     0195505e-aaaa-7000-8000-0000000000aa-00000000000000000042.ndjson.again   is shipped again
///
/// Neither counts for the spool's quota, which would take what is delivered for a loss.
///
/// - SeeAlso: `Protocol/formats/spool.md`, section 5.
package struct KeptSegmentName: Hashable, Sendable, CustomStringConvertible {
    package let segment: SegmentName
    /// The ordinal of the receiver that sealed it, in the agent's registry.
    package let receiver: Int
    /// When it was shipped, in seconds since 1970.
    package let seconds: Int64

    private static let mark = ".shipped-"
    /// Ends the name of a segment that is shipped again.
    package static let againSuffix = ".again"

    package init(segment: SegmentName, receiver: Int, seconds: Int64) {
        self.segment = segment
        self.receiver = max(0, receiver)
        self.seconds = max(0, seconds)
    }

    /// `nil` for any other name.
    package init?(parsing name: String) {
        guard let mark = name.firstRange(of: Self.mark),
            let segment = SegmentName(parsing: String(name[..<mark.lowerBound]))
        else { return nil }
        let fields = name[mark.upperBound...].split(separator: "-", omittingEmptySubsequences: false)
        guard fields.count == 2, fields.allSatisfy({ (1...15).contains($0.utf8.count) }),
            fields.joined().utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }),
            let receiver = Int(fields[0]), let seconds = Int64(fields[1])
        else { return nil }
        self.init(segment: segment, receiver: receiver, seconds: seconds)
    }

    package var description: String {
        "\(self.segment)\(Self.mark)\(self.receiver)-\(self.seconds)"
    }

    /// The segment's name while it is shipped again.
    package var again: String { self.segment.description + Self.againSuffix }

    /// A name without the suffix of a segment that is shipped again.
    package static func plain(_ name: String) -> String {
        name.hasSuffix(Self.againSuffix) ? String(name.dropLast(Self.againSuffix.utf8.count)) : name
    }
}
