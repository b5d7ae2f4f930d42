internal import WaybillCompression
package import WaybillProtocol
package import WaybillSystem

/// A part of a journal that can be read alone.
///
///     OPEN 3 {…} LF  MARK … LF        its own head: the streams that it uses and that were opened before it
///     MARK … LF  BATCH 3 … <…>  …     the journal's bytes from `start` to `end`, as they are
///
/// It lies in one segment and begins and ends between two groups. A piece that begins with a segment has that one's head
/// and no other. The head's own mark names the position where it would be if the head stood in the journal directly
/// before `start`, so that one scan reads both.
///
/// - SeeAlso: `Protocol/formats/fleet.md`.
package struct JournalPiece: Hashable, Sendable {
    package let start: JournalPosition
    package let end: JournalPosition
    /// Its own head; empty where a segment begins.
    package let head: [UInt8]
    /// The segment's file, and where `start` is in it.
    package let path: String
    package let offset: Int

    package init(
        start: JournalPosition, end: JournalPosition, head: [UInt8], path: String, offset: Int
    ) {
        self.start = start
        self.end = end
        self.head = head
        self.path = path
        self.offset = offset
    }

    /// The bytes of the journal.
    package var journalByteCount: Int { self.end.rawValue - self.start.rawValue }

    /// The bytes of the piece.
    package var byteCount: Int { self.head.count + self.journalByteCount }

    /// Reads a part of the piece; fewer bytes than asked for if the segment's file is shorter than it was.
    package func read(_ range: Range<Int>, _ files: some FileSystem) throws(FileSystemError) -> [UInt8] {
        var bytes = Array(self.head[min(range.lowerBound, self.head.count)..<min(range.upperBound, self.head.count)])
        let first = max(0, range.lowerBound - self.head.count)
        let count = min(range.upperBound - self.head.count, self.journalByteCount) - first
        guard count > 0 else { return bytes }
        bytes += try files.bytes(at: self.path, offset: self.offset + first, count: count)
        return bytes
    }

    /// The position of a piece's first byte, its own head included; `nil` if no whole mark tells it.
    ///
    /// - Parameters:
    ///   - bytes: the beginning of the piece, as much of it as there is.
    ///   - start: the position in the piece's name.
    package static func base(of bytes: UnsafeRawBufferPointer, startingAt start: JournalPosition) -> JournalPosition? {
        var offset = 0
        while offset < bytes.count {
            let rest = UnsafeRawBufferPointer(rebasing: bytes[offset...].prefix(ProtocolLimits.messageByteCountMax))
            guard let (message, byteCount) = Message.readable(atStartOf: rest) else { return nil }
            switch message {
            case .open: offset += byteCount
            case .mark(let position, _, _) where position + UInt64(byteCount) == UInt64(start.rawValue):
                return JournalPosition(start.rawValue - offset - byteCount)
            case .mark(let position, _, _) where position == UInt64(start.rawValue + offset): return start
            case .start, .resting, .at: return start
            default: return nil
            }
        }
        return nil
    }
}

