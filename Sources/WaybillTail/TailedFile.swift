internal import WaybillSystem

/// The first line of a file with its LF, or its first 4096 bytes: what tells two files in one inode apart.
struct Fingerprint: Hashable, Sendable {
    /// Longer heads would cost a read per batch and tell no more.
    static let byteCountMax = 4096

    let hash: UInt64
    let byteCount: Int

    init(hash: UInt64, byteCount: Int) {
        self.hash = hash
        self.byteCount = byteCount
    }

    init(of bytes: UnsafeRawBufferPointer) {
        self.init(hash: FNV1a.hash(bytes), byteCount: bytes.count)
    }
}

/// The bytes before an offset at which a batch ended: what tells that a file with the same head was not rewritten.
struct Anchor: Hashable, Sendable {
    /// Two lines that are alike in so many bytes before the same offset are taken for one.
    static let byteCountMax = 64
    /// How many batch ends of one file are remembered; of older ones only that a line ends there is checked.
    static let countMax = 64

    let end: Int
    let fingerprint: Fingerprint

    init(end: Int, fingerprint: Fingerprint) {
        self.end = end
        self.fingerprint = fingerprint
    }

    /// The end of a batch.
    init(end: Int, of batch: UnsafeRawBufferPointer) {
        self.end = end
        self.fingerprint = Fingerprint(of: UnsafeRawBufferPointer(rebasing: batch.suffix(Self.byteCountMax)))
    }
}

/// An incarnation number that the next file content with this head gets.
struct PastHead: Hashable, Sendable {
    let hash: UInt64
    let nextIncarnation: Int

    /// How many heads of one file are remembered; what is older is forgotten.
    static let countMax = 32
}

/// What the registry was last given of a stream.
struct Registration: Hashable {
    /// FNV-1a 64 of the entry's text.
    let checksum: UInt64
    let byteCount: Int

    /// An entry from before the start; the first checkpoint writes it anew, whatever it says.
    static let found = Registration(checksum: 0, byteCount: 0)
}

/// One incarnation of one source file, or a file that is not identified yet.
struct TailedFile {
    enum Origin: Hashable {
        case segment(id: String)
        case foreign
    }

    /// How its bytes can be had.
    enum Reach: Hashable {
        /// Through its path. Leaves to all others.
        case path
        /// Through the open descriptor alone: unlinked, or moved out of sight. Leaves to `.path` and `.gone`.
        case descriptor
        /// Not at all: deleted, cut or replaced. Terminal.
        case gone
    }

    /// Whether more bytes may come.
    enum Phase: Hashable {
        /// Under its source's patterns. Leaves to `.left` and `.complete`.
        case following
        /// Renamed away or deleted; not grown since then. Leaves to `.following` and `.complete`.
        case left(since: MonotonicTime)
        /// Nothing more will be appended. Leaves to `.sealOffered`, and to `.following` when a foreign file comes back.
        case complete
        /// `.sealed` was handed out. Leaves to `.complete` when the connection is lost, and to `.sealed`.
        case sealOffered
        /// A segment that the receiver sealed and that could not be deleted yet. Terminal.
        case sealed(byteCount: Int)
    }

    /// How a stream ended whose bytes cannot be had any more, and what is still to be said of it.
    enum Ending: String {
        /// It has not, or all was said.
        case told
        case cut
        /// It went, and nobody had it open to see how it ended.
        case unseen
    }

    let source: Int
    let identity: FileIdentity
    let origin: Origin
    var path: String
    var reach = Reach.path
    var phase = Phase.following
    var ending = Ending.told
    var birth: Int64 = 0
    /// The device in the stream's id; differs from the present one where a restart renumbered the devices.
    var idDevice: UInt64
    /// `nil`: not identified; segments have none and need none.
    var fingerprint: Fingerprint?
    var incarnation = 0
    var pastHeads: [PastHead] = []
    /// Where batches ended that are on their way, and the last one that was acknowledged; in order.
    var anchors: [Anchor] = []

    /// As last seen; what was handed out, for a file that is gone.
    var byteCount: Int
    var modified: Int64
    /// The next byte to hand out.
    var cursor = 0
    /// The receiver's durable position.
    var acked = 0
    /// There is no line end between `cursor` and here.
    var examined = 0
    var overlong: OverlongLine?

