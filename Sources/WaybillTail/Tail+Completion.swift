internal import WaybillProtocol
internal import WaybillSpool
internal import WaybillSystem

/// Finds out of which files nothing more will come.
extension Tail {
    /// Completes files that left their patterns, were read, and have not grown for the grace period.
    mutating func settleLeft(_ now: TailTime) {
        for key in self.table.keys {
            guard case .left(let since) = self.table[key].phase else { continue }
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

    /// Asks fully read segments in turn whether their writer's lock is gone.
    mutating func probeSegments(_ now: TailTime) {
        for _ in 0..<min(self.probes.count, self.limits.lockProbeCountMax) {
            guard let key = self.probes.popFirst() else { return }
            guard self.table.contains(key) else { continue }
            self.table[key].isProbing = false
            guard self.table[key].phase == .following, self.table[key].isDrained else { continue }
            do throws(FileSystemError) {
                try self.probe(key)
            } catch {
                self.readFailed(key, error)
            }
            self.enqueueProbe(key)
        }
    }

    private mutating func probe(_ key: StreamKey) throws(FileSystemError) {
        guard case .opened(let descriptor) = self.open(key),
            try self.files.lock(descriptor, .exclusive)
        else { return }
        // The length is final only now that nobody can append.
        let status = try self.files.status(descriptor)
        self.table[key].byteCount = status.byteCount
        self.table[key].modified = status.modified
        self.table[key].phase = .complete
        // Gives the lock back.
        if self.table[key].reach == .path { self.closeDescriptor(key) }
        self.enqueue(key)
    }

    /// Clears away segments that a writer died over before they had their name.
    ///
    /// One with bytes lost its name in a power cut, and gets it back; others never held a line and are deleted once
    /// they are old. Done at the start and once per ``TailLimits/emptySegmentAge``.
    mutating func clearUnfinishedSegments(_ now: TailTime) {
        if let last = self.sweptAt, now.monotonic - last < self.limits.emptySegmentAge { return }
        self.sweptAt = now.monotonic
        for case .spool(let directory) in self.sources.map(\.kind) {
            var expansion = GlobPattern.Expansion()
            // Folders that cannot be read are complained about where their segments are looked for.
            GlobPattern(Path.join(directory, "*\(Self.unfinishedSuffix)")).expand(on: self.files, into: &expansion)
            for path in expansion.paths { self.clearUnfinishedSegment(path, now) }
        }
    }

    private static var unfinishedSuffix: String { SegmentName.suffix + ".new" }

    /// Whether a segment that is not at its path has lost its name in a power cut, and waits to get it back.
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
            guard let status = try self.files.status(at: path), status.kind == .regular else { return }
            if status.byteCount == 0 { return self.deleteEmptySegment(path, status, now) }
            guard try self.files.status(at: segmentPath) == nil else { return }
            let descriptor = try self.files.open(path, .read)
            defer { self.files.close(descriptor) }
            guard try self.files.lock(descriptor, .exclusive) else { return }
            try self.files.rename(path, to: segmentPath)
            self.notices.append(
                .segmentNamed(StreamID(unchecked: String(name.dropLast(SegmentName.suffix.count))), path: segmentPath))
        } catch {
            self.complain(path, .unreadable(path: path, error))
        }
    }

    private func isOld(_ status: FileStatus, _ now: TailTime) -> Bool {
        // A file from the future was made before the clock was set back.
        let age = Duration.milliseconds(abs(now.wall.milliseconds - status.modified / 1_000_000))
        return age >= self.limits.emptySegmentAge
    }

    /// Deletes a segment into which its writer never wrote, once the writer is gone.
    mutating func deleteEmptySegment(_ path: String, _ status: FileStatus, _ now: TailTime) {
        guard self.isOld(status, now) else { return }
        do throws(FileSystemError) {
            let descriptor = try self.files.open(path, .read)
            defer { self.files.close(descriptor) }
            guard try self.files.lock(descriptor, .exclusive) else { return }
            let locked = try self.files.status(descriptor)
            guard locked.byteCount == 0, try self.files.status(at: path)?.identity == locked.identity else { return }
            try self.files.unlink(path)
            self.notices.append(.emptySegmentDeleted(path: path))
        } catch {
            self.complain(path, .unreadable(path: path, error))
        }
    }
}
