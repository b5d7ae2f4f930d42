package import WaybillProtocol
package import WaybillSystem

/// The receiver's append-only log of the batches it acknowledged; the only thing that is synced before an ack.
///
/// A journal is a folder of segments named by the position of their first byte. A segment is made of the messages
/// that agents sent, byte for byte but for the stream's number, which is the segment's own:
///
///     00000000000268435456.journal
///       OPEN 1 {…} LF  AT 1 81920 LF        every stream that the journal knew when the segment began,
///       OPEN 2 {…} LF  AT 2 700 LF SEALED 2 LF
///       MARK 268435700 1763683200000 0b3c… LF         sealed by a checksum
///       MARK … LF  OPEN 3 {…} LF  MARK … LF   a group: the time, streams new in this segment, then its batches
///       BATCH 3 0 262144 655 64211 9f… LF <64211 bytes>
///       BATCH 1 81920 … LF <…>
///       SEAL 3 262144 LF MARK … LF
///
/// A `BATCH` carries its own checksum; lines between batches are covered by the `MARK` behind them, which also holds
/// its own position and the time of receipt. A group begins with a `MARK` that covers nothing but itself: there a
/// reader finds its way again behind damage. So each segment can be read alone, a torn end is told from damage in the
/// middle, and the last segment is all that a start has to read.
///
/// Life of one batch: `stage` compares it with where its stream stands → `commit` writes the group with `writev`,
/// syncs, and moves the table → the committer acks → projections read it, from memory or with `JournalReader`.
/// A group that cannot be written is cut off again and stays staged; after a failed sync it goes to a new segment,
/// because what the old one holds behind the last sync can no longer be known. A crash leaves of the group in hand
/// nothing, a beginning that ends between two entries, or all.
///
/// Budget per batch: one line formatted, no copy of the payload, a share of one `writev` and one `fdatasync`.
///
/// - SeeAlso: `Protocol/formats/journal.md`.
package struct Journal<Files: FileSystem>: ~Copyable {
    /// Where a record stands: bytes since the journal began, over all segments.
    package typealias Position = JournalPosition

    private let directory: String
    private let files: Files
    private let segmentByteCountMax: Int

    /// What is durable of each stream.
    package private(set) var streams: [StreamID: StreamStanding]
    /// The end of what is durable.
    package private(set) var end: JournalPosition
    /// The segments on disk, oldest first; the last is being written.
    package private(set) var segments: [JournalPosition]
    package let recovery: JournalRecovery

    private var file: FileID?
    private var numbers: [StreamID: StreamNumber] = [:]
    /// The last number given out in the present segment: a stream that is described anew gets another one.
    private var lastNumber = 0
    private var staged: [Staged] = []
    private var stagedOffsets: [StreamID: StreamOffset] = [:]
    private var stagedDescriptions: [StreamID: StreamDescription] = [:]
    private var stagedSeals: Set<StreamID> = []
    /// Streams whose description is what a damaged line says; the next agent that opens one knows better.
    private var unverifiedStreams: Set<StreamID>
    /// Sealed streams in the order of sealing; the oldest are forgotten beyond the limit.
    private var sealedOrder: [StreamID]

    /// Sealed streams that a receiver remembers, so that an agent that lost its registry sends none again.
    private static var sealedStreamCountMax: Int { 200_000 }

    /// Opens or begins the journal in `directory`, which must exist.
    ///
    /// - Parameter endMin: what readers have passed already. A journal that ends before it, because its files were
    ///   damaged or removed, goes on there: a position is never given out twice.
    package init(
        directory: String, files: Files, endMin: JournalPosition = JournalPosition(0),
        segmentByteCountMax: Int = 256 << 20
    ) throws(FileSystemError) {
        self.directory = directory
        self.files = files
        self.segmentByteCountMax = segmentByteCountMax
        var found = try JournalRecovery.recover(directory: directory, files: files)
        if found.end < endMin {
            found.report.damages.append(
                JournalDamage(
                    segment: found.segments.last ?? found.end, start: found.end, end: endMin,
                    reason: "the journal ends before what was read from it"))
        }
        self.recovery = found.report
        self.streams = found.streams
        self.sealedOrder = found.sealedOrder
        self.unverifiedStreams = found.unverifiedStreams
        self.end = max(found.end, endMin)
        self.segments = found.segments
    }

    deinit {
        if let file { self.files.close(file) }
    }

    /// Whether anything waits for ``commit(at:)``.
    package var hasStaged: Bool {
        !self.staged.isEmpty
    }

    /// Where a stream stands, staged bytes included; 0 for one that is new.
    package func position(of id: StreamID) -> StreamOffset {
        self.stagedOffsets[id] ?? self.streams[id]?.durable ?? StreamOffset(0)
    }

    /// Whether a stream is closed for good.
    package func isSealed(_ id: StreamID) -> Bool {
        self.streams[id]?.isSealed ?? false
    }

    /// Takes an entry into the next group if it continues its stream.
    package mutating func stage(_ entry: JournalEntry, of description: StreamDescription) -> StagingResult {
        let id = description.id
        let position = self.position(of: id)
        if self.isSealed(id) || self.stagedSeals.contains(id) { return .alreadySealed(position) }
        switch entry {
        case .batch(_, let header, _):
            if header.end <= position { return .alreadyHeld(position) }
            guard header.offset == position else { return .gap(position) }
            self.stagedOffsets[id] = header.end
        case .skip(_, let offset, let byteCount, _):
            let end = StreamOffset(offset.rawValue + byteCount)
            if end <= position { return .alreadyHeld(position) }
            guard offset == position else { return .gap(position) }
            self.stagedOffsets[id] = end
        case .seal(_, let length):
            guard length == position else { return .gap(position) }
            self.stagedSeals.insert(id)
        }
        if self.unverifiedStreams.remove(id) != nil { self.redescribe(id, description) }
        let known = self.stagedDescriptions[id] ?? self.streams[id]?.description
        if known != description { self.stagedDescriptions[id] = description }
        self.staged.append(Staged(entry: entry, description: known == description ? nil : description))
        return .staged
    }

    /// Takes a description in place of one that damage may have changed; a new segment says it to readers.
    private mutating func redescribe(_ id: StreamID, _ description: StreamDescription) {
        guard let own = self.streams[id]?.description, own != description else { return }
        self.streams[id]?.describe(description)
        self.abandonSegment()
    }

    /// Moves streams forward of which readers hold more than the journal, whose files were damaged or removed.
    ///
    /// Otherwise agents would ship again what is stored already. One byte more is the LF that a reader gave to the last
    /// line of a stream that lacks it, and moves nothing.
    package mutating func advance(to standings: [StreamStanding]) {
        for standing in standings {
            let id = standing.description.id
            // Most likely it was read before the damage; an agent still knows better.
            if self.unverifiedStreams.contains(id) { self.redescribe(id, standing.description) }
            let known = self.streams[id]?.durable ?? StreamOffset(0)
            guard known.advanced(by: 1) < standing.durable else { continue }
            self.streams[id, default: standing].durable = standing.durable
        }
    }

    /// Makes everything staged durable, in one write and one sync.
    ///
    /// - Returns: where the group's batches lie, in the order of staging.
    /// - Throws: when the disk refused; everything stays staged and nothing is durable. Call again later.
    package mutating func commit(at time: WallTime) throws(FileSystemError) -> [Range<JournalPosition>] {
        try self.openSegmentIfNeeded(at: time)
        guard let file else { preconditionFailure("a segment is open here") }
        var group = GroupWriter(start: self.end, time: time, numbers: self.numbers, last: self.lastNumber)
        group.mark()
        var introduced: Set<StreamID> = []
        for staged in self.staged where group.number(of: staged.entry.id) == nil {
            guard let description = staged.description ?? self.streams[staged.entry.id]?.description else {
                preconditionFailure("a staged stream has a description")
            }
            group.introduce(description)
            if staged.description != nil { introduced.insert(staged.entry.id) }
        }
        for staged in self.staged {
            if let description = staged.description, introduced.remove(description.id) == nil {
                group.introduce(description)
            }
            group.add(staged.entry)
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
            // The kernel may have dropped the dirty pages and will report success next time: never trust this tail,
            // nor let a new process find it.
            self.cutOrAbandon(file)
            self.abandonSegment()
            throw error
        }
        self.end = group.end
        self.numbers = group.numbers
        self.lastNumber = group.lastNumber
        self.applyStaged()
        return group.batchRanges
    }

    private mutating func applyStaged() {
        for (id, description) in self.stagedDescriptions {
            let standing = StreamStanding(description: description, durable: StreamOffset(0), isSealed: false)
            self.streams[id, default: standing].description = description
        }
        for (id, offset) in self.stagedOffsets { self.streams[id]?.durable = offset }
        for case .seal(let id, _) in self.staged.map(\.entry) {
            self.streams[id]?.isSealed = true
            self.sealedOrder.append(id)
        }
        self.staged.removeAll(keepingCapacity: true)
        self.stagedOffsets.removeAll(keepingCapacity: true)
        self.stagedDescriptions.removeAll(keepingCapacity: true)
        self.stagedSeals.removeAll(keepingCapacity: true)
    }

    // MARK: Segments

    private mutating func openSegmentIfNeeded(at time: WallTime) throws(FileSystemError) {
        if self.file != nil, let last = self.segments.last, self.end.rawValue - last.rawValue < self.segmentByteCountMax
        {
            return
        }
        self.forgetOldSealedStreams()
        let path = JournalPath.segment(self.end, in: self.directory)
        if try self.files.status(at: path) != nil {
            // A segment that holds nothing durable: its creation or its first group failed.
            try self.files.rename(path, to: try JournalPath.unused(path + ".suspect", self.files))
        }
        let file = try self.files.open(path, .appendNew)
        var snapshot = GroupWriter(start: self.end, time: time, numbers: [:], last: 0)
        for (_, standing) in self.streams.sorted(by: { $0.key.text < $1.key.text }) {
            snapshot.introduce(standing.description)
            snapshot.restate(standing)
        }
        snapshot.mark()
        snapshot.finish()
        do throws(FileSystemError) {
            try snapshot.write(to: file, files: self.files)
            try self.files.synchronize(file)
            try self.files.synchronizeDirectory(self.directory)
        } catch {
            self.files.close(file)
            self.discardSegment(path)
            throw error
        }
        if let old = self.file { self.files.close(old) }
        self.file = file
        self.numbers = snapshot.numbers
        self.lastNumber = snapshot.lastNumber
        if self.segments.last != self.end { self.segments.append(self.end) }
        self.end = snapshot.end
    }

    /// Deletes a segment whose creation failed, so that a full disk does not fill up with one for each attempt.
    private func discardSegment(_ path: String) {
        do throws(FileSystemError) {
            try self.files.unlink(path)
        } catch {
            // It holds nothing durable, and the next attempt sets it aside.
            return
        }
    }

    private mutating func forgetOldSealedStreams() {
        let excess = self.sealedOrder.count - Self.sealedStreamCountMax
        guard excess > 0 else { return }
        for id in self.sealedOrder.prefix(excess) { self.streams[id] = nil }
        self.sealedOrder.removeFirst(excess)
    }

    private mutating func cutOrAbandon(_ file: FileID) {
        guard let base = self.segments.last else { return }
        do throws(FileSystemError) {
            try self.files.truncate(file, to: self.end.rawValue - base.rawValue)
        } catch {
            self.abandonSegment()
        }
    }

    /// Leaves the open segment as it is; the next group begins a new one, whose name says where this one's bytes end.
    private mutating func abandonSegment() {
        if let file { self.files.close(file) }
        self.file = nil
    }

    /// Deletes whole segments that end at or before `position` and were last written at or before `time`, and what
    /// starts set aside of the same age and before the same position.
    ///
    /// - Returns: the segments deleted.
    package mutating func retire(before position: JournalPosition, writtenBefore time: WallTime) throws(FileSystemError)
        -> Int
    {
        var count = 0
        while self.segments.count > 1, self.segments[1] <= position {
            let path = JournalPath.segment(self.segments[0], in: self.directory)
            if let status = try self.files.status(at: path) {
                guard status.isWritten(before: time) else { break }
                try self.files.unlink(path)
                count += 1
            }
            self.segments.removeFirst()
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

/// A byte position in the journal as a whole.
package struct JournalPosition: Hashable, Comparable, Sendable, CustomStringConvertible {
    package let rawValue: Int

    package init(_ rawValue: Int) {
        self.rawValue = rawValue
    }

    package static func < (left: JournalPosition, right: JournalPosition) -> Bool {
        left.rawValue < right.rawValue
    }

    package var description: String {
        String(self.rawValue)
    }
}

/// What the journal holds of a stream.
package struct StreamStanding: Hashable, Sendable {
    package internal(set) var description: StreamDescription
    package var durable: StreamOffset
    package var isSealed: Bool

    package init(description: StreamDescription, durable: StreamOffset, isSealed: Bool) {
        self.description = description
        self.durable = durable
        self.isSealed = isSealed
    }

    /// Says of the same stream where else it belongs.
    mutating func describe(_ description: StreamDescription) {
        precondition(description.id == self.description.id, "\(description.id) is not \(self.description.id)")
        self.description = description
    }
}

/// An entry of the next group.
private struct Staged {
    let entry: JournalEntry
    /// What its stream is from here on, where the journal does not say so yet.
    let description: StreamDescription?
}

/// Something an agent wants kept.
package enum JournalEntry: Sendable {
    /// A batch that was checked whole, and its payload as it came.
    case batch(StreamID, BatchHeader, payload: SharedBytes)
    case skip(StreamID, StreamOffset, byteCount: UInt64, SkipReason)
    case seal(StreamID, length: StreamOffset)

    package var id: StreamID {
        switch self {
        case .batch(let id, _, _), .skip(let id, _, _, _), .seal(let id, _): id
        }
    }
}

/// What became of an entry.
package enum StagingResult: Hashable, Sendable {
    case staged
    /// The journal holds it; the stream stands there.
    case alreadyHeld(StreamOffset)
    case alreadySealed(StreamOffset)
    /// It does not begin where the stream stands.
    case gap(StreamOffset)
}

/// Names in the journal's folder.
package enum JournalPath {
    package static func segment(_ position: JournalPosition, in directory: String) -> String {
        let digits = String(position.rawValue)
        return Path.join(directory, String(repeating: "0", count: 20 - digits.utf8.count) + digits + ".journal")
    }

    /// The position in a segment's name; `nil` for another file's name.
    package static func position(ofSegment name: String) -> JournalPosition? {
        let digits = name.utf8.prefix(20)
        // `Int` takes a sign; a name with one is not ours. Positions stay where integers of the protocol do.
        guard name.utf8.count == 28, name.hasSuffix(".journal"),
            digits.allSatisfy(Self.isDigit),
            let value = Int(name.prefix(20)), value <= LineProtocol.integerMax
        else { return nil }
        return JournalPosition(value)
    }

    /// The position in the name of what a start set aside, or of a group that a start died over; `nil` for another
    /// file's name, which is never deleted.
    ///
    ///     268435900.torn-1                         268435900.group      268435900.group.tmp
    ///     00000000000268435612.journal.torn-1      00000000000268435612.journal.suspect-1
    static func position(ofLeftover name: String) -> JournalPosition? {
        let parts = name.split(separator: ".", omittingEmptySubsequences: false)
        guard let first = parts.first, first.utf8.allSatisfy(Self.isDigit), let value = Int(first),
            value <= LineProtocol.integerMax
        else { return nil }
        switch parts.count {
        case 2 where parts[1] == "group": break
        case 2 where Self.isNumbered(parts[1], "torn-"): break
        case 3 where parts[1] == "group" && parts[2] == "tmp": break
        case 3 where Self.position(ofSegment: "\(first).\(parts[1])") != nil:
            guard Self.isNumbered(parts[2], "torn-") || Self.isNumbered(parts[2], "suspect-") else { return nil }
        default: return nil
        }
        return JournalPosition(value)
    }

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func isNumbered(_ text: Substring, _ prefix: String) -> Bool {
        let number = text.dropFirst(prefix.count)
        return text.hasPrefix(prefix) && !number.isEmpty && number.utf8.allSatisfy(Self.isDigit)
    }

    static func unused(_ path: String, _ files: some FileSystem) throws(FileSystemError) -> String {
        var number = 1
        while try files.status(at: "\(path)-\(number)") != nil { number += 1 }
        return "\(path)-\(number)"
    }
}
