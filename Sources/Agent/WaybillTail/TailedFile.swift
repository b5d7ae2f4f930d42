internal import WaybillProtocol
internal import WaybillSystem

/// The state of a stream's entry in the registry.
struct Registration: Hashable {
    /// FNV-1a 64 of the entry's text.
    let checksum: UInt64
    private let count: UInt32

    init(checksum: UInt64, byteCount: Int) {
        self.checksum = checksum
        self.count = UInt32(byteCount)
    }

    var byteCount: Int { Int(self.count) }

    /// An entry from before the start; the first checkpoint rewrites it in any case.
    static let found = Registration(checksum: 0, byteCount: 0)
}

/// One incarnation of one source file, or a file that is not identified yet.
///
/// State that most idle files do not need is in ``TailedFileParts``, which saves memory with 100,000 files.
struct TailedFile {
    enum Origin: Hashable {
        case segment(id: String)
        case foreign
    }

    /// How the file can be read.
    enum Reach: Hashable {
        /// By its path. Next: any other.
        case path
        /// Only by the open descriptor: the file was unlinked or moved away. Next: `.path`, `.gone`.
        case descriptor
        /// Not at all: another file has its inode. Its content may continue in a file of its name. Next: `.path`,
        /// `.descriptor`, `.gone`.
        case replaced
        /// Not at all: the file was deleted, truncated or replaced. Terminal.
        case gone
    }

    /// Whether the file may still grow.
    enum Phase: Hashable {
        /// A pattern of its source matches. Next: `.left`, `.complete`.
        case following
        /// Renamed away or deleted; not grown since then. Next: `.following`, `.complete`.
        case left(since: MonotonicTime)
        /// Nothing more will be appended. Next: `.sealOffered`, or `.following` when a foreign file returns.
        case complete
        /// `.sealed` was returned. Next: `.sealed`, or `.complete` when the connection is lost.
        case sealOffered
        /// The receiver sealed this segment, and it could not be deleted yet. Terminal.
        case sealed(byteCount: Int)
    }

    /// How an unreadable stream ended, and whether its loss is still to be reported.
    enum Ending: String {
        /// The stream has not ended, or its loss was reported.
        case told
        case cut
        /// The file disappeared while it was not open, so its end is unknown.
        case unseen
    }

    /// The file that has the content now.
    private(set) var identity: FileIdentity
    var place: FilePlace
    var birth: Int64 = 0
    /// The length at the last check; for a file that is gone, the length that was returned.
    var byteCount: Int
    var modified: Int64
    /// The offset of the next byte to return.
    var cursor = 0
    private var ackedByteCount = 0
    private var provenEnd = 0
    private var box: TailedFileParts.Box?
    // Small members fill the room behind those whose size is not a multiple of eight.
    /// The last bytes below ``provenByteCount`` as in ``SeenEnd``, if they are not shipped; `nil` if unknown.
    var provenTail: Fingerprint?
    /// The head's fingerprint; `nil` if the file is not identified, and always for segments.
    var fingerprint: Fingerprint?
    /// Whether the file could not be opened or read; retried after the next scan.
    var isFaulty = false
    private var sourceIndex: UInt32
    /// The state in the registry; `nil` if it has no entry.
    var registration: Registration?
    let isSegment: Bool
    var reach = Reach.path
    var ending = Ending.told
    /// The proof for the bytes before ``acked`` when the file became idle.
    private var mark: ProofDigest?
    /// Whether the receiver's position on this connection is known.
    var isPositioned = false
    /// Whether to ask for the receiver's position although the file is unchanged.
    var isAsking = false
    var isQueued = false
    private var receiverOrdinal: UInt32 = 0
    var scanSeen: UInt32 = 0
    var isProbing = false
    /// Whether the file has grown since the last check of its grace period.
    var isGrowing = false
    /// Whether any of its bytes were returned since the start.
    var isShipped = false
    /// Whether the end of this content waits until the file's next one has an entry in the registry.
    var isAwaitingSuccessor = false
    var phase = Phase.following
    /// Whether it waits until it is decided: it is not at its path (``Departures``), or shorter than what
    /// was read (``ShortFiles``).
    var isUndecided = false

