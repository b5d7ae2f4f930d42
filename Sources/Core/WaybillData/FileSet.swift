package import WaybillSystem

/// Append-only files under one root whose lengths are in a checkpoint, which makes a projection exactly-once.
///
///     append … append … ──▶ synchronize() ──▶ changes ──▶ StateStore.commit      nothing before is ever cut again
///                │
///              crash ──▶ recover(): each file is cut to its length in the checkpoint, unknown files are removed,
///                        and the journal is projected again from the checkpoint's position
///
/// Life of one run of lines: the projection passes a file's index and pointers into the batch → one `writev` per file
/// and batch → the length in memory increases → at the checkpoint the file is synced, and its length is committed
/// together with the journal's position.
///
/// Many files are synced together, where the system can (``FileSystem/synchronizeAll(in:)``): one by one, a checkpoint of
/// 800 files takes seconds.
///
/// Open descriptors are bounded: the least recently used is closed. The lengths of all files that can still grow are in
/// memory, about 200 bytes each.
package struct FileSet<Files: FileSystem>: ~Copyable {
    /// Identifies a file of the set; valid until the set is recovered again.
    package struct Index: Hashable, Sendable {
        fileprivate let rawValue: Int
    }

    /// The result of recovering the files to the checkpoint.
    package struct Recovery: Hashable, Sendable {
        package var cutFileCount = 0
        package var cutByteCount = 0
        package var removedFileCount = 0
        /// Files shorter than in the checkpoint (external damage), with the number of missing bytes.
        package var shortFiles: [String: Int] = [:]
        /// Where bytes after the checkpoint that cannot be written again are kept now.
        package var keptPaths: [String] = []

        /// One line for logs; empty if nothing was cut or is missing.
        package var summary: String {
            var parts: [String] = []
            if self.cutFileCount > 0 { parts.append("cut \(self.cutFileCount) files by \(self.cutByteCount) bytes") }
            if self.removedFileCount > 0 { parts.append("removed \(self.removedFileCount) files") }
            for (path, byteCount) in self.shortFiles.sorted(by: { $0.key < $1.key }) {
                parts.append("\(path) lacks \(byteCount) bytes")
            }
            parts += self.keptPaths.map { "set aside \($0)" }
            return parts.joined(separator: ", ")
        }
    }

    private struct Entry {
        let path: String
        var byteCount: Int
        var file: FileID?
        /// Whether its length is to be committed with the next checkpoint.
        var isDirty = false
        /// Whether it has bytes that are not durable.
        var isUnsynced = false
        /// Whether it is on the file system of the root.
        var isWithRoot = false
        var isNew = false
        /// Whether the file leaves the set at the next checkpoint.
        var isReleased = false
    }

    private let root: String
    private let files: Files
    private let openFileCountMax: Int
    private let stop: StopFlag?
    private var entries: [Entry] = []
    private var indexes: [String: Index] = [:]
    /// Slots in ``entries`` of released files.
    private var freeIndexes: [Index] = []
    /// The open files, and when each was last used.
    private var lastUses: [Index: Int] = [:]
    private var dirtyIndexes: [Index] = []
    private var useCount = 0
    private var dirtyDirectories: Set<String> = []
    /// Files with bytes that are not durable, on the file system of the root; open ones, as closing syncs.
    private var unsynced: Set<Index> = []
    /// The root, open from before the first write on, so that every error since then is reported to it.
    private var rootFolder: (file: FileID, device: UInt64)?
    private var togetherCountMin: Int
    /// So many files are faster together, whatever other processes have written there.
    package static var togetherCountMin: Int { 32 }

    /// The prefix of this set's keys in the state store.
    package static var keyPrefix: String { "file:" }

    /// The files' lengths in a checkpoint's entries, by path.
    package static func lengths(in entries: [String: String]) -> [String: Int] {
        var lengths: [String: Int] = [:]
        for (key, value) in entries where key.hasPrefix(Self.keyPrefix) {
            lengths[String(key.dropFirst(Self.keyPrefix.utf8.count))] = Int(value)
        }
        return lengths
    }

    /// Verifies the length of a file that a checkpoint or a manifest states.
    ///
    /// - Parameter byteCount: the file's; `nil` if it does not exist.
    package static func verify(_ path: String, _ byteCount: Int?, stated: Int) -> Problem? {
        guard let byteCount else {
            return stated > 0
                ? Problem(.missing, path, at: 0, byteCount: stated, "the checkpoint lists it") : nil
        }
        guard byteCount < stated else { return nil }
        return Problem(
            .short, path, at: byteCount, byteCount: stated - byteCount, "the checkpoint states \(stated) bytes")
    }

    /// Prepares a set that has no files yet.
    ///
    /// - Parameter stop: once it is set, appending and syncing end with ``FileSystemError/isStop``, even between the
    ///   files of one batch, which may be ten thousand.
    package init(
        root: String, files: Files, openFileCountMax: Int = 64, togetherCountMin: Int = Self.togetherCountMin,
        stop: StopFlag? = nil
    ) {
        self.root = root
        self.files = files
        self.openFileCountMax = openFileCountMax
        self.togetherCountMin = togetherCountMin
        self.stop = stop
    }

    deinit {
        for index in self.lastUses.keys {
            if let file = self.entries[index.rawValue].file { self.files.close(file) }
        }
        if let rootFolder { self.files.close(rootFolder.file) }
    }

    /// How many files can still grow.
    package var count: Int {
        self.indexes.count
    }

    /// The file's index; the first append creates the file.
    package mutating func index(of path: String) -> Index {
        if let index = self.indexes[path] { return index }
        let index = self.freeIndexes.popLast() ?? Index(rawValue: self.entries.count)
        let entry = Entry(path: path, byteCount: 0, isNew: true)
        if index.rawValue == self.entries.count {
            self.entries.append(entry)
        } else {
            self.entries[index.rawValue] = entry
        }
        self.indexes[path] = index
        return index
    }

    /// Whether the set has this file.
    package func contains(_ path: String) -> Bool {
        self.indexes[path] != nil
    }

    package func byteCount(of index: Index) -> Int {
        self.entries[index.rawValue].byteCount
    }

    package func path(of index: Index) -> String {
        Path.join(self.root, self.entries[index.rawValue].path)
    }

    /// Appends bytes, which are not durable before ``synchronize()``.
    package mutating func append(_ vector: [UnsafeRawBufferPointer], to index: Index) throws(FileSystemError) {
        if self.isStopped { throw .stopped("append", path: self.path(of: index)) }
        let file = try self.openFile(index)
        try self.files.writeAll(file, vector: vector)
        self.entries[index.rawValue].byteCount += vector.reduce(0) { $0 + $1.count }
        self.entries[index.rawValue].isUnsynced = true
        if self.entries[index.rawValue].isWithRoot { self.unsynced.insert(index) }
        if !self.entries[index.rawValue].isDirty {
            self.entries[index.rawValue].isDirty = true
            self.dirtyIndexes.append(index)
        }
    }

    /// Appends the bytes of an array.
    package mutating func append(_ bytes: [UInt8], to index: Index) throws(FileSystemError) {
        try bytes.withBytes { (buffer) throws(FileSystemError) in try self.append([buffer], to: index) }
    }

    private var isStopped: Bool { self.stop?.isSet ?? false }

    private mutating func openFile(_ index: Index) throws(FileSystemError) -> FileID {
        self.useCount += 1
        if let file = self.entries[index.rawValue].file {
            self.lastUses[index] = self.useCount
            return file
        }
        if self.lastUses.count >= self.openFileCountMax { try self.closeOldest() }
        let path = self.path(of: index)
        if self.entries[index.rawValue].isNew {
            let directory = Path.parent(of: path)
            // The checkpoint makes names durable, once for all files of a folder.
            try self.createFolders(directory)
            self.markDirectories(above: self.entries[index.rawValue].path)
        }
        if self.rootFolder == nil { try self.openRoot() }
        let file = try self.files.open(path, .append)
        self.entries[index.rawValue].file = file
        self.lastUses[index] = self.useCount
        self.entries[index.rawValue].isWithRoot = try self.isWithRoot(self.files.status(file))
        return file
    }

    /// Creates a folder and the missing ones up to the root, whose names the next sync makes durable.
    ///
    /// Made durable one by one, as ``FileSystem/createDirectories(_:)`` does it, a thousand folders take ten seconds. The
    /// root is never created: one that is gone was moved away, and another in its place would be in the way of it.
    private func createFolders(_ path: String) throws(FileSystemError) {
        guard path != self.root, try self.files.status(at: path) == nil else { return }
        try self.createFolders(Path.parent(of: path))
        try self.files.createDirectory(path)
    }

    /// Marks the parent folders for syncing: even an existing one may not be durable after a crash.
    private mutating func markDirectories(above path: String) {
        var directory = path
        repeat {
            directory = Path.parent(of: directory)
            self.dirtyDirectories.insert(directory == "." ? self.root : Path.join(self.root, directory))
        } while directory != "."
    }

    private mutating func closeOldest() throws(FileSystemError) {
        guard let oldest = self.lastUses.min(by: { $0.value < $1.value })?.key,
            let file = self.entries[oldest.rawValue].file
        else { return }
        // Once closed, it cannot be synced by the descriptor that wrote it, and an error would go unnoticed.
        try self.synchronize(oldest, file)
        self.files.close(file)
        self.entries[oldest.rawValue].file = nil
        self.lastUses[oldest] = nil
    }

    // MARK: Syncing

    private mutating func openRoot() throws(FileSystemError) {
        // It may be a link to a folder.
        let file = try self.files.open(self.root, .read)
        do throws(FileSystemError) {
            self.rootFolder = (file, try self.files.status(file).identity.device)
        } catch {
            self.files.close(file)
            throw error
        }
    }

    private func isWithRoot(_ status: FileStatus?) -> Bool {
        status?.identity.device == self.rootFolder?.device
    }

    /// Makes an open file's bytes durable; the bytes of all others with it if there are many.
    private mutating func synchronize(_ index: Index, _ file: FileID) throws(FileSystemError) {
        guard self.entries[index.rawValue].isUnsynced else { return }
        if self.unsynced.contains(index), try self.synchronizeTogether() { return }
        try self.files.synchronize(file)
        self.entries[index.rawValue].isUnsynced = false
        self.unsynced.remove(index)
    }

    /// - Returns: whether everything on the file system of the root is durable now.
    private mutating func synchronizeTogether() throws(FileSystemError) -> Bool {
        guard let rootFolder, self.unsynced.count >= self.togetherCountMin else { return false }
        guard try self.files.synchronizeAll(in: rootFolder.file) else {
            self.togetherCountMin = .max
            return false
        }
        for index in self.unsynced { self.entries[index.rawValue].isUnsynced = false }
        self.unsynced.removeAll(keepingCapacity: true)
        return true
    }

    /// Removes a file that is recorded elsewhere by now; nothing was appended to it since the last checkpoint.
    package mutating func forget(_ path: String) {
        if let index = self.indexes[path] { self.forget(index) }
    }

    /// Removes a file from the set at once; nothing was appended to it since the last checkpoint.
    package mutating func forget(_ index: Index) {
        let path = self.entries[index.rawValue].path
        self.indexes[path] = nil
        precondition(!self.entries[index.rawValue].isDirty, "the length of \(path) is not committed yet")
        precondition(!self.entries[index.rawValue].isUnsynced, "the bytes of \(path) are not durable yet")
        if let file = self.entries[index.rawValue].file { self.files.close(file) }
        self.entries[index.rawValue].file = nil
        self.lastUses[index] = nil
        self.freeIndexes.append(index)
    }

    /// The files that can still grow.
    package var paths: some Sequence<String> {
        self.indexes.keys
    }

    /// Removes a file from the set with the next checkpoint; it must not be appended to again.
    package mutating func release(_ index: Index) {
        self.entries[index.rawValue].isReleased = true
        if !self.entries[index.rawValue].isDirty {
            self.entries[index.rawValue].isDirty = true
            self.dirtyIndexes.append(index)
        }
    }

    /// Makes every append so far durable.
    ///
    /// - Returns: the changes to commit: the length of each file written since the last checkpoint, `nil` for released
    ///   files.
    package mutating func synchronize() throws(FileSystemError) -> [String: String?] {
        // Before the single files: it makes names durable, too.
        let isTogether = try self.synchronizeTogether()
        for index in self.dirtyIndexes {
            guard let file = self.entries[index.rawValue].file else { continue }
            if self.isStopped { throw .stopped("sync", path: self.path(of: index)) }
            try self.synchronize(index, file)
        }
        for directory in self.dirtyDirectories.sorted() {
            if self.isStopped { throw .stopped("sync", path: directory) }
            if isTogether, try self.isWithRoot(self.files.status(at: directory)) { continue }
            try self.files.synchronizeDirectory(directory)
        }
        var changes: [String: String?] = [:]
        for index in self.dirtyIndexes {
            let entry = self.entries[index.rawValue]
            changes[Self.keyPrefix + entry.path] = .some(entry.isReleased ? nil : String(entry.byteCount))
        }
        return changes
    }

    /// Forgets the changes that ``synchronize()`` returned, once they are committed.
    package mutating func checkpointCommitted() {
        for index in self.dirtyIndexes {
            self.entries[index.rawValue].isDirty = false
            self.entries[index.rawValue].isNew = false
            if self.entries[index.rawValue].isReleased {
                if let file = self.entries[index.rawValue].file { self.files.close(file) }
                self.entries[index.rawValue].file = nil
                self.lastUses[index] = nil
                self.indexes[self.entries[index.rawValue].path] = nil
                self.freeIndexes.append(index)
            }
        }
        self.dirtyIndexes.removeAll(keepingCapacity: true)
        self.dirtyDirectories.removeAll()
    }

    /// Cuts every file to its length in the checkpoint.
    ///
    /// - Parameters:
    ///   - state: the checkpoint's entries.
    ///   - roots: the folders under the root whose files are this set's alone.
    ///   - isRebuilt: whether bytes that are cut off will be written again; called only if there are any. If false,
    ///     they are set aside.
    ///   - isKept: whether a file that is not in the checkpoint is kept, because it is recorded elsewhere.
    package mutating func recover(
        from state: [String: String], roots: [String], isRebuilt: () throws(FileSystemError) -> Bool = { true },
        isKept: (_ path: String) throws(FileSystemError) -> Bool
    ) throws(FileSystemError) -> Recovery {
        for index in self.lastUses.keys {
            if let file = self.entries[index.rawValue].file { self.files.close(file) }
        }
        // Errors that it was told of concern bytes that are written again.
        if let rootFolder { self.files.close(rootFolder.file) }
        self.rootFolder = nil
        self.entries = []
        self.indexes = [:]
        self.freeIndexes = []
        self.lastUses = [:]
        self.dirtyIndexes = []
        self.dirtyDirectories = []
        self.unsynced = []
        var recovery = Recovery()
        var expected: [String: Int] = [:]
        for (key, value) in state where key.hasPrefix(Self.keyPrefix) {
            expected[String(key.dropFirst(Self.keyPrefix.utf8.count))] = max(0, Int(value) ?? 0)
        }
        let aside = SetAside(root: self.root, files: self.files)
        var removedDirectories: Set<String> = []
        var answer: Bool?
        func isMadeAgain() throws(FileSystemError) -> Bool {
            if let answer { return answer }
            let new = try isRebuilt()
            answer = new
            return new
        }
        for root in roots {
            try Self.walk(root, below: self.root, self.files) { (path, byteCount) throws(FileSystemError) in
                guard let byteCount else { return recovery.keptPaths.append(try aside.move(path)) }
                guard let length = expected[path] else {
                    if try isKept(path) { return }
                    var isRemoved = byteCount == 0
                    if !isRemoved { isRemoved = try isMadeAgain() }
                    if isRemoved {
                        try self.files.unlink(Path.join(self.root, path))
                        recovery.removedFileCount += 1
                        removedDirectories.insert(Path.parent(of: Path.join(self.root, path)))
                    } else {
                        recovery.keptPaths.append(try aside.move(path))
                    }
                    return
                }
                if byteCount > length {
                    if try !isMadeAgain() { recovery.keptPaths.append(try aside.copyTail(of: path, from: length)) }
                    try self.cut(path, to: length)
                    recovery.cutFileCount += 1
                    recovery.cutByteCount += byteCount - length
                } else if byteCount < length {
                    recovery.shortFiles[path] = length - byteCount
                    expected[path] = byteCount
                }
            }
        }
        // A file that a power cut brings back could be taken for one that another checkpoint knows.
        for directory in removedDirectories.sorted() { try self.files.synchronizeDirectory(directory) }
        for (path, byteCount) in expected.sorted(by: { $0.key < $1.key }) {
            let isMissing = try self.files.status(at: Path.join(self.root, path)) == nil
            if isMissing, byteCount > 0 { recovery.shortFiles[path] = byteCount }
            self.indexes[path] = Index(rawValue: self.entries.count)
            self.entries.append(Entry(path: path, byteCount: isMissing ? 0 : byteCount, isNew: isMissing))
        }
        return recovery
    }

    private func cut(_ path: String, to byteCount: Int) throws(FileSystemError) {
        let file = try self.files.open(Path.join(self.root, path), .append)
        defer { self.files.close(file) }
        try self.files.truncate(file, to: byteCount)
        try self.files.synchronize(file)
    }

    /// - Parameter visit: called with each file and its length, and with each link and `nil`: none of them is the set's.
    private static func walk(
        _ path: String, below root: String, _ files: Files,
        _ visit: (_ path: String, _ byteCount: Int?) throws(FileSystemError) -> Void
    ) throws(FileSystemError) {
        let absolute = Path.join(root, path)
        guard let status = try files.status(at: absolute) else { return }
        guard status.kind == .directory else {
            return try visit(path, status.kind == .link ? nil : status.byteCount)
        }
        for name in try files.list(absolute) { try self.walk(Path.join(path, name), below: root, files, visit) }
    }

    /// Moves every link below these folders out of the way.
    ///
    /// - Returns: the new paths below the root.
    package static func setLinksAside(
        in folders: [String], root: String, files: Files
    ) throws(FileSystemError) -> [String] {
        let aside = SetAside(root: root, files: files)
        var paths: [String] = []
        for folder in folders {
            try self.walk(folder, below: root, files) { (path, byteCount) throws(FileSystemError) in
                if byteCount == nil { paths.append(try aside.move(path)) }
            }
        }
        return paths
    }
}
