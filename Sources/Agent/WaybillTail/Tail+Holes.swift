internal import WaybillProtocol
internal import WaybillSystem

/// Skips NULs before a line: what a writer without `O_APPEND` leaves in a file that was cut.
///
/// They may be bytes that a file system does not show yet. So they are skipped only if a whole line follows and they are
/// the same after a while in a file that was opened again. Segments are cut by their writers alone: they have no holes.
extension Tail {
    /// Whether what was read at the cursor begins with NULs that may be a hole.
    func mayBeHole(_ stream: StreamKey, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let file = self.table[stream]
        guard !file.isSegment, bytes.first == 0, !(file.hole?.isData(at: file.cursor) ?? false) else { return false }
        let count = LineScanner.firstNonNUL(in: bytes)
        return count == bytes.count || Self.fillsTail(from: file.cursor, to: file.cursor + count)
    }

    /// The end of the lines before the first one that begins with a hole.
    func endBeforeHole(_ stream: StreamKey, _ bytes: UnsafeRawBufferPointer) -> Int {
        guard !self.table[stream].isSegment else { return bytes.count }
        var start = 1
        while let index = LineScanner.firstNUL(in: bytes, from: start) {
            let end = LineScanner.firstNonNUL(in: bytes, from: index)
            if bytes[index - 1] == LineScanner.lineFeed, end - index >= StreamProof.byteCountMax { return index }
            start = end
        }
        return bytes.count
    }

    /// Whether a run of NULs has all bytes of the tail with which it would be skipped.
    private static func fillsTail(from offset: Int, to end: Int) -> Bool {
        end - offset >= StreamProof.byteCount(at: StreamOffset(UInt64(end)))
    }

    /// Continues with the NULs at the cursor; `nil` when there are none, or they are data.
    mutating func continueHole(
        _ stream: StreamKey, _ descriptor: FileID, _ buffer: UnsafeMutableRawBufferPointer, _ now: TailTime
    ) throws(FileSystemError) -> TailRead? {
        let file = self.table[stream]
        guard var hole = file.hole, hole.offset == file.cursor, !hole.isData(at: file.cursor) else { return nil }
        guard !hole.isWaiting(at: file.cursor) else { return .nothing }
        guard try self.isUnchanged(stream, descriptor) else {
            self.truncated(stream)
            return .nothing
        }
        // Someone may have written over them.
        let first = UnsafeMutableRawBufferPointer(rebasing: buffer[..<1])
        guard try self.files.readFully(descriptor, at: hole.offset, into: first) == 1, first[0] == 0 else {
            self.table[stream].hole = nil
            return nil
        }
        let run = try self.measure(&hole, descriptor, buffer)
        self.table[stream].byteCount = max(self.table[stream].byteCount, hole.scanned)
        switch run {
        case .unknown:
            self.table[stream].hole = hole
            return .nothing
        case .line(let line): return try self.measured(stream, descriptor, hole, line, now)
        case .open(let end) where file.phase != .complete:
            hole.endsOpen()
            self.table[stream].hole = hole
            // It may have been longer at the last scan, and be so again.
            self.table[stream].examined = end
            if end < self.table[stream].byteCount { self.awaitScan(stream) }
            return .nothing
        case .open, .data:
            hole.becomesData()
            self.table[stream].hole = hole
            return nil
        }
    }

    private enum Run {
        /// There may be more NULs than one look reads.
        case unknown
        /// No whole line follows yet in what was read up to this offset.
        case open(end: Int)
        case line(Fingerprint)
        case data
    }

