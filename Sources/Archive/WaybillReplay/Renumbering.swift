internal import WaybillJSON
internal import WaybillSystem

/// How the numbers of a part's records change when some are erased: the dead letters of its delivery name them.
struct Renumbering {
    /// The numbers that dead letters name.
    private let wanted: Set<Int>
    /// By the old number of a record that is kept: its new one, and its ids.
    private var kept: [Int: (number: Int, ids: [ArraySlice<UInt8>])] = [:]
    private var count = 0
    private(set) var goneCount = 0

    init(wanted: Set<Int>) {
        self.wanted = wanted
    }

    /// Adds the part's next record.
    mutating func add(_ ids: [ArraySlice<UInt8>], isGone: Bool) {
        defer { self.count += 1 }
        if isGone {
            self.goneCount += 1
        } else if self.wanted.contains(self.count) {
            self.kept[self.count] = (self.count - self.goneCount, ids)
        }
    }

    /// A dead letter with the new number of its record; `nil` if it stays as it is.
    ///
    /// Letters of an earlier part with the same number are known by their ids, which this part's record does not have.
    func renumber(letter: [UInt8]) -> [UInt8]? {
        guard let json = JSONValue(letter), let old = json["record"]?.count, let record = self.kept[old],
            record.number != old
        else { return nil }
        let id = Array((json["id"]?.string ?? "-").utf8)
        guard record.ids.contains(where: { $0.elementsEqual(id) }) else { return nil }
        var range: Range<Int>?
        do throws(JSONError) {
            try letter.withBytes { (bytes) throws(JSONError) in
                try JSONScanner.scanMembers(bytes) { key, traits, value, _ in
                    let name = UnsafeRawBufferPointer(rebasing: bytes[key])
                    if JSONText.equals(name, isEscaped: traits.contains(.hasEscapes), "record") { range = value }
                }
            }
        } catch {
            // A damaged letter is kept as it is.
            return nil
        }
        guard let range else { return nil }
        return letter[..<range.lowerBound] + Array(String(record.number).utf8) + letter[range.upperBound...]
    }
}
