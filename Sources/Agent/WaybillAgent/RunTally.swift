internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// What a run has done: its counts, its lines that became durable, how long it takes, and how far it is.
///
///     sent, skipped, acked, stored, noticed ─▶ RunTally ─▶ so far: the status, and progress now and then
///                                                       └▶ at the end: with what is left in the files
struct RunTally {
    /// How often progress is told.
    private static let progressPause = Duration.milliseconds(250)

    private(set) var summary = AgentSummary()
    private var lines: LineLedger
    let start: TailTime
    private var progressAt: MonotonicTime

    init(countsLines: Bool, at now: TailTime) {
        self.lines = LineLedger(isKept: countsLines)
        self.start = now
        self.progressAt = now.monotonic
    }

    // MARK: What happened

    /// - Parameter streamCount: of how many streams something was sent.
    mutating func sent(_ stream: StreamKey, _ header: BatchHeader, streamCount: Int) {
        self.lines.sent(
            stream, from: Int(header.offset.rawValue), byteCount: header.rawByteCount, lineCount: header.lineCount)
        self.summary.streamCount = streamCount
        self.summary.rawByteCount += header.rawByteCount
        self.summary.lineCount += header.lineCount
        self.summary.batchCount += 1
    }

    mutating func skipped(_ range: SkippedRange) {
        self.summary.skips.count(range)
    }

    /// A connection starts the stream at `offset`.
    mutating func resumed(_ stream: StreamKey, at offset: StreamOffset) {
        self.lines.resumed(stream, at: Int(offset.rawValue))
    }

    /// - Parameter byteCount: how many of the bytes this run did not know to be held.
    mutating func acked(_ stream: StreamKey, upTo offset: Int, byteCount: Int) {
        self.lines.acked(stream, upTo: offset)
        self.summary.ackedByteCount += byteCount
    }

    mutating func stored(byteCount: Int) { self.summary.storedByteCount += byteCount }

    /// - Parameter unstoredByteCount: what was not known to be stored before.
    mutating func sealed(unstoredByteCount: Int) {
        self.stored(byteCount: unstoredByteCount)
        self.summary.sealedStreamCount += 1
    }

    mutating func reshipped() { self.summary.reshippedSegmentCount += 1 }
    mutating func connected(_ meeting: ReceiverMeeting?) { self.summary.receivers.count(meeting) }
    mutating func setAside(_ counts: [QuarantineCount]) { self.summary.setAside.count(counts) }
    mutating func noticed(_ notice: TailNotice) { self.summary.notices.count(notice) }

    // MARK: What to tell

    /// Tells now and then how many bytes were sent, of how many.
    mutating func tell(
        _ progress: (_ done: Int, _ total: Int) -> Void, at now: MonotonicTime, restByteCount: () -> Int
    ) {
        guard now - self.progressAt > Self.progressPause else { return }
        self.progressAt = now
        progress(self.summary.rawByteCount, self.summary.rawByteCount + restByteCount())
    }

    /// What the run did so far.
    func summary(
        _ notices: TailNotices, _ successions: SuccessionCounts, wireByteCount: Int
    ) -> AgentSummary {
        var summary = self.summary
        summary.wireByteCount = wireByteCount
        summary.files.take(notices)
        summary.successions = successions
        return summary
    }

    /// The run has ended.
    mutating func end(
        _ notices: TailNotices, _ successions: SuccessionCounts, wireByteCount: Int, disputedStreamCount: Int,
        failure: String?, at now: MonotonicTime
    ) {
        self.summary = self.summary(notices, successions, wireByteCount: wireByteCount)
        self.summary.disputedStreamCount = disputedStreamCount
        self.summary.ackedLineCount = self.lines.ackedCount
        self.summary.duration = now - self.start.monotonic
        self.summary.lastFailure = failure
    }

    /// Counts what the run leaves in a file.
    ///
    /// - Parameter mayHaveLines: whether whole lines may be left; they are counted where lines are.
    mutating func leaves(_ position: StreamPosition, mayHaveLines: Bool, on files: some FileSystem) {
        self.summary.files.leave(position)
        guard self.lines.isKept, mayHaveLines else { return }
        self.summary.remainingLineCount += LineLedger.lineCount(of: position.path, from: position.acked, on: files)
    }
}
