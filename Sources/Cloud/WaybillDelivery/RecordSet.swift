/// Records of one part, by their numbers from 0, ascending; text such as `0-11,15` or `-` for none.
package struct RecordSet: Hashable, Sendable {
    package private(set) var numbers: [Int]

    package init() {
        self.numbers = []
    }

    package init(_ range: Range<Int>) {
        self.numbers = Array(range)
    }

    package init(_ numbers: some Sequence<Int>) {
        self.numbers = Set(numbers).sorted()
    }

    package var count: Int { self.numbers.count }
    package var isEmpty: Bool { self.numbers.isEmpty }

    /// The members at these positions, counted from 0 in ascending order; other positions are ignored.
    package func members(at positions: some Sequence<Int>) -> RecordSet {
        RecordSet(positions.lazy.filter { self.numbers.indices.contains($0) }.map { self.numbers[$0] })
    }

    package func union(_ other: RecordSet) -> RecordSet {
        RecordSet(self.numbers + other.numbers)
    }

    package func subtracting(_ other: RecordSet) -> RecordSet {
        let removed = Set(other.numbers)
        var rest = RecordSet()
        rest.numbers = self.numbers.filter { !removed.contains($0) }
        return rest
    }

    /// The first and the second half; the first is never smaller.
    package var halves: (RecordSet, RecordSet) {
        let middle = (self.numbers.count + 1) / 2
        var first = RecordSet()
        var second = RecordSet()
        first.numbers = Array(self.numbers[..<middle])
        second.numbers = Array(self.numbers[middle...])
        return (first, second)
    }

    /// Runs of at most `countMax` members.
    package func chunks(of countMax: Int) -> [RecordSet] {
        stride(from: 0, to: self.numbers.count, by: countMax).map { start in
            var chunk = RecordSet()
            chunk.numbers = Array(self.numbers[start..<min(start + countMax, self.numbers.count)])
            return chunk
        }
    }

    package var text: String {
        var pieces: [String] = []
        var index = 0
        while index < self.numbers.count {
            var last = index
            while last + 1 < self.numbers.count, self.numbers[last + 1] == self.numbers[last] + 1 { last += 1 }
            pieces.append(
                last == index ? "\(self.numbers[index])" : "\(self.numbers[index])-\(self.numbers[last])")
            index = last + 1
        }
        return pieces.isEmpty ? "-" : pieces.joined(separator: ",")
    }

    /// Reads ``text``; `nil` for anything else, and for numbers from `upperBound` on.
    package init?(text: String, below upperBound: Int) {
        self.numbers = []
        if text == "-" { return }
        for piece in text.split(separator: ",", omittingEmptySubsequences: false) {
            let bounds = piece.split(separator: "-", omittingEmptySubsequences: false).map { Int($0) }
            guard (1...2).contains(bounds.count), let first = bounds[0], let last = bounds[bounds.count - 1],
                first >= 0, first > self.numbers.last ?? -1, last >= first, last < upperBound
            else { return nil }
            self.numbers.append(contentsOf: first...last)
        }
    }
}
