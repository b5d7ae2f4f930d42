package import WaybillProtocol
package import WaybillSystem

/// The receiver's append-only log of the batches it acknowledged; only this is synced before an ack.
///
/// A journal is a folder of segments named by the position of their first byte. A segment consists of the messages that
/// agents sent, byte for byte except for the stream's number, which is the segment's own:
///
///     00000000000268435456.journal
///       OPEN 1 {…} LF  AT 1 81920 LF        every stream awake when the segment began,
///       OPEN 2 {…} LF  AT 2 700 LF SEALED 2 LF
///       MARK 268435700 1763683200000 0b3c… LF         covered by a checksum
///       MARK … LF  OPEN 3 {…} LF  MARK … LF   a group: the time, streams new in this segment, then its batches
///       BATCH 3 0 262144 655 64211 9f… LF <64211 bytes>
///       BATCH 1 81920 … LF <…>
///       SEAL 3 262144 LF MARK … LF
///
/// A `BATCH` carries its own checksum; lines between batches are covered by the `MARK` after them, which also holds its
/// own position and the time of receipt. A group begins with a `MARK` that covers only itself, where a reader can
/// resume after damage. So each segment can be read alone, a torn end can be distinguished from damage in the middle,
/// and a start has to read only the last segment.
///
/// Life of a batch: `stage` compares it with its stream's offset → `commit` writes the group with `writev`, syncs, and
/// updates the table → the committer acks → projections read it, from memory or with `JournalReader`. A group that
/// cannot be written is cut off again and stays staged. After a failed sync it goes to a new segment, because the
/// content of the old one after the last sync is unknown. A crash during a commit leaves nothing of the group, a prefix
/// of its bytes, or all of it.
///
/// Budget per batch: one line formatted, no copy of the payload, a share of one `writev` and one `fdatasync`.
///
/// - SeeAlso: `Protocol/formats/journal.md`.
package struct Journal<Files: FileSystem>: ~Copyable {
    /// The position of a record: bytes since the beginning of the journal, over all segments.
    package typealias Position = JournalPosition

    package let directory: String
    let files: Files
    private let segmentByteCountMax: Int

    /// The durable state of each stream that is awake; the others are at rest (``standing(of:)``).
    package private(set) var streams: [StreamName: StreamStanding]
    /// The position up to which the journal is durable.
    package private(set) var end: JournalPosition
    /// The segments on disk, oldest first; the last is being written.
    package internal(set) var segments: [JournalPosition]
    package let recovery: JournalRecovery
    /// The time of the last group whose time of receipt is known; ``WallTime/unknown`` if there is none.
    package private(set) var lastMark: WallTime

    private var file: FileID?
    var watch: JournalWatch<Files>
    private var numbers: [StreamName: StreamNumber] = [:]
    /// The last number assigned in the current segment: a stream with a new description gets another one.
    private var lastNumber = 0
    private var staged = StagedEntries()
    /// Streams whose description comes from a damaged line; the next agent that opens one corrects it.
    private var unverifiedStreams: Set<StreamName>
    private var history: StartHistory
    private var restingTable: RestingTable<Files>
    private var order: RestOrder
    private let awake: AwakeLimits
    /// Whether the next segment is the first one of this start.
    private var isStarting = false
    /// Where the open segment's head ends.
    private var headEnd: JournalPosition

    /// Opens or creates the journal in `directory`, which must exist.
    ///
    /// - Parameters:
    ///   - endMin: the position that readers have reached. A journal that ends before it, because its files
    ///     were damaged or removed, continues there: a position is never used twice.
    ///   - awake: how many streams stay in memory and in heads.
    ///   - tables: which segments the stream table is read from.
    package init(
        directory: String, files: Files, endMin: JournalPosition = JournalPosition(0),
        segmentByteCountMax: Int = 256 << 20, awake: AwakeLimits = AwakeLimits(), tables: JournalTables = .last
    ) throws(FileSystemError) {
        self.awake = awake
        self.directory = directory
        self.files = files
        self.segmentByteCountMax = segmentByteCountMax
        var found = try tables.recover(directory, files, awake)
        if found.end < endMin {
            found.report.damages.append(
                JournalDamage(
                    segment: found.segments.last ?? found.end, start: found.end, end: endMin,
                    reason: "the journal ends before what was read from it"))
        }
        let history = found.table.history
        let restingTable = try RestingTable(
            directory: directory, extent: found.table.resting, remadeByteCountMin: awake.remadeByteCountMin,
            files: files)
        if restingTable.isDamaged {
            found.report.damages.append(
                JournalDamage(
                    segment: found.segments.last ?? found.end, start: found.end, end: found.end,
                    reason: "the table of streams at rest is missing or damaged"))
        }
        // Damage from before this incarnation is the reason why it began.
        found.report.isLossy = found.report.damages.contains { !history.began(after: $0.end) }
        self.watch = try JournalWatch(
            directory: directory, folder: found.directoryIdentity, segments: found.segments, files: files)
        self.lastMark = found.lastMark
        self.recovery = found.report
        self.streams = found.table.streams
        self.order = RestOrder(found.table)
        self.unverifiedStreams = found.table.unverified
        self.history = history
        self.restingTable = restingTable
        self.end = max(found.end, endMin)
        self.headEnd = max(found.end, endMin)
        self.segments = found.segments
    }

    deinit {
        if let file { self.files.close(file) }
    }

    /// Whether entries are waiting for ``commit(at:)``.
    package var hasStaged: Bool {
        !self.staged.entries.isEmpty
    }

    /// Begins a start of the receiver: a new segment with it becomes durable.
    ///
    /// - Parameter isLossy: whether something besides the journal has lost records since the last start.
    /// - Throws: if the disk refuses the segment; the start is then written with the first group.
    package mutating func begin(_ seed: StartSeed, isLossy: Bool, at time: WallTime) throws(FileSystemError) {
        self.history.begin(seed, at: self.end, isLossy: isLossy || self.recovery.isLossy)
        self.isStarting = true
        self.abandonSegment()
        try self.openSegmentIfNeeded(at: time)
    }

    /// Which receiver this is, and how far its journal goes; call ``begin(_:isLossy:at:)`` first.
    package func identity(name: String) -> ReceiverIdentity {
        guard let incarnation = self.history.incarnation,
            let identity = ReceiverIdentity(
                name: name, incarnation: incarnation, starts: self.history.starts, end: UInt64(self.end.rawValue))
        else { preconditionFailure("the receiver has started") }
        return identity
    }

    /// The offset of a stream, including staged bytes; 0 for a new one.
    package func position(of name: StreamName) -> StreamOffset {
        self.staged.end(of: name) ?? self.streams[name]?.durable ?? StreamOffset(0)
    }

    /// The proof for ``position(of:)``.
    package func proof(of name: StreamName) -> StreamProof {
        self.staged.proof(of: name) ?? self.streams[name]?.proof ?? .empty
    }

    /// Whether a stream is sealed.
    package func isSealed(_ name: StreamName) -> Bool {
        self.staged.isSealed(name) || self.streams[name]?.isSealed ?? false
    }

    /// Whether the journal has a stream of this name, resting ones left out.
    package func knows(_ name: StreamName) -> Bool {
        self.streams[name] != nil || self.staged.introduces(name)
    }

    /// Begins a stream where another one with the same id ends: it has got another owner.
    ///
    /// The next group restates the standing under the new name, as the head of a segment does, so every later start
    /// knows that its bytes below the offset are held. The former stream stays in the table, where its owner finds it.
    ///
    /// - Parameter former: the standing of a stream without staged entries.
    package mutating func adopt(_ former: StreamStanding, as description: StreamDescription) {
        let name = description.name
        precondition(former.description.id == name.id, "\(name) is another stream than \(former.description.name)")
        guard !self.knows(name) else { return }
        self.staged.adopt(former.renamed(description))
    }

    /// How many streams are at rest; see `Protocol/formats/journal.md`, section 8.
    package var restingStreamCount: Int { self.restingTable.count }

    /// The standing of a stream at rest; `nil` for any other stream.
    package func restingStanding(of description: StreamDescription) throws(FileSystemError) -> StreamStanding? {
        self.streams[description.name] == nil ? try self.restingTable.standing(of: description) : nil
    }

    /// Takes a stream that is at rest into memory, with the description that its agent gives now.
    ///
    /// Nothing else here knows what is at rest: call it before a stream is opened or written. Its next entry restates where
    /// it stands, as the head of a segment does.
    ///
    /// - Returns: the standing of one that is sealed, which stays at rest; `nil` for any other stream.
    package mutating func wake(_ description: StreamDescription) throws(FileSystemError) -> StreamStanding? {
        guard !self.knows(description.name), let standing = try self.restingTable.standing(of: description) else {
            return nil
        }
        guard !standing.isSealed else { return standing }
        if self.order.unwrittenCount >= self.awake.openCount { self.restAgain() }
        self.streams[description.name] = standing
        self.order.woke(description.name)
        return nil
    }

    /// Closes the streams that only woke: who opens all streams and writes none fills neither memory nor heads.
    private mutating func restAgain() {
        let names = self.order.restingAgain(except: self.staged.entries.map(\.name))
        for name in names { self.streams[name] = nil }
        self.order.rest(names)
    }

    /// The durable standing of a stream, resting ones included.
    package func standing(of description: StreamDescription) throws(FileSystemError) -> StreamStanding? {
        if let standing = self.streams[description.name] { return standing }
        return try self.restingTable.standing(of: description)
    }

    /// Adds an entry to the next group if it continues its stream.
    package mutating func stage(_ entry: JournalEntry, of description: StreamDescription) -> StagingResult {
        let name = description.name
        if let result = entry.misfit(at: self.position(of: name), isSealed: self.isSealed(name)) { return result }
        if self.unverifiedStreams.remove(name) != nil { self.redescribe(name, description) }
        self.staged.add(entry, of: description, after: self.streams[name])
        return .staged
    }

    /// Replaces a description that damage may have changed; a new segment passes it on to readers.
    private mutating func redescribe(_ name: StreamName, _ description: StreamDescription) {
        guard let own = self.streams[name]?.description, own != description else { return }
        self.streams[name]?.describe(description)
        self.abandonSegment()
    }

    /// Moves streams forward to what readers hold, after files of the journal were damaged or removed.
    ///
    /// Otherwise agents would ship stored lines again. A difference of one byte is the LF that a reader added to the
    /// last line of a stream, and is ignored.
    package mutating func advance(to standings: [StreamStanding]) throws(FileSystemError) {
        for standing in standings {
            let name = standing.description.name
            // It was most likely read before the damage; an agent's description still takes precedence.
            if self.unverifiedStreams.contains(name) { self.redescribe(name, standing.description) }
            let resting = try self.restingStanding(of: standing.description)
            let known = (self.streams[name] ?? resting)?.durable ?? StreamOffset(0)
            guard known.advanced(by: 1) < standing.durable, let tail = standing.tail, resting?.isSealed != true else {
                continue
            }
            self.streams[name, default: resting ?? standing].move(to: tail)
        }
    }

    /// Compares the folder and segments with what is at their paths; call it before each group is answered.
    ///
    /// After a loss nothing may be acknowledged: the lost bytes were, and a new segment would hide that they are gone.
    ///
    /// - Parameter unread: the position that every reader has passed; `nil` compares no older segments.
    package mutating func findLoss(unreadFrom unread: JournalPosition?) throws(FileSystemError) -> JournalLoss? {
        try self.watch.findLoss(in: self.segments, unread: unread, end: self.end)
    }

    /// Makes everything staged durable, in one write and one sync.
    ///
    /// - Parameter time: the time of receipt; ``WallTime/unknown`` while the clock cannot be trusted.
    /// - Returns: the places of the group's batches, in the order of staging.
    /// - Throws: if a write or sync failed; everything stays staged and nothing is durable. Call again later.
    package mutating func commit(at time: WallTime) throws(FileSystemError) -> [Range<JournalPosition>] {
        try self.openSegmentIfNeeded(at: time)
        guard let file else { preconditionFailure("a segment is open here") }
        var group = GroupWriter(start: self.end, time: time, numbers: self.numbers, last: self.lastNumber)
        group.mark()
        var introduced: Set<StreamName> = []
        for staged in self.staged.entries where group.number(of: staged.name) == nil {
            guard let description = staged.description ?? self.streams[staged.name]?.description else {
                preconditionFailure("a staged stream has a description")
            }
            group.introduce(description)
            // Under one mark: without its standing, the stream of a torn group would begin at 0.
            if case .standing = staged.entry {
                group.add(staged.entry, of: staged.name)
            } else if let woken = self.streams[staged.name], woken.durable > StreamOffset(0) {
                group.add(.standing(woken), of: staged.name)
            }
            if staged.description != nil { introduced.insert(staged.name) }
        }
        for staged in self.staged.entries {
            if let description = staged.description, introduced.remove(staged.name) == nil {
                group.introduce(description)
            }
            if case .standing = staged.entry { continue }
            group.add(staged.entry, of: staged.name)
        }
        group.finish()
        do throws(FileSystemError) {
            try group.write(to: file, files: self.files)
        } catch {
            self.cutOrAbandon(file)
            throw error
        }
        do throws(FileSystemError) {
            try self.files.synchronize(file)
        } catch {
            // The kernel may have dropped the dirty pages and will report success next time: do not trust this tail,
            // and do not leave it for a new process to find.
            self.cutOrAbandon(file)
            self.abandonSegment()
            throw error
        }
        self.end = group.end
        if time != .unknown { self.lastMark = time }
        self.numbers = group.numbers
        self.lastNumber = group.lastNumber
        self.staged.apply(to: &self.streams, &self.order)
        return group.batchRanges
    }

    // MARK: Segments

    private mutating func openSegmentIfNeeded(at time: WallTime) throws(FileSystemError) {
        guard self.isSegmentDue else { return }
        let path = JournalPath.segment(self.end, in: self.directory)
        if try self.files.status(at: path) != nil {
            // A segment without durable content: its creation or its first group failed.
            try self.files.rename(path, to: try JournalPath.unused(path + ".suspect", self.files))
        }
        let rested = self.order.rested(
            of: self.streams, self.awake, isStarting: self.isStarting, except: Set(self.staged.entries.map(\.name)))
        let resting = try self.restingTable.stage(
            rested.filter { self.order.isUnrecorded($0) }.compactMap { self.streams[$0] })
        let file = try self.files.open(path, .appendNew)
        // A head has nothing that was received, and passes the last known time on.
        let headTime = time == .unknown ? self.lastMark : time
        var snapshot = GroupWriter(start: self.end, time: headTime, numbers: [:], last: 0)
        snapshot.restate(self.history, resting)
        let restedNames = Set(rested)
        for (name, standing) in self.streams.sorted(by: { $0.key < $1.key }) where !restedNames.contains(name) {
            snapshot.introduce(standing.description)
            snapshot.restate(standing, at: self.end)
        }
        snapshot.mark()
        snapshot.finish()
        let identity: FileIdentity
        do throws(FileSystemError) {
            try snapshot.write(to: file, files: self.files)
            identity = try self.files.status(file).identity
            try self.files.synchronize(file)
            try self.files.synchronizeDirectory(self.directory)
        } catch {
            self.files.close(file)
            self.discardSegment(path)
            throw error
        }
        if let old = self.file { self.files.close(old) }
        self.file = file
        self.watch.created(self.end, identity)
        self.restingTable.commit()
        for name in rested {
            self.streams[name] = nil
            self.unverifiedStreams.remove(name)
        }
        self.order.rest(restedNames)
        self.isStarting = false
        self.numbers = snapshot.numbers
        self.lastNumber = snapshot.lastNumber
        if self.segments.last != self.end { self.segments.append(self.end) }
        self.end = snapshot.end
        self.headEnd = snapshot.end
    }

    private var isSegmentDue: Bool {
        guard self.file != nil, let last = self.segments.last else { return true }
        if self.end.rawValue - last.rawValue >= self.segmentByteCountMax { return true }
        let writtenCount = self.streams.count - self.order.sealedCount - self.order.unwrittenCount
        return self.end > self.headEnd && writtenCount > self.awake.openCountMax
    }

    /// Deletes a segment whose creation failed, so that repeated attempts do not fill the disk.
    private func discardSegment(_ path: String) {
        do throws(FileSystemError) {
            try self.files.unlink(path)
        } catch {
            // It has no durable content, and the next attempt sets it aside.
            return
        }
    }

    private mutating func cutOrAbandon(_ file: FileID) {
        guard let base = self.segments.last else { return }
        do throws(FileSystemError) {
            try self.files.truncate(file, to: self.end.rawValue - base.rawValue)
        } catch {
            self.abandonSegment()
        }
    }

    /// Abandons the open segment; the next group begins a new one, whose name marks the end of this one.
    private mutating func abandonSegment() {
        if let file { self.files.close(file) }
        self.file = nil
    }

    /// Deletes whole segments that end at or before `position` and were last written at or before `time`, and files set
    /// aside by starts that meet the same conditions.
    ///
    /// - Returns: the segments deleted.
    package mutating func retire(before position: JournalPosition, writtenBefore time: WallTime) throws(FileSystemError)
        -> Int
    {
        precondition(position <= self.end, "\(position) was not written: the end is \(self.end)")
        var count = 0
        while self.segments.count > 1, self.segments[1] <= position {
            let path = JournalPath.segment(self.segments[0], in: self.directory)
            if let status = try self.files.status(at: path) {
                guard status.isWritten(before: time) else { break }
                try self.files.unlink(path)
                count += 1
            }
            self.watch.retired(self.segments.removeFirst())
        }
        try self.retireLeftovers(before: position, writtenBefore: time)
        return count
    }

    private func retireLeftovers(
        before position: JournalPosition, writtenBefore time: WallTime
    ) throws(FileSystemError) {
        for name in try self.files.list(self.directory) {
            guard let start = JournalPath.position(ofLeftover: name), start <= position else { continue }
            let path = Path.join(self.directory, name)
            guard let status = try self.files.status(at: path), status.kind == .regular,
                status.isWritten(before: time)
            else { continue }
            try self.files.unlink(path)
        }
    }
}

extension FileStatus {
    fileprivate func isWritten(before time: WallTime) -> Bool {
        self.modified / 1_000_000 <= time.milliseconds
    }
}