    init(source: Int, origin: Origin, path: String, status: FileStatus) {
        self.sourceIndex = UInt32(source)
        self.identity = status.identity
        self.place = FilePlace(path)
        self.byteCount = status.byteCount
        self.modified = status.modified
        self.isSegment = origin != .foreign
        if case .segment(let id) = origin { self.own.value.segmentID = id }
    }

    /// Index of the source in the configuration.
    var source: Int {
        get { Int(self.sourceIndex) }
        set { self.sourceIndex = UInt32(newValue) }
    }

    /// Made when it is asked for.
    var path: String { self.place.path }

    var origin: Origin {
        guard self.isSegment, let id = self.box?.value.segmentID else { return .foreign }
        return .segment(id: id)
    }

    /// The receiver that ``acked`` is from; 0 while none is known to hold anything of the file.
    var receiver: Int {
        get { Int(self.receiverOrdinal) }
        set { self.receiverOrdinal = UInt32(newValue) }
    }

    /// The receiver's durable position.
    var acked: Int {
        get { self.ackedByteCount }
        set {
            guard newValue != self.ackedByteCount else { return }
            // From now on, the bytes before the old position are known by its offset.
            if self.mark != nil { _ = self.own }
            self.ackedByteCount = newValue
            if self.box != nil { self.rest() }
        }
    }

    // MARK: State that idle files do not have

    /// What the streams' ids begin with.
    var stem: FileStem {
        get { self.box?.value.stem ?? self.ownStem }
        set {
            guard newValue != self.stem else { return }
            self.own.value.stem = newValue == self.ownStem ? nil : newValue
        }
    }

    private var ownStem: FileStem { FileStem(self.identity, birth: self.birth) }

    /// Whether the ids are those of another file, which had the content before.
    var hasFormerStem: Bool { self.box?.value.stem != nil }

    /// The last batch ends of the content.
    var ends: BatchEnds {
        get { self.box?.value.ends ?? BatchEnds() }
        set { if newValue != self.ends { self.own.value.ends = newValue } }
    }

    /// The length at which the file was last seen to have this content.
    var provenByteCount: Int {
        get { max(self.provenEnd, self.shippedByteCount) }
        set {
            guard newValue != self.provenByteCount else { return }
            self.provenEnd = newValue
            self.provenTail = nil
        }
    }

    /// How many of the first bytes are no loss though the stream lacks them: they were shipped in the stream of the content
    /// before, or are in the content after it.
    var keptBelow: Int {
        get { self.box?.value.keptBelow ?? 0 }
        set { if newValue != self.keptBelow { self.own.value.keptBelow = newValue } }
    }

    /// Up to where the content was shipped, in whichever stream and to whichever receiver: a log that is shorter, or that
    /// has other bytes there, has another content.
    var shippedByteCount: Int {
        max(self.cursor, self.acked, self.isSegment ? 0 : self.box?.value.shippedByteCount ?? 0)
    }

    /// Whether the present receiver may hold something, also of what was sent on a connection that is lost.
    var wasSent: Bool { max(self.cursor, self.acked) > 0 || self.anchors.contains { $0.end > 0 } }

    /// How many of the first bytes the present receiver holds, in whichever stream.
    func heldByteCount(at receiver: Int?) -> Int {
        guard let receiver, let box else { return self.acked }
        let earlier = box.value.earlier.flatMap { $0.receiver == receiver ? $0.byteCount : nil } ?? 0
        return max(self.acked, box.value.heldBelow, box.value.walk?.best?.offset ?? 0, earlier)
    }

    /// The first bytes that a receiver holds in the stream of the content before.
    var earlier: EarlierBytes? {
        get { self.box?.value.earlier }
        set { if newValue != self.earlier { self.own.value.earlier = newValue } }
    }

    /// Where the file is, if links lead there from ``place``.
    var real: FilePlace? {
        get { self.box?.value.real }
        set { if newValue != self.real { self.own.value.real = newValue } }
    }

