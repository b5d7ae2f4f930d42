internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// Determines which files are complete.
extension Tail {
    /// Completes files that no pattern matches any more, that were read, and that have not grown for the grace period.
    mutating func settleLeft(_ now: TailTime) {
        for key in self.table.keys {
            guard case .left(let since) = self.table[key].phase, !self.successions.departures.contains(key) else {
                continue
            }
            if self.table[key].isGrowing {
                self.table[key].isGrowing = false
                self.table[key].phase = .left(since: now.monotonic)
                continue
            }
            guard now.monotonic - since >= self.grace(of: self.table[key]) else { continue }
            if !self.table[key].isIdentified {
                guard self.table[key].byteCount > 0 else {
                    self.forget(key)
                    continue
                }
                self.identify(key, .final)
                continue
            }
            guard self.table[key].isDrained else { continue }
            self.table[key].phase = .complete
            self.enqueue(key)
        }
    }

    private func grace(of file: TailedFile) -> Duration {
        let endsInWholeLine = file.isIdentified && file.cursor >= file.byteCount
        return file.reach == .path && endsInWholeLine ? self.limits.renamedGrace : self.limits.leftGrace
    }

    /// Checks fully read segments now, and not only with the next look.
    ///
    /// - Returns: whether there are some whose writer is gone, and that are not sealed yet.
    package mutating func completesSegments(_ now: TailTime) -> Bool {
        self.probeSegments(now)
        return self.table.keys.contains { key in
            let file = self.table[key]
            return file.isSegment && (file.phase == .complete || file.phase == .sealOffered)
        }
    }

    /// Checks fully read segments in turn for the release of their writer's lock.
    mutating func probeSegments(_ now: TailTime) {
        for _ in 0..<min(self.queues.probes.count, self.limits.lockProbeCountMax) {
            guard let key = self.queues.probes.popFirst() else { return }
            guard self.table.contains(key) else { continue }
            self.table[key].isProbing = false
            guard self.table[key].phase == .following, self.table[key].isDrained else { continue }
            do throws(FileSystemError) {
                try self.probe(key, now)
            } catch {
                self.readFailed(key, error)
            }
            self.enqueueProbe(key)
        }
    }

    private mutating func probe(_ key: StreamKey, _ now: TailTime) throws(FileSystemError) {
        guard case .opened(let descriptor) = self.open(key),
            try self.files.lock(descriptor, .exclusive)
        else { return }
        // The length is final only now, when no writer can append; a program that copies a segment in locks nothing.
        let status = try self.files.status(descriptor)
        guard !self.files.isWritten(descriptor), self.isWriterGone(key, status, now) else {
            if self.table[key].reach == .path { self.closeDescriptor(key) }
            return
        }
        self.table[key].byteCount = status.byteCount
        self.table[key].modified = status.modified
        self.table[key].phase = .complete
        // Releases the lock.
        if self.table[key].reach == .path { self.closeDescriptor(key) }
        self.enqueue(key)
    }

    /// Whether no one writes to a segment whose lock is free.
    ///
    /// On a file system that others may use their locks are not seen. There the writer must have begun another segment,
    /// or not have written to this one for ``TailLimits/sharedSegmentGrace``.
    private mutating func isWriterGone(_ key: StreamKey, _ status: FileStatus, _ now: TailTime) -> Bool {
        let file = self.table[key]
        guard case .segment(let id) = file.origin, self.files.isShared(at: file.path) else { return true }
        // A time in the future is of another machine's clock.
        let age = Duration.milliseconds(abs(now.wall.milliseconds - status.modified / 1_000_000))
        guard age < self.limits.sharedSegmentGrace, !self.hasSuccessor(id) else { return true }
        let folder = Path.parent(of: file.path)
        self.notices.complain("locks:\(folder)", .locksUnseen(folder: folder, grace: self.limits.sharedSegmentGrace))
        return false
    }

