internal import WaybillSpool
internal import WaybillSystem

/// Finds files and follows them through renames, by checking all files or those named by a hint.
extension Tail {
    /// Checks every file of every source; this periodic scan is authoritative.
    package mutating func scan(_ now: TailTime, enter: Enter = { _, _ in }) {
        self.beginLook(now)
        self.notices.beginLook()
        // Must come first, so that a renamed segment is not considered lost.
        self.clearUnfinishedSegments(now)
        self.sweepKept(now)
        self.looks.folders.removeAll(keepingCapacity: true)
        self.walk(within: nil, now, enter)
        self.leftOut.forgetUnseen(inScan: self.scanCount)
        var lost = self.checkUnseen(now)
        self.retryFaulty(now)
        self.settleLost(&lost, now)
        self.adoptRemembered(now)
        self.settleSuccessions(now)
        self.settleHoles(now)
        self.settleIfSaid()
        self.settleLeft(now)
        self.settleReleased()
        self.probeSegments(now)
    }

    func source(of path: String) -> Int? {
        self.patterns.firstIndex { $0.matches(path) }.flatMap { self.isLeftToWait(path, source: $0) ? nil : $0 }
    }

    // MARK: One path

    mutating func observe(_ path: String, source: Int, _ now: TailTime) {
        guard !self.isLeftToWait(path, source: source) else { return }
        let status: FileStatus
        do throws(FileSystemError) {
            guard let found = try self.status(at: path, source: source) else {
                guard let error = FileSystemError(absent: path) else { return }
                throw error
            }
            status = found
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
            return
        }
        guard status.kind != .link else { return self.notices.refuse(path, .link) }
        guard status.kind == .regular else {
            self.notices.complain(path, .notRegular(path: path))
            return
        }
        if let key = self.table.key(of: status.identity) {
            if !self.isReshipped(key, at: path, in: source) {
                guard self.isAnother(key, at: path, in: source) else {
                    return self.observeKnown(key, path, status, now)
                }
                self.leaveInode(key)
            }
        }
        switch self.sources[source].kind {
        case .spool: self.observeSegment(path, source: source, status, now)
        case .files:
            self.noteLink(path, source: source)
            if !self.leftOut.contains(status, inScan: self.scanCount) {
                self.observeForeign(path, source: source, status, now)
            }
        }
    }

    /// Whether a segment has been renamed in order to be shipped under another id.
    private func isReshipped(_ key: StreamKey, at path: String, in source: Int) -> Bool {
        guard case .spool = self.sources[source].kind, case .segment(let id) = self.table[key].origin,
            let name = SegmentName(parsing: Path.name(of: path))
        else { return false }
        return name.id != id && name.original.id == id
    }

    /// Whether an inode is found at a path that its file cannot have: a segment keeps its name and stays in its spool,
    /// and a renamed log has its birth or its content.
    ///
    /// The file that had the inode is then gone. An open file keeps its inode wherever it is moved.
    private mutating func isAnother(_ key: StreamKey, at path: String, in source: Int) -> Bool {
        let file = self.table[key]
        guard file.descriptor == nil else { return false }
        switch (self.sources[source].kind, file.origin) {
        case (.files, .foreign):
            let number = self.rememberedFleet.numbers[key]
            guard !file.place.leads(to: path) else {
                // An inode that is back at its path after another one was there may be a new file's.
                return file.birth == 0 && self.successions.departures.contains(key)
                    && !self.isSame(file, number, at: path, in: source, orShorter: true)
            }
            return !self.leads(file.path, to: file.identity) && !self.isSame(file, number, at: path, in: source)
        case (.spool, .segment(let id)):
            let name = Path.name(of: path)
            guard SegmentName(parsing: name) != nil, name != id + SegmentName.suffix else { return false }
        case (.spool, .foreign), (.files, .segment): break
        }
        return !self.leads(file.path, to: file.identity)
    }

    private mutating func observeKnown(_ key: StreamKey, _ path: String, _ status: FileStatus, _ now: TailTime) {
        if !self.table[key].place.leads(to: path) {
            // A link has two paths at once, a renamed file only one.
            guard self.table[key].scanSeen != self.scanCount,
                !self.leads(self.table[key].path, to: status.identity)
            else { return }
            self.move(key, to: path)
        }
        self.table[key].scanSeen = self.scanCount
        self.table[key].reach = .path
        if self.table[key].isUndecided { self.decided(key) }
        switch self.table[key].phase {
        case .left: self.table[key].phase = .following
        case .sealed: self.deleteSealedSegment(key)
        case .complete:
            if !self.table[key].isSegment { self.table[key].phase = .following }
        // Its end was already sent to the receiver; a second one must not follow.
        case .following, .sealOffered: break
        }
        if self.table.contains(key) { self.observeLength(key, status) }
    }

