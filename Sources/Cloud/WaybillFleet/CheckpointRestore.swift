internal import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Puts a merger's data directory back from the newest whole checkpoint of the bucket.
///
///     restoring = "aside"   what is there is moved to set-aside/merger-<number>, nothing is deleted
///     restoring = "fetch"   files are fetched, compared with their SHA-256, synced; those that are there with these
///                           bytes stay, what the checkpoint does not have goes
///     state/merge.state     last
///     (no file restoring)   done
///
/// A process that died in between continues at the next start, by the file `restoring`: while it is there, nothing in these
/// folders was written by anything but this.
package struct CheckpointRestore<Files: FileSystem>: ~Copyable {
    package enum Outcome: Hashable, Sendable {
        /// The directory's own state counts, or there is nothing to begin with but the first round.
        case none
        case restored(Report)
    }

    package struct Report: Hashable, Sendable {
        package let round: Int
        package let time: WallTime
        package var fileCount = 0
        package var byteCount = 0
        /// Where the old directory is; `nil`: there was none.
        package var aside: String?
        /// Checkpoints that are newer and not whole, with what they lack.
        package var damaged: [String] = []
    }

    private let root: String
    private let fleet: String
    private let files: Files
    private let store: any ObjectStore
    private var pack: (key: String, bytes: [UInt8])?

    package init(root: String, fleet: String, files: Files, store: any ObjectStore) {
        self.root = root
        self.fleet = fleet
        self.files = files
        self.store = store
    }

    private static var markerName: String { "restoring" }
    private static var mergeState: String { "state/merge.state" }
    private static var pieceByteCount: Int { 8 << 20 }
    private static var packByteCountMax: Int { 64 << 20 }

    private var marker: String { Path.join(self.root, Self.markerName) }

    /// Restores what must be; call it with the directory's lock, before anything reads it.
    package mutating func run() throws(MergeFailure) -> Outcome {
        let phase = try MergeFailure.onDisk(
            self.files.contents(of: self.marker, byteCountMax: 16).map { String(decoding: $0, as: UTF8.self) })
        if phase == nil {
            switch try self.standing() {
            case .usable: return .none
            case .empty:
                // Without a checkpoint a fleet's first merger begins with the first round.
                guard try !self.positions().isEmpty else {
                    try self.requireFirstRound()
                    return .none
                }
                try self.mark("fetch")
            case .old: try self.mark("aside")
            }
        }
        var aside: String?
        if phase == "aside" || phase == nil, try self.isMarked("aside") {
            aside = try self.setAside()
            guard try !self.positions().isEmpty else {
                try self.requireFirstRound()
                try self.unmark()
                return .none
            }
            try self.mark("fetch")
        }
        var report = try self.fetchNewest()
        report.aside = aside
        try self.unmark()
        return .restored(report)
    }

    /// Lets the next start move the directory aside and begin from a checkpoint.
    package static func request(root: String, files: Files) throws(FileSystemError) {
        try files.replace(Path.join(root, Self.markerName), with: Array("aside".utf8))
    }

    // MARK: What is there

    private enum Standing {
        case usable, empty, old
    }

    private func standing() throws(MergeFailure) -> Standing {
        let state = try MergeFailure.onDisk(StateImage.read(Path.join(self.root, Self.mergeState), files: self.files))
        if let state {
            let round = state.entries["round"].flatMap { Int($0) } ?? 0
            // The merger says it better of a directory of another fleet.
            guard state.entries["fleet"] == self.fleet else { return .usable }
            return try RoundFloor.isBehind(round, self.store) ? .old : .usable
        }
        let first = try MergeFailure.onDisk(PieceCutter.first(in: Path.join(self.root, "journal"), files: self.files))
        guard let first else {
            // What was received cannot be told from these files, and no one else may have them.
            return try MergeFailure.withDisk { [files] () throws(FileSystemError) in
                for folder in ["archive", "exports", "quarantine"] where try self.hasFile(folder, files) { return .old }
                return .empty
            }
        }
        let path = JournalPath.segment(first, in: Path.join(self.root, "journal"))
        let head = try MergeFailure.onDisk(self.files.bytes(at: path, offset: 0, count: 256))
        // An unexpected journal, or a receiver's, is refused by the merger.
        return String(decoding: head, as: UTF8.self).contains("START 0 0000000000000000 \(self.fleet)\n")
            ? .old : .usable
    }

    /// Whether there is anything but folders in a folder.
    private func hasFile(_ path: String, _ files: Files) throws(FileSystemError) -> Bool {
        let absolute = Path.join(self.root, path)
        guard let status = try files.status(ofEntry: absolute) else { return false }
        guard status.kind == .directory else { return true }
        for name in try files.list(absolute) where try self.hasFile(Path.join(path, name), files) { return true }
        return false
    }

    private func positions() throws(MergeFailure) -> [JournalPosition] {
        try MergeFailure.inStore(CheckpointCommit.positions(in: self.store).commits)
    }

    /// A merger that begins at the beginning needs all rounds.
    private func requireFirstRound() throws(MergeFailure) {
        let isThere = try MergeFailure.inStore(self.store.status(of: MergeRound.key(of: 1)) != nil)
        guard !isThere else { return }
        let page = try MergeFailure.inStore(self.store.list("merge/s00/0", after: nil, isFolded: false))
        if let first = page.objects.first(where: { $0.key.hasSuffix(".wbs") }) {
            throw .noCheckpoint(["round 1 is gone, the first one is \(first.key)"])
        }
    }

    // MARK: Steps

    private func mark(_ phase: String) throws(MergeFailure) {
        try MergeFailure.onDisk(self.files.replace(self.marker, with: Array(phase.utf8)))
    }

    private func isMarked(_ phase: String) throws(MergeFailure) -> Bool {
        try MergeFailure.onDisk(self.files.contents(of: self.marker, byteCountMax: 16) == Array(phase.utf8))
    }

    /// Durable before anything else is written: a mark that came back would undo what the merger did since.
    private func unmark() throws(MergeFailure) {
        try MergeFailure.withDisk { [files] () throws(FileSystemError) in
            try files.unlink(self.marker)
            try files.synchronizeDirectory(self.root)
        }
    }

    /// Moves the old directory away.
    ///
    /// - Returns: where it is, below the data directory; `nil` if there was nothing.
    private func setAside() throws(MergeFailure) -> String? {
        try MergeFailure.withDisk { [files] () throws(FileSystemError) in
            let top = Path.join(self.root, SetAside<Files>.folder)
            try files.createDirectories(top)
            // One that was begun, and has no state yet, is gone on with: the state is moved last.
            var number = 1
            while try files.status(at: Path.join(top, "merger-\(number)/state")) != nil { number += 1 }
            let folder = Path.join(top, "merger-\(number)")
            try files.createDirectories(folder)
            var movedCount = 0
            for name in CheckpointCapture.folders where name != "state" {
                let path = Path.join(self.root, name)
                guard try files.status(ofEntry: path) != nil, try !files.list(path).isEmpty else { continue }
                try files.rename(path, to: Path.join(folder, name))
                movedCount += 1
            }
            let states = Path.join(folder, "state.new")
            try files.createDirectories(states)
            let state = Path.join(self.root, "state")
            for name in try files.list(state) where name != "lock" {
                try files.rename(Path.join(state, name), to: Path.join(states, name))
                movedCount += 1
            }
            // Where they are now first: what the power takes must not be gone from both.
            for folder in [states, folder, state, self.root] { try files.synchronizeDirectory(folder) }
            try files.rename(states, to: Path.join(folder, "state"))
            try files.synchronizeDirectory(folder)
            return movedCount > 0 ? "\(SetAside<Files>.folder)/merger-\(number)" : nil
        }
    }

    private mutating func fetchNewest() throws(MergeFailure) -> Report {
        var damaged: [String] = []
        for position in try self.positions() {
            let found = try MergeFailure.inStore(CheckpointCommit.read(position, from: self.store))
            guard let commit = found, commit.fleet == self.fleet else {
                damaged.append("the checkpoint at \(position) is gone or is none of this fleet")
                continue
            }
            do throws(CheckpointFailure) {
                try self.fetch(commit)
            } catch {
                switch error {
                case .disk(let error): throw .disk(error)
                case .store(let error): throw .store(error)
                case .damaged, .changed, .late, .stopped: damaged.append("\(error)")
                }
                continue
            }
            if let request = try self.lineSetAside(at: commit) {
                damaged.append(
                    "the checkpoint at \(position) has the line at \(request.offset) of stream \(request.stream), which "
                        + "was set aside")
                continue
            }
            return Report(
                round: commit.round, time: commit.time, fileCount: commit.fileCount, byteCount: commit.byteCount,
                damaged: damaged)
        }
        // All of what was fetched goes: the rounds themselves are the last resort.
        let isWhole = try MergeFailure.inStore(self.store.status(of: MergeRound.key(of: 1)) != nil)
        guard isWhole else { throw .noCheckpoint(damaged) }
        try MergeFailure.onDisk(self.removeOthers([], self.files))
        return Report(round: 0, time: .unknown, damaged: damaged)
    }

    /// A line that a later round names not to be read, and that the archive of a checkpoint has, which was fetched.
    private func lineSetAside(at commit: CheckpointCommit) throws(MergeFailure) -> SetAsideRequest? {
        let first = try MergeFailure.inStore(SetAsideRequest.read(1, from: self.store))
        guard first != .absent else { return nil }
        let image = try MergeFailure.onDisk(StateImage.read(Path.join(self.root, Self.mergeState), files: self.files))
        var state = MergeState()
        state.restore(image?.entries ?? [:])
        let later = try MergeRound.setAsides(behind: state.round, self.store)
        for number in state.setAsides.pending + later where !state.setAsides.isDone(number) {
            let found = try MergeFailure.inStore(SetAsideRequest.read(number, from: self.store))
            // What concerns exports alone stays in the archive.
            guard case .request(let request) = found, request.isForArchive else { continue }
            let isRead = try MergeFailure.onDisk(
                state.streams.hasRead(
                    request, upTo: commit.position, in: Path.join(self.root, "journal"), end: state.end,
                    files: self.files))
            if isRead { return request }
        }
        return nil
    }

    private mutating func fetch(_ commit: CheckpointCommit) throws(CheckpointFailure) {
        self.pack = nil
        var wanted: Set<String> = []
        var last: CheckpointFile?
        try commit.forEachFile(in: self.store) { (file) throws(CheckpointFailure) in
            if file.path == Self.mergeState { last = file }
            wanted.insert(file.path)
        }
        guard let last else { throw .damaged(commit.key) }
        let root = self.root
        try CheckpointFailure.withDisk { [files] () throws(FileSystemError) in
            let state = Path.join(root, Self.mergeState)
            for path in StateImage.paths(state) where try files.status(ofEntry: path) != nil { try files.unlink(path) }
            try files.synchronizeDirectory(Path.join(root, "state"))
        }
        try CheckpointFailure.onDisk(self.removeOthers(wanted, self.files))
        var folders: Set<String> = []
        // A copy, since fetching remembers the last object.
        var copy: [CheckpointFile] = []
        try commit.forEachFile(in: self.store) { (file) throws(CheckpointFailure) in
            if file.path != Self.mergeState { copy.append(file) }
        }
        for file in copy {
            let folder = Path.parent(of: Path.join(self.root, file.path))
            if folders.insert(folder).inserted {
                try CheckpointFailure.onDisk(self.files.createDirectories(folder))
            }
            try self.fetch(file, to: Path.join(self.root, file.path))
        }
        try CheckpointFailure.withDisk { [files] () throws(FileSystemError) in
            for folder in folders.sorted() { try files.synchronizeDirectory(folder) }
        }
        let state = Path.join(self.root, Self.mergeState)
        try self.fetch(last, to: state + ".fetched")
        try CheckpointFailure.withDisk { [files] () throws(FileSystemError) in
            try files.rename(state + ".fetched", to: state)
            try files.synchronizeDirectory(Path.parent(of: state))
        }
    }

    private mutating func fetch(_ file: CheckpointFile, to path: String) throws(CheckpointFailure) {
        let isThere = try CheckpointFailure.withDisk { [files] () throws(FileSystemError) in
            guard let status = try files.status(ofEntry: path) else { return false }
            guard status.kind == .regular, status.byteCount == file.byteCount,
                try SHA256Digest.ofFile(path, files) == file.sha256
            else {
                try files.removeTree(path)
                return false
            }
            // Its writer may have died before its sync.
            let opened = try files.open(path, .append)
            defer { files.close(opened) }
            try files.synchronize(opened)
            return true
        }
        guard !isThere else { return }
        let opened = try CheckpointFailure.onDisk(self.files.open(path, .replace))
        defer { self.files.close(opened) }
        var digest = SHA256Digest()
        for offset in stride(from: 0, to: file.byteCount, by: Self.pieceByteCount) {
            let count = min(Self.pieceByteCount, file.byteCount - offset)
            let bytes = try self.bytes(of: file, at: offset, count: count)
            guard bytes.count == count else { throw .damaged(file.key) }
            bytes.withUnsafeBytes { digest.update($0) }
            try CheckpointFailure.onDisk(self.files.writeAll(opened, bytes))
        }
        guard digest.finish() == file.sha256 else { throw .damaged(file.key) }
        try CheckpointFailure.onDisk(self.files.synchronize(opened))
    }

    private mutating func bytes(
        of file: CheckpointFile, at offset: Int, count: Int
    ) throws(CheckpointFailure) -> [UInt8] {
        let start = file.offset + offset
        guard file.byteCount <= 1 << 20 else {
            return try CheckpointFailure.inStore(self.store.read(file.key, start..<(start + count))) ?? []
        }
        if self.pack?.key != file.key {
            // Small files come one after the other out of one object.
            let bytes = try CheckpointFailure.inStore(self.store.read(file.key, 0..<Self.packByteCountMax))
            self.pack = (file.key, bytes ?? [])
        }
        guard let pack, start + count <= pack.bytes.count else { return [] }
        return Array(pack.bytes[start..<(start + count)])
    }

    /// Deletes files that the checkpoint does not have.
    private func removeOthers(_ wanted: Set<String>, _ files: Files) throws(FileSystemError) {
        for folder in CheckpointCapture.folders { try self.remove(folder, unless: wanted, files) }
    }

    private func remove(_ path: String, unless wanted: Set<String>, _ files: Files) throws(FileSystemError) {
        let absolute = Path.join(self.root, path)
        guard let status = try files.status(ofEntry: absolute) else { return }
        if status.kind == .directory {
            for name in try files.list(absolute) { try self.remove(Path.join(path, name), unless: wanted, files) }
        } else if !wanted.contains(path), path != "state/lock" {
            try files.unlink(absolute)
        }
    }
}

/// The oldest round that a merger may continue behind.
///
/// Rounds are deleted oldest first, each only if a checkpoint behind it is in the bucket. So if a merger's own last round is
/// there, the next one was never deleted; if it is gone, the merger must begin again from a checkpoint, and must not
/// create the round that it does not find.
enum RoundFloor {
    /// Whether a checkpoint has a round, so that its pieces may be deleted.
    static func isPassed(_ round: Int, _ store: any ObjectStore) throws(MergeFailure) -> Bool {
        try MergeFailure.inStore(CheckpointCommit.newest(in: store)).map { $0.round >= round } ?? false
    }

    static func isBehind(_ round: Int, _ store: any ObjectStore) throws(MergeFailure) -> Bool {
        guard try MergeFailure.inStore(store.status(of: MergeRound.key(of: max(round, 1)))) == nil else { return false }
        if round > 0 { return true }
        // Before the first round, a checkpoint is the sign that it was created.
        return try MergeFailure.inStore(CheckpointCommit.newest(in: store)) != nil
    }
}