    /// Finds the end of the NULs, of which one look reads only so many; holes are free.
    private func measure(
        _ hole: inout PendingHole, _ descriptor: FileID, _ buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Run {
        var rest = max(self.limits.overlongByteCountPerRead, buffer.count)
        // What is appended after this is not skipped unseen.
        let byteCount = try self.files.status(descriptor).byteCount
        while rest > 0 {
            guard let data = try self.files.seekData(descriptor, from: hole.scanned) else {
                hole.scanned = max(hole.scanned, byteCount)
                return .open(end: hole.scanned)
            }
            hole.scanned = max(hole.scanned, data)
            let count = try self.files.readFully(descriptor, at: hole.scanned, into: buffer)
            guard count > 0 else { return .open(end: hole.scanned) }
            let end = LineScanner.firstNonNUL(in: UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            hole.scanned += end
            if end < count { return try self.line(behind: hole, descriptor, buffer) }
            rest -= count
        }
        return .unknown
    }

    /// The line after the NULs, as far as it is there.
    private func line(
        behind hole: PendingHole, _ descriptor: FileID, _ buffer: UnsafeMutableRawBufferPointer
    ) throws(FileSystemError) -> Run {
        guard Self.fillsTail(from: hole.offset, to: hole.scanned) else { return .data }
        let wanted = UnsafeMutableRawBufferPointer(rebasing: buffer[..<self.limits.lineByteCountMax])
        let count = try self.files.readFully(descriptor, at: hole.scanned, into: wanted)
        guard let end = LineScanner.firstLineFeed(in: UnsafeRawBufferPointer(rebasing: buffer[..<count])) else {
            return count < self.limits.lineByteCountMax ? .open(end: hole.scanned + count) : .data
        }
        let line = UnsafeRawBufferPointer(rebasing: buffer[...end])
        // A NUL or two before more of them is UTF-16.
        if hole.scanned - hole.offset < StreamProof.byteCountMax, LineScanner.firstNUL(in: line) != nil { return .data }
        return .line(Fingerprint(of: UnsafeRawBufferPointer(rebasing: line.prefix(Fingerprint.byteCountMax))))
    }

    /// Handles NULs before a whole line: they wait, or are skipped.
    private mutating func measured(
        _ stream: StreamKey, _ descriptor: FileID, _ hole: PendingHole, _ line: Fingerprint, _ now: TailTime
    ) throws(FileSystemError) -> TailRead? {
        var hole = hole
        guard hole.measured(PendingHole.Found(end: hole.scanned, line: line, at: now.monotonic)) else {
            self.table[stream].hole = hole
            self.table[stream].examined = self.table[stream].byteCount
            self.waitingHoles.insert(stream)
            return .nothing
        }
        let range = try self.skippedRange(descriptor, from: hole.offset, to: hole.scanned, .hole)
        guard range.hasOnlyNULs else {
            self.table[stream].hole = nil
            return .nothing
        }
        hole.skipped()
        self.table[stream].hole = hole
        self.table[stream].examined = 0
        self.passed(stream, range)
        self.notices.skipHole(
            self.id(of: stream),
            .hole(
                self.id(of: stream), path: self.table[stream].path, offset: hole.offset,
                byteCount: Int(range.byteCount)))
        return .skip(range)
    }

    /// Lets files whose NULs had their time be read again, from a new descriptor where that is possible.
    mutating func settleHoles(_ now: TailTime) {
        for key in self.waitingHoles.sorted(by: { $0.rawValue < $1.rawValue }) {
            guard self.table.contains(key), self.table[key].reach != .gone, var hole = self.table[key].hole,
                hole.isWaiting(at: hole.offset), self.table[key].cursor <= hole.offset
            else {
                self.waitingHoles.remove(key)
                continue
            }
            let file = self.table[key]
            // Another receiver gets what is before it again, and then it waits as before.
            guard file.cursor == hole.offset, hole.isDue(now.monotonic, self.patience(withHolesOf: file)) else {
                continue
            }
            self.waitingHoles.remove(key)
            if file.reach == .path { self.closeDescriptor(key) }
            hole.beginCheck()
            self.table[key].hole = hole
            self.table[key].examined = 0
            self.enqueue(key)
        }
    }

    private func patience(withHolesOf file: TailedFile) -> Duration {
        let areChangesSeen = self.areHintsComplete && !self.sources[file.source].isPolled
        return areChangesSeen ? self.limits.holePatience : self.limits.blindHolePatience
    }

    /// Has NULs looked for again from the cursor on.
    mutating func forgetHole(_ key: StreamKey) {
        self.table[key].hole = nil
        self.table[key].examined = 0
    }

    /// Has NULs at the end of a file read again, because something was written over them.
    mutating func reexamineHole(_ key: StreamKey, _ descriptor: FileID) throws(FileSystemError) {
        let file = self.table[key]
        guard let hole = file.hole, hole.offset == file.cursor else { return }
        self.table[key].examined = 0
        let first = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<1])
        if try self.files.readFully(descriptor, at: hole.offset, into: first) == 1, first[0] != 0 {
            self.table[key].hole = nil
        }
    }

    /// Whether the line after the NULs at the cursor is still there; true without such a line.
    func hasLineBehindHole(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        let file = self.table[stream]
        guard let hole = file.hole, hole.offset == file.cursor, let found = hole.found else { return true }
        return try self.fingerprint(of: descriptor, at: found.end, byteCount: found.line.byteCount) == found.line
    }

    /// Whether a file differs from its content only in that NULs at its beginning, which were not skipped, are bytes now:
    /// nothing of it is lost.
    mutating func hasFilledHole(_ key: StreamKey) -> Bool {
        let file = self.table[key]
        guard let hole = file.hole, hole.offset == 0, file.cursor == 0, file.acked == 0, hole.found != nil,
            case .opened(let descriptor) = self.open(key)
        else { return false }
        do throws(FileSystemError) {
            return try self.hasLineBehindHole(key, descriptor)
        } catch {
            return false
        }
    }
}