    func leads(_ path: String, to identity: FileIdentity) -> Bool {
        do throws(FileSystemError) {
            return try self.files.status(at: path)?.identity == identity
        } catch {
            // Unknown: nothing is decided about a path that cannot be checked.
            return true
        }
    }

    mutating func move(_ key: StreamKey, to path: String) {
        let oldPath = self.table[key].path
        self.depart(key, from: oldPath)
        self.table.move(key, to: path)
        guard let id = self.streamID(of: self.table[key]) else { return }
        self.notices.append(.rotated(id, from: oldPath, to: path))
        self.changes.insert(key)
    }

    /// The change indicated by a file's current length and modification time.
    private func lengthNews(_ file: TailedFile, _ status: FileStatus) -> LengthNews {
        guard status.byteCount != file.byteCount || status.modified != file.modified else { return .none }
        if status.byteCount < (file.isSegment ? file.shippedByteCount : file.provenByteCount) { return .cut }
        return status.byteCount > file.byteCount ? .grown : .rewritten
    }

    /// The change of a file's length.
    enum LengthNews {
        case none
        case grown
        case cut
        /// Written to, but not longer than before: only its head shows whether the content is the same.
        case rewritten
    }

    /// Handles a file's current length.
    mutating func observeLength(_ key: StreamKey, _ status: FileStatus) {
        let news = self.lengthNews(self.table[key], status)
        guard news != .none else { return }
        self.looks.fresh.note(key, self.looks.time.monotonic)
        switch news {
        case .cut where self.table[key].isSegment: self.segmentCut(key, status)
        case .cut: self.shorter(key, byteCount: status.byteCount, modified: status.modified)
        // Whether it has grown back is decided at the end of the look.
        case .grown where self.successions.short.contains(key), .rewritten where self.successions.short.contains(key):
            self.shorter(key, byteCount: status.byteCount, modified: status.modified)
        case .none, .grown, .rewritten:
            self.table[key].byteCount = status.byteCount
            self.table[key].modified = status.modified
            if case .left = self.table[key].phase, news == .grown { self.table[key].isGrowing = true }
            if !self.table[key].isIdentified {
                self.identify(key, .growing)
            } else if news == .rewritten, !self.table[key].isSegment {
                self.verify(key)
            } else if news == .rewritten, self.table[key].isDrained {
                // Its writer removed half a line that was not read yet.
                self.enqueueProbe(key)
            } else if news == .grown {
                // So that the registry has the length if the file disappears while no agent runs.
                self.changes.insert(key)
                self.proveLength(key)
            }
        }
        if self.table.contains(key) { self.enqueue(key) }
    }

    /// Holds a file that has grown, and makes sure that it still has its content, so that a loss can be told exactly.
    private mutating func proveLength(_ key: StreamKey) {
        guard !self.table[key].isSegment else { return self.hold(key) }
        // An error is found and reported by the read.
        guard case .opened(let descriptor) = self.open(key) else { return }
        do throws(FileSystemError) {
            guard try self.isUnchanged(key, descriptor) else { return self.truncated(key) }
            try self.prove(key, descriptor)
        } catch {
            self.readFailed(key, error)
        }
    }

    /// Notes that a file has its content up to its length, and how that ends if it is not read yet.
    mutating func prove(_ key: StreamKey, _ descriptor: FileID) throws(FileSystemError) {
        let byteCount = self.table[key].byteCount
        self.table[key].provenByteCount = byteCount
        guard byteCount > self.table[key].shippedByteCount else { return }
        self.table[key].provenTail = try self.seenEnd(of: descriptor, at: byteCount).tail
    }

    /// Decides about files that are not at their name, or shorter than what was read, once their time is over.
    mutating func settleSuccessions(_ now: TailTime) {
        guard self.successions.isWaiting else { return }
        self.settleShort(now)
        self.settleDepartures(now)
    }

    // MARK: Files that were not seen

    enum PathCheck {
        case present
        case lost
    }

    /// Checks the files that no pattern matched in this scan.
    private mutating func checkUnseen(_ now: TailTime) -> [StreamKey] {
        var lost: [StreamKey] = []
        for key in self.table.keys where self.table[key].scanSeen != self.scanCount {
            switch self.table[key].reach {
            case .replaced, .gone: break
            case .path: if self.checkPath(key, now) == .lost { lost.append(key) }
            case .descriptor: self.checkDescriptor(key)
            }
        }
        return lost
    }

