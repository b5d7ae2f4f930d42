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
        let read: TailRead
        do throws(FileSystemError) {
            if self.table[stream].overlong != nil {
                read = try self.continueOverlong(stream, descriptor, buffer)
            } else {
                read = try self.readLines(stream, descriptor, min(byteCountMax, buffer.count), buffer)
            }
        } catch {
            self.readFailed(stream, error)
            return .nothing
        }
        if self.table.contains(stream) { self.enqueue(stream) }
        return read
    }

    private mutating func readLines(
        _ stream: StreamKey, _ descriptor: FileID, _ byteCountMax: Int, _ buffer: UnsafeMutableRawBufferPointer
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
        if let end {
            let tooLong = self.overlongLine(in: UnsafeRawBufferPointer(rebasing: buffer[..<end]))
            if tooLong == 0 { return try self.beginOverlong(stream, descriptor, buffer) }
            return self.batch(stream, UnsafeRawBufferPointer(rebasing: buffer[..<(tooLong ?? end)]))
        }
        if count >= self.limits.lineByteCountMax { return try self.beginOverlong(stream, descriptor, buffer) }
        return self.unterminated(stream, byteCount: count)
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

    private mutating func batch(_ stream: StreamKey, _ bytes: UnsafeRawBufferPointer) -> TailRead {
        let offset = self.table[stream].cursor
        var byteCount = bytes.count
        var lineCount = LineScanner.lineFeedCount(in: bytes)
        if lineCount > self.limits.batchLineCountMax {
            lineCount = self.limits.batchLineCountMax
            byteCount = LineScanner.byteCount(ofFirst: lineCount, linesIn: bytes)
        }
        self.table[stream].cursor = offset + byteCount
        self.countShipped(stream)
        self.anchor(stream, UnsafeRawBufferPointer(rebasing: bytes[..<byteCount]))
        if self.table[stream].isDrained { self.enqueueProbe(stream) }
        return .batch(offset: offset, rawByteCount: byteCount, lineCount: lineCount, isFinalUnterminated: false)
    }

    private mutating func countShipped(_ stream: StreamKey) {
        guard !self.table[stream].isShipped else { return }
        self.table[stream].isShipped = true
        self.shippedStreamCount += 1
    }

    /// Remembers the last bytes of the batch just split off.
    private mutating func anchor(_ stream: StreamKey, _ batch: UnsafeRawBufferPointer) {
        guard !self.table[stream].isSegment else { return }
        self.table[stream].addAnchor(Anchor(end: self.table[stream].cursor, of: batch))
    }

    /// Handles `byteCount` bytes without LF at the end of the file.
    private mutating func unterminated(_ stream: StreamKey, byteCount: Int) -> TailRead {
        let offset = self.table[stream].cursor
        guard self.table[stream].phase == .complete else {
            self.table[stream].examined = offset + byteCount
            self.enqueueProbe(stream)
            return .nothing
        }
        self.table[stream].cursor = offset + byteCount
        guard self.table[stream].isSegment else {
            self.countShipped(stream)
            return .batch(offset: offset, rawByteCount: byteCount, lineCount: 1, isFinalUnterminated: true)
        }
        self.notices.append(.tornTail(self.id(of: stream), offset: offset, length: byteCount))
        return .skip(offset: offset, length: byteCount, reason: .tornTail)
    }

    /// Handles a stream whose bytes were all returned.
    private mutating func drained(_ stream: StreamKey) -> TailRead {
        if self.table[stream].reach != .gone, self.table[stream].cursor < self.table[stream].byteCount {
            // The file is shorter than at the last scan: the next scan determines why.
            self.table[stream].isFaulty = true
            self.faulty.append(stream)
            return .nothing
        }
        guard self.table[stream].phase == .complete else {
            self.enqueueProbe(stream)
            return .nothing
        }
        self.table[stream].phase = .sealOffered
        return .sealed(length: self.table[stream].cursor)
    }

    /// Whether the bytes just read belong to this stream: the head is the same, and they follow the end of the last
    /// batch or, if that is unknown, the end of a line.
    ///
    /// Checked after the read, to detect a file that was truncated and has grown again in between.
    func isUnchanged(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        guard let fingerprint = self.table[stream].fingerprint else { return true }
        guard try self.fingerprint(of: descriptor, at: 0, byteCount: fingerprint.byteCount) == fingerprint else {
            return false
        }
        let cursor = self.table[stream].cursor
        guard cursor > 0, self.table[stream].phase != .complete else { return true }
        if let anchor = self.table[stream].anchors.last(where: { $0.end == cursor }) {
            return try self.holds(descriptor, anchor)
        }
        let last = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<1])
        return try self.files.readFully(descriptor, at: cursor - 1, into: last) == 1
            && last[0] == LineScanner.lineFeed
    }

    /// Whether a file has the bytes of `anchor` at the anchor's end.
    func holds(_ descriptor: FileID, _ anchor: Anchor) throws(FileSystemError) -> Bool {
        let byteCount = anchor.fingerprint.byteCount
        return try self.fingerprint(of: descriptor, at: anchor.end - byteCount, byteCount: byteCount)
            == anchor.fingerprint
    }

    private func fingerprint(
        of descriptor: FileID, at offset: Int, byteCount: Int
    ) throws(FileSystemError) -> Fingerprint {
        let bytes = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<byteCount])
        let count = try self.files.readFully(descriptor, at: offset, into: bytes)
        return Fingerprint(of: UnsafeRawBufferPointer(rebasing: bytes[..<count]))
    }

    mutating func readFailed(_ stream: StreamKey, _ error: FileSystemError) {
        let path = self.table[stream].path
        self.complain(path, .unreadable(path: path, error))
        self.table[stream].isFaulty = true
        self.faulty.append(stream)
    }
}
