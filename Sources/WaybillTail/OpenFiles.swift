/// Which files are open, which of them is closed first, and how many there may be.
struct OpenFiles {
    /// Opening a file takes a descriptor for its folder and one for itself.
    private static var descriptorCountOfOpening: Int { 2 }

    /// How many may be open.
    private(set) var countMax: Int
    private(set) var keys: [StreamKey] = []
    /// Whether the process has run out of descriptors.
    private var isShort = false
    private var useCount = 0

    init(countMax: Int) {
        self.countMax = countMax
    }

    var count: Int { self.keys.count }
    var isFull: Bool { self.keys.count >= self.countMax }

    /// Counts a use.
    ///
    /// - Returns: its number, which is greater than those before.
    mutating func use() -> Int {
        self.useCount += 1
        return self.useCount
    }

    mutating func insert(_ key: StreamKey) {
        self.keys.append(key)
    }

    mutating func remove(_ key: StreamKey) {
        guard let index = self.keys.firstIndex(of: key) else { return }
        self.keys.swapAt(index, self.keys.count - 1)
        self.keys.removeLast()
    }

    /// The same descriptor belongs to another stream from now on.
    mutating func replace(_ key: StreamKey, by other: StreamKey) {
        if let index = self.keys.firstIndex(of: key) { self.keys[index] = other }
    }

    /// The one that is closed first.
    ///
    /// - Parameter lastUse: a file's last use; `nil` if it must stay open.
    func leastRecentlyUsed(_ lastUse: (StreamKey) -> Int?) -> StreamKey? {
        var found: (key: StreamKey, use: Int)?
        for key in self.keys {
            guard let use = lastUse(key), use < found?.use ?? .max else { continue }
            found = (key, use)
        }
        return found?.key
    }

    /// Takes a configured number; one that the process could not keep stays the greatest.
    mutating func configure(countMax: Int) {
        self.countMax = self.isShort ? min(self.countMax, countMax) : countMax
    }

    /// Allows fewer, because the process has no descriptor left.
    ///
    /// - Returns: whether that is so for the first time.
    mutating func lower() -> Bool {
        self.countMax = max(1, min(self.countMax, self.count) - Self.descriptorCountOfOpening)
        defer { self.isShort = true }
        return !self.isShort
    }
}
