internal import WaybillJSON
internal import WaybillJournal
package import WaybillStore
package import WaybillSystem

/// Puts the files of a sealed day into the bucket, under the paths that they have in the data directory.
///
///     archive/env=prod/bundle=…/date=2026-11-20/part-00001.ndjson.gz     created, if absent
///                                                part-00001.sources      created, if absent
///                                                manifest.json           replaced by a newer revision
///                                                _SUCCESS                created, last
///
/// All mergers of a fleet have the same parts, so it does not matter who comes first: an object that is there is compared.
/// One that differs stays as it is and is counted, since somebody may have read it. The `.sources` of two mergers say the
/// same in other words when one of them was restarted: the first one's stay, and its manifest with them.
package struct Publisher<Files: FileSystem>: ~Copyable {
    private let root: String
    private let files: Files
    private let store: any ObjectStore

    /// What was done with a day's files.
    package struct Outcome: Hashable, Sendable {
        package var createdCount = 0
        package var presentCount = 0
        package var byteCount = 0
        /// Objects whose bytes differ from this merger's.
        package var different: [String] = []
    }

    package init(root: String, files: Files, store: any ObjectStore) {
        self.root = root
        self.files = files
        self.store = store
    }

    private static var manifestName: String { "manifest.json" }
    private static var successName: String { "_SUCCESS" }

    /// Publishes one day.
    ///
    /// - Parameters:
    ///   - path: the day's folder, below the data directory.
    ///   - revision: what the manifest says.
    package func publish(_ path: String, revision: Int) throws(UploadFailure) -> Outcome {
        var outcome = Outcome()
        let folder = Path.join(self.root, path)
        let names = try self.onDisk { (files) throws(FileSystemError) in try files.list(folder).sorted() }
        for name in names where name != Self.manifestName && name != Self.successName && !name.hasPrefix(".") {
            try self.create(path, name, &outcome)
        }
        try self.replaceManifest(path, revision: revision)
        if names.contains(Self.successName) { try self.create(path, Self.successName, &outcome) }
        return outcome
    }

    private func create(_ path: String, _ name: String, _ outcome: inout Outcome) throws(UploadFailure) {
        let file = Path.join(Path.join(self.root, path), name)
        let status = try self.onDisk { (files) throws(FileSystemError) in try files.status(ofEntry: file) }
        guard let status, status.kind == .regular else { return }
        let key = "\(path)/\(name)"
        // A part may be large: most of the time another merger has put it there, and nothing needs to be sent.
        if let present = try self.asking({ (store) throws(StoreError) in try store.status(of: key) }) {
            outcome.presentCount += 1
            try self.compare(present, key, file, byteCount: status.byteCount, &outcome)
            return
        }
        let body = self.body(of: file, byteCount: status.byteCount)
        switch try self.asking({ (store) throws(StoreError) in try store.create(key, body) }) {
        case .created:
            outcome.createdCount += 1
            outcome.byteCount += status.byteCount
        case .present:
            outcome.presentCount += 1
            let present = try self.asking { (store) throws(StoreError) in try store.status(of: key) }
            if let present { try self.compare(present, key, file, byteCount: status.byteCount, &outcome) }
        }
    }

    private func compare(
        _ present: ObjectStatus, _ key: String, _ path: String, byteCount: Int, _ outcome: inout Outcome
    ) throws(UploadFailure) {
        guard !key.hasSuffix(".sources"), try !self.isEqual(present, key, path, byteCount: byteCount) else { return }
        outcome.different.append(key)
    }

    private func body(of path: String, byteCount: Int) -> ObjectBody {
        let files = self.files
        return ObjectBody(byteCount: byteCount) { (offset, count) throws(FileSystemError) in
            try files.bytes(at: path, offset: offset, count: count)
        }
    }

    private func isEqual(
        _ present: ObjectStatus, _ key: String, _ path: String, byteCount: Int
    ) throws(UploadFailure) -> Bool {
        guard present.byteCount == byteCount else { return false }
        let step = 8 << 20
        for offset in stride(from: 0, to: byteCount, by: step) {
            let count = min(step, byteCount - offset)
            let own = try self.onDisk { (files) throws(FileSystemError) in
                try files.bytes(at: path, offset: offset, count: count)
            }
            let other = try self.asking { (store) throws(StoreError) in
                try store.read(key, offset..<(offset + count))
            }
            guard own == other else { return false }
        }
        return true
    }

    private func replaceManifest(_ path: String, revision: Int) throws(UploadFailure) {
        let key = "\(path)/\(Self.manifestName)"
        let file = Path.join(self.root, key)
        let own = try self.onDisk { (files) throws(FileSystemError) in
            try files.contents(of: file, byteCountMax: 32 << 20)
        }
        guard let own else { return }
        let present = try self.asking { (store) throws(StoreError) in try store.read(key, nil) }
        if let present, (JSONValue(present)?["revision"]?.count ?? 0) >= revision { return }
        try self.asking { (store) throws(StoreError) in try store.replace(key, ObjectBody(own)) }
    }

    private func onDisk<Answer>(_ body: (Files) throws(FileSystemError) -> Answer) throws(UploadFailure) -> Answer {
        do throws(FileSystemError) {
            return try body(self.files)
        } catch {
            throw .disk(error)
        }
    }

    private func asking<Answer>(_ body: (any ObjectStore) throws(StoreError) -> Answer) throws(UploadFailure) -> Answer
    {
        do throws(StoreError) {
            return try body(self.store)
        } catch {
            throw .store(error)
        }
    }
}

extension FileSystem {
    /// Bytes of a file; fewer at its end.
    fileprivate func bytes(at path: String, offset: Int, count: Int) throws(FileSystemError) -> [UInt8] {
        let file = try self.open(path, .read)
        defer { self.close(file) }
        return try self.bytes(of: file, at: offset, count: count)
    }
}
