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
///
/// What most files do not have at rest is in ``TailedFileParts``, so that beside 100,000 of them memory stays small.
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

    let identity: FileIdentity
    var place: FilePlace
    var birth: Int64 = 0
    /// As last seen; what was handed out, for a file that is gone.
    var byteCount: Int
    var modified: Int64
    /// The next byte to hand out.
    var cursor = 0
    private var ackedByteCount = 0
    private var headHash: UInt64 = 0
    /// What stood before `acked` when the file came to rest.
    private var markHash: UInt64 = 0
    private var registeredChecksum: UInt64 = 0
    private var parts: TailedFileParts?
    private var registeredByteCount: UInt32 = 0
    private let sourceIndex: UInt32
    var scanSeen: UInt32 = 0
    var phase = Phase.following
    var reach = Reach.path
    var ending = Ending.told
    /// 0 where there is no fingerprint, as for the mark.
    private var headByteCount: UInt16 = 0
    private var markByteCount: UInt8 = 0
    let isSegment: Bool
    private var isRegistered = false

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
    /// Whether anything of it was handed out since the start.
    var isShipped = false

    init(source: Int, origin: Origin, path: String, status: FileStatus) {
        self.sourceIndex = UInt32(source)
        self.identity = status.identity
        self.place = FilePlace(path)
        self.byteCount = status.byteCount
        self.modified = status.modified
        self.isSegment = origin != .foreign
        if case .segment(let id) = origin { self.own.segmentID = id }
    }

    /// Index of the source in the configuration.
    var source: Int { Int(self.sourceIndex) }

    /// Made when it is asked for.
    var path: String { self.place.path }

    var origin: Origin {
        guard self.isSegment, let id = self.parts?.segmentID else { return .foreign }
        return .segment(id: id)
    }

    /// The receiver's durable position.
    var acked: Int {
        get { self.ackedByteCount }
        set {
            guard newValue != self.ackedByteCount else { return }
            // What stood before the old position is known by its offset from now on.
            if self.mark != nil { _ = self.own }
            self.ackedByteCount = newValue
            if self.parts != nil { self.rest() }
        }
    }

    /// `nil`: not identified; segments have none and need none.
    var fingerprint: Fingerprint? {
        get {
            guard self.headByteCount > 0 else { return nil }
            return Fingerprint(hash: self.headHash, byteCount: Int(self.headByteCount))
        }
        set {
            self.headHash = newValue?.hash ?? 0
            self.headByteCount = UInt16(newValue?.byteCount ?? 0)
        }
    }

    private var mark: Fingerprint? {
        get {
            guard self.markByteCount > 0 else { return nil }
            return Fingerprint(hash: self.markHash, byteCount: Int(self.markByteCount))
        }
        set {
            self.markHash = newValue?.hash ?? 0
            self.markByteCount = UInt8(newValue?.byteCount ?? 0)
        }
    }

    /// `nil`: the registry has no entry of it.
    var registration: Registration? {
        get {
            guard self.isRegistered else { return nil }
            return Registration(checksum: self.registeredChecksum, byteCount: Int(self.registeredByteCount))
        }
        set {
            self.isRegistered = newValue != nil
            self.registeredChecksum = newValue?.checksum ?? 0
            self.registeredByteCount = UInt32(newValue?.byteCount ?? 0)
        }
    }

    // MARK: What a file at rest does not have

    /// The device in the stream's id; differs from the present one where a restart renumbered the devices.
    var idDevice: UInt64 {
        get { self.parts?.idDevice ?? self.identity.device }
        set { if newValue != self.idDevice { self.own.idDevice = newValue } }
    }

    var incarnation: Int {
        get { self.parts?.incarnation ?? 0 }
        set { if newValue != self.incarnation { self.own.incarnation = newValue } }
    }

    var pastHeads: [PastHead] {
        get { self.parts?.pastHeads ?? [] }
        set { if newValue != self.pastHeads { self.own.pastHeads = newValue } }
    }

    /// There is no line end between `cursor` and here.
    var examined: Int {
        get { self.parts?.examined ?? 0 }
        set { if newValue != self.examined { self.own.examined = newValue } }
    }

    var overlong: OverlongLine? {
        get { self.parts?.overlong }
        set { if newValue != self.overlong { self.own.overlong = newValue } }
    }

    var descriptor: FileID? {
        get { self.parts?.descriptor }
        set {
            if newValue != self.descriptor { self.own.descriptor = newValue }
            if newValue == nil { self.rest() }
        }
    }

    /// Of a file that is open: when it was used last, in uses.
    var lastUse: Int {
        get { self.parts?.lastUse ?? 0 }
        set { if newValue != self.lastUse { self.own.lastUse = newValue } }
    }

    /// Where batches ended that are on their way, and the last one that was acknowledged; in order.
    var anchors: [Anchor] {
        if let parts { return parts.anchors }
        return self.mark.map { [Anchor(end: self.acked, fingerprint: $0)] } ?? []
    }

    /// Remembers what the batch that was just cut ended in.
    mutating func addAnchor(_ anchor: Anchor) {
        let parts = self.own
        if parts.anchors.count == Anchor.countMax { parts.anchors.removeFirst(Anchor.countMax / 2) }
        parts.anchors.append(anchor)
    }

    /// Forgets what batches ended in that are acknowledged.
    mutating func removeAnchors(before offset: Int) {
        guard self.parts != nil else { return }
        let parts = self.own
        if let index = parts.anchors.firstIndex(where: { $0.end >= offset }), index > 0 {
            parts.anchors.removeFirst(index)
        }
    }

    /// Forgets all anchors but these.
    mutating func replaceAnchors(_ anchors: [Anchor]) {
        if anchors != self.anchors { self.own.anchors = anchors }
    }

    /// The parts, made where there are none, and shared with no copy of the file.
    private var own: TailedFileParts {
        mutating get {
            if isKnownUniquelyReferenced(&self.parts), let parts { return parts }
            let parts = self.parts.map { TailedFileParts(copying: $0) } ?? TailedFileParts(device: self.identity.device)
            if let mark = self.mark {
                parts.anchors = [Anchor(end: self.acked, fingerprint: mark)]
                self.mark = nil
            }
            self.parts = parts
            return parts
        }
    }

    /// Drops the parts where they say no more than that the file rests.
    mutating func rest() {
        guard let parts, parts.descriptor == nil, parts.segmentID == nil, parts.overlong == nil,
            parts.examined <= self.cursor, parts.incarnation == 0, parts.pastHeads.isEmpty,
            parts.idDevice == self.identity.device, parts.anchors.count <= 1,
            parts.anchors.allSatisfy({ $0.end == self.acked })
        else { return }
        self.mark = parts.anchors.first?.fingerprint
        self.parts = nil
    }

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

/// What a file has that is open, on its way, or has had other contents; shared by copies of it until one is changed.
private final class TailedFileParts {
    var segmentID: String?
    var idDevice: UInt64
    var incarnation = 0
    var pastHeads: [PastHead] = []
    var anchors: [Anchor] = []
    var examined = 0
    var overlong: OverlongLine?
    var descriptor: FileID?
    var lastUse = 0

    init(device: UInt64) {
        self.idDevice = device
    }

    init(copying other: TailedFileParts) {
        self.segmentID = other.segmentID
        self.idDevice = other.idDevice
        self.incarnation = other.incarnation
        self.pastHeads = other.pastHeads
        self.anchors = other.anchors
        self.examined = other.examined
        self.overlong = other.overlong
        self.descriptor = other.descriptor
        self.lastUse = other.lastUse
    }
}
