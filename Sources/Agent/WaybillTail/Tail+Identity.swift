internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// Identifies files: new ones, known ones after a restart, truncated ones, and new ones that reuse an inode.
extension Tail {
    /// Whether a file's first line can still grow.
    enum HeadState {
        case growing
        case final
    }

    // MARK: New files

    mutating func observeSegment(_ path: String, source: Int, _ status: FileStatus, _ now: TailTime) {
        let name = Path.name(of: path)
        guard let segment = SegmentName(parsing: KeptSegmentName.plain(name)) else {
            self.notices.complain(path, .notSegment(path: path))
            return
        }
        do throws(FileSystemError) {
            guard try self.judgeSegment(path) != nil else { return }
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
            return
        }
        let id = segment.id
        if !segment.contentDigest.isEmpty { self.reshipped(segment.original.id, status) }
        guard status.byteCount > 0 else {
            self.deleteEmptySegment(path, status, now)
            return
        }
        if let other = self.bySegment[id] {
            guard self.givesWay(other, to: path, status) else { return }
            self.forget(other)
        }
        var file = TailedFile(source: source, origin: .segment(id: id), path: path, status: status)
        var stored: RegistryEntry?
        file.scanSeen = self.scanCount
        if let entry = self.former.segments.removeValue(forKey: id) {
            file.restore(entry, for: self.receivers.current)
            file.cursor = min(file.acked, status.byteCount)
            stored = entry
        } else {
            self.notices.append(.discovered(StreamID(unchecked: id), path: path))
        }
        let key = self.insert(file)
        self.bySegment[id] = key
        self.noteRealPath(of: key)
        self.changes.insert(key)
        if let stored { self.restoreInFleet(key, stored) }
        if self.table[key].isDrained { self.enqueueProbe(key) } else { self.hold(key) }
        self.enqueue(key)
    }

    /// Forgets a segment that was renamed in order to be shipped under another id: its bytes are not lost.
    private mutating func reshipped(_ id: String, _ status: FileStatus) {
        if let key = self.bySegment[id], self.table[key].identity == status.identity { self.forget(key) }
        if let entry = self.former.segments[id], entry.identity == status.identity {
            self.former.segments[id] = nil
            self.changes.removeEntry(id)
        }
    }

    mutating func observeForeign(_ path: String, source: Int, _ status: FileStatus, _ now: TailTime) {
        var file = TailedFile(source: source, origin: .foreign, path: path, status: status)
        file.scanSeen = self.scanCount
        let entries = self.former.entries(of: status.identity.inode)
        if let entry = self.unchanged(entries, path, status) {
            self.former.take(entry)
            file.restore(entry, for: self.receivers.current)
            let key = self.insert(file)
            self.restoreInFleet(key, entry)
            if !self.table[key].isDrained { self.hold(key) }
            if self.table.contains(key) { self.enqueue(key) }
            return
        }
        self.noteFormer(at: path, source: source, status)
        let key = self.insert(file)
        self.noteRealPath(of: key)
        if status.byteCount > 0 || !entries.isEmpty { self.identify(key, .growing) }
    }

    mutating func insert(_ file: TailedFile) -> StreamKey {
        let key = self.table.insert(file)
        self.table.indexIdentity(of: key)
        self.table.indexPath(of: key)
        self.noteFound(key)
        return key
    }

    /// The entry of a file not written to since: it need not be opened until it changes.
    private func unchanged(_ entries: [RegistryEntry], _ path: String, _ status: FileStatus) -> RegistryEntry? {
        guard entries.count == 1, let entry = entries.first, entry.state != .gone,
            entry.identity == status.identity, entry.path == path, entry.byteCount == status.byteCount,
            entry.modified == status.modified, entry.held.allSatisfy({ $0.offset <= status.byteCount })
        else { return nil }
        return entry
    }

    // MARK: Identification

