package import WaybillProtocol
package import WaybillSystem

/// A batch as stored in the journal.
package struct JournalRecord {
    package let position: JournalPosition
    /// The position of the next record.
    package let end: JournalPosition
    package let header: BatchHeader
    package let description: StreamDescription
    package let receivedAt: WallTime
    /// The compressed bytes, checksum verified; valid until the next call.
    package let payload: UnsafeRawBufferPointer
}

/// Reads batches from a given position on, across segments, while the journal is being written.
package struct JournalReader<Files: FileSystem>: ~Copyable {
    private let directory: String
    private let files: Files
    /// All batches before this position were read.
    package private(set) var position: JournalPosition
    /// Ranges skipped since the last call of ``takeDamages()``.
    private var damages: [JournalDamage] = []
    /// The last time before ``position``; ``WallTime/unknown`` if none was read.
    package private(set) var time = WallTime.unknown
    private var open: OpenSegment?
    /// Descriptions from other segments, for streams whose `OPEN` line is damaged in the open segment.
    private var described: (others: OtherSegments, streams: [StreamName: StreamDescription])?

    private struct OpenSegment: ~Copyable {
        let base: JournalPosition
        var scanner: SegmentScanner<Files>
        /// The position after the last mark or batch: lines after it may be a damaged batch.
        var confirmed: JournalPosition
    }

    package init(directory: String, position: JournalPosition, files: Files) {
        self.directory = directory
        self.files = files
        self.position = position
    }

    /// Returns the damage found since the last call, for the driver to report.
    package mutating func takeDamages() -> [JournalDamage] {
        defer { self.damages = [] }
        return self.damages
    }

    /// The next batch that ends at or before `end`; `nil` when there is none yet.
    ///
    /// - Parameter end: the position up to which the journal is durable.
    package mutating func next(upTo end: JournalPosition) throws(FileSystemError) -> JournalRecord? {
        while self.position < end {
            guard try self.openSegment(upTo: end) else { return nil }
            guard var segment = self.open.take() else { return nil }
            let start = segment.scanner.position
            segment.scanner.isReadingPayloads = start >= self.position
            switch try segment.scanner.next() {
            case .message(.mark):
                segment.confirmed = segment.scanner.position
                self.position = max(self.position, segment.confirmed)
                if segment.scanner.receivedAt != .unknown { self.time = segment.scanner.receivedAt }
            case .message:
                break
            case .batch(let header, let description, let payload):
                segment.confirmed = segment.scanner.position
                if start >= self.position {
                    self.position = segment.scanner.position
                    let verified =
                        segment.scanner.isDescriptionUnverified
                        ? try self.verifiedDescription(of: description.name, besides: segment.base) : nil
                    let record = JournalRecord(
                        position: start, end: self.position, header: header, description: verified ?? description,
                        receivedAt: segment.scanner.receivedAt, payload: payload)
                    self.open = consume segment
                    return record
                }
            case .end:
                self.position = max(self.position, segment.scanner.limit)
                let limit = try self.limit(of: segment.base, upTo: end)
                // If the segment has not grown, it ends here and the next one is opened above.
                guard limit > segment.scanner.limit else { continue }
                segment.scanner.extend(to: limit)
            case .damaged(let reason):
                // Everything up to the limit is committed, so the rest of a damaged group counts.
                let isFound = try segment.scanner.stepOverDamage()
                let end = isFound ? segment.scanner.position : segment.scanner.limit
                self.report(JournalDamage(segment: segment.base, start: segment.confirmed, end: end, reason: reason))
                segment.confirmed = end
                guard isFound else {
                    self.position = max(self.position, end)
                    continue
                }
            }
            self.open = consume segment
        }
        return nil
    }

    /// A stream's description in another segment; `nil` if there is none: then the damaged line is used.
    private mutating func verifiedDescription(
        of name: StreamName, besides base: JournalPosition
    ) throws(FileSystemError) -> StreamDescription? {
        let others = try OtherSegments(besides: base, directory: self.directory, files: self.files)
        // Searched once, and again when a segment begins.
        if let described, described.others == others { return described.streams[name] }
        let found = try others.descriptions(files: self.files)
        self.described = (others, found)
        return found[name]
    }

    /// Does not report damage before ``position`` again: it was reported when it was skipped.
    private mutating func report(_ damage: JournalDamage) {
        guard damage.end > self.position else { return }
        self.damages.append(
            JournalDamage(
                segment: damage.segment, start: max(damage.start, self.position), end: damage.end,
                reason: damage.reason))
    }

    /// - Returns: whether a segment that ends after ``position`` is open.
    private mutating func openSegment(upTo end: JournalPosition) throws(FileSystemError) -> Bool {
        if self.open != nil { return true }
        let segments = try JournalPath.segments(in: self.directory, self.files)
        guard let index = segments.lastIndex(where: { $0 <= self.position }) else {
            // The segment was deleted by retention before this reader reached it.
            guard let first = segments.first, first < end else { return false }
            self.damages.append(
                JournalDamage(
                    segment: first, start: self.position, end: first, reason: JournalDamage.goneReason))
            self.position = first
            return try self.openSegment(upTo: end)
        }
        let scanner = try SegmentScanner(
            segment: segments[index], in: self.directory, limit: min(segments[(index + 1)...].first ?? end, end),
            files: self.files)
        self.open = OpenSegment(base: segments[index], scanner: scanner, confirmed: segments[index])
        return true
    }

    /// The end of a segment for reading: the base of the next one, which excludes the tail of an abandoned segment.
    private func limit(of base: JournalPosition, upTo end: JournalPosition) throws(FileSystemError) -> JournalPosition {
        let next = try JournalPath.segments(in: self.directory, self.files).filter { $0 > base }
        return next.min().map { min($0, end) } ?? end
    }
}
