/// Files that were missing at the start, as far as they are missing still.
struct MissingFiles {
    private var inodes: [StreamKey: UInt64] = [:]
    private var byInode: [UInt64: [StreamKey]] = [:]

    func contains(_ file: StreamKey) -> Bool { self.inodes[file] != nil }

    /// Those that had an inode, on whichever device, in the order in which they were missed.
    func files(in inode: UInt64) -> [StreamKey] { self.byInode[inode] ?? [] }

    mutating func insert(_ file: StreamKey, inode: UInt64) {
        self.inodes[file] = inode
        self.byInode[inode, default: []].append(file)
    }

    mutating func remove(_ file: StreamKey) {
        guard let inode = self.inodes.removeValue(forKey: file) else { return }
        self.byInode[inode]?.removeAll { $0 == file }
        if self.byInode[inode]?.isEmpty ?? false { self.byInode[inode] = nil }
    }
}