    /// Reads a foreign file's head, and assigns its stream as soon as the head is complete.
    mutating func identify(_ key: StreamKey, _ state: HeadState) {
        let descriptor: FileID
        switch self.open(key) {
        case .opened(let opened): descriptor = opened
        case .lost, .replaced, .noRoom, .failed: return
        }
        let fingerprint: Fingerprint?
        let outdated: [RegistryEntry]
        do throws(FileSystemError) {
            let count = try self.files.readFully(descriptor, at: 0, into: self.headBuffer)
            let head = UnsafeRawBufferPointer(rebasing: self.headBuffer[..<count])
            guard try self.isSuitable(key, descriptor, head) else { return }
            fingerprint = self.fingerprint(ofWhole: head, state)
            self.noteReplaced(by: key)
            self.noteRenumbered(key)
            if let end = self.successions.departures.end(of: key), try !self.holds(descriptor, end) {
                let byteCount = self.table[key].byteCount
                self.successions.departures.leave(key, keptBelow: byteCount < end.offset ? byteCount : 0)
            }
            if let fingerprint, try self.awaitsFormer(key, descriptor, fingerprint) { return }
            outdated = fingerprint == nil ? [] : try self.outdatedEntries(of: self.table[key], descriptor)
            if fingerprint != nil { try self.prove(key, descriptor) }
        } catch {
            self.readFailed(key, error)
            return
        }
        guard let fingerprint else { return }
        // What follows it does not follow the file that it waited for.
        self.successions.departures.withdraw(key)
        self.table[key].fingerprint = fingerprint
        self.assignIncarnation(key, fingerprint, outdated)
        self.changes.insert(key)
        if self.successions.leavingStem.remove(key) != nil { self.rememberStems() }
        self.releasePredecessors(of: self.table[key].identity)
        self.enqueue(key)
    }

    /// The fingerprint of the first line, of 4096 bytes, or of all bytes if no more will follow.
    private func fingerprint(ofWhole head: UnsafeRawBufferPointer, _ state: HeadState) -> Fingerprint? {
        if let lineFeed = LineScanner.firstLineFeed(in: head) {
            return Fingerprint(of: UnsafeRawBufferPointer(rebasing: head[...lineFeed]))
        }
        guard head.count == Fingerprint.byteCountMax || (state == .final && !head.isEmpty) else { return nil }
        return Fingerprint(of: head)
    }

    /// The entries of earlier contents of a file, which may begin in the same way.
    private func outdatedEntries(
        of file: TailedFile, _ descriptor: FileID
    ) throws(FileSystemError) -> [RegistryEntry] {
        var outdated: [RegistryEntry] = []
        for entry in self.former.entries(of: file.identity.inode) where self.isSameFile(entry, file) {
            var isOutdated = false
            for end in entry.ends.upTo(file.byteCount) where try !self.holds(descriptor, end) { isOutdated = true }
            for held in entry.held where held.offset <= file.byteCount {
                guard let digest = held.digest,
                    let id = self.streamID(of: file, entry, incarnation: held.incarnation)
                else { continue }
                let anchor = Anchor(end: held.offset, digest: digest)
                if try !self.holds(descriptor, anchor, of: id) { isOutdated = true }
            }
            if let number = entry.number, let sent = number.sent, sent.end <= file.byteCount,
                let id = self.streamID(of: file, entry, incarnation: number.number),
                try !self.holds(descriptor, sent, of: id)
            {
                isOutdated = true
            }
            if isOutdated { outdated.append(entry) }
        }
        return outdated
    }

    /// The id that a receiver knows an entry's content by.
    private func streamID(of file: TailedFile, _ entry: RegistryEntry, incarnation: Int) -> StreamID? {
        var earlier = file
        earlier.fingerprint = entry.fingerprint
        earlier.stem = entry.stem
        return self.streamID(of: earlier, incarnation: incarnation)
    }

