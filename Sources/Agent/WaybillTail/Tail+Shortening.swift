internal import WaybillProtocol
internal import WaybillSystem

/// Decides about foreign files that are shorter than they were.
///
///     shorter ─▶ has grown back within 5 s, with the same bytes ─▶ continues
///             ─▶ otherwise, and all that was shipped is there ─▶ continues; what is missing is lost
///             ─▶ otherwise ─▶ another content; of its first bytes, those that were shipped are skipped
///     cut below its first line ─▶ another content
///
/// What was shipped is known by the last batch end below the smallest length that was seen: at most one batch more than
/// what differs is shipped twice. Nothing of that is lost.
extension Tail {
    /// Handles the length of a foreign file that is shorter than it was, or has been since a while.
    mutating func shorter(_ key: StreamKey, byteCount: Int, modified: Int64) {
        guard let mayGrowBack = self.mayGrowBack(key, byteCount) else { return }
        guard mayGrowBack else { return self.truncated(key) }
        if let short = self.successions.short[key], byteCount < self.table[key].byteCount,
            self.table[key].byteCount > short.byteCountMin
        {
            // What it had before was of this content, and is not what it waits for.
            self.settleCut(key)
        }
        self.table[key].byteCount = byteCount
        self.table[key].modified = modified
        self.table[key].isUndecided = true
        let sent = self.table[key].shippedByteCount
        self.successions.short.note(key, byteCount: byteCount, sent: sent, self.looks.time.monotonic)
        self.looks.fresh.note(key, self.looks.time.monotonic)
        self.noteGrowth(key)
    }

    /// Remembers how a short file ends that has grown since: that may be cut, too.
    private mutating func noteGrowth(_ key: StreamKey) {
        let byteCount = self.table[key].byteCount
        guard let short = self.successions.short[key], byteCount > short.byteCountMin,
            case .opened(let descriptor) = self.open(key)
        else { return }
        do throws(FileSystemError) {
            let end = try self.seenEnd(of: descriptor, at: byteCount)
            self.successions.short.note(key, end)
        } catch {
            self.readFailed(key, error)
        }
    }

    /// Whether a file begins as its content does; assumed where it cannot be read now, and `nil` where another file has
    /// its inode.
    private mutating func mayGrowBack(_ key: StreamKey, _ byteCount: Int) -> Bool? {
        let hasHeadLength = byteCount >= self.table[key].fingerprint?.byteCount ?? .max
        switch self.open(key) {
        case .replaced: return nil
        case .lost, .noRoom, .failed: return hasHeadLength
        case .opened(let descriptor):
            do throws(FileSystemError) {
                guard hasHeadLength else { return false }
                return try self.hasHead(key, descriptor)
            } catch {
                self.readFailed(key, error)
                return hasHeadLength
            }
        }
    }

    /// Decides about files that have grown back, or that had their time.
    mutating func settleShort(_ now: TailTime) {
        for key in self.successions.short.keys {
            guard self.table.contains(key), self.table[key].reach != .gone else {
                self.successions.short.forget(key)
                continue
            }
            self.settleShort(key, now)
        }
    }

    private mutating func settleShort(_ key: StreamKey, _ now: TailTime) {
        guard let short = self.successions.short[key] else { return }
        let file = self.table[key]
        let sent = max(file.shippedByteCount, short.sentByteCount)
        let isCut = short.byteCountMin >= sent
        let isBack = file.byteCount >= (isCut ? file.provenByteCount : sent)
        let isOver = self.successions.short.isOver(key, after: self.limits.shortPatience, now.monotonic)
        guard isBack || isOver, case .opened(let descriptor) = self.open(key) else { return }
        do throws(FileSystemError) {
            if isCut {
                var cutEnd: Int?
                if let found = file.hole?.found, try !self.hasLineBehindHole(key, descriptor) {
                    // Whatever is after the NULs now was not there before.
                    self.successions.short.note(key, byteCount: found.end, sent: 0, now.monotonic)
                    cutEnd = self.settleCut(key)
                }
                guard try self.isUnchanged(key, descriptor) else {
                    // What it has grown by is of the other content.
                    if let cutEnd { self.table[key].provenByteCount = cutEnd }
                    return self.truncated(key)
                }
                let isWhole = isBack ? try self.hasProvenEnd(key, descriptor) : false
                if !isWhole { self.settleCut(key) }
                try self.goesOn(key, descriptor)
            } else if isBack, try self.isWhole(key, descriptor, upTo: short.sentByteCount) {
                try self.goesOn(key, descriptor)
                self.notices.append(
                    .regrown(self.id(of: key), path: file.path, byteCount: short.byteCountMin, offset: file.cursor))
            } else if isOver {
                let byteCount = min(short.byteCountMin, file.heldByteCount(at: self.receivers.current))
                let held = try self.lastEnd(of: key, descriptor, upTo: byteCount)
                self.shortened(key, heldBelow: held, short.byteCountMin)
            }
        } catch {
            self.readFailed(key, error)
        }
    }

