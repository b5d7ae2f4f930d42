internal import WaybillProtocol
package import WaybillSystem

/// How much of the journal is kept for exports that have not read it; `nil` for no limit.
package struct UnreadJournalLimit: Hashable, Sendable {
    /// The maximum size of the journal; the oldest segments are deleted first.
    package var byteCountMax: Int?
    /// Segments last written this long ago are deleted.
    package var ageMax: Duration?

    package init(byteCountMax: Int? = nil, ageMax: Duration? = nil) {
        self.byteCountMax = byteCountMax
        self.ageMax = ageMax
    }
}

/// A segment that was deleted although something may not have read it.
package struct FreedSegment: Hashable, Sendable {
    package enum Reason: Hashable, Sendable {
        case age, bytes
    }

    package let start: JournalPosition
    package let end: JournalPosition
    package let byteCount: Int
    package let reason: Reason
    /// When its first group was received; `nil` if that cannot be read.
    package let received: WallTime?
    /// When it was last written.
    package let written: WallTime
}

extension Journal {
    /// Deletes the oldest segment if the journal is over the limit and the archive has all of the segment.
    ///
    /// What only an export lacks can be made again from the archive; what the archive lacks is never deleted.
    ///
    /// - Parameter archived: the position up to which the archive, and others that must, have read.
    /// - Returns: the segment; `nil` if nothing is to be deleted.
    package mutating func freeUnread(
        before archived: JournalPosition, beyond limit: UnreadJournalLimit, now: WallTime
    ) throws(FileSystemError) -> FreedSegment? {
        guard limit.byteCountMax != nil || limit.ageMax != nil, self.segments.count > 1,
            self.segments[1] <= archived
        else { return nil }
        let (start, end) = (self.segments[0], self.segments[1])
        let path = JournalPath.segment(start, in: self.directory)
        guard let status = try self.files.status(at: path) else {
            self.watch.retired(self.segments.removeFirst())
            return try self.freeUnread(before: archived, beyond: limit, now: now)
        }
        let reason: FreedSegment.Reason
        let written = WallTime(milliseconds: status.modified / 1_000_000)
        if let age = limit.ageMax, now.milliseconds - written.milliseconds >= age.nanoseconds / 1_000_000 {
            reason = .age
        } else if let bytes = limit.byteCountMax, self.end.rawValue - start.rawValue > bytes {
            reason = .bytes
        } else {
            return nil
        }
        let received = try self.firstTime(of: start, upTo: end)
        try self.files.unlink(path)
        self.watch.retired(self.segments.removeFirst())
        return FreedSegment(
            start: start, end: end, byteCount: status.byteCount, reason: reason, received: received, written: written)
    }

    /// The bytes above a limit, of which the segment that is being written may be one part.
    package func excess(over limit: UnreadJournalLimit) -> Int {
        guard let max = limit.byteCountMax, self.segments.count > 1 else { return 0 }
        return Swift.max(0, self.end.rawValue - self.segments[0].rawValue - max)
    }

    /// The time of a segment's head, which is that of the last group before it.
    private func firstTime(
        of segment: JournalPosition, upTo end: JournalPosition
    ) throws(FileSystemError) -> WallTime? {
        var scanner = try SegmentScanner(segment: segment, in: self.directory, limit: end, files: self.files)
        scanner.isReadingPayloads = false
        while true {
            switch try scanner.next() {
            case .message(.mark): return scanner.receivedAt == .unknown ? nil : scanner.receivedAt
            case .message, .batch: break
            case .damaged, .end: return nil
            }
        }
    }
}