    /// Finds the stream that this file continues, or begins a new one.
    private mutating func assignIncarnation(
        _ key: StreamKey, _ fingerprint: Fingerprint, _ outdated: [RegistryEntry]
    ) {
        let file = self.table[key]
        var own: RegistryEntry?
        var next = file.pastHeads.first { $0.hash == fingerprint.hash }?.nextIncarnation ?? 0
        for entry in self.former.entries(of: file.identity.inode) where self.isSameFile(entry, file) {
            if let past = entry.pastHeads.first(where: { $0.hash == fingerprint.hash }) {
                next = max(next, past.nextIncarnation)
            }
            self.table[key].inherit(entry)
            guard entry.fingerprint == fingerprint else {
                self.freeze(entry, .cut)
                continue
            }
            next = max(next, entry.greatestIncarnation + 1)
            if entry.state != .gone, !self.former.isFrozen(entry),
                entry.greatestIncarnation >= (own?.greatestIncarnation ?? 0), !outdated.contains(entry)
            {
                own = entry
            } else {
                self.freeze(entry, .cut)
            }
        }
        if let own, own.greatestIncarnation + 1 == next {
            self.former.take(own)
            self.table[key].restore(own, for: self.receivers.current)
            // It was to be asked while no one knew which content it was.
            if self.table[key].receiver > 0 { self.table[key].isAsking = false }
            self.passTakenNumbers(key)
            self.restoreInFleet(key, own)
            if file.byteCount < self.table[key].provenByteCount {
                self.shorter(key, byteCount: file.byteCount, modified: file.modified)
            }
            return
        }
        let taken = self.numberAfterTaken(key, fingerprint)
        self.table[key].incarnation = max(next, taken ?? 0)
        // On a file system without creation times, a file that begins in the same way may reuse a deleted file's inode.
        while let id = self.registryKey(of: self.table[key]), self.former.isGone(id.description) {
            self.table[key].incarnation += 1
        }
        // The content before, if it had the same head, has the stream before at the present receiver. The numbers there
        // have no gap: an agent without a registry asks up to the first unknown one.
        let hasSameHead = file.pastHeads.last?.hash == fingerprint.hash
        self.table[key].walk = hasSameHead ? file.walk : nil
        if taken != nil { self.table[key].walk = IncarnationWalk(next: self.table[key].incarnation) }
        self.number(key)
        self.notices.append(.discovered(self.id(of: key), path: file.path))
    }

    /// Whether an entry is for this file, whatever its content was then.
    func isSameFile(_ entry: RegistryEntry, _ file: TailedFile) -> Bool {
        guard entry.identity.inode == file.identity.inode, entry.birth == file.birth else { return false }
        // Devices may be renumbered at a reboot; a creation time in nanoseconds identifies the file as well.
        return entry.identity.device == file.identity.device || entry.birth != 0
    }

    // MARK: Cut, rewritten, replaced

    /// Verifies that a file which was written to without growing still has the same head.
    mutating func verify(_ key: StreamKey) {
        guard case .opened(let descriptor) = self.open(key) else { return }
        do throws(FileSystemError) {
            guard try self.isUnchanged(key, descriptor) else {
                self.truncated(key)
                return
            }
            try self.reexamineHole(key, descriptor)
            // What was seen last, which may have been NULs, may be what was written over.
            try self.prove(key, descriptor)
        } catch {
            self.readFailed(key, error)
        }
    }

    /// Ends the stream at the last byte returned, because the content was replaced, and begins a new incarnation.
    mutating func truncated(_ key: StreamKey) {
        self.table[key].ending = .cut
        if self.hasFilledHole(key) { self.table[key].provenByteCount = 0 }
        self.end(key)
    }

    /// Ends a content in favour of another one in the same file.
    ///
    /// - Parameters:
    ///   - earlier: what a receiver holds of the new content already.
    ///   - keptBelow: how many of the new content's first bytes were shipped.
    mutating func end(_ key: StreamKey, earlier: EarlierBytes? = nil, keptBelow: Int = 0) {
        self.settleCutBeforeEnd(key)
        // What was seen after that may be of the new content.
        self.table[key].byteCount = self.table[key].provenByteCount
        self.table[key].isUndecided = false
        let isLeavingStem = self.table[key].hasFormerStem || self.successions.leavingStem.contains(key)
        self.successions.forget(key)
        let new = self.beginIncarnation(replacing: key, earlier)
        self.table[new].keptBelow = keptBelow
        if isLeavingStem { self.successions.leavingStem.insert(new) }
        self.awaitSuccessor(key)
        self.forgetUnheld(key)
        self.observeNew(new)
    }