    /// Takes up a file that had its time to grow back, as it is now.
    private mutating func goesOn(_ key: StreamKey, _ descriptor: FileID) throws(FileSystemError) {
        self.successions.short.forget(key)
        self.decided(key)
        self.changes.insert(key)
        if self.table[key].byteCount >= self.table[key].provenByteCount {
            try self.prove(key, descriptor)
        } else {
            // What was shipped is there again, and what was not may come.
            self.shorter(key, byteCount: self.table[key].byteCount, modified: self.table[key].modified)
        }
    }

    /// Whether a file that has grown back ends, up to where it was proven, as it did.
    private func hasProvenEnd(_ key: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        let file = self.table[key]
        guard let tail = file.provenTail else { return true }
        return try self.holds(descriptor, SeenEnd(offset: file.provenByteCount, tail: tail))
    }

    /// Reports what is lost in a file that waits, and of which nothing that was shipped is missing: it does not grow back.
    ///
    /// - Returns: the smallest length that was seen; `nil` if it does not wait, or waits for what was shipped.
    @discardableResult
    mutating func settleCut(_ key: StreamKey) -> Int? {
        let file = self.table[key]
        guard let short = self.successions.short[key],
            short.byteCountMin >= max(file.shippedByteCount, short.sentByteCount)
        else { return nil }
        self.tellCut(key, to: short.byteCountMin)
        // What it has since is of this content, too.
        self.table[key].provenByteCount = file.byteCount
        if let end = short.end, end.offset == file.byteCount { self.table[key].provenTail = end.tail }
        self.successions.short.forget(key)
        return short.byteCountMin
    }

    /// The same for a file that has another content now; what it has grown by is of that one if it has it still.
    mutating func settleCutBeforeEnd(_ key: StreamKey) {
        let growth = self.successions.short[key]?.end
        // To open it now might give it up.
        guard let byteCount = self.settleCut(key), let growth, let descriptor = self.table[key].descriptor else {
            return
        }
        do throws(FileSystemError) {
            if try self.holds(descriptor, growth) { self.table[key].provenByteCount = byteCount }
        } catch {
            self.readFailed(key, error)
        }
    }

    /// Reports what is lost in a file that became shorter, but not shorter than what was shipped.
    mutating func tellCut(_ key: StreamKey, to byteCount: Int) {
        let file = self.table[key]
        let proven = file.provenByteCount
        guard byteCount < proven else { return }
        self.table[key].examined = min(file.examined, byteCount)
        self.table[key].provenByteCount = byteCount
        self.table[key].ends = file.ends.limited(to: byteCount)
        // The line behind NULs may be gone: they are measured again.
        if file.hole.map({ byteCount <= $0.end + Fingerprint.byteCountMax }) ?? false { self.forgetHole(key) }
        let start = max(byteCount, file.keptBelow)
        let lost = max(0, proven - start - (file.hole?.byteCount(within: start, proven) ?? 0))
        self.notices.lost(
            .cut(self.streamID(of: file), path: file.path, offset: byteCount, lostByteCount: lost), lost)
    }