    /// The same file on a device that may have another number now: one with a birth, and not open, can be told from others.
    func renumbered(_ device: UInt64?) -> TailedFile {
        guard let device, device != self.identity.device, self.birth != 0, self.descriptor == nil else { return self }
        var file = self
        file.identity = FileIdentity(device: device, inode: self.identity.inode)
        file.stem = self.stem
        return file
    }

    /// Makes another file the one that has the content.
    mutating func continues(in other: TailedFile) {
        let stem = self.stem
        self.identity = other.identity
        self.birth = other.birth
        self.own.value.stem = stem == self.ownStem ? nil : stem
        self.place = other.place
        self.real = other.real
        self.byteCount = other.byteCount
        self.modified = other.modified
        self.scanSeen = other.scanSeen
        self.phase = other.phase
        self.reach = other.reach
        self.examined = 0
        self.overlong = nil
        self.hole = nil
        self.isFaulty = false
        self.isUndecided = false
        self.isGrowing = false
    }

    /// The number of earlier contents of the file with the same head, as far as this agent saw them.
    var incarnation: Int {
        get { self.box?.value.incarnation ?? 0 }
        set { if newValue != self.incarnation { self.own.value.incarnation = newValue } }
    }

    /// The number in the id under which the present receiver knows the content.
    var streamIncarnation: Int {
        get { self.box?.value.streamIncarnation ?? 0 }
        set { if newValue != self.streamIncarnation { self.own.value.streamIncarnation = newValue } }
    }

    /// The search for ``streamIncarnation``; `nil` when it is not going on.
    var walk: IncarnationWalk? {
        get { self.box?.value.walk }
        set { if newValue != self.walk { self.own.value.walk = newValue } }
    }

    /// The number of incarnations that were asked for on this connection.
    var walkCount: Int {
        get { self.box?.value.walkCount ?? 0 }
        set { if newValue != self.walkCount { self.own.value.walkCount = newValue } }
    }

    /// How many of the first bytes the receiver holds in a sealed stream: this stream begins with a skip of them.
    var heldBelow: Int {
        get { self.box?.value.heldBelow ?? 0 }
        set { if newValue != self.heldBelow { self.own.value.heldBelow = newValue } }
    }

    /// What receivers other than the present one hold.
    var others: [HeldOffset] {
        get { self.box?.value.others ?? [] }
        set { if newValue != self.others { self.own.value.others = newValue } }
    }

    /// Which receivers disagree with this segment's bytes.
    var disputes: [SegmentDispute] {
        get { self.box?.value.disputes ?? [] }
        set { if newValue != self.disputes { self.own.value.disputes = newValue } }
    }

    /// What the present receiver holds; `nil` while that is not known, or while it holds part of it in another stream.
    var held: HeldOffset? {
        guard self.receiver > 0, self.heldBelow == 0 else { return nil }
        return HeldOffset(
            receiver: self.receiver, incarnation: self.streamIncarnation, offset: self.acked,
            digest: self.anchors.first { $0.end == self.acked }?.digest)
    }

    /// Continues with what another receiver holds; with nothing when that is not known.
    mutating func resume(_ held: HeldOffset?) {
        self.receiver = held?.receiver ?? 0
        self.acked = held?.offset ?? 0
        self.cursor = self.acked
        self.streamIncarnation = held?.incarnation ?? 0
        self.replaceAnchors(held?.digest.map { [Anchor(end: self.acked, digest: $0)] } ?? [])
        self.walk = nil
        self.walkCount = 0
        self.heldBelow = 0
    }

    var pastHeads: [PastHead] {
        get { self.box?.value.pastHeads ?? [] }
        set { if newValue != self.pastHeads { self.own.value.pastHeads = newValue } }
    }

    /// The offset up to which there is no line end after `cursor`.
    var examined: Int {
        get { self.box?.value.examined ?? 0 }
        set { if newValue != self.examined { self.own.value.examined = newValue } }
    }

    var overlong: OverlongLine? {
        get { self.box?.value.overlong }
        set { if newValue != self.overlong { self.own.value.overlong = newValue } }
    }

    var hole: PendingHole? {
        get { self.box?.value.hole }
        set { if newValue != self.hole { self.own.value.hole = newValue } }
    }

