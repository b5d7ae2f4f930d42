internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Where the newest batches of the merged journal are, to compare what comes again with what is there.
///
/// The number of batches bounds it, and the bytes of the merged journal from the oldest to the newest, so that every merger
/// knows the same ones: what is forgotten is the same everywhere, also in a merger that was restored.
struct BatchPlaces {
    struct Place: Hashable {
        let start: UInt64
        let end: UInt64
        var position: JournalPosition
    }

    /// A stream's places by their start; the first ones may be forgotten.
    private struct List {
        var places: [Place] = []
        var first = 0

        /// The index of the first place that begins at or behind an offset.
        func index(from offset: UInt64) -> Int {
            self.places[self.first...].partitionIndex { $0.start < offset }
        }
    }

    private let countMax: Int
    private let byteCountMax: Int
    private var lists: [StreamName: List] = [:]
    /// In the order of the journal, from ``first`` on.
    private var order: [(name: StreamName, start: UInt64, position: JournalPosition)] = []
    private var first = 0
    /// The length of the longest place so far.
    private var longest: UInt64 = 0

    init(countMax: Int, byteCountMax: Int = .max) {
        self.countMax = countMax
        self.byteCountMax = byteCountMax
    }

    /// The position of the oldest.
    var firstPosition: JournalPosition? { self.first < self.order.count ? self.order[self.first].position : nil }

    var count: Int { self.order.count - self.first }

    mutating func add(_ name: StreamName, _ range: Range<UInt64>, at position: JournalPosition) {
        let place = Place(start: range.lowerBound, end: range.upperBound, position: position)
        self.longest = max(self.longest, place.end - place.start)
        var list = self.lists.removeValue(forKey: name) ?? List()
        if let last = list.places.last, last.start > place.start {
            list.places.insert(place, at: list.index(from: place.start + 1))
        } else {
            list.places.append(place)
        }
        self.lists[name] = list
        self.order.append((name, place.start, position))
        while let oldest = self.firstPosition,
            self.count > self.countMax || position.rawValue - oldest.rawValue > self.byteCountMax
        { self.forgetFirst() }
    }

    private mutating func forgetFirst() {
        let (name, start, position) = self.order[self.first]
        self.first += 1
        if self.first > 1024, self.first * 2 > self.order.count {
            self.order.removeFirst(self.first)
            self.first = 0
        }
        guard var list = self.lists.removeValue(forKey: name) else { return }
        var index = list.index(from: start)
        while index < list.places.count, list.places[index].position != position { index += 1 }
        guard index < list.places.count else { preconditionFailure("every place in the order is in a list") }
        if index == list.first {
            list.first += 1
            if list.first > 64, list.first * 2 > list.places.count {
                list.places.removeFirst(list.first)
                list.first = 0
            }
        } else {
            list.places.remove(at: index)
        }
        if list.first < list.places.count { self.lists[name] = list }
    }

    /// The places that have bytes of a range.
    func places(of name: StreamName, in range: Range<UInt64>) -> [Place] {
        guard let list = self.lists[name] else { return [] }
        let start = list.index(from: range.lowerBound - min(range.lowerBound, self.longest))
        return list.places[start...].prefix { $0.start < range.upperBound }.filter { $0.end > range.lowerBound }
    }
}
