internal import WaybillProtocol
internal import WaybillSystem

/// What a tail knows of contents that change their file, or seem to end.
struct Successions {
    var departures = Departures()
    var short = ShortFiles()
    var stems = TakenStems()
    var counts = SuccessionCounts()
    var foundMissing = MissingFiles()
    /// Contents of a file whose content before had another file's stem: only the registry says that they have their own.
    var leavingStem: Set<StreamKey> = []
    /// Files that waited for one that was forgotten.
    private var released: [StreamKey] = []

    /// Whether something is decided at a look to come.
    var isWaiting: Bool { !self.departures.isEmpty || !self.short.isEmpty || !self.released.isEmpty }

    /// Nothing is decided about a file any more; what waits for it is identified at the next look.
    mutating func forget(_ file: StreamKey) {
        self.short.forget(file)
        self.foundMissing.remove(file)
        self.leavingStem.remove(file)
        self.released += self.departures.forget(file)
    }

    mutating func takeReleased() -> [StreamKey] {
        defer { self.released = [] }
        return self.released
    }
}

/// How often contents went on in another file, and what was read again, since the start.
package struct SuccessionCounts: Hashable, Sendable {
    /// Files that were written again under their name, and continue.
    package internal(set) var continuedCount = 0
    /// Bytes that are shipped again because a file became shorter than what was shipped of it.
    package internal(set) var rereadByteCount = 0

    package init() {}
}

/// Decides which file has a content after its name leads elsewhere: while both files exist their inodes decide, and
/// after one of them is gone the bytes do.
///
/// A file continues one that is gone if it has the same head, every remembered batch end (``BatchEnds``), and whatever
/// else of that can still be read. It then has the stream's id, position and number of the other, and the stem of its
/// inode stays taken (``TakenStems``).
///
/// - SeeAlso: `Documentation/logs.md`.
extension Tail {
    /// What files that were replaced or became shorter came to, since the start.
    package var successionCounts: SuccessionCounts { self.successions.counts }

    /// How a file's bytes compare with the content of a file that is gone.
    enum Agreement {
        case whole
        /// It is shorter, and has the same bytes as far as it goes.
        case soFar
        case differs
    }

    // MARK: Files that left their name

    /// Notes that the file which was at a path is there no more, because another one is.
    mutating func noteFormer(at path: String, source: Int, _ status: FileStatus) {
        if let key = self.table.key(at: path) {
            guard self.table[key].source == source else { return }
            self.depart(key, from: path)
            return
        }
        // Whether an inode is still that of the entry shows once the file is open.
        guard let entry = self.former.entry(at: path), entry.identity != status.identity,
            entry.identity.inode != status.identity.inode || entry.birth == 0,
            !self.former.hasLater(than: entry, of: status.identity)
        else { return }
        self.restoreDeparted(entry, source: source)
    }

    /// Notes that a file which was opened now has the inode of one that was at its path, and is another one.
    ///
    /// Without births, it may be the same one after its device got another number, at whichever path.
    ///
    /// Of several, one on each device number that there was, it may continue the one that is ahead.
    mutating func noteReplaced(by key: StreamKey) {
        let file = self.table[key]
        let isAwaited = self.successions.departures.departed(from: file.path) != nil
        let others = self.former.entries(of: file.identity.inode).filter { entry in
            guard entry.state != .gone, !self.isSameFile(entry, file),
                !self.former.hasLater(than: entry, of: file.identity)
            else { return false }
            guard entry.path != file.path else { return !isAwaited }
            return file.birth == 0 && entry.birth == 0 && !self.leads(entry.path, to: entry.identity)
        }
        if let ahead = others.max(by: { $1.isAhead(of: $0) }) { self.restoreDeparted(ahead, source: file.source) }
    }

    /// Gives back the entry of a file that seemed to have left its name, and that has another device number now: it is
    /// the one that was opened.
    mutating func noteRenumbered(_ key: StreamKey) {
        let file = self.table[key]
        guard file.birth != 0 else { return }
        for missing in self.successions.foundMissing.files(in: file.identity.inode) {
            let other = self.table[missing]
            guard other.birth == file.birth, other.identity.device != file.identity.device else { continue }
            self.setAside(missing, source: self.sources[other.source].name)
        }
    }

