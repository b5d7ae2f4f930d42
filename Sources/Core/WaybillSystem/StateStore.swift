/// A small durable map from text to text, also held in memory: the projections' checkpoints.
///
/// A ``StateLog`` together with its committed entries. Keys contain no space and no LF, values no LF. Everything is in
/// memory: tens of thousands of entries, not millions.
///
/// - SeeAlso: `Protocol/formats/state.md`.
package struct StateStore<Files: FileSystem>: ~Copyable {
    /// The committed entries.
    package private(set) var entries: [String: String]
    private var log: StateLog<Files>
    private var liveByteCount = 0

    package var recovery: StateRecovery { self.log.recovery }

    /// Opens or creates the state at `path`; its directory must exist.
    package init(path: String, files: Files) throws(FileSystemError) {
        self.log = try StateLog(path: path, files: files)
        self.entries = self.log.takeEntries()
        self.liveByteCount = self.entries.reduce(0) { $0 + StateLines.byteCount(of: $1.key, $1.value) }
    }

    /// Makes `changes` durable together (`nil` removes), then visible in ``entries``.
    ///
    /// After an error ``entries`` are unchanged, but the disk may hold either state; the next commit rewrites the whole
    /// state.
    package mutating func commit(_ changes: [String: String?]) throws(FileSystemError) {
        guard !changes.isEmpty else { return }
        var lines = StateLines()
        var liveByteCount = self.liveByteCount
        // Sorted, so that the same changes give the same bytes.
        for (key, value) in changes.sorted(by: { $0.key < $1.key }) {
            if let old = self.entries[key] { liveByteCount -= StateLines.byteCount(of: key, old) }
            if let value {
                liveByteCount += StateLines.byteCount(of: key, value)
                lines.set(key, value)
            } else {
                lines.remove(key)
            }
        }
        if self.log.takes(lines, liveByteCount: liveByteCount) {
            try self.log.append(lines)
            self.apply(changes)
        } else {
            let before = self.entries
            self.apply(changes)
            do throws(FileSystemError) {
                try self.rewrite()
            } catch {
                self.entries = before
                throw error
            }
        }
        self.liveByteCount = liveByteCount
    }

    /// Makes ``entries`` durable when they may not be: after opening and after a failed commit.
    ///
    /// Call it before acting on what opening found, and before undoing the effects of a failed commit: a crash could
    /// remove the found state, or leave the failed commit in place.
    package mutating func settle() throws(FileSystemError) {
        if self.log.isUncertain { try self.rewrite() }
    }

    private mutating func apply(_ changes: [String: String?]) {
        for (key, value) in changes { self.entries[key] = value }
    }

    private mutating func rewrite() throws(FileSystemError) {
        var lines = StateLines()
        for (key, value) in self.entries.sorted(by: { $0.key < $1.key }) { lines.set(key, value) }
        var rewrite = try self.log.beginRewrite()
        try self.log.write(lines, to: &rewrite)
        try self.log.finish(rewrite)
    }
}
