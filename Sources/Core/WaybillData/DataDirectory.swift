package import WaybillSystem

/// Why a data directory cannot be used.
package enum DataDirectoryError: Error, Hashable, Sendable, CustomStringConvertible {
    case locked(path: String, owner: String)
    case unusable(FileSystemError)

    package var description: String {
        switch self {
        case .locked(let path, let owner):
            "\(path) is in use by process \(owner); stop it, or name another directory"
        case .unusable(let error): "the data directory cannot be used: \(error.description)"
        }
    }
}

/// A receiver's data directory, locked for as long as this value lives.
///
///     data/journal  archive  exports  quarantine  state/{lock, *.state}
package struct DataDirectory<Files: FileSystem>: Sendable {
    package let root: String
    package let files: Files
    /// How many files each projection keeps open.
    ///
    /// With more partitions than these at once, each line may cost a sync.
    package let openFileCountMax: Int
    /// Once it is set, projections write nothing more.
    package let stop: StopFlag?

    package init(root: String, files: Files, openFileCountMax: Int = 64, stop: StopFlag? = nil) {
        self.root = root
        self.files = files
        self.openFileCountMax = openFileCountMax
        self.stop = stop
    }

    package var journal: String { Path.join(self.root, "journal") }
    package var archive: String { Path.join(self.root, "archive") }
    package var exports: String { Path.join(self.root, "exports") }
    package var state: String { Path.join(self.root, "state") }

    /// The folders that a receiver creates below the root.
    private var folders: [String] {
        [self.journal, self.archive, self.exports, self.state]
            + ["quarantine", SetAside<Files>.folder].map { Path.join(self.root, $0) }
    }

    package func statePath(_ projection: String) -> String {
        Path.join(self.state, projection + ".state")
    }

    /// The names of the states in `state`, without a suffix.
    ///
    /// A process that died while it rewrote a state may have left it under another suffix alone; who opens it finds it there.
    package func stateNames() throws(FileSystemError) -> [String] {
        var names: Set<String> = []
        for name in try self.files.list(self.state) {
            for suffix in StateImage.paths(".state") where name.hasSuffix(suffix) {
                names.insert(String(name.dropLast(suffix.utf8.count)))
            }
        }
        return names.sorted()
    }

    /// Whether a state was ever written, as ``stateNames()`` finds it.
    package func hasState(_ projection: String) throws(FileSystemError) -> Bool {
        for path in StateImage.paths(self.statePath(projection)) where try self.files.status(at: path) != nil {
            return true
        }
        return false
    }

    /// Creates missing folders.
    package func create() throws(FileSystemError) {
        try self.files.createDirectories(self.root)
        for path in [self.journal, self.archive, self.exports, self.state] {
            if try self.files.status(at: path)?.kind != .directory { try self.files.createDirectories(path) }
        }
        // An existing folder may not be durable yet: the process that created it may have died before this step.
        try self.files.synchronizeDirectory(self.root)
    }

    /// An existing folder that users other than its owner and group could read.
    package struct OpenFolder: Sendable {
        package let path: String
        /// The permissions it had; `nil` if they could not be changed.
        package let permissions: UInt16?
        package let failure: FileSystemError?
    }

    /// Takes the permissions of others from the existing folders of the receiver's own.
    ///
    /// The root stays as the operator made it: only these names can be read there.
    package func closeToOthers() -> [OpenFolder] {
        self.folders.compactMap { folder in
            do throws(FileSystemError) {
                guard let found = try self.files.narrowFolder(folder, to: 0o770) else { return nil }
                return OpenFolder(path: folder, permissions: found, failure: nil)
            } catch {
                return OpenFolder(path: folder, permissions: nil, failure: error)
            }
        }
    }

    /// Opens the journal, which never continues before a projection's checkpoint, or before a sealed day's manifest.
    ///
    /// If part of it is damaged or missing, each stream's position is at least its end in the archive.
    package func openJournal(
        segmentByteCountMax: Int = 256 << 20, awake: AwakeLimits = AwakeLimits()
    ) throws(FileSystemError) -> Journal<Files> {
        let checkpointed = try self.checkpointedEnd()
        let sealed = try self.sealedEnd()
        var journal = try Journal(
            directory: self.journal, files: self.files, endMin: max(checkpointed, sealed),
            segmentByteCountMax: segmentByteCountMax, awake: awake)
        let isDamaged = !journal.recovery.damages.isEmpty
        guard isDamaged || journal.end == JournalPosition(0) else { return journal }
        // A journal without a segment shows no damage, but it may have had some: the archive then has files.
        let index = try ArchiveIndex(data: self)
        // Without a segment, the first one begins at the end.
        let start = journal.segments.first ?? journal.end
        do throws(FileSystemError) {
            try index.secureUncommitted(ofJournalFrom: start)
        } catch {
            // On a full disk agents ship again what only the archive has; that does not prevent a start.
            guard error.isDiskFull else { throw error }
            return journal
        }
        try journal.advance(to: try index.standings(ofJournalFrom: start))
        return journal
    }

    /// The greatest position of any checkpoint.
    private func checkpointedEnd() throws(FileSystemError) -> JournalPosition {
        var end = JournalPosition(0)
        // Any of a checkpoint's files may be the one in use.
        for name in try self.files.list(self.state)
        where StateImage.suffixes.contains(where: { name.hasSuffix(".state" + $0) }) {
            guard let bytes = try self.files.contents(of: Path.join(self.state, name), byteCountMax: 1 << 30),
                let position = StateImage(bytes: bytes)?.entries["position"]
            else { continue }
            end = max(end, JournalPosition(Int(position) ?? 0))
        }
        return end
    }

    /// The greatest position of any sealed day's manifest, which remains when a later checkpoint is lost.
    ///
    /// A day takes no lines of batches before its manifest's position: a journal that used such a position again would
    /// lose them.
    private func sealedEnd() throws(FileSystemError) -> JournalPosition {
        var end = JournalPosition(0)
        try self.visitDays { folder throws(FileSystemError) in
            do throws(FileSystemError) {
                let manifest = try DayManifest.read(in: Path.join(self.root, folder.path), files: self.files)
                end = max(end, manifest?.position ?? end)
            } catch {
                // Nothing is written into a day whose manifest cannot be read, and the start need not fail.
                return
            }
        }
        return end
    }

    /// Whether a file of the archive is missing, a link or shorter than its checkpoint says.
    ///
    /// A file that a seal has replaced does not count.
    package func isArchiveShort() throws(FileSystemError) -> Bool {
        let entries = try StateImage.read(self.statePath("archive"), files: self.files)?.entries ?? [:]
        for (path, byteCount) in FileSet<Files>.lengths(in: entries) {
            let absolute = Path.join(self.root, path)
            if let found = try self.fileLength(absolute) {
                if found < byteCount { return true }
            } else if byteCount > 0, try self.fileLength(absolute + ".gz") == nil {
                return true
            }
        }
        return false
    }

    /// A file's length in bytes; `nil` if no file is there, or a link leads to it.
    private func fileLength(_ path: String) throws(FileSystemError) -> Int? {
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: path), status.kind != .link else { return nil }
            return status.byteCount
        } catch {
            guard error.errno == Errno.link else { throw error }
            return nil
        }
    }

    /// Takes the lock and writes this process's id to it.
    ///
    /// - Returns: the lock, which is held until it is closed or the process dies.
    package func lock(processID: Int) throws(DataDirectoryError) -> FileID {
        let isUnfinished: Bool
        do throws(FileSystemError) {
            isUnfinished = try RestoreMark.isPresent(in: self.root, self.files)
        } catch {
            throw .unusable(error)
        }
        guard !isUnfinished else {
            throw .unusable(
                FileSystemError(
                    "open", path: RestoreMark.path(in: self.root), errno: Errno.inUse,
                    detail: "waybill restore has not finished in this directory; run it again to its end"))
        }
        return try self.lockForRestore(processID: processID)
    }

    /// Takes the lock of a directory whose journal is not complete yet.
    package func lockForRestore(processID: Int) throws(DataDirectoryError) -> FileID {
        let path = Path.join(self.state, "lock")
        let owner: [UInt8]
        do throws(FileSystemError) {
            let file = try self.files.open(path, .append)
            do throws(FileSystemError) {
                if try self.files.lock(file, .exclusive) {
                    try self.files.truncate(file, to: 0)
                    try self.files.writeAll(file, Array("\(processID)\n".utf8))
                    return file
                }
                owner = try self.files.contents(of: path, byteCountMax: 32) ?? []
            } catch {
                self.files.close(file)
                throw error
            }
            self.files.close(file)
        } catch {
            throw .unusable(error)
        }
        throw .locked(path: self.root, owner: String(decoding: owner.prefix { $0 != 0x0A }, as: UTF8.self))
    }
}