    var descriptor: FileID? {
        get { self.box?.value.descriptor }
        set {
            if newValue != self.descriptor { self.own.value.descriptor = newValue }
            guard newValue == nil else { return }
            self.ends = self.ends.kept
            self.rest()
        }
    }

    /// The ends of unacknowledged batches and of the last acknowledged one, in order.
    var anchors: [Anchor] {
        if let box { return box.value.anchors }
        return self.mark.map { [Anchor(end: self.acked, digest: $0)] } ?? []
    }

    /// Remembers the last bytes of the batch just split off.
    mutating func addAnchor(_ anchor: Anchor) {
        let box = self.own
        if box.value.anchors.count == Anchor.countMax { box.value.anchors.removeFirst(Anchor.countMax / 2) }
        box.value.anchors.append(anchor)
    }

    /// Removes the anchors of acknowledged batches.
    mutating func removeAnchors(before offset: Int) {
        guard self.box != nil else { return }
        let box = self.own
        if let index = box.value.anchors.firstIndex(where: { $0.end >= offset }), index > 0 {
            box.value.anchors.removeFirst(index)
        }
    }

    /// Removes all anchors except these.
    mutating func replaceAnchors(_ anchors: [Anchor]) {
        if anchors != self.anchors { self.own.value.anchors = anchors }
    }

    /// The parts, created if missing, and not shared with copies of the file.
    private var own: TailedFileParts.Box {
        mutating get {
            if isKnownUniquelyReferenced(&self.box), let box { return box }
            let box = TailedFileParts.Box(self.box?.value ?? TailedFileParts())
            if let mark = self.mark {
                box.value.anchors = [Anchor(end: self.acked, digest: mark)]
                self.mark = nil
            }
            self.box = box
            return box
        }
    }

    /// Drops the parts if they have only default values.
    mutating func rest() {
        guard let box, box.value.isSpare(cursor: self.cursor, acked: self.acked) else { return }
        self.mark = box.value.anchors.first?.digest
        self.box = nil
    }

    var isIdentified: Bool { self.isSegment || self.fingerprint != nil }

    /// Whether the file may still be written to, as far as known.
    var mayGrow: Bool {
        switch self.phase {
        case .following, .left: true
        case .complete, .sealOffered, .sealed: false
        }
    }

    /// Whether all currently available bytes were returned.
    var isDrained: Bool { max(self.cursor, self.examined) >= self.byteCount }

    /// Whether a read would return something, as far as known without reading.
    var needsRead: Bool {
        guard self.isIdentified, !self.isFaulty, !self.isAwaitingSuccessor, !self.isUndecided else { return false }
        if self.reach != .gone, self.hole?.isWaiting(at: self.cursor) ?? false { return false }
        // What no receiver holds and no one can read any more has nothing to be sealed.
        if self.reach == .gone, self.receiver == 0 { return false }
        if self.isAsking { return true }
        switch self.phase {
        case .following, .left: return !self.isDrained
        case .complete: return true
        case .sealOffered, .sealed: return false
        }
    }

    /// Whether its descriptor may be closed: the path still leads to the file, or its bytes are not needed again.
    var isDescriptorSpare: Bool {
        switch self.reach {
        case .path, .replaced, .gone: true
        case .descriptor: self.isIdentified && self.cursor >= self.byteCount && self.acked >= self.byteCount
        }
    }

    /// The heads with which this file's next incarnation must not be confused.
    ///
    /// - Parameter number: the greatest number under which a fleet may know this content.
    func pastHeadsOfSuccessor(afterNumber number: Int) -> [PastHead] {
        guard let fingerprint else { return self.pastHeads }
        let next = max(self.incarnation, self.streamIncarnation, number) + 1
        let own = PastHead(hash: fingerprint.hash, nextIncarnation: next)
        return Array((self.pastHeads.filter { $0.hash != fingerprint.hash } + [own]).suffix(PastHead.countMax))
    }
}

/// A line longer than the limit whose beginning is being copied to the quarantine folder.
struct OverlongLine: Hashable {
    let offset: Int
    /// The offset up to which bytes have no LF and were copied, as far as the copy may grow.
    var scanned: Int
    /// The length at which it is reported next.
    var toldLength = 0
}
