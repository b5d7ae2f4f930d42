internal import WaybillProtocol
internal import WaybillSystem

/// Matches the registry's entries with the files on disk after a restart.
extension Tail {
    /// Handles entries that no path matched: their files were renamed away or deleted meanwhile.
    ///
    /// An entry whose file still exists at a path that no pattern matches is kept unchanged: its source was removed
    /// from the configuration and may return.
    mutating func adoptRemembered(_ now: TailTime) {
        guard !self.former.isEmpty else { return }
        var search = FileSearch()
        for inode in self.former.inodes {
            for entry in self.former.entries(of: inode) where self.source(named: entry.source) != nil {
                self.adopt(entry, &search, now)
            }
        }
        for (id, entry) in self.former.segments.sorted(by: { $0.key < $1.key }) {
            guard let source = self.source(named: entry.source) else { continue }
            let file = TailedFile(entry, source: source, origin: .segment(id: id), for: self.receivers.current)
            guard !self.leads(entry.path, to: entry.identity), !self.mayBeUnfinished(entry.path),
                !self.isBehindLink(file), self.isDirectoryPresent(file)
            else { continue }
            self.former.segments[id] = nil
            self.bySegment[id] = self.insertGone(file, .unseen)
        }
    }

    private mutating func adopt(
        _ entry: RegistryEntry, _ search: inout FileSearch, _ now: TailTime
    ) {
        guard entry.state != .gone else {
            self.freeze(entry, .told)
            return
        }
        if let key = self.table.key(of: entry.identity) {
            // Another file has the inode now; until it is identified, the entry may still belong to it.
            if self.table[key].isIdentified { self.freeze(entry, .unseen) }
            return
        }
        guard let source = self.source(named: entry.source) else { return }
        var file = TailedFile(entry, source: source, origin: .foreign, for: self.receivers.current)
        let isAtPath = self.leads(entry.path, to: entry.identity)
        if isAtPath, entry.state == .open { return }
        if !isAtPath {
            guard let found = self.findRenamed(file, entry.number, &search) else {
                guard !search.isUncertain, self.isDirectoryPresent(file) else { return }
                if entry.state == .open, !self.former.isFrozen(entry) { self.noteUnseenEnd(of: file) }
                return self.freeze(entry, .unseen)
            }
            guard found.identity == entry.identity || self.table.key(of: found.identity) == nil else { return }
            var renumbered = entry
            renumbered.identity = found.identity
            file = TailedFile(renumbered, source: source, origin: .foreign, for: self.receivers.current)
            file.place = FilePlace(found.path)
            file.real = nil
        }
        file.phase = .left(since: now.monotonic)
        file.scanSeen = self.scanCount
        self.former.take(entry)
        let key = self.insert(file)
        self.restoreInFleet(key, entry)
        self.changes.insert(key)
        if !isAtPath { self.notices.append(.rotated(self.id(of: key), from: entry.path, to: file.path)) }
        do throws(FileSystemError) {
            if let status = try self.files.status(at: file.path), status.identity == file.identity {
                self.observeLength(key, status)
            }
        } catch {
            self.notices.complain(file.path, .unreadable(path: file.path, error))
        }
        if self.table.contains(key), !self.table[key].isDrained { self.hold(key) }
        if self.table.contains(key) { self.enqueue(key) }
    }

    /// Creates a stream for an entry whose file can no longer be read, so that the receiver seals it.
    ///
    /// The entry stays remembered: a file with the same head in the same inode must not get its id.
    mutating func freeze(_ entry: RegistryEntry, _ ending: TailedFile.Ending) {
        guard let source = self.source(named: entry.source), self.former.freeze(entry) else { return }
        let file = TailedFile(entry, source: source, origin: .foreign, for: self.receivers.current)
        // For a stream that was gone before, the loss was reported then, or is in its entry.
        _ = self.insertGone(file, entry.state == .gone ? entry.ending : ending, number: entry.number)
    }

    /// - Returns: `nil` for a stream of which no receiver holds anything.
    private mutating func insertGone(
        _ file: TailedFile, _ ending: TailedFile.Ending, number: ContentNumber? = nil
    ) -> StreamKey? {
        var file = file
        file.ending = ending
        file.reach = .gone
        file.phase = .complete
        let key = self.table.insert(file)
        if let id = self.registryKey(of: file) { self.former.insertGone(id.description) }
        self.rememberedFleet.numbers[key] = number
        self.changes.insert(key)
        self.awaitSuccessor(key)
        self.enqueue(key)
        self.forgetUnheld(key)
        return self.table.contains(key) ? key : nil
    }

    /// The source with a name in the registry, or the one that has another number now because sources were added or
    /// removed before it.
    func source(named name: String) -> Int? {
        let unnumbered = SourceConfiguration.unnumbered(name)
        return self.sources.firstIndex { $0.name == name }
            ?? self.sources.firstIndex { SourceConfiguration.unnumbered($0.name) == unnumbered }
    }
}

extension TailedFile {
    /// Creates a file from its registry entry.
    init(_ entry: RegistryEntry, source: Int, origin: Origin, for receiver: Int?) {
        let status = FileStatus(
            identity: entry.identity, kind: .regular, byteCount: entry.byteCount, modified: entry.modified,
            birth: entry.birth)
        self.init(source: source, origin: origin, path: entry.path, status: status)
        self.restore(entry, for: receiver)
    }

    /// Copies the registry's state of this stream, as seen from the receiver with this ordinal.
    mutating func restore(_ entry: RegistryEntry, for receiver: Int?) {
        self.birth = entry.birth
        self.stem = entry.stem
        self.fingerprint = entry.fingerprint
        self.incarnation = entry.incarnation
        self.pastHeads = entry.pastHeads
        self.resume(entry.held.first { $0.receiver == receiver })
        self.others = entry.held.filter { $0.receiver != receiver }
        self.disputes = entry.disputes
        self.ends = entry.ends
        self.earlier = entry.earlier
        self.keptBelow = entry.keptBelow
        self.real = entry.real.map { FilePlace($0) }
        if !self.isSegment, entry.byteCount > self.provenByteCount { self.provenByteCount = entry.byteCount }
        self.registration = .found
        self.rest()
    }

    /// Copies the file's earlier heads from an entry of an earlier content.
    mutating func inherit(_ entry: RegistryEntry) {
        var heads = self.pastHeads
        for head in entry.pastHeads where !heads.contains(where: { $0.hash == head.hash }) { heads.append(head) }
        if let fingerprint = entry.fingerprint, fingerprint != self.fingerprint {
            heads.removeAll { $0.hash == fingerprint.hash }
            heads.append(PastHead(hash: fingerprint.hash, nextIncarnation: entry.greatestIncarnation + 1))
        }
        self.pastHeads = Array(heads.suffix(PastHead.countMax))
    }
}