    private mutating func restoreDeparted(_ entry: RegistryEntry, source: Int) {
        guard self.source(named: entry.source) == source, !self.former.isFrozen(entry) else { return }
        var file = TailedFile(entry, source: source, origin: .foreign, for: self.receivers.current)
        guard self.mayBeContinued(file) else { return }
        file.isUndecided = true
        self.former.take(entry)
        let key = self.table.insert(file)
        self.successions.foundMissing.insert(key, inode: file.identity.inode)
        if self.table.key(of: file.identity) == nil {
            self.table.indexIdentity(of: key)
        } else {
            self.table[key].reach = .replaced
        }
        self.restoreInFleet(key, entry)
        self.depart(key, from: entry.path)
    }

    /// Gives up a file whose inode another one has: its content may continue in a file of its name.
    mutating func leaveInode(_ key: StreamKey) {
        guard self.depart(key, from: self.table[key].path) else { return self.vanished(key) }
        // Without births, the other file would have its ids.
        if self.table[key].birth == 0 { self.takeStem(of: key) }
        self.closeDescriptor(key)
        self.table.removeIdentity(of: key)
        self.table.removePath(of: key)
        self.table[key].reach = .replaced
        self.table[key].isUndecided = true
        self.settleCut(key)
        self.successions.short.forget(key)
    }

    /// Waits for a file that may be on its way to another name, or be continued by another file.
    ///
    /// - Returns: whether it waits.
    @discardableResult
    mutating func depart(_ key: StreamKey, from path: String) -> Bool {
        guard self.mayBeContinued(self.table[key]) else { return false }
        self.successions.departures.note(key, from: path, self.looks.time.monotonic)
        return self.successions.departures.contains(key)
    }

    /// Whether another file may continue this one: enough of it is acknowledged to tell.
    private func mayBeContinued(_ file: TailedFile) -> Bool {
        guard !file.isSegment, file.isIdentified, file.reach != .gone else { return false }
        switch file.phase {
        case .following, .left: break
        case .complete, .sealOffered, .sealed: return false
        }
        return max(file.heldByteCount(at: self.receivers.current), file.others.map(\.offset).max() ?? 0)
            >= self.limits.provingByteCount
    }

    /// Whether a file with this head is to wait, because it may have the content of one that left its name.
    mutating func awaitsFormer(
        _ key: StreamKey, _ descriptor: FileID, _ head: Fingerprint
    ) throws(FileSystemError) -> Bool {
        for former in self.formers(of: key) where former != key && self.table.contains(former) {
            guard self.table[former].source == self.table[key].source, self.table[former].fingerprint == head,
                try self.agreement(of: descriptor, with: former) != .differs
            else { continue }
            let end = try self.seenEnd(of: descriptor, at: self.table[key].byteCount)
            self.successions.departures.wait(key, for: former, end: end)
            return true
        }
        return false
    }

    /// The files that left their name, and of which a file may have the content: for each of them it waits once.
    private func formers(of key: StreamKey) -> [StreamKey] {
        let departures = self.successions.departures
        guard !departures.isEmpty else { return [] }
        if let former = departures.former(of: key) { return [former] }
        let file = self.table[key]
        let renumbered = self.successions.foundMissing.files(in: file.identity.inode).filter {
            file.birth == 0 && departures.contains($0) && self.table[$0].birth == 0
        }
        return ((departures.departed(from: file.path).map { [$0] } ?? []) + renumbered)
            .filter { departures.mayContinue($0, in: key) }
    }

    private func agreement(of descriptor: FileID, with former: StreamKey) throws(FileSystemError) -> Agreement {
        let agreement = try self.agreement(
            of: descriptor, with: self.table[former], self.rememberedFleet.numbers[former])
        guard agreement == .whole else { return agreement }
        return try self.hasRest(of: former, descriptor, try self.files.status(descriptor).byteCount) ? .whole : .differs
    }

