internal import WaybillData
package import WaybillSystem

/// Deletes what no merger needs any more, in small batches: pieces and rounds before the older one of two whole checkpoints,
/// checkpoints before it, and what no one committed.
///
/// Of each chain, the last piece stays: a receiver whose data directory was put back from an old copy then finds that its
/// chain went on without it, and begins another (``Uploader``). Rounds go oldest first (``RoundFloor``).
package struct CheckpointCleaner: Sendable {
    package struct Outcome: Hashable, Sendable {
        package var pieceCount = 0
        package var roundCount = 0
        /// Objects of checkpoints.
        package var objectCount = 0
        /// Whether there is more to delete now.
        package var isCutShort = false

        package init() {}
    }

    private let fleet: String
    private let store: any ObjectStore
    /// Objects are this old at least.
    private let age: Duration
    private let countMax: Int

    package init(fleet: String, store: any ObjectStore, age: Duration, countMax: Int = 500) {
        self.fleet = fleet
        self.store = store
        self.age = age
        self.countMax = countMax
    }

    private static var keptCount: Int { 2 }

    /// Deletes one batch.
    package func run(at now: WallTime) throws(StoreError) -> Outcome {
        var outcome = Outcome()
        let (positions, folders) = try CheckpointCommit.positions(in: self.store)
        guard positions.count >= Self.keptCount else { return outcome }
        var used: Set<String> = []
        var older: CheckpointCommit?
        for position in positions.prefix(Self.keptCount) {
            guard let commit = try CheckpointCommit.read(position, from: self.store), commit.fleet == self.fleet,
                let objects = try self.objects(of: commit)
            else { return outcome }
            used.formUnion(objects)
            older = commit
        }
        guard let older else { return outcome }
        try self.deleteCheckpoints(positions, folders, before: older, used, &outcome)
        try self.deleteRounds(before: older, now, &outcome)
        try self.deletePieces(before: older, now, &outcome)
        return outcome
    }

    /// The keys that a checkpoint refers to; `nil` if one of them is gone or too short.
    private func objects(of commit: CheckpointCommit) throws(StoreError) -> Set<String>? {
        var ends: [String: Int] = [:]
        for list in commit.lists { ends[list.key] = list.byteCount }
        do throws(CheckpointFailure) {
            try commit.forEachFile(in: self.store) { (file) throws(CheckpointFailure) in
                ends[file.key] = max(ends[file.key] ?? 0, file.offset + file.byteCount)
            }
        } catch {
            if case .store(let error) = error { throw error }
            return nil
        }
        for (key, end) in ends {
            guard let status = try self.store.status(of: key), status.byteCount >= end else { return nil }
        }
        return Set(ends.keys)
    }

    private func delete(_ key: String, _ outcome: inout Outcome) throws(StoreError) -> Bool {
        guard outcome.pieceCount + outcome.roundCount + outcome.objectCount < self.countMax else {
            outcome.isCutShort = true
            return false
        }
        try self.store.delete(key)
        return true
    }

    private func deleteCheckpoints(
        _ positions: [JournalPosition], _ folders: [JournalPosition], before older: CheckpointCommit,
        _ used: Set<String>, _ outcome: inout Outcome
    ) throws(StoreError) {
        for position in positions.dropFirst(Self.keptCount) {
            guard try self.delete(CheckpointCommit.key(at: position), &outcome) else { return }
            outcome.objectCount += 1
        }
        // After the older one someone may be at work.
        for folder in folders where folder <= older.position {
            try self.deleteUnused(CheckpointCommit.folder(at: folder), used, &outcome) { _ in true }
        }
        let segments = used.filter { $0.hasPrefix(CheckpointCommit.journalFolder) }
        guard let first = segments.min() else { return }
        try self.deleteUnused(CheckpointCommit.journalFolder, used, &outcome) { $0 < first }
    }

    private func deleteUnused(
        _ prefix: String, _ used: Set<String>, _ outcome: inout Outcome, _ isOld: (String) -> Bool
    ) throws(StoreError) {
        try self.forEach(prefix) { (object) throws(StoreError) in
            guard isOld(object.key) else { return false }
            guard !used.contains(object.key) else { return true }
            guard try self.delete(object.key, &outcome) else { return false }
            outcome.objectCount += 1
            return true
        }
    }

    private func isOld(_ object: ObjectListing.Object, _ now: WallTime) -> Bool {
        now.milliseconds - object.modified.milliseconds >= self.age.nanoseconds / 1_000_000
    }

    private func deleteRounds(
        before older: CheckpointCommit, _ now: WallTime, _ outcome: inout Outcome
    ) throws(StoreError) {
        let limit = MergeRound.key(of: older.round)
        // Names of rounds are digits, which are before those of folders.
        try self.forEach("merge/s00/0") { (object) throws(StoreError) in
            guard object.key < limit, self.isOld(object, now), try self.delete(object.key, &outcome) else {
                return false
            }
            outcome.roundCount += 1
            return true
        }
    }

    private func deletePieces(
        before older: CheckpointCommit, _ now: WallTime, _ outcome: inout Outcome
    ) throws(StoreError) {
        for (chain, position) in older.chains.sorted(by: { $0.key < $1.key }) {
            guard !outcome.isCutShort else { return }
            var former: ObjectListing.Object?
            try self.forEach(chain.prefix) { (object) throws(StoreError) in
                guard let start = chain.position(of: object.key) else { return true }
                // A piece goes once the next one is there, and ends where that one begins.
                if let piece = former {
                    guard start <= position, self.isOld(piece, now), try self.delete(piece.key, &outcome) else {
                        return false
                    }
                    outcome.pieceCount += 1
                }
                former = object
                return start < position
            }
        }
    }

    /// - Parameter body: returns whether to continue.
    private func forEach(
        _ prefix: String, _ body: (ObjectListing.Object) throws(StoreError) -> Bool
    ) throws(StoreError) {
        var pages = ListingPages(self.store, prefix, isFolded: false)
        while let page = try pages.next() {
            for object in page.objects { guard try body(object) else { return } }
        }
    }
}
