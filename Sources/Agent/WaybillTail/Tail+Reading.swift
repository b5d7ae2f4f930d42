internal import WaybillProtocol
internal import WaybillSystem

/// Splits a file into batches of whole lines.
extension Tail {
    /// Reads the next whole lines of a stream into the start of `buffer`.
    ///
    /// A batch exceeds `byteCountMax` only if it is a single longer line. Does nothing for a removed stream.
    ///
    /// - Parameter buffer: has at least ``TailLimits/lineByteCountMax`` bytes.
    package mutating func nextBatch(
        for stream: StreamKey, byteCountMax: Int, into buffer: UnsafeMutableRawBufferPointer, _ now: TailTime
    ) -> TailRead {
        precondition(buffer.count >= self.limits.lineByteCountMax, "the buffer must hold the longest line")
        precondition(byteCountMax > 0, "a batch holds at least one byte")
        guard self.table.contains(stream), self.table[stream].isIdentified else { return .nothing }
        guard self.table[stream].isPositioned else { return .unpositioned }
        switch self.table[stream].phase {
        case .sealOffered, .sealed: return .nothing
        case .following, .left, .complete: break
        }
        guard self.table[stream].reach != .gone else { return self.drained(stream) }
        guard let descriptor = self.openFile(stream, now) else { return .nothing }
        let start = self.table[stream].cursor
        let read: TailRead
        do throws(FileSystemError) {
            if !self.rememberedFleet.claims.isEmpty, let skip = try self.skipElsewhere(stream, descriptor, now) {
                read = skip
            } else if self.table[stream].heldBelow > 0, self.table[stream].cursor == 0 {
                read = try self.skipHeld(stream, descriptor)
            } else if self.table[stream].overlong != nil {
                read = try self.continueOverlong(stream, descriptor, buffer)
            } else {
                let count = min(byteCountMax, buffer.count)
                if let hole = try self.continueHole(stream, descriptor, buffer, now) {
                    read = hole
                } else {
                    read = try self.readLines(stream, descriptor, count, buffer, now)
                }
            }
        } catch {
            self.readFailed(stream, error)
            return .nothing
        }
        guard self.rememberSent(stream, since: start, now) else { return .nothing }
        if self.table.contains(stream) { self.enqueue(stream) }
        return read
    }

