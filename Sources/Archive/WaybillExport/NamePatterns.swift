internal import WaybillJSON

/// Names that an operator listed, looked up by their bytes without an allocation.
struct NameTable: Sendable {
    /// All names, concatenated.
    private var bytes: [UInt8] = []
    /// Where each name ends in ``bytes``.
    private var ends: [Int] = []
    /// Open addressing: the index of a name, or -1; at least twice as many as names, a power of two.
    private var slots: [Int]

    /// - Parameter names: of equal names, the first counts.
    init(_ names: [String]) {
        var capacity = 4
        while capacity < names.count * 2 { capacity *= 2 }
        self.slots = [Int](repeating: -1, count: capacity)
        for (index, name) in names.enumerated() {
            let name = Array(name.utf8)
            self.bytes += name
            self.ends.append(self.bytes.count)
            name.withUnsafeBytes { name in
                var at = NameHash.ofProcess.place(of: name) & (capacity - 1)
                while self.slots[at] >= 0 { at = (at + 1) & (capacity - 1) }
                self.slots[at] = index
            }
        }
    }

    var isEmpty: Bool { self.ends.isEmpty }

    /// A name's index in the list.
    func index(of name: UnsafeRawBufferPointer) -> Int? {
        if self.ends.isEmpty { return nil }
        return self.bytes.withUnsafeBytes { bytes in
            var at = NameHash.ofProcess.place(of: name) & (self.slots.count - 1)
            while self.slots[at] >= 0 {
                let index = self.slots[at]
                let start = index == 0 ? 0 : self.ends[index - 1]
                if JSONText.equals(name, UnsafeRawBufferPointer(rebasing: bytes[start..<self.ends[index]])) {
                    return index
                }
                at = (at + 1) & (self.slots.count - 1)
            }
            return nil
        }
    }
}

/// Names and prefixes of names: `purchase`, `checkout_*`, `*` for all.
struct NamePatterns: Sendable {
    private let names: NameTable
    private let prefixes: [[UInt8]]

    init(_ patterns: [String]) {
        self.names = NameTable(patterns.filter { !$0.hasSuffix("*") })
        self.prefixes = patterns.filter { $0.hasSuffix("*") }.map { Array($0.utf8.dropLast()) }
    }

    var isEmpty: Bool { self.names.isEmpty && self.prefixes.isEmpty }

    func contains(_ name: UnsafeRawBufferPointer) -> Bool {
        if self.names.index(of: name) != nil { return true }
        for prefix in self.prefixes where name.count >= prefix.count {
            let head = UnsafeRawBufferPointer(rebasing: name[..<prefix.count])
            if prefix.withUnsafeBytes({ JSONText.equals(head, $0) }) { return true }
        }
        return false
    }
}
