package import WaybillHost
internal import WaybillProtocol
package import WaybillSystem
package import WaybillTail

/// What a run did; `--once` prints it.
package struct AgentSummary: Hashable, Sendable {
    package var streamCount = 0
    package var rawByteCount = 0
    package var lineCount = 0
    package var batchCount = 0
    package var wireByteCount = 0
    package var skips = SkipCounts()
    package var sealedStreamCount = 0
    /// Bytes, skipped ones included, that receivers reported to hold and that this run did not know they held.
    package var ackedByteCount = 0
    /// Bytes of files that a fleet's bucket was said to have.
    package var storedByteCount = 0
    /// Lines that became durable, when lines are counted.
    package var ackedLineCount = 0
    /// Whole lines that are not durable, when lines are counted.
    package var remainingLineCount = 0
    package var receivers = ReceiverCounts()
    package var files = FileCounts()
    /// Bytes shipped again, and files that continue, after they were replaced or became shorter.
    package var successions = SuccessionCounts()
    package var notices = NoticeCounts()
    /// Segments of which a receiver held other bytes when the run ended, and those shipped under another id.
    package var disputedStreamCount = 0
    package var reshippedSegmentCount = 0
    package var setAside = SetAsideCounts()
    package var duration = Duration.zero
    /// Why the last attempt to ship failed; `nil` while a receiver accepts what it is sent.
    package var lastFailure: String?

    package init() {}

    /// One line of JSON.
    package var json: String {
        let milliseconds = self.duration.nanoseconds / 1_000_000
        let fraction = String(milliseconds % 1000 + 1000).dropFirst()
        return "{\"streams\":\(self.streamCount),\"bytes\":\(self.rawByteCount),\"lines\":\(self.lineCount),"
            + "\"batches\":\(self.batchCount),\"wire_bytes\":\(self.wireByteCount),"
            + "\"skipped_bytes\":\(self.skips.byteCount),\"sealed\":\(self.sealedStreamCount),"
            + "\"held_bytes\":\(self.files.heldByteCount),\"lost_bytes\":\(self.files.lostByteCount),"
            + "\"unreadable_files\":\(self.files.unreadableCount),\"refused_files\":\(self.files.refusedCount),"
            + "\"quarantined_lines\":\(self.setAside.lineCount),\"refused_events\":\(self.setAside.eventCount),"
            + "\"seconds\":\(milliseconds / 1000).\(fraction)}"
    }
}

/// Bytes of files that were passed over.
package struct SkipCounts: Hashable, Sendable {
    /// Bytes that no receiver will hold.
    package private(set) var byteCount = 0
    /// NULs that were skipped before lines; no one wrote them.
    package private(set) var holeByteCount = 0

    mutating func count(_ range: SkippedRange) {
        if range.isGivenUp { self.byteCount += Int(range.byteCount) }
        if range.reason == .hole { self.holeByteCount += Int(range.byteCount) }
    }
}

/// Receivers that accepted the agent.
package struct ReceiverCounts: Hashable, Sendable {
    package private(set) var connectionCount = 0
    /// Those that were met for the first time, and those that came back older.
    package private(set) var unknownCount = 0
    package private(set) var olderCount = 0

    /// - Parameter meeting: `nil` if it could not be written down.
    mutating func count(_ meeting: ReceiverMeeting?) {
        self.connectionCount += 1
        switch meeting {
        case .known, nil: break
        case .unknown: self.unknownCount += 1
        case .older: self.olderCount += 1
        }
    }
}

/// Files, and bytes of files, that are not shipped.
package struct FileCounts: Hashable, Sendable {
    /// Bytes of unfinished last lines, which wait for their LF; known at the end of a run.
    package private(set) var heldByteCount = 0
    /// Bytes that were seen, but truncated or deleted before they could be shipped.
    package private(set) var lostByteCount = 0
    /// Files that were not found again at a start, and may have had more lines.
    package private(set) var unseenEndCount = 0
    /// Files and folders that could not be read at the last attempt.
    package private(set) var unreadableCount = 0
    /// Files and folders that are not followed.
    package private(set) var refusedCount = 0

    mutating func take(_ notices: TailNotices) {
        self.lostByteCount = notices.loss.byteCount
        self.unseenEndCount = notices.unseenEndCount
        self.unreadableCount = notices.unreadable.count
        self.refusedCount = notices.refusals.values.reduce(0, +)
    }

    /// The run ends here in a file.
    mutating func leave(_ position: StreamPosition) {
        self.heldByteCount = self.heldByteCount.saturatingSum(max(0, position.byteCount - position.cursor))
    }
}

