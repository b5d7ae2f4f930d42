internal import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// Puts the files of a sealed day into the bucket, under the paths that they have in the data directory.
///
///     archive/env=prod/bundle=…/date=2026-11-20/part-00001.ndjson.gz     created, if absent
///                                                part-00001.sources      created, if absent
///                                                manifest.json           replaced by a newer revision
///                                                _SUCCESS                created, last
///
/// All mergers of a fleet have the same parts, so it does not matter who comes first: an object that is there is compared.
/// One that differs stays as it is and is counted, since someone may have read it, and nothing more of that day comes from
/// here: parts of two mergers that cut a day differently would lose lines, or have them twice. The `.sources` of two mergers
/// say the same in other words when one of them was restarted: the first one's stay, and its manifest with them.
///
/// A day from which people were erased is the exception (`Publisher+Erasures.swift`).
package struct Publisher<Files: FileSystem>: ~Copyable {
    let root: String
    let files: Files
    let store: any ObjectStore

    /// What was done with a day's files.
    package struct Outcome: Hashable, Sendable {
        package var revision = 0
        package var createdCount = 0
        package var presentCount = 0
        package var byteCount = 0
        /// Objects whose bytes differ from this merger's.
        package var different: [String] = []
        /// Objects of an erased day that got other bytes, and that the day does not have any more.
        package var replacedCount = 0
        package var deletedCount = 0
        /// Whether people were erased from the day since it was sealed.
        package var isErased = false
    }

    package init(root: String, files: Files, store: any ObjectStore) {
        self.root = root
        self.files = files
        self.store = store
    }

    static var manifestName: String { "manifest.json" }
    static var successName: String { "_SUCCESS" }

    /// Publishes one day, as its manifest has it now; nothing changes its files meanwhile.
    ///
    /// - Parameter path: the day's folder, below the data directory.
    package func publish(_ path: String) throws(UploadFailure) -> Outcome {
        guard let day = try self.day(path) else { return Outcome() }
        return day.erasedCount > 0 ? try self.publishErased(day) : try self.publish(day)
    }

    private func publish(_ day: PublishedDay) throws(UploadFailure) -> Outcome {
        var outcome = Outcome(revision: day.revision)
        // A merger that is ahead has the objects of its revision there, from which people may have been erased since.
        guard try self.presentManifest(day.path).revision <= day.revision else { return outcome }
        for name in day.names {
            try self.create(day.path, name, &outcome)
            guard outcome.different.isEmpty else { return outcome }
        }
        if try self.presentManifest(day.path).revision < day.revision {
            try UploadFailure.inStore(self.store.replace(day.manifestKey, ObjectBody(day.manifest)))
        }
        if day.isComplete { try self.create(day.path, Self.successName, &outcome) }
        return outcome
    }

    /// A day's folder; `nil` if it has no manifest.
    func day(_ path: String) throws(UploadFailure) -> PublishedDay? {
        let folder = Path.join(self.root, path)
        let manifest = try UploadFailure.onDisk(
            self.files.contents(of: Path.join(folder, Self.manifestName), byteCountMax: 32 << 20))
        guard let manifest else { return nil }
        let names = try UploadFailure.onDisk(self.files.list(folder))
        return PublishedDay(path: path, manifest: manifest, names: names)
    }

    func create(_ path: String, _ name: String, _ outcome: inout Outcome) throws(UploadFailure) {
        let file = Path.join(Path.join(self.root, path), name)
        let status = try UploadFailure.onDisk(self.files.status(ofEntry: file))
        guard let status, status.kind == .regular else { return }
        let key = "\(path)/\(name)"
        // A part may be large: most of the time another merger has put it there, and nothing needs to be sent.
        if let present = try UploadFailure.inStore(self.store.status(of: key)) {
            outcome.presentCount += 1
            try self.compare(present, key, file, byteCount: status.byteCount, &outcome)
            return
        }
        let body = ObjectBody(file: file, byteCount: status.byteCount, self.files)
        switch try UploadFailure.inStore(self.store.create(key, body)) {
        case .created:
            outcome.createdCount += 1
            outcome.byteCount += status.byteCount
        case .present:
            outcome.presentCount += 1
            let present = try UploadFailure.inStore(self.store.status(of: key))
            if let present { try self.compare(present, key, file, byteCount: status.byteCount, &outcome) }
        }
    }

    private func compare(
        _ present: ObjectStatus, _ key: String, _ path: String, byteCount: Int, _ outcome: inout Outcome
    ) throws(UploadFailure) {
        guard !key.hasSuffix(".sources"),
            try !self.isEqual(present, key, path, byteCount: byteCount, from: 0)
        else { return }
        outcome.different.append(key)
    }

    /// Whether an object has the bytes of a file, from an offset on.
    func isEqual(
        _ present: ObjectStatus, _ key: String, _ path: String, byteCount: Int, from start: Int
    ) throws(UploadFailure) -> Bool {
        guard present.byteCount == byteCount else { return false }
        let step = 8 << 20
        for offset in stride(from: start, to: byteCount, by: step) {
            let count = min(step, byteCount - offset)
            let own = try UploadFailure.onDisk(self.files.bytes(at: path, offset: offset, count: count))
            let other = try UploadFailure.inStore(self.store.read(key, offset..<(offset + count)))
            guard own == other else { return false }
        }
        return true
    }

    /// The manifest that the bucket has, and its revision; 0 without one.
    func presentManifest(_ path: String) throws(UploadFailure) -> (bytes: [UInt8]?, revision: Int) {
        let bytes = try UploadFailure.inStore(self.store.read("\(path)/\(Self.manifestName)", nil))
        return (bytes, bytes.flatMap { JSONValue($0)?["revision"]?.count } ?? 0)
    }
}
