/// A small durable map from text to text, in memory too: the projections' checkpoints.
///
/// A ``StateLog`` with what is committed beside it. Keys hold no space and no LF, values no LF. Everything is in
/// memory: tens of thousands of entries, not millions.
///
/// - SeeAlso: `Protocol/formats/state.md`.
package struct StateStore<Files: FileSystem>: ~Copyable {
    /// What is committed.
    package private(set) var entries: [String: String]
    private var log: StateLog<Files>
    private var liveByteCount = 0

    package var recovery: StateRecovery { self.log.recovery }

    /// Opens or begins the state at `path`; its directory must exist.
    package init(path: String, files: Files) throws(FileSystemError) {
        self.log = try StateLog(path: path, files: files)
        self.entries = self.log.takeEntries()
        self.liveByteCount = self.entries.reduce(0) { $0 + StateLines.byteCount(of: $1.key, $1.value) }
    }

    /// Makes `changes` durable together (`nil` removes), then visible in ``entries``.
    ///
    /// After an error nothing has changed in ``entries``, while the disk may hold either state; the next commit writes
    /// the whole state anew.
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

    /// Makes ``entries`` durable where they may not be: after opening and after a commit that failed.
    ///
    /// Whoever acts on what opening found, or undoes what belonged to a commit that failed, calls this first: after a
    /// crash the one could be gone and the other there.
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
