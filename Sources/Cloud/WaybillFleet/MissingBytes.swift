internal import WaybillProtocol

/// Bytes of a stream that no piece so far has, though a receiver was told that the fleet has them, or the stream is sealed
/// behind them.
package struct MissingBytes: Hashable, Sendable {
    /// The owner of the stream; empty without `agents:`.
    package let principal: String
    package let stream: String
    /// Offsets, sorted and disjoint.
    package let ranges: [Range<UInt64>]
    /// The receivers that were told `elsewhere`; none if only a seal shows that bytes are missing.
    package let receivers: [String]

    package init(principal: String, stream: String, ranges: [Range<UInt64>], receivers: [String]) {
        self.principal = principal
        self.stream = stream
        self.ranges = ranges
        self.receivers = receivers
    }

    package var byteCount: Int {
        self.ranges.reduce(0) { sum, range in
            let count = Int(clamping: range.upperBound - range.lowerBound)
            return sum.addingReportingOverflow(count).overflow ? .max : sum + count
        }
    }

    /// The ranges as text: `0-512,1024-2048`.
    package var rangesText: String {
        self.ranges.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
    }
}

/// Bytes of a stream that no piece has, and that a receiver took before it belonged to the fleet, as the agent said.
package struct BytesBefore: Hashable, Sendable {
    /// The owner of the stream; empty without `agents:`.
    package let principal: String
    package let stream: String
    package let ranges: OffsetRanges
    /// The receivers whose own archives have them, sorted.
    package let holders: [String]
}

/// What a receiver was told that others have, when a stream came to it with its first bytes at another receiver.
///
/// As text, joined by `;`: `0-512@collector-1` what is elsewhere in the fleet; `0-512@collector-1/collector-2` what
/// collector-1 was told to be in collector-2's own archive, from before the fleet.
struct ToldRanges: Hashable {
    /// Agents that wander between receivers are told a range each time; the oldest stay.
    static let countMax = 64

    private(set) var entries: [Entry] = []

    struct Entry: Hashable {
        let range: Range<UInt64>
        let receiver: String
        /// Whose own archive has it from before the fleet; `nil`: the fleet is said to have it.
        let holder: String?
    }

    init() {}

    init?(_ text: String) {
        for part in text.split(separator: ";") {
            let halves = part.split(separator: "@", omittingEmptySubsequences: false)
            let names = halves.last?.split(separator: "/", omittingEmptySubsequences: false) ?? []
            guard halves.count == 2, (1...2).contains(names.count), names.allSatisfy({ ChainName.isReceiver($0) }),
                let ranges = OffsetRanges(halves[0]), ranges.ranges.count == 1, let range = ranges.ranges.first
            else { return nil }
            self.entries.append(
                Entry(range: range, receiver: String(names[0]), holder: names.dropFirst().first.map { String($0) }))
        }
    }

    var text: String {
        self.entries.map {
            "\($0.range.lowerBound)-\($0.range.upperBound)@\($0.receiver)\($0.holder.map { "/" + $0 } ?? "")"
        }.joined(separator: ";")
    }

    var isEmpty: Bool { self.entries.isEmpty }

    mutating func add(_ range: Range<UInt64>, _ receiver: String, holder: String?) {
        let isKnown = self.entries.contains {
            $0.receiver == receiver && $0.holder == holder && $0.range.lowerBound <= range.lowerBound
                && $0.range.upperBound >= range.upperBound
        }
        guard !isKnown, self.entries.count < Self.countMax else { return }
        self.entries.append(Entry(range: range, receiver: receiver, holder: holder))
    }

    /// Forgets what is there.
    mutating func remove(where isPresent: (Range<UInt64>) -> Bool) {
        self.entries.removeAll { isPresent($0.range) }
    }
}
