package import WaybillProtocol
package import WaybillSystem

/// A batch as the journal holds it.
package struct JournalRecord {
    package let position: JournalPosition
    /// Where the record behind it begins.
    package let end: JournalPosition
    package let header: BatchHeader
    package let description: StreamDescription
    package let receivedAt: WallTime
    /// The compressed bytes, checksum verified; valid until the next call.
    package let payload: UnsafeRawBufferPointer
}

/// Reads batches from a position on, across segments, while the journal is being written.
package struct JournalReader<Files: FileSystem>: ~Copyable {
    private let directory: String
    private let files: Files
    /// Batches before it were read.
    package private(set) var position: JournalPosition
    /// Ranges that were stepped over since ``takeDamages()`` was last called.
    private var damages: [JournalDamage] = []
    private var open: OpenSegment?
    /// What other segments say of streams whose opening is damaged in the segment that is open.
    private var described: (others: OtherSegments, streams: [StreamID: StreamDescription])?

    private struct OpenSegment: ~Copyable {
        let base: JournalPosition
        var scanner: SegmentScanner<Files>
        /// Behind the last mark or batch: lines after it may be what damage made of a batch.
        var confirmed: JournalPosition
    }

    package init(directory: String, position: JournalPosition, files: Files) {
        self.directory = directory
        self.files = files
        self.position = position
    }

    /// Damage found since the last call, for the driver to report.
    package mutating func takeDamages() -> [JournalDamage] {
        defer { self.damages = [] }
        return self.damages
    }

    /// The next batch that ends at or before `end`; `nil` when there is none yet.
    ///
    /// - Parameter end: how far the journal is durable.
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
            case .message:
                break
            case .batch(let header, let description, let payload):
                segment.confirmed = segment.scanner.position
                if start >= self.position {
                    self.position = segment.scanner.position
                    let verified =
                        segment.scanner.isDescriptionUnverified
                        ? try self.verifiedDescription(of: description.id, besides: segment.base) : nil
                    let record = JournalRecord(
                        position: start, end: self.position, header: header, description: verified ?? description,
                        receivedAt: segment.scanner.receivedAt, payload: payload)
                    self.open = consume segment
                    return record
                }
            case .end:
                self.position = max(self.position, segment.scanner.limit)
                let limit = try self.limit(of: segment.base, upTo: end)
                // When the segment has not grown, it ends here and the next one is opened above.
                guard limit > segment.scanner.limit else { continue }
                segment.scanner.extend(to: limit)
            case .damaged(let reason):
                // Up to the limit all is committed, so the rest of a damaged group counts.
                var isFound = try segment.scanner.stepOver()
                if !isFound { isFound = try segment.scanner.resynchronize() }
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

    /// What another segment says of a stream; `nil` when none does: then the damaged line has to do.
    private mutating func verifiedDescription(
        of id: StreamID, besides base: JournalPosition
    ) throws(FileSystemError) -> StreamDescription? {
        let others = try OtherSegments(besides: base, directory: self.directory, files: self.files)
        // Looked for once, and again when a segment has begun.
        if let described, described.others == others { return described.streams[id] }
        let found = try others.descriptions(files: self.files)
        self.described = (others, found)
        return found[id]
    }

    /// Keeps damage that lies before ``position`` to itself: it was reported when it was stepped over.
    private mutating func report(_ damage: JournalDamage) {
        guard damage.end > self.position else { return }
        self.damages.append(
            JournalDamage(
                segment: damage.segment, start: max(damage.start, self.position), end: damage.end,
                reason: damage.reason))
    }

    /// - Returns: whether a segment that reaches beyond ``position`` is open.
    private mutating func openSegment(upTo end: JournalPosition) throws(FileSystemError) -> Bool {
        if self.open != nil { return true }
        let segments = try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).sorted()
        guard let index = segments.lastIndex(where: { $0 <= self.position }) else {
            // What was here is gone: retired before this reader came to it.
            guard let first = segments.first, first < end else { return false }
            self.damages.append(
                JournalDamage(segment: first, start: self.position, end: first, reason: "the segment is gone"))
            self.position = first
            return try self.openSegment(upTo: end)
        }
        let scanner = try SegmentScanner(
            segment: segments[index], in: self.directory, limit: min(segments[(index + 1)...].first ?? end, end),
            files: self.files)
        self.open = OpenSegment(base: segments[index], scanner: scanner, confirmed: segments[index])
        return true
    }

    /// How far a segment may be read: to the next one's base, which cuts off what an abandoned one holds behind it.
    private func limit(of base: JournalPosition, upTo end: JournalPosition) throws(FileSystemError) -> JournalPosition {
        let next = try self.files.list(self.directory).compactMap(JournalPath.position(ofSegment:)).filter { $0 > base }
        return next.min().map { min($0, end) } ?? end
    }
}