    private mutating func readLines(
        _ stream: StreamKey, _ descriptor: FileID, _ byteCountMax: Int, _ buffer: UnsafeMutableRawBufferPointer,
        _ now: TailTime
    ) throws(FileSystemError) -> TailRead {
        let offset = self.table[stream].cursor
        let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<byteCountMax])
        var count = try self.files.readFully(descriptor, at: offset, into: wanted)
        guard count > 0 else { return self.drained(stream) }
        var end = LineScanner.lastLineFeed(in: UnsafeRawBufferPointer(rebasing: buffer[..<count])).map { $0 + 1 }
        if end == nil, count == byteCountMax, count < self.limits.lineByteCountMax {
            // One line is longer than a batch: read on up to the limit of a line.
            let rest = UnsafeMutableRawBufferPointer(rebasing: buffer[count..<self.limits.lineByteCountMax])
            let start = count
            count += try self.files.readFully(descriptor, at: offset + count, into: rest)
            let bytes = UnsafeRawBufferPointer(rebasing: buffer[..<count])
            end = LineScanner.firstLineFeed(in: bytes, from: start).map { $0 + 1 }
        }
        guard try self.isUnchanged(stream, descriptor) else {
            self.truncated(stream)
            return .nothing
        }
        self.table[stream].byteCount = max(self.table[stream].byteCount, offset + count)
        if !self.table[stream].isSegment, self.table[stream].provenByteCount < self.table[stream].byteCount {
            try self.prove(stream, descriptor)
        }
        if self.mayBeHole(stream, UnsafeRawBufferPointer(rebasing: buffer[..<count])) {
            self.table[stream].hole = PendingHole(offset: offset)
            if let hole = try self.continueHole(stream, descriptor, buffer, now) { return hole }
            return try self.readLines(stream, descriptor, byteCountMax, buffer, now)
        }
        if let end = end.map({ self.endBeforeHole(stream, UnsafeRawBufferPointer(rebasing: buffer[..<$0])) }) {
            let tooLong = self.overlongLine(in: UnsafeRawBufferPointer(rebasing: buffer[..<end]))
            if tooLong == 0 { return try self.beginOverlong(stream, descriptor, buffer) }
            return try self.batch(stream, descriptor, UnsafeRawBufferPointer(rebasing: buffer[..<(tooLong ?? end)]))
        }
        if count >= self.limits.lineByteCountMax { return try self.beginOverlong(stream, descriptor, buffer) }
        return try self.unterminated(stream, descriptor, UnsafeRawBufferPointer(rebasing: buffer[..<count]))
    }

    /// The start of the first line longer than the limit; searched only if one is possible.
    private func overlongLine(in bytes: UnsafeRawBufferPointer) -> Int? {
        guard bytes.count > self.limits.lineByteCountMax else { return nil }
        var start = 0
        while start < bytes.count, let lineFeed = LineScanner.firstLineFeed(in: bytes, from: start) {
            if lineFeed + 1 - start > self.limits.lineByteCountMax { return start }
            start = lineFeed + 1
        }
        return nil
    }

    private mutating func batch(
        _ stream: StreamKey, _ descriptor: FileID, _ bytes: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> TailRead {
        let offset = self.table[stream].cursor
        var byteCount = bytes.count
        var lineCount = LineScanner.lineFeedCount(in: bytes)
        if lineCount > self.limits.batchLineCountMax {
            lineCount = self.limits.batchLineCountMax
            byteCount = LineScanner.byteCount(ofFirst: lineCount, linesIn: bytes)
        }
        try self.pass(stream, descriptor, UnsafeRawBufferPointer(rebasing: bytes[..<byteCount]))
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
        return .batch(offset: offset, rawByteCount: byteCount, lineCount: lineCount, isFinalUnterminated: false)
    }

    private mutating func countShipped(_ stream: StreamKey) {
        guard !self.table[stream].isShipped else { return }
        self.table[stream].isShipped = true
        self.shippedStreamCount += 1
    }

    /// Moves on over a batch that begins at the cursor, and remembers the proof for its end.
    private mutating func pass(
        _ stream: StreamKey, _ descriptor: FileID, _ batch: UnsafeRawBufferPointer
    ) throws(FileSystemError) {
        let cursor = self.table[stream].cursor
        let end = StreamOffset(UInt64(cursor + batch.count))
        let missing = StreamProof.byteCount(at: end) - batch.count
        var tail = missing > 0 ? try self.lastBytes(descriptor, below: cursor, count: missing) : []
        // A slice: `suffix` of a sequence would go through all of it.
        let start = batch.count - min(batch.count, StreamProof.byteCountMax - max(0, missing))
        tail.append(contentsOf: UnsafeRawBufferPointer(rebasing: batch[start...]))
        self.table[stream].cursor = cursor + batch.count
        self.countShipped(stream)
        self.anchor(stream, tail, at: end)
    }

    /// Moves on over skipped bytes, which begin at the cursor.
    mutating func passed(_ stream: StreamKey, _ range: SkippedRange) {
        self.table[stream].cursor = Int(range.end.rawValue)
        self.anchor(stream, range.tail ?? [], at: range.end)
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
    }

    /// Remembers the last bytes below the cursor, for receivers and for itself.
    private mutating func anchor(_ stream: StreamKey, _ tail: [UInt8], at end: StreamOffset) {
        guard let digest = StreamProof(of: self.id(of: stream), at: end, tail: tail).digest else { return }
        let cursor = self.table[stream].cursor
        self.table[stream].addAnchor(Anchor(end: cursor, digest: digest))
        if !self.table[stream].isSegment { self.table[stream].ends.append(BatchEnds.End(offset: cursor, tail: tail)) }
    }

    /// The bytes of a file directly below an offset, fewer if the file is shorter.
    func lastBytes(
        _ descriptor: FileID, below offset: Int, count: Int = StreamProof.byteCountMax
    ) throws(FileSystemError) -> [UInt8] {
        let count = min(offset, count)
        var bytes = [UInt8](repeating: 0, count: count)
        let filled = try self.files.readFully(descriptor, at: offset - count, into: &bytes)
        bytes.removeLast(count - filled)
        return bytes
    }

    /// A range to skip, with the tail from which the receiver makes its proof.
    func skippedRange(
        _ descriptor: FileID, from offset: Int, to end: Int, _ reason: SkipReason, holder: String? = nil
    ) throws(FileSystemError) -> SkippedRange {
        guard
            let range = SkippedRange(
                offset: StreamOffset(UInt64(offset)), byteCount: UInt64(end - offset), reason: reason,
                tail: try self.lastBytes(descriptor, below: end), holder: holder)
        else {
            // The file was cut while it was read; the next scan finds it.
            throw FileSystemError("read", path: "the end of a skipped range", errno: Errno.inputOutput)
        }
        return range
    }

    /// Skips the bytes that the receiver holds in an earlier, sealed stream of this file.
    private mutating func skipHeld(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> TailRead {
        guard try self.isUnchanged(stream, descriptor) else {
            self.truncated(stream)
            return .nothing
        }
        let range = try self.skippedRange(descriptor, from: 0, to: self.table[stream].heldBelow, .held)
        self.passed(stream, range)
        return .skip(range)
    }

    /// Handles bytes without LF at the end of the file.
    private mutating func unterminated(
        _ stream: StreamKey, _ descriptor: FileID, _ bytes: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> TailRead {
        let offset = self.table[stream].cursor
        guard self.table[stream].phase == .complete else {
            self.table[stream].examined = offset + bytes.count
            self.enqueueProbe(stream)
            return .nothing
        }
        guard self.table[stream].isSegment else {
            try self.pass(stream, descriptor, bytes)
            return .batch(offset: offset, rawByteCount: bytes.count, lineCount: 1, isFinalUnterminated: true)
        }
        let range = try self.skippedRange(descriptor, from: offset, to: offset + bytes.count, .tornTail)
        self.passed(stream, range)
        self.notices.append(.tornTail(self.id(of: stream), offset: offset, length: bytes.count))
        return .skip(range)
    }

    /// Handles a stream whose bytes were all returned.
    private mutating func drained(_ stream: StreamKey) -> TailRead {
        if self.table[stream].reach != .gone, self.table[stream].cursor < self.table[stream].byteCount {
            self.awaitScan(stream)
            return .nothing
        }
        guard self.table[stream].phase == .complete else {
            self.enqueueProbe(stream)
            return .nothing
        }
        self.table[stream].phase = .sealOffered
        return .sealed(length: self.table[stream].cursor)
    }

    /// Reads no more of a file that is shorter than at the last scan: the next scan determines why.
    mutating func awaitScan(_ stream: StreamKey) {
        self.table[stream].isFaulty = true
        self.queues.faulty.append(stream)
    }

    /// Whether the bytes just read belong to this stream: the head is the same, and they follow the end of the last
    /// batch or, if that is unknown, the end of a line.
    ///
    /// Checked after the read, to detect a file that was truncated and has grown again in between.
    func isUnchanged(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        guard try self.hasHead(stream, descriptor) else { return false }
        guard try self.hasNumberedContent(stream, descriptor), try self.hasShippedEnd(stream, descriptor),
            try self.hasLineBehindHole(stream, descriptor)
        else { return false }
        let cursor = self.table[stream].cursor
        guard cursor > 0, self.table[stream].phase != .complete else { return true }
        if let anchor = self.table[stream].anchors.last(where: { $0.end == cursor }) {
            return try self.holds(descriptor, anchor, of: self.id(of: stream))
        }
        let last = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<1])
        return try self.files.readFully(descriptor, at: cursor - 1, into: last) == 1
            && last[0] == LineScanner.lineFeed
    }

    /// Whether a file has the last bytes of its content that were shipped in another stream, and that lie after the
    /// cursor; assumed of a shorter one, which its length gives away.
    private func hasShippedEnd(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        let file = self.table[stream]
        guard file.shippedByteCount > file.cursor, let end = file.ends.upTo(file.shippedByteCount).first,
            end.offset > file.cursor
        else { return true }
        let tail = try self.lastBytes(descriptor, below: end.offset)
        return tail.count < BatchEnds.tailByteCount(at: end.offset)
            || BatchEnds.End(offset: end.offset, tail: tail) == end
    }

    /// Whether a file begins as the content does.
    func hasHead(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        guard let fingerprint = self.table[stream].fingerprint else { return true }
        return try self.fingerprint(of: descriptor, at: 0, byteCount: fingerprint.byteCount) == fingerprint
    }

    /// Whether a file has the bytes below a batch end.
    func holds(_ descriptor: FileID, _ end: BatchEnds.End) throws(FileSystemError) -> Bool {
        BatchEnds.End(offset: end.offset, tail: try self.lastBytes(descriptor, below: end.offset)) == end
    }

    /// The end of what a file has below an offset.
    func seenEnd(of descriptor: FileID, at offset: Int) throws(FileSystemError) -> SeenEnd {
        SeenEnd(offset: offset, bytes: try self.lastBytes(descriptor, below: offset))
    }

    /// Whether a file has the bytes that were seen below an offset.
    func holds(_ descriptor: FileID, _ end: SeenEnd) throws(FileSystemError) -> Bool {
        FNV1a.hash(try self.lastBytes(descriptor, below: end.offset, count: end.tail.byteCount)) == end.tail.hash
    }

    /// Whether a file has the bytes that were sent below the anchor's end.
    func holds(_ descriptor: FileID, _ anchor: Anchor, of id: StreamID) throws(FileSystemError) -> Bool {
        let tail = try self.lastBytes(descriptor, below: anchor.end)
        return StreamProof(of: id, at: StreamOffset(UInt64(anchor.end)), tail: tail).digest == anchor.digest
    }

    func fingerprint(
        of descriptor: FileID, at offset: Int, byteCount: Int
    ) throws(FileSystemError) -> Fingerprint {
        let bytes = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<byteCount])
        let count = try self.files.readFully(descriptor, at: offset, into: bytes)
        return Fingerprint(of: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    mutating func readFailed(_ stream: StreamKey, _ error: FileSystemError) {
        let path = self.table[stream].path
        self.notices.complain(path, .unreadable(path: path, error))
        self.table[stream].isFaulty = true
        self.queues.faulty.append(stream)
    }
}