    /// How many of the first bytes that were seen of a file are in another one, which has all that was shipped of it.
    ///
    /// If that is as long and does not end there as the file did, those up to the last batch end that both have.
    func keptByteCount(
        of key: StreamKey, in descriptor: FileID, _ byteCount: Int
    ) throws(FileSystemError) -> Int {
        let file = self.table[key]
        let (shipped, proven) = (file.shippedByteCount, file.provenByteCount)
        guard shipped < proven, proven <= byteCount, try !self.hasProvenEnd(key, descriptor) else { return byteCount }
        for end in file.ends.upTo(proven) where end.offset > shipped {
            if try self.holds(descriptor, end) { return end.offset }
        }
        return shipped
    }

    /// Whether a file has all that was shipped of it, and all that was sent up to an offset.
    private func isWhole(
        _ key: StreamKey, _ descriptor: FileID, upTo sentByteCount: Int
    ) throws(FileSystemError) -> Bool {
        guard try self.isUnchanged(key, descriptor) else { return false }
        let file = self.table[key]
        for end in file.ends.upTo(sentByteCount) where end.offset > file.shippedByteCount {
            guard try self.holds(descriptor, end) else { return false }
        }
        return try self.agreement(of: descriptor, with: file, self.rememberedFleet.numbers[key]) == .whole
    }

    /// Makes a log wait that is shorter than what was sent of it before the connection was lost, as one that is shorter
    /// than what was acknowledged: the receiver proves to hold that.
    ///
    /// - Returns: whether it is, and waits.
    mutating func awaitsRegrowth(_ stream: StreamKey, to offset: Int, _ proof: StreamProof) -> Bool {
        let file = self.table[stream]
        guard !file.isSegment, offset > file.byteCount, let receiver = self.receivers.current,
            let sent = file.anchors.first(where: { $0.end == offset }), sent.digest == proof.digest
        else { return false }
        self.table[stream].receiver = receiver
        self.table[stream].acked = offset
        self.table[stream].cursor = offset
        self.changes.insert(stream)
        self.shorter(stream, byteCount: file.byteCount, modified: file.modified)
        return true
    }

    /// The last remembered batch end at or below an offset that the file still has; 0 without one.
    private func lastEnd(
        of key: StreamKey, _ descriptor: FileID, upTo offset: Int
    ) throws(FileSystemError) -> Int {
        guard try self.hasHead(key, descriptor) else { return 0 }
        for end in self.table[key].ends.upTo(offset) where try self.holds(descriptor, end) {
            if try !self.isWithinHole(descriptor, end.offset) { return end.offset }
        }
        return 0
    }

    /// Whether NULs that end at an offset, and all look alike, do not end there in this file: theirs is another hole.
    private func isWithinHole(_ descriptor: FileID, _ offset: Int) throws(FileSystemError) -> Bool {
        guard offset > 0 else { return false }
        let around = UnsafeMutableRawBufferPointer(rebasing: self.headBuffer[..<2])
        let count = try self.files.readFully(descriptor, at: offset - 1, into: around)
        return count > 0 && around[..<count].allSatisfy { $0 == 0 }
    }

    /// Begins another content, of which the first bytes were shipped.
    private mutating func shortened(_ key: StreamKey, heldBelow byteCount: Int, _ byteCountMin: Int) {
        let file = self.table[key]
        let reread = max(0, min(byteCountMin, file.heldByteCount(at: self.receivers.current)) - byteCount)
        self.successions.counts.rereadByteCount += reread
        self.notices.append(
            .shortened(
                self.id(of: key), path: file.path, offset: file.shippedByteCount, byteCount: byteCountMin,
                rereadByteCount: reread))
        if file.provenByteCount > file.shippedByteCount { self.table[key].ending = .cut }
        let holder = byteCount > 0 ? self.receivers.current : nil
        let stored = self.storedBytes(of: key, upTo: byteCount)
        let kept = max(file.keptBelow, file.heldByteCount(at: self.receivers.current))
        self.table[key].keptBelow = byteCountMin
        self.end(
            key, earlier: holder.map { EarlierBytes(receiver: $0, byteCount: byteCount, stored: stored) },
            keptBelow: min(byteCountMin, kept))
    }
}
