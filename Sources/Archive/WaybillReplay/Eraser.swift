package import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillJSON
internal import WaybillProjection
internal import WaybillProtocol
package import WaybillSystem

/// Takes one person's lines out of a data directory that no receiver uses.
///
///     recover   as a start does, so that none after it has anything left to undo
///     scan      archive, quarantine, the journal's end ──▶ which lines; the ids and places of their events
///     record    state/erasures: from now on no reader takes these lines
///     exports   parts, ids, dead letters, held events, `.delivered` ─┐  each file as a new one next to the old,
///     archive   days and quarantine; runs become `ERASED` runs ──────┘  exchanged in one commit (``ErasureLog``)
///     copies    of the exports' checkpoints, which a lost checkpoint is made again from
///
/// The exports come first: the archive's lines name the events in them. So a kill at any step leaves what the same
/// command needs to complete it. Memory: the ids and places of one person's events, one run, one record.
///
/// - SeeAlso: `Documentation/erasure.md`, `Protocol/formats/erasures.md`.
package struct Eraser<Files: FileSystem> {
    package struct Report: Hashable, Sendable {
        /// Lines in the archive and the quarantine, their bytes, and the days of the archive.
        package var lineCount = 0
        package var byteCount = 0
        package var days: Set<CalendarDay> = []
        /// Records of exports, refused events, and held ones.
        package var recordCount = 0
        package var deadCount = 0
        package var heldCount = 0
        /// Folders of kept generations that had records of the person and were removed.
        package var removedGenerations: [String] = []
        /// Bytes of the archive whose origin is lost, which were not looked at.
        package var unexplainedByteCount = 0
        /// The person's lines without an id, whose records are known only if the person's own id is in them.
        package var withoutIDCount = 0
        /// Ids of the person's events that events of others have, too.
        package var sharedIDCount = 0
        /// Files set aside after damage, which are not read.
        package var setAside: [String] = []
        /// The person's other ids: of a user the anonymous ones, of an anonymous id the users.
        package var otherIDs: Set<String> = []
        /// Whether the journal still has lines of the person; it lasts until its retention.
        package var journalLineCount = 0
        /// Whether the person was erased before.
        package var isRepeated = false

        package init() {}
    }

    package enum Failure: Error, CustomStringConvertible {
        case data(DataDirectoryError)
        case disk(FileSystemError)
        case noArchive(String)
        /// A step of a receiver or of a replay is not finished.
        case underWay(String, remedy: String)
        case delivering([String])
        case deliveryRuns(String)
        /// The directory's digests have another key than the fleet's.
        case otherKey(String)
        /// The directory is a merger's: what is erased here alone would make it differ from the others.
        case merger(String)

        package var description: String {
            switch self {
            case .data(.locked(let path, let owner)):
                "\(path) is in use by process \(owner); stop that receiver, run this again, and start it"
            case .data(let error): error.description
            case .disk(let error): "the files of the data directory cannot be used: \(error)"
            case .noArchive(let path): "\(path) has no archive; name a receiver's data directory with --data"
            case .underWay(let what, let remedy): "\(what); \(remedy), and run this again"
            case .delivering(let parts):
                "the delivery of \(parts.joined(separator: ", ")) is not finished, and it is unknown which of the "
                    + "person's events the provider has; nothing was erased: finish it with waybill deliver, and run this again"
            case .deliveryRuns(let path):
                "a delivery runs and holds \(path); wait for it or stop it, and run this again"
            case .otherKey(let path): "the record of erasures in \(path) has another key than the fleet's"
            case .merger(let path):
                "\(path) is a merger's data directory; ask the fleet with --store or --config, and every merger erases"
            }
        }
    }

    /// Where a line of the person begins.
    struct Place: Hashable {
        let principal: String
        let stream: String
        let offset: UInt64
    }

    /// A partition of an export that may have records of the person.
    struct Partition {
        /// Below the data directory.
        let folder: String
        /// The parts, without extension.
        var stems: [String] = []
    }

    let data: DataDirectory<Files>
    let files: Files
    let kind: ErasedPeople.Kind
    let id: [UInt8]
    let isDryRun: Bool
    /// What the lock of the data directory says about who holds it.
    package var processID = ProcessID.current
    /// Of a fleet's erasure: the digest of the person, and the fleet's key.
    var fleet: FleetErasure?
    var report = Report()
    /// The ids of the person's events, in lower case, and the places of their lines.
    var ids: Set<[UInt8]> = []
    var places: Set<Place> = []
    /// Those of ``ids`` that a line of someone else has, too.
    var sharedIDs: Set<[UInt8]> = []
    /// The files of lines with lines of the person, without extension.
    var stems: Set<String> = []
    /// The person's lines, or what may be theirs, that nothing reads.
    var poison: [PoisonedLine] = []

    /// Prepares an erasure.
    ///
    /// - Parameter isDryRun: whether to count only.
    package init(
        dataDirectory: String, _ kind: ErasedPeople.Kind, _ id: String, isDryRun: Bool, files: Files
    ) {
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.files = files
        self.kind = kind
        self.id = Array(id.utf8)
        self.isDryRun = isDryRun
    }

    /// Erases the person's lines, or counts them.
    ///
    /// - Parameters:
    ///   - now: the time of the record.
    ///   - newKey: makes 32 random bytes, for the first erasure of the directory.
    package mutating func run(
        now: WallTime,
        newKey: () throws(FileSystemError) -> [UInt8] = { () throws(FileSystemError) in
            try SystemRandom.secretBytes(count: 32)
        }
    ) throws(Failure) -> Report {
        let lock = self.fleet == nil ? try self.takeLock() : nil
        defer { if let lock { self.files.close(lock) } }
        do throws(FileSystemError) {
            try ErasureLog.finishExchange(in: self.data)
        } catch {
            throw .disk(error)
        }
        let locks = try self.lockDeliveries()
        defer { for lock in locks { self.files.close(lock) } }
        let failure: Failure?
        do throws(FileSystemError) {
            if self.fleet == nil, !self.isDryRun { try self.recover() }
            let unrest = try self.unrest()
            failure = unrest == nil ? try self.erase(now, newKey) : unrest
        } catch {
            throw .disk(error)
        }
        if let failure { throw failure }
        return self.report
    }

    private func takeLock() throws(Failure) -> FileID {
        let kind: FileKind?
        do throws(FileSystemError) {
            kind = try self.files.status(at: self.data.archive)?.kind
        } catch {
            throw .disk(error)
        }
        guard kind == .directory else { throw .noArchive(self.data.root) }
        if !self.isDryRun, try self.isMergers() { throw .merger(self.data.root) }
        do throws(DataDirectoryError) {
            return try self.data.lock(processID: self.processID)
        } catch {
            throw .data(error)
        }
    }

    /// - Returns: why nothing was erased.
    private mutating func erase(
        _ now: WallTime, _ newKey: () throws(FileSystemError) -> [UInt8]
    ) throws(FileSystemError) -> Failure? {
        let old = try ErasureLog.recordedKey(in: self.data)
        if let fleet, let old, old != fleet.key { return .otherKey(self.data.root) }
        let key: [UInt8] = if let known = old ?? self.fleet?.key { known } else { try newKey() }
        let person = self.fleet?.person ?? ErasedPeople.Person(id: self.id, self.kind, key: key)
        let digest = person.digest
        let people = ErasedPeople(key: key, people: [self.kind: [person]])
        try self.scan(people)
        let partitions = try self.partitions()
        let unfinished = try self.unfinishedDeliveries(partitions)
        guard unfinished.isEmpty else { return .delivering(unfinished) }
        if self.isDryRun {
            for partition in partitions { _ = try self.eraseExport(partition) }
            try self.removeGenerations()
            return nil
        }
        var log = try ErasureLog(self.data)
        if old == nil { try log.use(key: key) }
        var record = log.record(of: digest) ?? ErasureRecord(kind: self.kind, at: now)
        self.report.isRepeated = record.isDone
        record.isDone = false
        record.mark = person.mark
        // A run that continues finds less than the one before it.
        record.lineCount = max(record.lineCount, self.report.lineCount)
        record.byteCount = max(record.byteCount, self.report.byteCount)
        record.days.formUnion(self.report.days)
        try log.record(record, of: digest)
        // Nothing reads them, so nothing else would tell a later reader of the journal.
        for line in self.poison { _ = try PoisonedLines.add(line, in: self.data) }
        for partition in partitions {
            let exchange = try self.eraseExport(partition)
            try log.exchange(exchange.pairs, exchange.changes)
        }
        try self.removeGenerations()
        for stem in self.stems.sorted(by: Self.isBefore) {
            let exchange = try self.eraseLines(of: stem, people)
            try log.exchange(exchange.pairs, exchange.changes)
        }
        try self.copyCheckpoints()
        record.recordCount = max(record.recordCount, self.report.recordCount)
        record.isDone = true
        try log.record(record, of: digest)
        return nil
    }

    /// Open files come before sealed ones, because the new revision of a sealed day renames its open file.
    private static func isBefore(_ left: String, _ right: String) -> Bool {
        let lates = [left, right].map { PartitionPath.lateNumber(of: Path.name(of: $0)) ?? -1 }
        return (Path.parent(of: left), lates[1], left) < (Path.parent(of: right), lates[0], right)
    }
}

/// Files and entries of checkpoints that change together.
struct ErasureExchange {
    var pairs: [(new: String, old: String)] = []
    var changes: [String: [String: String?]] = [:]

    mutating func replace(_ path: String) {
        self.pairs.append((path + ErasureLog<POSIXFileSystem>.newSuffix, path))
    }

    mutating func set(_ key: String, to value: String?, in state: String) {
        self.changes[state, default: [:]].updateValue(value, forKey: key)
    }
}