    private mutating func beginIncarnation(replacing key: StreamKey, _ earlier: EarlierBytes?) -> StreamKey {
        let file = self.table[key]
        var successor = file
        successor.fingerprint = nil
        successor.incarnation = 0
        successor.resume(nil)
        // In another file's stem, this one's contents have no number yet.
        let hasStem = !file.hasFormerStem
        if file.receiver > 0, hasStem {
            successor.walk = IncarnationWalk(next: file.streamIncarnation + (file.wasSent ? 1 : 0))
        }
        // What the fleet has is of the former content, whichever receiver took it.
        if hasStem, let stored = self.rememberedFleet.offsets[key], successor.walk?.next ?? 0 <= stored.incarnation {
            successor.walk = IncarnationWalk(next: stored.incarnation + 1)
        }
        // Other receivers are asked which of their streams agrees with the new content.
        successor.others = []
        successor.pastHeads =
            hasStem ? file.pastHeadsOfSuccessor(afterNumber: self.rememberedFleet.greatestNumber(of: key)) : []
        successor.ends = file.ends.limited(to: earlier?.byteCount ?? 0)
        successor.provenByteCount = 0
        successor.earlier = earlier
        successor.examined = 0
        successor.overlong = nil
        successor.hole = nil
        successor.ending = .told
        successor.isPositioned = false
        successor.isAsking = false
        successor.isQueued = false
        successor.isFaulty = false
        successor.isShipped = false
        successor.isAwaitingSuccessor = false
        successor.byteCount = 0
        successor.stem = FileStem(file.identity, birth: file.birth)
        successor.descriptor = nil
        successor.registration = nil
        if file.phase == .sealOffered { successor.phase = .complete }
        self.endStream(key)
        let new = self.insert(successor)
        if let descriptor = file.descriptor {
            self.table[key].descriptor = nil
            self.table[new].descriptor = descriptor
            self.openFiles.replace(key, by: new)
        }
        return new
    }

    /// Reads the current length of the new content.
    private mutating func observeNew(_ key: StreamKey) {
        guard case .opened(let descriptor) = self.open(key) else { return }
        do throws(FileSystemError) {
            let status = try self.files.status(descriptor)
            self.table[key].byteCount = status.byteCount
            self.table[key].modified = status.modified
        } catch {
            self.readFailed(key, error)
            return
        }
        if self.table[key].byteCount > 0 { self.identify(key, .growing) }
    }

    /// Ends a stream that can no longer be read at the place where reading stopped.
    private mutating func endStream(_ key: StreamKey) {
        let file = self.table[key]
        self.table.removeIdentity(of: key)
        self.table.removePath(of: key)
        self.table[key].reach = .gone
        // It does not grow back, and no other file continues it.
        self.table[key].isUndecided = false
        self.successions.short.forget(key)
        // An end that was already sent to the receiver is not sent twice.
        if file.phase != .sealOffered { self.table[key].phase = .complete }
        // The amount lost is known only with the receiver's position.
        if file.isPositioned || !file.isIdentified { self.tellEnding(key, at: file.shippedByteCount) }
        self.table[key].isFaulty = false
        self.table[key].overlong = nil
        if let id = self.registryKey(of: file) { self.former.insertGone(id.description) }
        self.changes.insert(key)
        self.enqueue(key)
    }

    /// Handles a file that is gone, including its unread bytes.
    mutating func vanished(_ key: StreamKey) {
        if case .sealed = self.table[key].phase { return self.forget(key) }
        if self.successions.departures.leave(key) { return self.forget(key) }
        self.settleCut(key)
        self.table[key].ending = .unseen
        if !self.table[key].isSegment, self.table[key].isIdentified {
            self.table[key].byteCount = self.table[key].provenByteCount
        }
        // Its writer may continue in a segment that has a name elsewhere.
        let isDeleted = self.isUnlinked(self.table[key])
        self.closeDescriptor(key)
        let file = self.table[key]
        self.endStream(key)
        if file.isSegment, file.isPositioned, !isDeleted || file.cursor < file.byteCount {
            self.leaveUnsealed(key, of: file.byteCount)
        } else {
            self.forgetUnheld(key)
        }
    }

