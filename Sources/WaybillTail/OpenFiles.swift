/// Which files are open, which of them is closed first, and how many there may be.
struct OpenFiles {
    /// Opening a file takes a descriptor for its folder and one for itself.
    private static var descriptorCountOfOpening: Int { 2 }

    /// How many may be open.
    private(set) var countMax: Int
    /// In the order of their last use, which is the one in which they are closed.
    private(set) var keys: [StreamKey] = []
    /// Whether the process has run out of descriptors.
    private var isShort = false

    init(countMax: Int) {
        self.countMax = countMax
    }

    var count: Int { self.keys.count }
    var isFull: Bool { self.keys.count >= self.countMax }

    /// Notes that a file is used now, and open.
    mutating func use(_ key: StreamKey) {
        self.remove(key)
        self.keys.append(key)
    }

    mutating func remove(_ key: StreamKey) {
        // The one that was used last is used again most often.
        if let index = self.keys.lastIndex(of: key) { self.keys.remove(at: index) }
    }

    /// The same descriptor belongs to another stream from now on.
    mutating func replace(_ key: StreamKey, by other: StreamKey) {
        if let index = self.keys.firstIndex(of: key) { self.keys[index] = other }
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