    /// How a file compares with what was shipped of another one.
    func agreement(
        of descriptor: FileID, with file: TailedFile, _ number: ContentNumber?
    ) throws(FileSystemError) -> Agreement {
        let byteCount = try self.files.status(descriptor).byteCount
        for end in file.ends.upTo(min(byteCount, file.shippedByteCount)) where try !self.holds(descriptor, end) {
            return .differs
        }
        guard byteCount >= file.shippedByteCount else { return .soFar }
        for held in (file.held.map { [$0] } ?? []) + file.others {
            guard let digest = held.digest, let id = self.streamID(of: file, incarnation: held.incarnation) else {
                continue
            }
            guard try self.holds(descriptor, Anchor(end: held.offset, digest: digest), of: id) else {
                return .differs
            }
        }
        if let number, let sent = number.sent, sent.end <= file.cursor,
            let id = self.streamID(of: file, incarnation: number.number),
            try !self.holds(descriptor, sent, of: id)
        {
            return .differs
        }
        return .whole
    }

    /// Whether a file has what can still be read of another one after its position.
    private func hasRest(
        of former: StreamKey, _ descriptor: FileID, _ byteCount: Int
    ) throws(FileSystemError) -> Bool {
        guard let other = self.table[former].descriptor else { return true }
        let end = try self.files.status(other).byteCount
        var offset = self.table[former].cursor
        guard end <= byteCount, end - offset <= Self.comparedByteCountMax else { return end <= offset }
        var left = [UInt8](repeating: 0, count: 64 << 10)
        var right = left
        while offset < end {
            let count = min(end - offset, left.count)
            let filled = try self.files.readFully(other, at: offset, into: &left)
            guard filled >= count, try self.files.readFully(descriptor, at: offset, into: &right) >= count,
                left[..<count] == right[..<count]
            else { return false }
            offset += count
        }
        return true
    }

    /// Of a file with more unread bytes nothing is compared, and what follows it is another content.
    private static var comparedByteCountMax: Int { 64 << 20 }

    // MARK: Decisions

    /// Decides about files that left their name, and about those that wait for them.
    mutating func settleDepartures(_ now: TailTime) {
        self.release(self.successions.takeReleased())
        guard !self.successions.departures.isEmpty else { return }
        let continuedCount = self.successions.counts.continuedCount
        for key in self.successions.departures.due(now.monotonic) where self.successions.departures.contains(key) {
            self.settleDeparture(key, now)
        }
        if self.successions.counts.continuedCount > continuedCount { self.rememberStems() }
    }

    /// Writes to the registry which stem a content has, before more of it is shipped: when the agent ends, nothing else
    /// says so.
    mutating func rememberStems() {
        do throws(FileSystemError) {
            try self.writeAhead(self.looks.time)
        } catch {
            // The next checkpoint reports it, if it fails as well.
        }
    }

    private mutating func settleDeparture(_ key: StreamKey, _ now: TailTime) {
        var (isAtPath, isNowhere) = (false, false)
        if self.mayBeContinued(self.table[key]) {
            guard let isFound = self.isAtPath(key, now) else { return }
            (isAtPath, isNowhere) = (isFound, !isFound)
        }
        if isNowhere { self.lookAtName(of: key, now) }
        guard self.table.contains(key), let departure = self.successions.departures.settle(key) else { return }
        self.successions.departures.settling = key
        defer { self.successions.departures.settling = nil }
        let file = self.table[key]
        var candidates = departure.candidates[...]
        settling: while isNowhere, let next = candidates.popFirst() {
            let candidate = next.file
            let continuation = self.table.contains(candidate) ? self.continueContent(of: key, in: candidate) : .differs
            switch continuation {
            case .continues:
                // One that has lost the name meanwhile is followed by the next one.
                guard self.table[key].reach != .path, self.depart(key, from: file.path) else { break settling }
                return self.successions.departures.resume(departure, of: key, with: candidates)
            case .unknown where self.depart(key, from: file.path):
                return self.successions.departures.resume(departure, of: key, with: [next] + candidates)
            case .differs, .unknown: self.release([candidate])
            }
        }
        if isAtPath { candidates.removeAll { self.forgetPassing($0.file, of: key) } }
        for candidate in candidates where self.table.contains(candidate.file) {
            self.successions.departures.refuse(candidate.file, for: key)
        }
        self.release(candidates.map(\.file))
        self.tellGone(departure, of: file, in: [key] + departure.candidates.map(\.file))
        guard self.table.contains(key) else { return }
        if !isNowhere, file.reach != .replaced {
            // Another file may have been found at its name meanwhile.
            if isAtPath, self.table[key].reach == .path { self.table.indexPath(of: key) }
            self.decided(key)
        } else if self.table[key].isUndecided, file.reach != .descriptor || !self.successions.short.contains(key) {
            // A short file that is nowhere does not grow back.
            self.gone(key)
        }
    }

