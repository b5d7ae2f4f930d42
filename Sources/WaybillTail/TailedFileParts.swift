internal import WaybillSystem

/// State of a file that is open, has batches in flight, or had other contents; shared by copies until one changes it.
final class TailedFileParts {
    var segmentID: String?
    /// Where the content was found first; `nil`: where it is.
    var stem: FileStem?
    var incarnation = 0
    var streamIncarnation = 0
    var walk: IncarnationWalk?
    var walkCount = 0
    var heldBelow = 0
    var others: [HeldOffset] = []
    var disputes: [SegmentDispute] = []
    var pastHeads: [PastHead] = []
    var anchors: [Anchor] = []
    var ends = BatchEnds()
    var provenByteCount = 0
    var earlier: EarlierBytes?
    var real: FilePlace?
    var examined = 0
    var overlong: OverlongLine?
    var hole: PendingHole?
    var descriptor: FileID?
    var lastUse = 0

    init() {}

    init(copying other: TailedFileParts) {
        self.segmentID = other.segmentID
        self.stem = other.stem
        self.incarnation = other.incarnation
        self.streamIncarnation = other.streamIncarnation
        self.walk = other.walk
        self.walkCount = other.walkCount
        self.heldBelow = other.heldBelow
        self.others = other.others
        self.disputes = other.disputes
        self.pastHeads = other.pastHeads
        self.anchors = other.anchors
        self.ends = other.ends
        self.provenByteCount = other.provenByteCount
        self.earlier = other.earlier
        self.real = other.real
        self.examined = other.examined
        self.overlong = other.overlong
        self.hole = other.hole
        self.descriptor = other.descriptor
        self.lastUse = other.lastUse
    }
}
