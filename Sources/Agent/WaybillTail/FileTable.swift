internal import WaybillSystem

/// The files of a tail by handle; indexed files also by identity and by path.
///
/// An idle file has one slot and two index entries: with 100,000 files, these dominate the agent's memory.
struct FileTable {
    private var slots = FileSlots()
    private var generations: [UInt32] = []
    private var free: [Int32] = []
    private var identities = SlotIndex()
    private var paths = SlotIndex()
    /// The number of files in each folder.
    private var folders: [PathKey: Int] = [:]

    var count: Int { self.slots.count - self.free.count }

    func contains(_ key: StreamKey) -> Bool {
        key.slot < self.slots.count && Int(self.generations[key.slot]) == key.generation && self.slots[key.slot] != nil
    }

    /// Adds a file, which can be found only by its handle.
    mutating func insert(_ file: TailedFile) -> StreamKey {
        var file = file
        file.place.shareFolder(self.share(file.place.folder))
        if let slot = self.free.popLast().map({ Int($0) }) {
            self.slots[slot] = file
            return self.key(slot)
        }
        self.slots.append(file)
        self.generations.append(0)
        return self.key(self.slots.count - 1)
    }

    /// Removes a file and its index entries.
    mutating func remove(_ key: StreamKey) {
        precondition(self.contains(key), "stream \(key.rawValue) is forgotten")
        self.removeIdentity(of: key)
        self.removePath(of: key)
        self.release(self[key].place.folder)
        self.slots[key.slot] = nil
        self.generations[key.slot] += 1
        self.free.append(Int32(key.slot))
    }

    /// Traps for a handle that is not in ``contains(_:)``.
    subscript(key: StreamKey) -> TailedFile {
        _read {
            precondition(
                Int(self.generations[key.slot]) == key.generation, "stream \(key.rawValue) is forgotten")
            yield self.slots[key.slot]!  // `remove` increments the generation, so an equal one means an occupied slot.
        }
        _modify {
            precondition(
                Int(self.generations[key.slot]) == key.generation, "stream \(key.rawValue) is forgotten")
            yield &self.slots[key.slot]!  // As above.
        }
    }

    var keys: [StreamKey] {
        (0..<self.slots.count).compactMap { self.slots[$0] == nil ? nil : self.key($0) }
    }

    private func key(_ slot: Int) -> StreamKey {
        StreamKey(slot: slot, generation: Int(self.generations[slot]))
    }

    // MARK: Identities and paths

    /// The indexed file with this identity.
    func key(of identity: FileIdentity) -> StreamKey? {
        self.identities.slot(Self.hash(identity)) { self.slots[$0]?.identity == identity }.map { self.key($0) }
    }

    /// The indexed file at this path.
    func key(at path: String) -> StreamKey? {
        self.paths.slot(FilePlace.hash(of: path)) { self.slots[$0]?.place.leads(to: path) == true }
            .map { self.key($0) }
    }

    /// Indexes a file by its identity, in place of any other with the same identity.
    mutating func indexIdentity(of key: StreamKey) {
        let identity = self[key].identity
        let hash = Self.hash(identity)
        if let other = self.key(of: identity) { self.identities.remove(other.slot, hash) }
        self.identities.insert(key.slot, hash)
    }

    mutating func removeIdentity(of key: StreamKey) {
        self.identities.remove(key.slot, Self.hash(self[key].identity))
    }

    /// Indexes a file by its path, in place of any other with the same path.
    mutating func indexPath(of key: StreamKey) {
        let place = self[key].place
        let hash = place.hash
        if let other = self.paths.slot(hash, where: { self.slots[$0]?.place == place }) {
            self.paths.remove(other, hash)
        }
        self.paths.insert(key.slot, hash)
    }

    mutating func removePath(of key: StreamKey) {
        self.paths.remove(key.slot, self[key].place.hash)
    }

    /// Changes a file's path and indexes it there.
    mutating func move(_ key: StreamKey, to path: String) {
        self.removePath(of: key)
        self.release(self[key].place.folder)
        var place = FilePlace(path)
        place.shareFolder(self.share(place.folder))
        self[key].place = place
        self.indexPath(of: key)
    }

    private static func hash(_ identity: FileIdentity) -> UInt32 {
        SlotIndex.hash { $0.combine(identity) }
    }

    /// The shared copy of a folder's name for all its files.
    private mutating func share(_ folder: PathKey) -> PathKey {
        guard let index = self.folders.index(forKey: folder) else {
            self.folders[folder] = 1
            return folder
        }
        self.folders.values[index] += 1
        return self.folders.keys[index]
    }

    private mutating func release(_ folder: PathKey) {
        guard let count = self.folders[folder] else { return }
        self.folders[folder] = count > 1 ? count - 1 : nil
    }
}

/// Files in pieces of one size: no growth copies all of them, or leaves room for as many more.
private struct FileSlots {
    private static let pieceCount = 1024

    private(set) var count = 0
    private var pieces: [[TailedFile?]] = []

    mutating func append(_ file: TailedFile) {
        if self.count == self.pieces.count * Self.pieceCount {
            self.pieces.append([])
            if self.count > 0 { self.pieces[self.pieces.count - 1].reserveCapacity(Self.pieceCount) }
        }
        self.pieces[self.pieces.count - 1].append(file)
        self.count += 1
    }

    subscript(slot: Int) -> TailedFile? {
        _read { yield self.pieces[slot / Self.pieceCount][slot % Self.pieceCount] }
        _modify { yield &self.pieces[slot / Self.pieceCount][slot % Self.pieceCount] }
    }
}

/// A first-in, first-out queue.
struct StreamQueue {
    private var keys: [StreamKey] = []
    private var head = 0

    var count: Int { self.keys.count - self.head }

    mutating func append(_ key: StreamKey) {
        self.keys.append(key)
    }

    mutating func popFirst() -> StreamKey? {
        guard self.head < self.keys.count else { return nil }
        let key = self.keys[self.head]
        self.head += 1
        if self.head == self.keys.count {
            // Capacity for all files at the start is released, because few have news later.
            self.keys.removeAll(keepingCapacity: self.keys.capacity <= 2 * Self.keptCount)
            self.head = 0
        } else if self.head > Self.keptCount, self.head * 2 > self.keys.count {
            self.keys.removeFirst(self.head)
            self.head = 0
        }
        return key
    }

    private static let keptCount = 64
}

/// The streams that wait for something.
struct StreamQueues {
    /// To be opened, or to be read.
    var ready = StreamQueue()
    /// Fully read segments, checked in turn for whether their writer is gone.
    var probes = StreamQueue()
    /// What could not be opened or read, for the next scan.
    var faulty: [StreamKey] = []
}