/// Cuts a journal into pieces, while it is being written.
///
/// Memory: one frame, and the descriptions of the open segment's streams.
package struct PieceCutter<Files: FileSystem>: ~Copyable {
    private let directory: String
    private let files: Files
    /// Where the next piece begins.
    package private(set) var position: JournalPosition
    private var open: OpenSegment?

    private struct OpenSegment: ~Copyable {
        let base: JournalPosition
        var scanner: SegmentScanner<Files>
        var descriptions: [StreamNumber: StreamDescription] = [:]
        /// The last known time of receipt.
        var time = WallTime.unknown
        var cut = Cut()
        /// Whether lines precede that the next mark covers; a mark that covers only itself begins a group.
        var hasUncovered = false

        mutating func noteMark() {
            self.hasUncovered = false
            if self.scanner.receivedAt != .unknown { self.time = self.scanner.receivedAt }
        }
    }

    /// What the piece that is being cut uses.
    private struct Cut {
        var opened: Set<StreamNumber> = []
        var used: [StreamNumber: StreamDescription] = [:]
        /// The last known time of receipt before its start.
        var time = WallTime.unknown
    }

    /// - Parameter position: a segment's beginning, or the end of a piece.
    package init(directory: String, position: JournalPosition, files: Files) {
        self.directory = directory
        self.files = files
        self.position = position
    }

    /// The first position that the journal has; `nil` if it is empty.
    package static func first(in directory: String, files: Files) throws(FileSystemError) -> JournalPosition? {
        try JournalPath.segments(in: directory, files).first
    }

    /// The next piece: it ends with the first group that makes it as large as wanted, with its segment, or at `end`.
    ///
    /// - Parameter end: the position up to which the journal is durable.
    /// - Returns: `nil` if nothing follows ``position``.
    package mutating func next(
        upTo end: JournalPosition, byteCount wanted: Int
    ) throws(FileSystemError) -> JournalPiece? {
        while self.position < end {
            guard var segment = try self.take(upTo: end) else { return nil }
            let start = segment.scanner.position
            switch try segment.scanner.next() {
            case .message(.mark):
                var piece: JournalPiece?
                if !segment.hasUncovered, start.rawValue - self.position.rawValue >= wanted {
                    piece = self.piece(of: &segment, upTo: start)
                }
                segment.noteMark()
                if let piece {
                    self.open = consume segment
                    return piece
                }
            case .message(let message):
                segment.hasUncovered = true
                self.note(message, in: &segment)
            case .batch(let header, _, _):
                segment.hasUncovered = false
                self.use(header.stream, in: &segment)
            case .end:
                let limit = try self.limit(of: segment.base, upTo: end)
                if limit.end > segment.scanner.limit {
                    segment.scanner.extend(to: limit.end)
                } else {
                    let piece = self.piece(of: &segment, upTo: limit.end)
                    if !limit.isLast { self.open = consume segment }
                    if let piece { return piece }
                    continue
                }
            case .damaged:
                let isFound = try segment.scanner.stepOverDamage()
                segment.hasUncovered = false
                guard isFound else {
                    // What cannot be read goes with the rest: the reader of the piece names it.
                    let limit = try self.limit(of: segment.base, upTo: end)
                    let piece = self.piece(of: &segment, upTo: limit.end)
                    if let piece { return piece }
                    continue
                }
            }
            self.open = consume segment
        }
        return nil
    }

    private func note(_ message: Message, in segment: inout OpenSegment) {
        switch message {
        case .open(let number, let description, _):
            segment.descriptions[number] = description
            if segment.scanner.position > self.position { segment.cut.opened.insert(number) }
        case .skip(let number, _), .seal(let number, _): self.use(number, in: &segment)
        default: break
        }
    }

    private func use(_ number: StreamNumber, in segment: inout OpenSegment) {
        guard segment.scanner.position > self.position, !segment.cut.opened.contains(number),
            let description = segment.descriptions[number]
        else { return }
        segment.cut.used[number] = description
    }

    private mutating func piece(of segment: inout OpenSegment, upTo end: JournalPosition) -> JournalPiece? {
        let start = self.position
        guard start < end else { return nil }
        let head =
            start == segment.base ? [] : Self.head(segment.cut.used, before: start, lastKnown: segment.cut.time)
        self.position = end
        segment.cut = Cut(time: segment.time)
        return JournalPiece(
            start: start, end: end, head: head, path: JournalPath.segment(segment.base, in: self.directory),
            offset: start.rawValue - segment.base.rawValue)
    }

    /// The lines that open streams before a position, with their mark.
    package static func head(
        _ used: [StreamNumber: StreamDescription], before start: JournalPosition, lastKnown time: WallTime
    ) -> [UInt8] {
        var lines: [UInt8] = []
        for (number, description) in used.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            lines += Message.open(number, description, .none).encoded
        }
        let covered = lines.withUnsafeBytes { FrameChecksum.checksum(continuing: 0, $0) }
        // The mark's length depends on its position's digits, and its position on its length. At one start of each decade no
        // position fits; then one fits with a time of another length, which says less.
        for milliseconds in [UInt64(max(0, time.milliseconds)), 0, 10] {
            for digitCount in 1...16 {
                let byteCount = "MARK  \(milliseconds) 00000000\n".utf8.count + digitCount
                let position = start.rawValue - byteCount
                guard position >= 0, String(position).utf8.count == digitCount else { continue }
                var text = "MARK \(position) \(milliseconds) "
                let checksum = text.withUTF8 {
                    FrameChecksum.checksum(continuing: covered, UnsafeRawBufferPointer($0))
                }
                return lines
                    + Message.mark(position: UInt64(position), milliseconds: milliseconds, checksum: checksum).encoded
            }
        }
        preconditionFailure("a segment's head precedes position \(start)")
    }

    /// The open segment, or the one that holds ``position``; `nil` if there is none.
    private mutating func take(upTo end: JournalPosition) throws(FileSystemError) -> OpenSegment? {
        if let segment = self.open.take() { return segment }
        let segments = try JournalPath.segments(in: self.directory, self.files)
        guard let base = segments.last(where: { $0 <= self.position }) else {
            // Its segment was deleted: what follows is all there is.
            guard let first = segments.first, first < end else { return nil }
            self.position = first
            return try self.take(upTo: end)
        }
        let limit = try self.limit(of: base, upTo: end).end
        var scanner = try SegmentScanner(segment: base, in: self.directory, limit: limit, files: self.files)
        scanner.isReadingPayloads = base == self.position
        var segment = OpenSegment(base: base, scanner: scanner)
        while segment.scanner.position < self.position {
            switch try segment.scanner.next() {
            case .message(.mark): segment.noteMark()
            case .message(let message): self.note(message, in: &segment)
            case .batch: break
            case .end: return nil
            case .damaged:
                guard try segment.scanner.stepOverDamage() else { return nil }
            }
        }
        segment.scanner.isReadingPayloads = true
        segment.hasUncovered = false
        segment.cut.time = segment.time
        return segment
    }

    /// Where a segment ends for reading, and whether another follows there.
    private func limit(
        of base: JournalPosition, upTo end: JournalPosition
    ) throws(FileSystemError) -> (end: JournalPosition, isLast: Bool) {
        let next = try JournalPath.segments(in: self.directory, self.files)
            .filter { $0 > base }.min()
        guard let next, next <= end else { return (end, false) }
        return (next, true)
    }
}
