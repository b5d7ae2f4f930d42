import Foundation

/// Which events were found, how often: each must be there once.
struct Ledger {
    private var counts: [UInt8]
    /// Events found with an unexpected index.
    private(set) var alienCount = 0
    /// Bytes of all files that hold events.
    var byteCount = 0

    /// Of events with the indexes below `eventCount`.
    init(eventCount: Int) {
        self.counts = Array(repeating: 0, count: eventCount)
    }

    var eventCount: Int {
        self.counts.count
    }

    var lostCount: Int {
        self.counts.count { $0 == 0 }
    }

    var twiceCount: Int {
        self.counts.count { $0 > 1 }
    }

    mutating func add(_ index: Int) {
        if self.counts.indices.contains(index) {
            self.counts[index] = min(2, self.counts[index] + 1)
        } else {
            self.alienCount += 1
        }
    }

    /// Adds the events of a file of lines, each of which has its index in decimal after `mark`.
    ///
    /// A line that does not end counts as nothing.
    mutating func add(linesOf path: String, mark: String) throws {
        let file = try Data(contentsOf: URL(filePath: path), options: .alwaysMapped)
        self.byteCount += file.count
        let mark = Array(mark.utf8)
        file.withUnsafeBytes { bytes in
            let end = bytes.lastIndex(of: UInt8(ascii: "\n")) ?? 0
            var rest = UnsafeRawBufferPointer(rebasing: bytes[..<end])
            while let start = rest.baseAddress, let found = memchr(start, Int32(mark[0]), rest.count) {
                rest = UnsafeRawBufferPointer(rebasing: rest[(UnsafeRawPointer(found) - start)...])
                let isMark = rest.starts(with: mark)
                rest = UnsafeRawBufferPointer(rebasing: rest[(isMark ? mark.count : 1)...])
                if isMark { self.add(Self.number(at: rest)) }
            }
        }
    }

    /// The decimal that the bytes start with; -1 when there is none.
    private static func number(at bytes: UnsafeRawBufferPointer) -> Int {
        let digits = bytes.prefix(18).prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
        return digits.isEmpty ? -1 : digits.reduce(0) { 10 * $0 + Int($1 - UInt8(ascii: "0")) }
    }
}