    /// Forgets a segment that is gone and of which the present receiver does not hold all `byteCount` bytes; it stays
    /// for receivers that do.
    ///
    /// A power failure may bring it back, and it has one id: where its stream was sealed below its end, nothing could
    /// take the rest.
    mutating func leaveUnsealed(_ key: StreamKey, of byteCount: Int) {
        let whole = self.table[key].others.filter { $0.offset > 0 && $0.offset >= byteCount }
        guard !whole.isEmpty else { return self.forget(key) }
        self.table[key].byteCount = byteCount
        self.table[key].resume(nil)
        self.table[key].others = whole
        self.changes.insert(key)
    }

    /// Forgets a stream that can no longer be read and of which no receiver holds anything.
    ///
    /// One that only other receivers hold stays for them. Its loss is reported now, for they may never come back.
    mutating func forgetUnheld(_ key: StreamKey) {
        let file = self.table[key]
        // A stream of which nothing was sent is left to the content that follows.
        let isUnheld = file.receiver == 0 || !file.wasSent
        guard file.reach == .gone, !file.isAwaitingSuccessor, !file.isIdentified || isUnheld else { return }
        let offset = file.others.map(\.offset).max()
        // A segment stays only where all of it is held: see leaveUnsealed(_:of:).
        if file.isIdentified, let offset, !file.isSegment || offset >= file.byteCount {
            guard file.ending != .told || offset < file.byteCount else { return }
            self.tellEnding(key, at: max(offset, file.shippedByteCount))
            self.changes.insert(key)
            return
        }
        self.tellEnding(key, at: max(file.shippedByteCount, offset ?? 0))
        self.forget(key)
    }

    /// Reports the loss in a stream that can no longer be read, now that its end at `offset` is known.
    mutating func tellEnding(_ key: StreamKey, at offset: Int) {
        let file = self.table[key]
        let start = max(offset, file.keptBelow)
        let nulCount = file.hole?.byteCount(within: start, file.byteCount) ?? 0
        let lostByteCount = max(0, file.byteCount - start - nulCount)
        let id = self.streamID(of: file)
        switch file.ending {
        case .cut:
            self.notices.lost(.cut(id, path: file.path, offset: offset, lostByteCount: lostByteCount), lostByteCount)
        case .told, .unseen:
            // A file that was not open at its end is reported even if no bytes are known to be missing.
            let isNamed = file.ending == .unseen && !file.isSegment && id != nil
            guard lostByteCount > 0 || isNamed else { break }
            self.notices.lost(
                .vanished(id, path: file.path, offset: offset, lostByteCount: lostByteCount), lostByteCount)
        }
        self.table[key].ending = .told
        self.table[key].byteCount = offset
    }

    /// Handles an inode that another file has now.
    mutating func replaced(_ key: StreamKey, by status: FileStatus) {
        let file = self.table[key]
        self.leaveInode(key)
        var successor = TailedFile(source: file.source, origin: .foreign, path: file.path, status: status)
        successor.birth = status.birth
        successor.scanSeen = file.scanSeen
        let new = self.insert(successor)
        if status.byteCount > 0 { self.identify(new, .growing) }
    }

    /// Handles a segment that is shorter than what was read, which only a crash of the machine causes: it ends there.
    mutating func segmentCut(_ key: StreamKey, _ status: FileStatus) {
        let file = self.table[key]
        self.table[key].byteCount = status.byteCount
        self.table[key].modified = status.modified
        guard file.phase == .following else { return }
        self.notices.append(
            .cut(self.streamID(of: file), path: file.path, offset: status.byteCount, lostByteCount: 0))
        self.enqueueProbe(key)
    }
}
