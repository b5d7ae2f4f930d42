internal import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Puts what was captured into the bucket, as a checkpoint.
///
///     small files ──▶ one object of up to 16 MiB for many of them
///     large files ──▶ the object of the last checkpoint, or of the published day, if it has these bytes
///                     else an object of their own
///     full segments of the merged journal ──▶ merge/s00/journal/<position>.journal, once for all checkpoints
///     lists ──▶ the commit, last: if it is there already, another merger was first
///
/// An object under a name that all mergers use is compared byte for byte before a checkpoint refers to it for the first time.
///
/// Memory: one object of small files, the list of files, and the digests of large ones.
package struct CheckpointMaker<Files: FileSystem>: ~Copyable {
    /// What a checkpoint cost.
    package struct Outcome: Hashable, Sendable {
        package var fileCount = 0
        package var byteCount = 0
        package var uploadedByteCount = 0
    }

    private let capture: CheckpointCapture
    private let merger: String
    private let fleet: String
    private let files: Files
    private let store: any ObjectStore
    private let isStopped: @Sendable () -> Bool
    private let digests: DigestMemory
    /// Files up to this length share an object.
    private let sharedByteCountMax: Int
    private let packByteCountMax: Int
    /// Objects that are no one else's.
    private let token: String
    private var objectCount = 0
    private var known: [String: CheckpointFile] = [:]
    private var found: [CheckpointFile] = []
    private var pack: [UInt8] = []
    private var packed: [(path: String, byteCount: Int, sha256: String, offset: Int)] = []
    private var outcome = Outcome()

    package init(
        _ capture: CheckpointCapture, merger: String, fleet: String, files: Files, store: any ObjectStore,
        sharedByteCountMax: Int = 1 << 20, packByteCountMax: Int = 16 << 20, _ generator: SeededGenerator,
        digests: DigestMemory = DigestMemory(),
        isStopped: @escaping @Sendable () -> Bool = { false }
    ) {
        var generator = generator
        self.capture = capture
        self.merger = merger
        self.fleet = fleet
        self.files = files
        self.store = store
        self.isStopped = isStopped
        self.digests = digests
        self.sharedByteCountMax = sharedByteCountMax
        self.packByteCountMax = packByteCountMax
        self.token = Hexadecimal.text(generator.next(), digitCount: 16)
    }

    /// Makes the checkpoint.
    ///
    /// - Throws: ``CheckpointFailure/late`` if another merger has made one since the capture.
    package consuming func run(at time: WallTime) throws(CheckpointFailure) -> Outcome {
        let former = try self.newest()
        try self.learn(former)
        for source in self.capture.sources {
            if self.isStopped() { throw .stopped }
            try self.add(source)
        }
        try self.flush()
        self.found.sort { $0.path < $1.path }
        var lists: [CheckpointCommit.List] = []
        var rest = self.found[...]
        while !rest.isEmpty {
            let bytes = CheckpointFile.encoded(rest.prefix(CheckpointFile.listCountMax))
            rest = rest.dropFirst(CheckpointFile.listCountMax)
            let key = try self.upload(ObjectBody(bytes))
            lists.append(.init(key: key, byteCount: bytes.count, sha256: SHA256Digest.text(of: bytes)))
        }
        // What this one refers to may be deleted once there is a newer one.
        guard try self.newest()?.position == former?.position else { throw .late }
        let commit = CheckpointCommit(
            fleet: self.fleet, position: self.capture.position, round: self.capture.round, merger: self.merger,
            time: time, chains: self.capture.chains, lists: lists, fileCount: self.found.count,
            byteCount: self.found.reduce(0) { $0 + $1.byteCount })
        let (key, bytes) = (commit.key, commit.encoded)
        let creation = try CheckpointFailure.inStore(self.store.create(key, ObjectBody(bytes)))
        if creation == .present {
            // Maybe this one's own, of which the answer was lost.
            let present = try CheckpointFailure.inStore(self.store.read(key, nil))
            guard present == bytes else { throw .late }
        }
        self.outcome.fileCount = commit.fileCount
        self.outcome.byteCount = commit.byteCount
        return self.outcome
    }

    private func newest() throws(CheckpointFailure) -> CheckpointCommit? {
        let newest = try CheckpointFailure.inStore(CheckpointCommit.newest(in: self.store))
        if let newest, newest.position >= self.capture.position { throw .late }
        return newest
    }

    /// Learns which large files the last checkpoint has.
    private mutating func learn(_ former: CheckpointCommit?) throws(CheckpointFailure) {
        guard let former, former.fleet == self.fleet else { return }
        var known: [String: CheckpointFile] = [:]
        do throws(CheckpointFailure) {
            try former.forEachFile(in: self.store) { (file) throws(CheckpointFailure) in
                if file.byteCount > self.sharedByteCountMax || file.path.hasPrefix("journal/") {
                    known[file.path] = file
                }
            }
        } catch {
            // A damaged list helps no one; this checkpoint then stands alone.
            guard case .damaged = error else { throw error }
            known = [:]
        }
        self.known = known
    }

    private mutating func add(_ source: CheckpointCapture.Source) throws(CheckpointFailure) {
        guard source.byteCount > self.sharedByteCountMax || source.sharedKey != nil else {
            return try self.addSmall(source)
        }
        let sha256 = try self.digest(of: source)
        if let known = self.known[source.path], known.sha256 == sha256, known.byteCount == source.byteCount {
            let status = try self.status(of: known.key)
            if let status, status.byteCount >= known.offset + known.byteCount { return self.found.append(known) }
        }
        let body = self.body(of: source)
        if let key = source.sharedKey ?? Self.publishedKey(of: source.path) {
            if source.sharedKey != nil { try self.share(body, as: key) }
            if try self.isEqual(source, key) {
                return self.found.append(
                    CheckpointFile(
                        path: source.path, byteCount: source.byteCount, sha256: sha256, key: key, offset: 0))
            }
        }
        let key = try self.upload(body)
        self.found.append(
            CheckpointFile(path: source.path, byteCount: source.byteCount, sha256: sha256, key: key, offset: 0))
    }

    /// The object that a published file is, if it is one that no one replaces.
    private static func publishedKey(of path: String) -> String? {
        (path.hasPrefix("archive/") || path.hasPrefix("exports/")) && Path.name(of: path) != "manifest.json"
            ? path : nil
    }

    private func digest(of source: CheckpointCapture.Source) throws(CheckpointFailure) -> String {
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: source.file), status.byteCount >= source.byteCount else {
                throw FileSystemError("read", path: source.path, errno: Errno.noEntry)
            }
            if status.byteCount == source.byteCount, let known = self.digests[source.path, status] { return known }
            let digest = try SHA256Digest.ofFile(source.file, upTo: source.byteCount, self.files)
            if status.byteCount == source.byteCount { self.digests.set(digest, of: source.path, status) }
            return digest
        } catch {
            throw Self.failure(error, source.path)
        }
    }

    private static func failure(_ error: FileSystemError, _ path: String) -> CheckpointFailure {
        error.errno == Errno.noEntry ? .changed(path) : .disk(error)
    }

    private func body(of source: CheckpointCapture.Source) -> ObjectBody {
        ObjectBody(file: source.file, byteCount: source.byteCount, self.files)
    }

    private func status(of key: String) throws(CheckpointFailure) -> ObjectStatus? {
        try CheckpointFailure.inStore(self.store.status(of: key))
    }

    private mutating func share(_ body: ObjectBody, as key: String) throws(CheckpointFailure) {
        guard try self.status(of: key) == nil else { return }
        let creation = try CheckpointFailure.inStore(self.store.create(key, body))
        if creation == .created { self.outcome.uploadedByteCount += body.byteCount }
    }

    /// Whether an object has exactly a file's bytes.
    private func isEqual(_ source: CheckpointCapture.Source, _ key: String) throws(CheckpointFailure) -> Bool {
        guard let status = try self.status(of: key), status.byteCount == source.byteCount else { return false }
        let body = self.body(of: source)
        let step = 8 << 20
        for offset in stride(from: 0, to: source.byteCount, by: step) {
            if self.isStopped() { throw .stopped }
            let count = min(step, source.byteCount - offset)
            let own: [UInt8]
            do throws(FileSystemError) {
                own = try body.read(offset, count)
            } catch {
                throw Self.failure(error, source.path)
            }
            let other = try CheckpointFailure.inStore(self.store.read(key, offset..<(offset + count)))
            guard own == other else { return false }
        }
        return true
    }

    private mutating func addSmall(_ source: CheckpointCapture.Source) throws(CheckpointFailure) {
        let bytes: [UInt8]
        do throws(FileSystemError) {
            bytes = try self.body(of: source).read(0, source.byteCount)
        } catch {
            throw Self.failure(error, source.path)
        }
        guard bytes.count == source.byteCount else { throw .changed(source.path) }
        if self.pack.count + bytes.count > self.packByteCountMax { try self.flush() }
        self.packed.append((source.path, bytes.count, SHA256Digest.text(of: bytes), self.pack.count))
        self.pack += bytes
    }

    private mutating func flush() throws(CheckpointFailure) {
        guard !self.packed.isEmpty else { return }
        let key = try self.upload(ObjectBody(self.pack))
        for file in self.packed {
            self.found.append(
                CheckpointFile(
                    path: file.path, byteCount: file.byteCount, sha256: file.sha256, key: key, offset: file.offset))
        }
        self.pack = []
        self.packed = []
    }

    /// Creates an object of this checkpoint.
    private mutating func upload(_ body: ObjectBody) throws(CheckpointFailure) -> String {
        self.objectCount += 1
        let key =
            CheckpointCommit.folder(at: self.capture.position) + self.token + "-"
            + ZeroPadded.text(self.objectCount, digitCount: 5)
        do throws(StoreError) {
            // The name is random: what is there is this call's own lost attempt.
            _ = try self.store.create(key, body)
        } catch {
            guard error.kind != .disk else { throw .changed(key) }
            throw .store(error)
        }
        self.outcome.uploadedByteCount += body.byteCount
        return key
    }
}

/// The digests of large files that do not change, so that a process computes each once.
package final class DigestMemory: Sendable {
    private let digests = Lock<[String: (status: FileStatus, digest: String)]>([:])

    package init() {}

    subscript(path: String, status: FileStatus) -> String? {
        self.digests.withLock { digests in
            guard let known = digests[path], known.status == status else { return nil }
            return known.digest
        }
    }

    func set(_ digest: String, of path: String, _ status: FileStatus) {
        self.digests.withLock { $0[path] = (status, digest) }
    }

    /// Forgets files that are gone.
    package func keep(only paths: Set<String>) {
        self.digests.withLock { $0 = $0.filter { paths.contains($0.key) } }
    }
}
