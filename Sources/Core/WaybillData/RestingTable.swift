internal import WaybillProtocol
internal import WaybillSystem

/// What a segment's head says of the streams at rest: the line `RESTING`.
struct RestingExtent: Hashable {
    /// How many streams there are.
    var count = 0
    /// The bytes of their records, and the bytes' checksum.
    var byteCount = 0
    var checksum: UInt32 = 0
}

/// The streams that are in no head any more, so that heads and memory stay small, and nothing is forgotten.
///
///     journal/resting.table      records, in the order in which the streams came to rest
///
/// Records are only ever appended; the last one of a stream counts. They count from the moment when a head has their
/// extent; what follows them is the rest of an attempt. When more than half of the bytes are of records that count no
/// more, the others are written to a file of their own, which takes the table's place once a head has its extent:
///
///     journal/resting.table.new
///
/// Memory: 10 to 20 bytes for each stream. A stream is looked up with one read.
///
/// - SeeAlso: `Protocol/formats/journal.md`, section 8.
struct RestingTable<Files: FileSystem>: ~Copyable {
    private struct Staged {
        var extent: RestingExtent
        var records: [StagedRecord] = []
        /// Of a table that takes the place of the present one: what it has besides ``records``.
        var compacted: (file: FileID, index: SlotIndex)?
    }

    private struct StagedRecord {
        let hash: UInt32
        let offset: Int
        /// The stream's earlier record, unless a new table leaves it out.
        let former: Former?
    }

    private struct Former {
        let slot: Int
        let byteCount: Int
    }

    private static var writtenByteCount: Int { 256 << 10 }

    private let path: String
    private let files: Files
    private let remadeByteCountMin: Int
    /// What the newest head has.
    private(set) var extent = RestingExtent()
    private var staged: Staged?
    /// The last record of each stream, by its offset in units of ``RestingRecord/alignment``.
    private var index = SlotIndex()
    /// The bytes of these records.
    private var liveByteCount = 0
    private var file: FileID?
    /// Whether the present table still has the name of one that is to take another's place.
    private var isUnnamed = false
    /// Whether records that the newest head has are missing or damaged; then none counts.
    private(set) var isDamaged = false

    /// - Parameter remadeByteCountMin: see ``AwakeLimits/remadeByteCountMin``.
    init(
        directory: String, extent: RestingExtent, remadeByteCountMin: Int, files: Files
    ) throws(FileSystemError) {
        self.remadeByteCountMin = remadeByteCountMin
        self.path = Path.join(directory, "resting.table")
        self.files = files
        guard extent.byteCount > 0 else { return }
        if try self.load(self.path, extent) { return }
        self.isUnnamed = try self.load(self.newPath, extent)
        self.isDamaged = !self.isUnnamed
        self.giveName()
    }

    deinit {
        if let file { self.files.close(file) }
        if let file = self.staged?.compacted?.file { self.files.close(file) }
    }

    private var newPath: String { self.path + ".new" }

    /// How many streams have a record; some of them may have woken since.
    var count: Int { self.index.count }

    /// Reads a file that begins with these records; returns whether it does.
    ///
    /// Records of another history would have agents delete what this journal never had: all of them count, or none.
    private mutating func load(_ path: String, _ extent: RestingExtent) throws(FileSystemError) -> Bool {
        guard let status = try self.files.status(at: path), status.kind == .regular,
            status.byteCount >= extent.byteCount
        else { return false }
        let file = try self.files.open(path, .append)
        self.file = file
        var found = RestingExtent()
        var records = RestingRecordReader(file: file, byteCount: extent.byteCount)
        while let (bytes, offset) = try records.next(self.files) {
            found.byteCount += bytes.count
            found.checksum = RestingRecord.checksum(continuing: found.checksum, bytes)
            let key = RestingRecord.key(in: bytes)
            if let former = try self.find(RestingRecord.hash(key), key) {
                self.index.remove(former.slot, RestingRecord.hash(key))
                self.liveByteCount -= former.record.byteCount
            }
            self.index.insert(offset / RestingRecord.alignment, RestingRecord.hash(key))
            self.liveByteCount += bytes.count
        }
        found.count = extent.count
        if found == extent {
            self.extent = extent
            return true
        }
        self.files.close(file)
        self.file = nil
        self.index = SlotIndex()
        self.liveByteCount = 0
        return false
    }

    private func find(
        _ hash: UInt32, _ key: [UInt8]
    ) throws(FileSystemError) -> (slot: Int, record: RestingRecord)? {
        guard let file else { return nil }
        var found: RestingRecord?
        var failure: FileSystemError?
        let slot = self.index.slot(hash) { slot in
            do throws(FileSystemError) {
                var bytes = [UInt8](repeating: 0, count: RestingRecord.byteCountMax)
                let count = try self.files.readFully(file, at: slot * RestingRecord.alignment, into: &bytes)
                guard let record = RestingRecord(startOf: bytes[..<count]), record.key == key else { return false }
                found = record
            } catch {
                failure = error
            }
            return true
        }
        if let failure { throw failure }
        guard let slot, let found else { return nil }
        return (slot, found)
    }

    /// The standing of a resting stream; `nil` for any other.
    func standing(of description: StreamDescription) throws(FileSystemError) -> StreamStanding? {
        let key = RestingRecord.key(of: description.name)
        return try self.find(RestingRecord.hash(key), key)?.record.standing(of: description)
    }

    // MARK: Coming to rest

