internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// Keeps shipped segments for a while, ships them again to a receiver that lost them, and bounds what is kept.
///
/// They are kept for as long as this agent's limit says, and for as long as their spool asks (``keepRequest(of:at:)``).
///
///     .ndjson ─▶ SEALED ─▶ .ndjson.shipped-<receiver>-<time> ─▶ too old, or too many ─▶ deleted
///                  ▲                 │ the receiver at this address is another or an older one
///                  └─────────────── .ndjson.again
///
/// The name has all that must be remembered, so a registry that was lost changes nothing of it. A segment that a
/// receiver still has is sealed at once when it is asked for again: nothing is stored twice.
extension Tail {
    /// Changes how long shipped segments are kept; `nil`: they are deleted.
    package mutating func keep(_ limit: FileLimit?) {
        self.limits.keep = limit
        self.patterns = Self.patterns(of: self.sources, isKeeping: limit != nil)
        self.keeping.isDue = true
    }

    /// Changes how long the quarantine's files are kept.
    package mutating func limitQuarantine(_ limit: FileLimit) {
        self.limits.quarantine = limit
        self.keeping.isDue = true
    }

    static func patterns(of sources: [SourceConfiguration], isKeeping: Bool) -> [FilePatterns] {
        sources.map { source in
            switch source.kind {
            case .spool(let directory):
                let names = isKeeping ? ["*.ndjson", "*.ndjson" + KeptSegmentName.againSuffix] : ["*.ndjson"]
                return FilePatterns(names.map { Path.join(directory, $0) })
            case .files(let patterns): return FilePatterns(patterns, without: source.excludes)
            }
        }
    }

    /// A kept segment, and the index of its source.
    private struct Found {
        let path: String
        let source: Int
        let name: KeptSegmentName
        let byteCount: Int
    }

    /// The kept segments of all spools.
    ///
    /// - Parameter again: called with the path of each that is to be shipped again.
    private mutating func keptSegments(again: (inout Self, String) -> Void = { _, _ in }) -> [Found] {
        var found: [Found] = []
        for (index, source) in self.sources.enumerated() {
            guard case .spool(let directory) = source.kind else { continue }
            var expansion = GlobPattern.Expansion()
            // Unreadable folders are reported when their segments are listed.
            GlobPattern(Path.join(directory, "*.ndjson.*")).expand(on: self.files, .spool, into: &expansion)
            for path in expansion.paths {
                let name = Path.name(of: path)
                if name.hasSuffix(KeptSegmentName.againSuffix) { again(&self, path) }
                guard let kept = KeptSegmentName(parsing: name) else { continue }
                do throws(FileSystemError) {
                    guard let status = try self.judgeSegment(path), status.kind == .regular else { continue }
                    found.append(Found(path: path, source: index, name: kept, byteCount: status.byteCount))
                } catch {
                    self.notices.complain(path, .unreadable(path: path, error))
                }
            }
        }
        return found
    }

    /// Deletes a sealed segment, or keeps it under another name; retried with each scan when that fails.
    ///
    /// - Returns: whether it is longer than its sealed length, and therefore stays.
    @discardableResult
    mutating func deleteSealedSegment(_ key: StreamKey) -> Bool {
        let file = self.table[key]
        guard case .sealed(let sealedByteCount) = file.phase else { return false }
        let id = self.id(of: key)
        do throws(FileSystemError) {
            // The file whose bytes were compared is open: what is deleted is that file, or nothing.
            if file.descriptor == nil, file.reach == .path { _ = self.open(key) }
            var openByteCount = 0
            if let descriptor = self.table[key].descriptor {
                openByteCount = try self.files.status(descriptor).byteCount
            }
            let folder = try self.openSpool(of: file.path)
            defer { if let folder { self.files.close(folder) } }
            let name = Path.name(of: file.path)
            if let folder, let status = try self.files.status(of: name, in: folder), status.identity == file.identity {
                guard max(status.byteCount, openByteCount) <= sealedByteCount else {
                    self.notices.complain(
                        file.path,
                        .segmentGrewAfterSeal(
                            id, path: file.path, sealedByteCount: sealedByteCount, byteCount: status.byteCount))
                    return true
                }
                let isKept = try self.keepOrDelete(name, in: folder, at: Path.parent(of: file.path))
                self.notices.append(isKept ? .segmentKept(id) : .segmentDeleted(id))
                self.rememberDeleted(id, byteCount: sealedByteCount)
            }
            self.forget(key)
        } catch  where error.errno == Errno.noEntry || error.errno == Errno.notADirectory {
            // Its folder is gone.
            self.forget(key)
        } catch {
            self.closeDescriptor(key)
            self.notices.complain(file.path, .segmentUndeletable(id, path: file.path, error))
        }
        return false
    }

    /// Gives a sealed segment the name under which it is kept, or deletes it.
    ///
    /// - Returns: whether it is kept.
    private mutating func keepOrDelete(
        _ name: String, in folder: FileID, at directory: String
    ) throws(FileSystemError) -> Bool {
        let isKeeping = self.limits.keep != nil
        let isWanted = try isKeeping ? true : self.keepRequest(of: folder, at: directory) > .zero
        guard isWanted, let kept = self.keptName(of: name) else {
            try self.files.unlink(name, in: folder)
            return false
        }
        do throws(FileSystemError) {
            try self.files.rename(name, to: kept, in: folder)
            return true
        } catch {
            // A full disk may have no room for the longer name.
            guard !isKeeping, error.isDiskFull else { throw error }
            try self.files.unlink(name, in: folder)
            return false
        }
    }

