internal import WaybillSystem

/// The registry's entries of which no file was found yet since the start, and those whose content no file has any more.
struct FormerEntries {
    /// Of segments, by stream id.
    var segments: [String: RegistryEntry] = [:]
    /// Of foreign files, by inode, in the order of their ids.
    private var byInode: [UInt64: [RegistryEntry]] = [:]
    /// The inode of the one at a path, by the path's hash; may be of one that was taken.
    private var inodesByPath: [UInt64: UInt64] = [:]
    /// Ids of streams that can no longer be read and that the receiver has not sealed.
    private var gone: Set<String> = []
    /// Ids of entries for which such streams were created, so that it happens only once.
    private var frozen: Set<String> = []
    /// Ids of entries whose files were followed since the start.
    private var followed: Set<String> = []

    var isEmpty: Bool { self.byInode.isEmpty && self.segments.isEmpty }

    /// In ascending order.
    var inodes: [UInt64] { self.byInode.keys.sorted() }

    func entries(of inode: UInt64) -> [RegistryEntry] { self.byInode[inode] ?? [] }

    /// The entry of the foreign file that was last written to at a path; of several in its inode, the one that is ahead.
    func entry(at path: String) -> RegistryEntry? {
        guard let inode = self.inodesByPath[FNV1a.hash(path.utf8)] else { return nil }
        return self.byInode[inode]?.filter { $0.path == path && $0.state != .gone }.max { $1.isAhead(of: $0) }
    }

    /// Whether the file of an inode was followed on its present device after it was followed as that entry says: what was
    /// sent then may not be acknowledged, and is known to its own stream alone.
    func hasLater(than entry: RegistryEntry, of identity: FileIdentity) -> Bool {
        self.entries(of: identity.inode).contains {
            $0.state != .gone && $0.identity == identity
                && ($0.modified > entry.modified || self.followed.contains($0.id) && !self.followed.contains(entry.id))
        }
    }

    /// All of foreign files.
    var foreign: [RegistryEntry] { Array(self.byInode.values.joined()) }

    /// Those that belong into the registry, in a deterministic order: a frozen one is there with its stream.
    var unfrozen: [RegistryEntry] {
        (self.segments.values + self.byInode.values.joined().filter { !self.isFrozen($0) }).sorted { $0.id < $1.id }
    }

    mutating func insert(_ entry: RegistryEntry) {
        switch entry.kind {
        case .segment: self.segments[entry.id] = entry
        case .foreign:
            let inode = entry.identity.inode
            let index = self.byInode[inode].map { entries in entries.firstIndex { $0.id > entry.id } ?? entries.count }
            self.byInode[inode, default: []].insert(entry, at: index ?? 0)
            guard entry.state != .gone, !(self.entry(at: entry.path)?.isLater(than: entry) ?? false) else { return }
            self.inodesByPath[FNV1a.hash(entry.path.utf8)] = inode
        }
    }

    /// Takes the entry of a file that is followed no more: it continues as after a restart.
    mutating func setAside(_ entry: RegistryEntry) {
        self.byInode[entry.identity.inode]?.removeAll { $0.id == entry.id }
        self.insert(entry)
        self.followed.insert(entry.id)
        self.frozen.remove(entry.id)
        self.gone.remove(entry.id)
    }

    /// Removes the entry of a file that is followed again.
    mutating func take(_ entry: RegistryEntry) {
        let inode = entry.identity.inode
        self.byInode[inode]?.removeAll { $0 == entry }
        self.followed.remove(entry.id)
        if self.byInode[inode]?.isEmpty == true { self.byInode[inode] = nil }
        // A dictionary never releases its capacity.
        guard self.byInode.isEmpty else { return }
        self.byInode = [:]
        self.inodesByPath = [:]
    }

    /// Replaces the entries for which `change` gives another one.
    mutating func update(_ change: (RegistryEntry) -> RegistryEntry?) {
        for (id, entry) in self.segments {
            if let changed = change(entry) { self.segments[id] = changed }
        }
        for (inode, entries) in self.byInode {
            for (index, entry) in entries.enumerated() {
                if let changed = change(entry) { self.byInode[inode]?[index] = changed }
            }
        }
    }

    // MARK: Contents that are gone

    /// Whether a stream was created for an entry that stays here.
    func isFrozen(_ entry: RegistryEntry) -> Bool { self.frozen.contains(entry.id) }

    /// - Returns: whether it was not frozen before.
    mutating func freeze(_ entry: RegistryEntry) -> Bool { self.frozen.insert(entry.id).inserted }

    func isGone(_ id: String) -> Bool { self.gone.contains(id) }
    mutating func insertGone(_ id: String) { self.gone.insert(id) }
    mutating func removeGone(_ id: String) { self.gone.remove(id) }
}

extension RegistryEntry {
    /// Whether its file was written to after another one.
    func isLater(than other: RegistryEntry) -> Bool {
        (self.modified, self.id) > (other.modified, other.id)
    }

    /// Whether more was shipped of it than of another one in the same inode.
    ///
    /// After a device got other numbers, several may be of one file; their times of change are a clock's.
    func isAhead(of other: RegistryEntry) -> Bool {
        let (most, others) = (self.heldByteCountMax, other.heldByteCountMax)
        return most == others ? self.isLater(than: other) : most > others
    }

    private var heldByteCountMax: Int { self.held.map(\.offset).max() ?? 0 }
}