    /// Whether the writer of a segment has begun a later one.
    private func hasSuccessor(_ id: String) -> Bool {
        guard let name = SegmentName(parsing: id + SegmentName.suffix) else { return false }
        return self.bySegment.keys.contains { other in
            guard other.hasPrefix(name.writer), let later = SegmentName(parsing: other + SegmentName.suffix) else {
                return false
            }
            return later.firstSequence > name.firstSequence
        }
    }

    /// Cleans up segments whose writer died before it renamed them.
    ///
    /// One with content lost its name in a power failure and is renamed; the others never had a line and are deleted
    /// once they are old enough. This runs at the start and once per ``TailLimits/emptySegmentAge``.
    mutating func clearUnfinishedSegments(_ now: TailTime) {
        if let last = self.sweptAt, now.monotonic - last < self.limits.emptySegmentAge { return }
        self.sweptAt = now.monotonic
        for case .spool(let directory) in self.sources.map(\.kind) {
            var expansion = GlobPattern.Expansion()
            // Unreadable folders are reported when their segments are listed.
            GlobPattern(Path.join(directory, "*\(Self.unfinishedSuffix)"))
                .expand(on: self.files, .spool, into: &expansion)
            for path in expansion.paths { self.clearUnfinishedSegment(path, now) }
        }
    }

    private static var unfinishedSuffix: String { SegmentName.suffix + ".new" }

    /// Whether a missing segment may have lost its name in a power failure and is still to be renamed.
    func mayBeUnfinished(_ segmentPath: String) -> Bool {
        do throws(FileSystemError) {
            return try self.files.status(at: segmentPath + ".new") != nil
        } catch {
            return true
        }
    }

    private mutating func clearUnfinishedSegment(_ path: String, _ now: TailTime) {
        let segmentPath = String(path.dropLast(".new".count))
        let name = Path.name(of: segmentPath)
        guard SegmentName(parsing: name) != nil else { return }
        do throws(FileSystemError) {
            guard let status = try self.judgeSegment(path), status.kind == .regular else { return }
            if status.byteCount == 0 { return self.deleteEmptySegment(path, status, now) }
            guard let folder = try self.openSpool(of: path) else { return }
            defer { self.files.close(folder) }
            guard try self.files.status(of: name, in: folder) == nil else { return }
            let descriptor = try self.files.open(Path.name(of: path), in: folder)
            defer { self.files.close(descriptor) }
            guard try self.files.status(descriptor).identity == status.identity,
                try self.files.lock(descriptor, .exclusive)
            else { return }
            try self.files.rename(Path.name(of: path), to: name, in: folder)
            self.notices.append(
                .segmentNamed(StreamID(unchecked: String(name.dropLast(SegmentName.suffix.count))), path: segmentPath))
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
        }
    }

    private func isOld(_ status: FileStatus, _ now: TailTime) -> Bool {
        // A file with a time in the future was created before the clock was set back.
        let age = Duration.milliseconds(abs(now.wall.milliseconds - status.modified / 1_000_000))
        return age >= self.limits.emptySegmentAge
    }

    /// Deletes a segment that its writer never wrote to, once the writer is gone.
    mutating func deleteEmptySegment(_ path: String, _ status: FileStatus, _ now: TailTime) {
        guard self.isOld(status, now) else { return }
        do throws(FileSystemError) {
            guard let folder = try self.openSpool(of: path) else { return }
            defer { self.files.close(folder) }
            let name = Path.name(of: path)
            let descriptor = try self.files.open(name, in: folder)
            defer { self.files.close(descriptor) }
            guard try self.files.lock(descriptor, .exclusive) else { return }
            let locked = try self.files.status(descriptor)
            guard locked.byteCount == 0, try self.files.status(of: name, in: folder)?.identity == locked.identity
            else { return }
            try self.files.unlink(name, in: folder)
            self.notices.append(.emptySegmentDeleted(path: path))
        } catch {
            self.notices.complain(path, .unreadable(path: path, error))
        }
    }
}
