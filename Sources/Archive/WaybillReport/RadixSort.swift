extension [UInt64] {
    /// Sorts by digits of 11 bits, the lowest first: rows and people are sorted by the hundred thousand, and a comparison
    /// for each of their bits costs more than a pass for each digit that differs.
    mutating func sortByDigits() {
        // Less than a pass over the counters.
        guard self.count >= 1024, let first = self.first else { return self.sort() }
        let varying = self.reduce(0) { $0 | ($1 ^ first) }
        var sorted = [UInt64](repeating: 0, count: self.count)
        for shift in stride(from: 0, to: UInt64.bitWidth, by: 11) where varying >> shift & 0x7FF != 0 {
            var starts = [Int](repeating: 0, count: 0x800)
            for number in self { starts[Int(number >> shift & 0x7FF)] += 1 }
            var start = 0
            for digit in starts.indices { (starts[digit], start) = (start, start + starts[digit]) }
            for number in self {
                let digit = Int(number >> shift & 0x7FF)
                sorted[starts[digit]] = number
                starts[digit] += 1
            }
            swap(&self, &sorted)
        }
    }
}