    /// Forgets a file that had the name of a content for a while and is gone, if the content's own file has all its bytes:
    /// one that was written again twice may have got its inode back.
    ///
    /// - Returns: whether it is forgotten.
    private mutating func forgetPassing(_ candidate: StreamKey, of key: StreamKey) -> Bool {
        guard self.table.contains(key), self.table.contains(candidate), self.table[candidate].reach == .descriptor,
            !self.table[candidate].isIdentified, self.table[candidate].descriptor != nil,
            case .opened(let descriptor) = self.open(key), self.table.contains(candidate),
            self.table[candidate].descriptor != nil
        else { return false }
        do throws(FileSystemError) {
            let byteCount = try self.files.status(descriptor).byteCount
            guard try self.hasRest(of: candidate, descriptor, byteCount) else { return false }
        } catch {
            self.readFailed(key, error)
            return false
        }
        self.forget(candidate)
        return true
    }

    /// Looks at which file has the name of one that is nowhere, and at those that had it since.
    private mutating func lookAtName(of key: StreamKey, _ now: TailTime) {
        let (path, source) = (self.table[key].path, self.table[key].source)
        if self.source(of: path) == source { self.observe(path, source: source, now) }
        var lost = self.successions.departures.candidates(of: key)
        self.settleLost(&lost, now)
    }

    /// Tells what was seen of a file that was to continue another one and is gone, unless one of these files has it.
    ///
    /// One that was not longer than the other one is told only if that can be read and has other bytes.
    private mutating func tellGone(_ departure: Departures.Departure, of file: TailedFile, in keys: [StreamKey]) {
        let offset = file.provenByteCount
        guard let (end, gone) = departure.gone.map({ ($0.end, $0.file) }) else { return }
        var isOther = end.offset > offset
        for key in keys + [gone] where self.table.contains(key) {
            guard case .opened(let descriptor) = self.open(key) else { continue }
            do throws(FileSystemError) {
                if try self.holds(descriptor, end) { return }
                if key == keys.first { isOther = true }
            } catch {
                self.readFailed(key, error)
            }
        }
        guard isOther else { return }
        // It waited because it had all that was shipped up to the last batch end below its own.
        let shipped = end.offset > offset ? offset : file.ends.upTo(end.offset).first?.offset ?? 0
        // One that has all of that still may be shorter for a moment.
        if departure.keptBelow >= shipped, self.mayGrowBack(gone, to: end, from: departure.keptBelow) { return }
        let start = max(shipped, departure.keptBelow)
        let byteCount = end.offset - start
        self.notices.lost(
            .vanished(nil, path: departure.name.text, offset: start, lostByteCount: byteCount), byteCount)
    }

    /// Has a file that became shorter while it waited for another one wait until it had its time to grow back.
    ///
    /// - Returns: whether it waits.
    private mutating func mayGrowBack(_ key: StreamKey, to end: SeenEnd, from byteCount: Int) -> Bool {
        guard byteCount > 0, self.table.contains(key), self.table[key].reach == .path, self.table[key].isIdentified,
            self.table[key].shippedByteCount == 0, !self.successions.short.contains(key)
        else { return false }
        self.table[key].provenByteCount = end.offset
        self.table[key].provenTail = end.tail
        self.table[key].isUndecided = true
        self.successions.short.note(key, byteCount: byteCount, sent: 0, self.looks.time.monotonic)
        self.looks.fresh.note(key, self.looks.time.monotonic)
        return true
    }