    /// Checks a file that only its descriptor leads to.
    mutating func checkDescriptor(_ key: StreamKey) {
        guard let descriptor = self.table[key].descriptor else { return }
        do throws(FileSystemError) {
            self.observeLength(key, try self.files.status(descriptor))
        } catch {
            self.readFailed(key, error)
            self.waitLonger(key)
        }
    }

    /// A file that left its patterns, and cannot be looked at now, may have grown.
    private mutating func waitLonger(_ key: StreamKey) {
        guard case .left = self.table[key].phase else { return }
        self.table[key].phase = .left(since: self.looks.time.monotonic)
    }

    mutating func checkPath(_ key: StreamKey, _ now: TailTime) -> PathCheck {
        let file = self.table[key]
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: file.path), status.identity == file.identity,
                self.hasInode(key)
            else { return .lost }
            if case .sealed = file.phase {
                self.deleteSealedSegment(key)
                return .present
            }
            if file.phase == .following, self.source(of: file.path) == nil {
                self.table[key].phase = .left(since: now.monotonic)
                self.changes.insert(key)
            }
            self.observeLength(key, status)
        } catch {
            self.notices.complain(file.path, .unreadable(path: file.path, error))
            self.waitLonger(key)
        }
        return .present
    }

    /// Handles files no longer at their path: renamed, deleted, or on an unmounted file system.
    ///
    /// - Returns: whether each of them could be looked for; another look tries again.
    @discardableResult
    mutating func settleLost(_ lost: inout [StreamKey], _ now: TailTime) -> Bool {
        var search = FileSearch()
        var isCertain = true
        for key in lost where self.table.contains(key) && self.table[key].reach == .path {
            let file = self.table[key]
            guard !self.hasInode(key) || !self.leads(file.path, to: file.identity) else { continue }
            search.isUncertain = false
            if !file.isSegment, self.hasInode(key),
                let found = self.findRenamed(file, self.rememberedFleet.numbers[key], &search),
                self.isRenumbered(key, as: found.identity)
            {
                self.move(key, to: found.path)
                self.table[key].real = nil
                self.decided(key)
                if self.source(of: found.path) == nil { self.left(key, now) }
                continue
            }
            if search.isUncertain {
                isCertain = false
                continue
            }
            if self.isRenamedForReshipment(file) {
                self.forget(key)
                continue
            }
            self.table.removePath(of: key)
            // A segment whose name is gone was evicted or purged by its app and must not be shipped.
            if self.isBehindLink(file) {
                self.table.indexPath(of: key)
            } else if self.table[key].descriptor != nil, !file.isSegment || !self.isDirectoryPresent(file) {
                self.table[key].reach = .descriptor
                // No hint tells of it any more.
                self.looks.fresh.note(key, now.monotonic)
                if file.phase == .following { self.left(key, now) }
                self.depart(key, from: file.path)
                self.enqueueProbe(key)
            } else if self.depart(key, from: file.path) {
                self.table[key].isUndecided = true
            } else if self.isDirectoryPresent(file) {
                self.vanished(key)
            } else {
                self.table.indexPath(of: key)
            }
        }
        lost.removeAll()
        return isCertain
    }

    /// Gives a file that was missing at the start the identity with which it was found.
    ///
    /// - Returns: whether it has that.
    private mutating func isRenumbered(_ key: StreamKey, as identity: FileIdentity) -> Bool {
        guard self.table[key].identity != identity else { return true }
        guard self.successions.foundMissing.contains(key), self.table.key(of: identity) == nil else { return false }
        self.table.removeIdentity(of: key)
        self.table[key] = self.table[key].renumbered(identity.device)
        self.table.indexIdentity(of: key)
        return true
    }

    /// Whether a missing segment has another name now, under which a scan finds it.
    private func isRenamedForReshipment(_ file: TailedFile) -> Bool {
        guard case .segment(let id) = file.origin else { return false }
        do throws(FileSystemError) {
            return try self.files.list(Path.parent(of: file.path)).contains { name in
                name.hasPrefix(id) && SegmentName(parsing: name)?.contentDigest.isEmpty == false
            }
        } catch {
            return false
        }
    }

    private mutating func left(_ key: StreamKey, _ now: TailTime) {
        guard !self.table[key].isSegment, self.table[key].phase != .sealOffered else { return }
        self.table[key].phase = .left(since: now.monotonic)
        self.changes.insert(key)
    }

    /// Retries files that could not be opened or read.
    mutating func retryFaulty(_ now: TailTime) {
        let keys = self.queues.faulty
        self.queues.faulty.removeAll(keepingCapacity: true)
        for key in keys where self.table.contains(key) {
            self.table[key].isFaulty = false
            if !self.table[key].isIdentified { self.identify(key, .growing) }
            if self.table.contains(key) { self.enqueue(key) }
        }
    }
}