extension DataDirectory {
    /// Writes files to the disk once more, and makes their names durable.
    ///
    /// After a failed sync the kernel marks the pages as clean: they can be read until the power fails, and no later sync
    /// writes them. So bytes that no checkpoint vouches for are copied, and the copy takes the file's name.
    ///
    /// - Parameter paths: below the root; missing files are left out.
    package func rewrite(_ paths: some Sequence<String>) throws(FileSystemError) {
        var folders: Set<String> = []
        for path in paths {
            let path = Path.join(self.root, path)
            guard try self.files.status(at: path) != nil else { continue }
            try self.rewrite(path)
            var folder = Path.parent(of: path)
            while folder.utf8.count >= self.root.utf8.count, folders.insert(folder).inserted {
                folder = Path.parent(of: folder)
            }
        }
        for folder in folders.sorted() { try self.files.synchronizeDirectory(folder) }
    }

    private func rewrite(_ path: String) throws(FileSystemError) {
        let temporary = path + ".tmp"
        let source = try self.files.open(path, .read)
        defer { self.files.close(source) }
        do throws(FileSystemError) {
            let copy = try self.files.open(temporary, .replace)
            defer { self.files.close(copy) }
            try self.files.narrow(copy, like: source)
            let byteCount = try self.files.status(source).byteCount
            try self.files.visit(source, 0..<byteCount) { (piece) throws(FileSystemError) in
                try self.files.writeAll(copy, piece)
            }
            try self.files.synchronize(copy)
        } catch {
            // A part of a copy only takes room.
            if try self.files.status(at: temporary) != nil { try self.files.unlink(temporary) }
            throw error
        }
        try self.files.rename(temporary, to: path)
    }
}