    /// Whether a file is at its path, or at another one by now; `nil` if it cannot be looked for now.
    private mutating func isAtPath(_ key: StreamKey, _ now: TailTime) -> Bool? {
        guard self.table[key].reach == .path, self.hasInode(key) else { return false }
        if self.leads(self.table[key].path, to: self.table[key].identity) { return true }
        var lost = [key]
        guard self.settleLost(&lost, now) else { return nil }
        return self.table.contains(key) && self.table[key].reach == .path
            && self.leads(self.table[key].path, to: self.table[key].identity)
    }

    /// Whether no other file has a file's inode by now.
    func hasInode(_ key: StreamKey) -> Bool {
        self.table.key(of: self.table[key].identity).map { $0 == key } ?? true
    }

    /// Ends a file that is nowhere, and that no one continues.
    private mutating func gone(_ key: StreamKey) {
        self.table[key].isUndecided = self.successions.short.contains(key)
        switch self.table[key].reach {
        case .descriptor, .gone: self.enqueue(key)
        case .path where !self.isDirectoryPresent(self.table[key]):
            if self.table.key(at: self.table[key].path) == nil { self.table.indexPath(of: key) }
        case .path, .replaced:
            if self.successions.foundMissing.contains(key) { self.noteUnseenEnd(of: self.table[key]) }
            self.vanished(key)
        }
    }

    /// Takes up a file about which nothing is open any more.
    mutating func decided(_ key: StreamKey) {
        self.table[key].isUndecided = self.successions.short.contains(key)
        self.successions.foundMissing.remove(key)
        self.enqueue(key)
    }

    /// Identifies files that waited in vain.
    private mutating func release(_ candidates: [StreamKey]) {
        for key in candidates where self.table.contains(key) && !self.table[key].isIdentified {
            self.identify(key, .growing)
            if self.table.contains(key) { self.enqueue(key) }
        }
    }

    private enum Continuation {
        case continues, differs
        /// No descriptor is free to look at the file.
        case unknown
    }

    /// Makes a file the one that has a content, if it has it.
    private mutating func continueContent(of key: StreamKey, in other: StreamKey) -> Continuation {
        let descriptor: FileID
        switch self.open(other) {
        case .opened(let opened): descriptor = opened
        case .noRoom: return .unknown
        case .lost, .replaced, .failed: return .differs
        }
        // Opening one file may close another.
        guard self.table.contains(other), self.mayBeContinued(self.table[key]) else { return .differs }
        let keptByteCount: Int
        do throws(FileSystemError) {
            guard case .whole = try self.agreement(of: descriptor, with: key) else {
                self.successions.departures.refuse(other, for: key)
                return .differs
            }
            let byteCount = try self.files.status(descriptor).byteCount
            self.table[other].byteCount = byteCount
            self.settleCut(key)
            keptByteCount = try self.keptByteCount(of: key, in: descriptor, byteCount)
        } catch {
            self.readFailed(other, error)
            return .differs
        }
        self.takeStem(of: key)
        self.tellCut(key, to: keptByteCount)
        self.closeDescriptor(key)
        self.table.removeIdentity(of: key)
        self.table.removePath(of: key)
        let file = self.table[other]
        self.openFiles.replace(other, by: key)
        self.table[other].descriptor = nil
        self.forget(other)
        self.table[key].continues(in: file)
        self.table.move(key, to: file.path)
        if file.reach != .path { self.table.removePath(of: key) }
        self.table.indexIdentity(of: key)
        self.table[key].descriptor = descriptor
        do throws(FileSystemError) {
            try self.prove(key, descriptor)
        } catch {
            self.readFailed(key, error)
        }
        self.successions.short.forget(key)
        self.successions.foundMissing.remove(key)
        self.successions.counts.continuedCount += 1
        self.looks.fresh.note(key, self.looks.time.monotonic)
        self.changes.insert(key)
        self.notices.append(.continued(self.id(of: key), path: file.path, offset: self.table[key].cursor))
        self.enqueue(key)
        return .continues
    }
}
