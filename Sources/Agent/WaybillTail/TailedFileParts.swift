internal import WaybillSystem

/// State of a file that is open, has batches in flight, or had other contents.
struct TailedFileParts {
    /// One for each file; copies of a file share it until one of them changes it.
    final class Box {
        var value: TailedFileParts

        init(_ value: TailedFileParts) { self.value = value }
    }

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
    var keptBelow = 0
    var earlier: EarlierBytes?
    var real: FilePlace?
    var examined = 0
    var overlong: OverlongLine?
    var hole: PendingHole?
    var descriptor: FileID?

    /// Up to where the content was shipped in other streams than the present one, and to other receivers.
    var shippedByteCount: Int {
        self.others.reduce(max(self.heldBelow, self.walk?.best?.offset ?? 0, self.earlier?.byteCount ?? 0)) {
            max($0, $1.offset)
        }
    }

    /// Whether a file at rest needs none of it, but for the proof for the bytes before its acknowledged offset.
    func isSpare(cursor: Int, acked: Int) -> Bool {
        self.descriptor == nil && self.segmentID == nil && self.overlong == nil && self.examined <= cursor
            && self.incarnation == 0 && self.streamIncarnation == 0 && self.walk == nil && self.heldBelow == 0
            && self.others.isEmpty && self.disputes.isEmpty && self.pastHeads.isEmpty && self.stem == nil
            && self.earlier == nil && self.keptBelow == 0 && self.real == nil && self.ends.ends.count <= 1
            && self.hole.map { $0.end <= acked } ?? true
            && self.anchors.count <= 1 && self.anchors.allSatisfy { $0.end == acked }
    }
}