/// What was noticed about streams and kept files.
package struct NoticeCounts: Hashable, Sendable {
    /// Streams of which a receiver held other bytes, less than it had acknowledged, or more than is left of a segment.
    package private(set) var differingStreamCount = 0
    package private(set) var forgottenStreamCount = 0
    package private(set) var shortenedStreamCount = 0
    /// Segments that were delivered and deleted, and that a receiver of the same address does not hold.
    package private(set) var missingSegmentCount = 0
    /// Kept segments that were shipped again, and those that were deleted for their age or size.
    package private(set) var returnedSegmentCount = 0
    package private(set) var expiredSegmentCount = 0
    /// Lines deleted from the quarantine for their age or size.
    package private(set) var expiredQuarantineCount = 0

    mutating func count(_ notice: TailNotice) {
        switch notice {
        case .receiverDiffers, .segmentDisputed: self.differingStreamCount += 1
        case .receiverForgot: self.forgottenStreamCount += 1
        case .segmentShortened: self.shortenedStreamCount += 1
        case .segmentsMissing(let missing): self.missingSegmentCount += missing.count
        case .segmentsReturned(let count, _): self.returnedSegmentCount += count
        case .keptSegmentDeleted: self.expiredSegmentCount += 1
        case .quarantineDeleted: self.expiredQuarantineCount += 1
        default: break
        }
    }
}

/// What receivers reported to have set aside.
package struct SetAsideCounts: Hashable, Sendable {
    /// Lines in a receiver's quarantine.
    package private(set) var lineCount = 0
    /// Events that a receiver's exports refused; one may be refused by several.
    package private(set) var eventCount = 0

    mutating func count(_ counts: [QuarantineCount]) {
        for count in counts {
            if count.export == nil {
                self.lineCount = self.lineCount.saturatingSum(count.count)
            } else {
                self.eventCount = self.eventCount.saturatingSum(count.count)
            }
        }
    }
}

/// A run's current state.
package struct AgentStanding: Hashable, Sendable {
    package var summary = AgentSummary()
    package var isConnected = false
    /// Whether the receiver has acknowledged nothing for a minute of what is in flight.
    package var isStalled = false
    /// Whether the receiver says that it belongs to a fleet, and there is no reason to believe it.
    package var isFleetDoubted = false
    /// The number of followed files.
    package var streamCount = 0
    /// Bytes that were seen in files and are not acknowledged, including those in flight.
    package var pendingByteCount = 0
    package var inFlightByteCount = 0
    /// Files of which the receiver holds other bytes.
    package var disputedStreamCount = 0
    /// What is kept of what was shipped, and in the quarantine, as of the last look.
    package var kept = KeptFiles()
    /// How long the oldest whole line that is not acknowledged has waited, at most.
    package var oldestUnacked = Duration.zero
    /// How long ago every file that was written to within the last minutes was looked at.
    package var lookLag = Duration.zero
    /// The mounts that do not answer.
    package var hanging: [HangingWait] = []
    /// How far this machine's clock was ahead of the receiver's at the last connection; `nil` before the first.
    package var clockSkew: Duration?
    /// How many paths were refused since the start, by reason.
    package var refusals: [FileRefusal: Int] = [:]
    /// Foreign files that are shipped although they are probably no NDJSON, since the start.
    package var formats: [ForeignFormat: Int] = [:]
}

/// How a run ended.
package enum AgentOutcome: Hashable, Sendable {
    /// Everything present is durable.
    case drained(AgentSummary)
    /// Stopped with bytes that are not acknowledged; they are still on disk.
    case stopped(AgentSummary)
    /// No receiver could be reached, or none accepted this agent.
    case unreachable(String, AgentSummary)
    /// The state directory, the registry or a spool cannot be used.
    case failed(FileSystemError)
    /// The files for TLS cannot be used.
    case unsecurable(TLSSetupError)
    /// The address for metrics cannot be used.
    case unmeasurable(MetricsServer.Failure)
    /// The state has logs of an agent with another name.
    case misnamed(AgentNameChange)

    /// What the run did; `nil` for one that did nothing.
    package var summary: AgentSummary? {
        switch self {
        case .drained(let summary), .stopped(let summary), .unreachable(_, let summary): summary
        case .failed, .unsecurable, .unmeasurable, .misnamed: nil
        }
    }
}
