internal import WaybillSystem

/// Byte ranges of a stream: sorted, disjoint, none of them empty, none touching the next.
///
/// Almost every stream has one. As text: `0-512,1024-2048`.
package struct OffsetRanges: Hashable, Sendable, CustomStringConvertible {
    package private(set) var ranges: [Range<UInt64>] = []

    package init() {}

    /// Reads what ``description`` returns; `nil` for anything else.
    package init?(_ text: some StringProtocol) {
        for part in text.split(separator: ",", omittingEmptySubsequences: false) where !text.isEmpty {
            let bounds = part.split(separator: "-", omittingEmptySubsequences: false)
            guard bounds.count == 2, let start = UInt64(bounds[0]), let end = UInt64(bounds[1]), start < end,
                self.ranges.last.map({ $0.upperBound < start }) ?? true
            else { return nil }
            self.ranges.append(start..<end)
        }
    }

    package var description: String {
        self.ranges.map { "\($0.lowerBound)-\($0.upperBound)" }.joined(separator: ",")
    }

    /// The index of the first range that ends at or behind an offset.
    private func index(endingAtOrAfter offset: UInt64) -> Int {
        self.ranges.partitionIndex { $0.upperBound < offset }
    }

    package mutating func insert(_ range: Range<UInt64>) {
        guard !range.isEmpty else { return }
        let first = self.index(endingAtOrAfter: range.lowerBound)
        var last = first
        var joined = range
        while last < self.ranges.count, self.ranges[last].lowerBound <= range.upperBound {
            joined =
                min(
                    joined.lowerBound, self.ranges[last].lowerBound)..<max(
                    joined.upperBound, self.ranges[last].upperBound)
            last += 1
        }
        self.ranges.replaceSubrange(first..<last, with: CollectionOfOne(joined))
    }

    /// Whether nothing of a range is in it.
    package func isDisjoint(with range: Range<UInt64>) -> Bool {
        let index = self.index(endingAtOrAfter: range.lowerBound + 1)
        return index == self.ranges.count || self.ranges[index].lowerBound >= range.upperBound
    }

    /// Whether all of a range is in it.
    package func contains(_ range: Range<UInt64>) -> Bool {
        let index = self.index(endingAtOrAfter: range.upperBound)
        return range.isEmpty || index < self.ranges.count && self.ranges[index].lowerBound <= range.lowerBound
    }

    /// What of `0..<length` is not in it.
    package func missing(below length: UInt64) -> [Range<UInt64>] {
        var missing: [Range<UInt64>] = []
        var end: UInt64 = 0
        for range in self.ranges where end < length {
            if end < range.lowerBound { missing.append(end..<min(range.lowerBound, length)) }
            end = range.upperBound
        }
        if end < length { missing.append(end..<length) }
        return missing
    }

    /// What of a range is not in it.
    package func missing(in range: Range<UInt64>) -> [Range<UInt64>] {
        self.missing(below: range.upperBound).compactMap {
            let start = max($0.lowerBound, range.lowerBound)
            return start < $0.upperBound ? start..<$0.upperBound : nil
        }
    }

    package var byteCount: Int {
        self.ranges.reduce(0) { sum, range in
            let (total, isOverflow) = sum.addingReportingOverflow(Int(clamping: range.upperBound - range.lowerBound))
            return isOverflow ? .max : total
        }
    }
}