    /// The name under which a sealed segment is kept; `nil` if it is not known who has it.
    private func keptName(of name: String) -> String? {
        guard let receiver = self.receivers.current,
            let segment = SegmentName(parsing: KeptSegmentName.plain(name))
        else { return nil }
        return KeptSegmentName(segment: segment, receiver: receiver, seconds: self.keeping.seenAt.milliseconds / 1000)
            .description
    }

    /// Makes the kept segments of receivers that are gone, or came back older, be shipped again.
    ///
    /// Their new names are durable when this returns. Without `keep` no pattern matches the one that marks them, and they
    /// get back their own.
    ///
    /// - Parameter receivers: the ordinals of the receivers that sealed them.
    /// - Returns: their ids.
    mutating func returnKept(of receivers: Set<Int>, _ now: TailTime) throws(FileSystemError) -> Set<String> {
        guard !receivers.isEmpty else { return [] }
        var ids: Set<String> = []
        var byteCount = 0
        var folders: Set<String> = []
        var paths: [(path: String, source: Int)] = []
        for kept in self.keptSegments() where receivers.contains(kept.name.receiver) {
            let newName = self.limits.keep == nil ? kept.name.segment.description : kept.name.again
            let newPath = Path.join(Path.parent(of: kept.path), newName)
            guard self.rename(kept.path, to: newName) else { continue }
            ids.insert(kept.name.segment.id)
            byteCount += kept.byteCount
            folders.insert(Path.parent(of: kept.path))
            paths.append((newPath, kept.source))
        }
        for folder in folders.sorted() { try self.files.synchronizeDirectory(folder) }
        for (path, source) in paths { self.observe(path, source: source, now) }
        if !ids.isEmpty { self.notices.append(.segmentsReturned(count: ids.count, byteCount: byteCount)) }
        return ids
    }

    /// Renames a file within its folder.
    ///
    /// - Returns: whether it did: its folder is not a link, the new name was free, and the disk did not refuse.
    private mutating func rename(_ path: String, to name: String) -> Bool {
        do throws(FileSystemError) {
            guard let folder = try self.openSpool(of: path) else { return false }
            defer { self.files.close(folder) }
            guard try self.files.status(of: name, in: folder) == nil else { return false }
            try self.files.rename(Path.name(of: path), to: name, in: folder)
            return true
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
            return false
        }
    }

    // MARK: Bounds

    /// Deletes kept segments and files of the quarantine above their limits; at the start and once a minute.
    mutating func sweepKept(_ now: TailTime) {
        self.keeping.seenAt = now.wall
        self.keeping.keepRequests.refresh(now.monotonic)
        guard self.keeping.begins(now.monotonic, every: self.limits.emptySegmentAge) else { return }
        let isKeeping = self.limits.keep != nil
        let segments = self.keptSegments { tail, path in
            // Without `keep` no pattern matches it.
            if !isKeeping { _ = tail.rename(path, to: KeptSegmentName.plain(Path.name(of: path))) }
        }
        let keepRequests = self.keepRequests(of: segments.map(\.path))
        let files = segments.map { segment in
            let time = segment.name.seconds.saturatingProduct(1000)
            let keepRequest = keepRequests[PathKey(Path.parent(of: segment.path))] ?? .zero
            // A time in the future is from before the clock was set back; a request does not wait for it.
            let isFarAhead = time.saturatingSum(-now.wall.milliseconds) > keepRequest.nanoseconds / 1_000_000
            return AgedFile(
                path: segment.path, byteCount: segment.byteCount, time: min(time, now.wall.milliseconds),
                ageMin: isFarAhead ? .zero : keepRequest)
        }
        let limit = self.limits.keep ?? FileLimit(ageMax: .zero)
        var kept = KeptFiles()
        kept.segmentCount = files.count
        kept.segmentByteCount = files.byteCount
        for (file, reason) in limit.excess(of: files, now: now.wall.milliseconds) {
            do throws(FileSystemError) {
                guard let folder = try self.openSpool(of: file.path) else { continue }
                defer { self.files.close(folder) }
                try self.files.unlink(Path.name(of: file.path), in: folder)
                kept.segmentCount -= 1
                kept.segmentByteCount = max(0, kept.segmentByteCount - file.byteCount)
                self.notices.append(.keptSegmentDeleted(path: file.path, byteCount: file.byteCount, reason))
            } catch {
                self.notices.complain(file.path, .unreadable(path: file.path, error))
            }
        }
        kept.quarantineByteCount = self.sweepQuarantine(now)
        self.keeping.found = kept
    }

    /// - Returns: the bytes that remain in the quarantine.
    private mutating func sweepQuarantine(_ now: TailTime) -> Int {
        var files: [AgedFile] = []
        do throws(FileSystemError) {
            for name in try self.files.list(self.quarantineDirectory) where name.hasSuffix(".line") {
                let path = Path.join(self.quarantineDirectory, name)
                guard let status = try self.files.status(ofEntry: path), status.kind == .regular else { continue }
                files.append(
                    AgedFile(path: path, byteCount: status.byteCount, time: status.modified / 1_000_000))
            }
        } catch {
            self.notices.complain(error.path, .unreadable(path: error.path, error))
        }
        var byteCount = files.byteCount
        for (file, reason) in self.limits.quarantine.excess(of: files, now: now.wall.milliseconds) {
            do throws(FileSystemError) {
                try self.files.unlink(file.path)
                byteCount = max(0, byteCount - file.byteCount)
                self.notices.append(.quarantineDeleted(path: file.path, byteCount: file.byteCount, reason))
            } catch {
                self.notices.complain(file.path, .unreadable(path: file.path, error))
            }
        }
        return byteCount
    }
}
