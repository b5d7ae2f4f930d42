internal import WaybillProtocol
package import WaybillSystem

/// Keeps the registry's file up to date; only a checksum of each entry is kept in memory.
extension Tail {
    /// Whether the registry has pending changes.
    package var hasUnwrittenChanges: Bool {
        !self.changes.isEmpty || !self.receivers.changed.isEmpty || self.deleted.hasPending
            || self.rememberedFleet.isChanged || !self.successions.stems.changed.isEmpty
    }

    /// Whether changes have been pending for ``TailLimits/checkpointInterval``.
    package func isCheckpointDue(_ now: TailTime) -> Bool {
        self.hasUnwrittenChanges && self.changes.isDue(now.monotonic, every: self.limits.checkpointInterval)
    }

    /// Writes changes to the registry; they are durable when this returns.
    ///
    /// After an error the changes wait for the next checkpoint, which rewrites everything.
    package mutating func checkpoint(_ now: TailTime) throws(FileSystemError) {
        // First: a crash in between leaves the entry of a deleted segment, which the receiver is then asked for.
        var failure: FileSystemError?
        do throws(FileSystemError) { try self.deleted.write(now.wall) } catch { failure = error }
        try self.writeChanges()
        if self.changes.isUnsynchronized {
            try self.registry.synchronize()
            self.changes.synchronized()
        }
        self.rememberedFleet.undurable.removeAll()
        self.changes.checkpointed(now.monotonic)
        if let failure { throw failure }
    }

    /// Writes changes to the registry; they survive the end of the agent, and a power failure after the next checkpoint.
    mutating func writeAhead(_ now: TailTime) throws(FileSystemError) {
        // What was deleted must be durable before the registry forgets it.
        guard !self.deleted.hasPending else { return try self.checkpoint(now) }
        try self.writeChanges(spareByteCount: Self.spareByteCount)
    }

    /// What is written ahead of batches between two checkpoints, which rewrite the registry.
    private static var spareByteCount: Int { 16 << 20 }

    /// Writes changes to the registry, which are durable at once only if that had to be rewritten.
    private mutating func writeChanges(spareByteCount: Int = 0) throws(FileSystemError) {
        if !self.registry.isAppended {
            if self.hasWritableChanges { try self.rewriteRegistry() }
        } else {
            var lines = StateLines()
            for id in self.changes.removedIDs.sorted() { lines.remove(id) }
            // First: what another fleet had stored is void before anything of this one is remembered.
            if self.rememberedFleet.isChanged, let text = self.rememberedFleet.text {
                lines.set(RememberedFleet.key, text)
            }
            for ordinal in self.receivers.changed.sorted() {
                let key = KnownReceivers.Entry.key(ordinal)
                if let entry = self.receivers[ordinal] { lines.set(key, entry.text) } else { lines.remove(key) }
            }
            for key in self.successions.stems.changed.sorted() {
                if let record = self.successions.stems[key] { lines.set(key, record.text) } else { lines.remove(key) }
            }
            for key in self.changes.streams.sorted(by: { $0.rawValue < $1.rawValue }) { self.register(key, in: &lines) }
            if self.registry.takes(
                lines, liveByteCount: self.changes.byteCount, spareByteCount: spareByteCount)
            {
                if lines.count > 0 {
                    try self.registry.appendUnsynchronized(lines)
                    self.changes.appended()
                }
            } else {
                try self.rewriteRegistry()
            }
        }
        self.changes.written()
        self.receivers.written()
        self.rememberedFleet.written()
        self.successions.stems.written()
    }

    private var hasWritableChanges: Bool {
        !self.changes.removedIDs.isEmpty || !self.receivers.changed.isEmpty || self.rememberedFleet.isChanged
            || self.changes.isUnsynchronized || !self.successions.stems.changed.isEmpty
            || self.changes.streams.contains { self.table[$0].isIdentified }
    }

    /// The approximate size of a part of a rewrite, in bytes.
    private static var rewrittenByteCount: Int { 256 << 10 }

    /// Adds a stream's entry if the registry has a different one or none.
    private mutating func register(_ key: StreamKey, in lines: inout StateLines) {
        let file = self.table[key]
        guard let id = self.registryKey(of: file)?.description else { return }
        let text = self.entry(of: key).text
        let registration = Registration(checksum: FNV1a.hash(text.utf8), byteCount: StateLines.byteCount(of: id, text))
        guard file.registration != registration else { return }
        lines.set(id, text)
        self.changes.add(byteCount: registration.byteCount - (file.registration?.byteCount ?? 0))
        self.table[key].registration = registration
    }

    /// What the registry is to have of a stream.
    func entry(of key: StreamKey) -> RegistryEntry {
        let file = self.table[key]
        var entry = RegistryEntry(file, source: self.sources[file.source].name)
        self.rememberedFleet.complete(&entry, of: key)
        return entry
    }

    /// Removes a stream's entry.
    mutating func unregister(_ file: TailedFile) {
        // A stream that came and went between two checkpoints is not in the registry.
        guard let registration = file.registration, let id = self.registryKey(of: file) else { return }
        self.changes.add(byteCount: -registration.byteCount)
        self.changes.removeEntry(id.description)
    }

    /// Writes the entries of all streams, including those not seen since the start.
    private mutating func rewriteRegistry() throws(FileSystemError) {
        var rewrite = try self.registry.beginRewrite()
        var lines = StateLines()
        var byteCount = 0
        if let text = self.rememberedFleet.text { lines.set(RememberedFleet.key, text) }
        for entry in self.receivers.entries { lines.set(KnownReceivers.Entry.key(entry.ordinal), entry.text) }
        for (key, record) in self.successions.stems.sorted { lines.set(key, record.text) }
        for entry in self.former.unfrozen {
            lines.set(entry.id, entry.text)
            if lines.bytes.count >= Self.rewrittenByteCount { try self.hand(&lines, to: &rewrite, &byteCount) }
        }
        for key in self.table.keys {
            self.table[key].registration = nil
            self.register(key, in: &lines)
            if lines.bytes.count >= Self.rewrittenByteCount { try self.hand(&lines, to: &rewrite, &byteCount) }
        }
        try self.hand(&lines, to: &rewrite, &byteCount)
        try self.registry.finish(rewrite)
        self.changes.rewritten(byteCount: byteCount)
    }

    private mutating func hand(
        _ lines: inout StateLines, to rewrite: inout StateLog<Files>.Rewrite, _ byteCount: inout Int
    ) throws(FileSystemError) {
        try self.registry.write(lines, to: &rewrite)
        byteCount += lines.bytes.count
        lines = StateLines()
    }
}