    /// `nil`: the registry has no entry of it.
    var registration: Registration?

    /// Whether the receiver's position on this connection is known.
    var isPositioned = false
    /// Asks for the receiver's position though there is no news.
    var isAsking = false
    var isQueued = false
    /// Could not be opened or read; tried again after the next scan.
    var isFaulty = false
    var isProbing = false
    /// Grew since it was last looked at for having left.
    var isGrowing = false
    var scanSeen = 0
    var descriptor: FileID?
    var lastUse = 0

    init(source: Int, origin: Origin, path: String, status: FileStatus) {
        self.source = source
        self.identity = status.identity
        self.idDevice = status.identity.device
        self.origin = origin
        self.path = path
        self.byteCount = status.byteCount
        self.modified = status.modified
    }

    var isSegment: Bool { self.origin != .foreign }

    var isIdentified: Bool { self.isSegment || self.fingerprint != nil }

    /// Whether it may still be written to, as far as is known.
    var mayGrow: Bool {
        switch self.phase {
        case .following, .left: true
        case .complete, .sealOffered, .sealed: false
        }
    }

    /// Everything that can be handed out now has been.
    var isDrained: Bool { max(self.cursor, self.examined) >= self.byteCount }

    /// Whether a read would give something, as far as is known without one.
    var needsRead: Bool {
        guard self.isIdentified, !self.isFaulty else { return false }
        if self.isAsking { return true }
        switch self.phase {
        case .following, .left: return !self.isDrained
        case .complete: return true
        case .sealOffered, .sealed: return false
        }
    }

    /// Whether a descriptor of it may be closed: its path leads back to it, or nobody needs its bytes again.
    var isDescriptorSpare: Bool {
        switch self.reach {
        case .path, .gone: true
        case .descriptor: self.isIdentified && self.cursor >= self.byteCount && self.acked >= self.byteCount
        }
    }

    /// The heads this file's next incarnation must not be mistaken for.
    var pastHeadsOfSuccessor: [PastHead] {
        guard let fingerprint else { return self.pastHeads }
        let own = PastHead(hash: fingerprint.hash, nextIncarnation: self.incarnation + 1)
        return Array((self.pastHeads.filter { $0.hash != fingerprint.hash } + [own]).suffix(PastHead.countMax))
    }
}

/// A line longer than the limit on its way to the quarantine folder.
struct OverlongLine: Hashable {
    let offset: Int
    /// Everything before this was copied and holds no LF.
    var scanned: Int
}

/// The files of a tail, by handle.
struct FileTable {
    private var slots: [TailedFile?] = []
    private var generations: [Int] = []
    private var free: [Int] = []

    var count: Int { self.slots.count - self.free.count }

    func contains(_ key: StreamKey) -> Bool {
        key.slot < self.slots.count && self.generations[key.slot] == key.generation && self.slots[key.slot] != nil
    }

    mutating func insert(_ file: TailedFile) -> StreamKey {
        if let slot = self.free.popLast() {
            self.slots[slot] = file
            return StreamKey(slot: slot, generation: self.generations[slot])
        }
        self.slots.append(file)
        self.generations.append(0)
        return StreamKey(slot: self.slots.count - 1, generation: 0)
    }

    mutating func remove(_ key: StreamKey) {
        precondition(self.contains(key), "stream \(key.rawValue) is forgotten")
        self.slots[key.slot] = nil
        self.generations[key.slot] += 1
        self.free.append(key.slot)
    }

    /// Traps for a handle that ``contains(_:)`` does not know.
    subscript(key: StreamKey) -> TailedFile {
        _read {
            precondition(self.generations[key.slot] == key.generation, "stream \(key.rawValue) is forgotten")
            yield self.slots[key.slot]!  // `remove` raises the generation, so an equal one means an occupied slot.
        }
        _modify {
            precondition(self.generations[key.slot] == key.generation, "stream \(key.rawValue) is forgotten")
            yield &self.slots[key.slot]!  // As above.
        }
    }

    var keys: [StreamKey] {
        self.slots.indices.compactMap { slot in
            self.slots[slot] == nil ? nil : StreamKey(slot: slot, generation: self.generations[slot])
        }
    }
}

/// First in, first out.
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
        if self.head > 64, self.head * 2 > self.keys.count {
            self.keys.removeFirst(self.head)
            self.head = 0
        }
        return key
    }
}