    /// Writes streams to the disk.
    ///
    /// They count once the caller has synced a head with the result, and calls ``commit()``.
    ///
    /// - Returns: what the head must say.
    mutating func stage(_ standings: [StreamStanding]) throws(FileSystemError) -> RestingExtent {
        if let file = self.staged.take()?.compacted?.file { self.files.close(file) }
        guard !standings.isEmpty else { return self.extent }
        var formers: [(hash: UInt32, former: Former?)] = []
        for standing in standings {
            let key = RestingRecord.key(of: standing.description.name)
            let hash = RestingRecord.hash(key)
            let former = try self.find(hash, key)
            formers.append((hash, former.map { Former(slot: $0.slot, byteCount: $0.record.byteCount) }))
        }
        var staged = Staged(extent: self.extent)
        let live = self.liveByteCount - formers.reduce(0) { $0 + ($1.former?.byteCount ?? 0) }
        if !self.isUnnamed, self.extent.byteCount >= self.remadeByteCountMin, live < self.extent.byteCount / 2 {
            staged.compacted = try self.compacted(without: Set(formers.compactMap(\.former?.slot)), &staged.extent)
        }
        let file: FileID
        if let compacted = staged.compacted { file = compacted.file } else { file = try self.opened() }
        // Whatever fails from here on, the next call or the end closes it.
        self.staged = staged
        try self.files.truncate(file, to: staged.extent.byteCount)
        let isNew = staged.compacted != nil || staged.extent.byteCount == 0
        var pending: [UInt8] = []
        for (standing, (hash, former)) in zip(standings, formers) {
            let bytes = RestingRecord.text(of: standing)
            staged.records.append(
                StagedRecord(
                    hash: hash, offset: staged.extent.byteCount, former: staged.compacted == nil ? former : nil))
            staged.extent.checksum = RestingRecord.checksum(continuing: staged.extent.checksum, bytes[...])
            staged.extent.byteCount += bytes.count
            pending += bytes
            if pending.count >= Self.writtenByteCount {
                try self.files.writeAll(file, pending)
                pending.removeAll(keepingCapacity: true)
            }
        }
        try self.files.writeAll(file, pending)
        try self.files.synchronize(file)
        // A head that names a file without a name would be worth nothing.
        if isNew { try self.files.synchronizeDirectory(Path.parent(of: self.path)) }
        staged.extent.count = self.index.count + formers.count { $0.former == nil }
        self.staged = staged
        return staged.extent
    }

    /// Copies the records that count, but for some, to a file of their own.
    ///
    /// - Parameter extent: becomes that of the file.
    /// - Returns: `nil` if the present one was damaged since it was loaded: a copy would hide that from the next start.
    private func compacted(
        without replaced: Set<Int>, _ extent: inout RestingExtent
    ) throws(FileSystemError) -> (file: FileID, index: SlotIndex)? {
        guard let present = self.file else { return nil }
        let file = try self.files.open(self.newPath, .append)
        var isDone = false
        defer { if !isDone { self.files.close(file) } }
        try self.files.truncate(file, to: 0)
        var index = SlotIndex()
        var copied = RestingExtent()
        var read = RestingExtent(count: self.extent.count)
        var pending: [UInt8] = []
        var records = RestingRecordReader(file: present, byteCount: self.extent.byteCount)
        while let (bytes, offset) = try records.next(self.files) {
            read.byteCount += bytes.count
            read.checksum = RestingRecord.checksum(continuing: read.checksum, bytes)
            let slot = offset / RestingRecord.alignment
            let hash = RestingRecord.hash(RestingRecord.key(in: bytes))
            guard !replaced.contains(slot), self.index.slot(hash, where: { $0 == slot }) != nil else { continue }
            index.insert(copied.byteCount / RestingRecord.alignment, hash)
            copied.byteCount += bytes.count
            copied.checksum = RestingRecord.checksum(continuing: copied.checksum, bytes)
            pending += bytes
            if pending.count >= Self.writtenByteCount {
                try self.files.writeAll(file, pending)
                pending.removeAll(keepingCapacity: true)
            }
        }
        guard read == self.extent else { return nil }
        try self.files.writeAll(file, pending)
        isDone = true
        extent = copied
        return (file, index)
    }

    private mutating func opened() throws(FileSystemError) -> FileID {
        if let file { return file }
        let file = try self.files.open(self.path, .append)
        self.file = file
        return file
    }

    /// A durable head has what was staged.
    mutating func commit() {
        guard let staged = self.staged.take(), let first = staged.records.first else { return }
        if let (file, index) = staged.compacted {
            if let old = self.file { self.files.close(old) }
            self.file = file
            self.index = index
            self.isUnnamed = true
            self.liveByteCount = first.offset
        }
        for record in staged.records {
            if let former = record.former {
                self.index.remove(former.slot, record.hash)
                self.liveByteCount -= former.byteCount
            }
            self.index.insert(record.offset / RestingRecord.alignment, record.hash)
        }
        self.liveByteCount += staged.extent.byteCount - first.offset
        self.extent = staged.extent
        self.giveName()
    }

    /// Gives a new table the name of the one whose place it takes; what fails here is done later, or by the next start.
    private mutating func giveName() {
        guard self.isUnnamed else { return }
        do throws(FileSystemError) {
            try self.files.rename(self.newPath, to: self.path)
            try self.files.synchronizeDirectory(Path.parent(of: self.path))
            self.isUnnamed = false
        } catch {
            return
        }
    }
}
