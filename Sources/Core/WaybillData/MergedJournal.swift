package import WaybillProtocol
package import WaybillSystem

internal import WaybillCompression

/// The journal of a merger: the union of several receivers' journals, in the format of a journal.
///
///     00000000000000000000.journal
///       START 0 0000000000000000 <fleet> LF  MARK … LF      the head: no stream is restated
///       MARK … LF  OPEN 1 {…} LF  MARK … LF  BATCH 1 0 … <…>
///       MARK … LF  BATCH 1 512 … <…>                        entries of a stream need not join
///
/// What each stream holds is the merger's state, not this journal's. Its bytes depend on what is added and on nothing
/// else, neither on the clock nor on restarts: two mergers that take the same rounds have the same journal, at the same
/// positions, and so the same archive and exports.
///
/// Life of a round: ``beginGroup(at:)`` and ``add(_:of:)`` stage it → ``commit()`` writes and syncs it → the merger's state
/// takes the new ``end``. What is after the state's end after a crash is cut off, and taken again from the bucket.
package struct MergedJournal<Files: FileSystem>: ~Copyable {
    package let directory: String
    private let files: Files
    private let segmentByteCountMax: Int
    private let fleet: Incarnation
    /// The position up to which it is durable.
    package private(set) var end: JournalPosition
    /// Oldest first; the last is being written.
    package private(set) var segments: [JournalPosition]

    private var file: FileID?
    private var numbers: [StreamName: StreamNumber] = [:]
    private var descriptions: [StreamName: StreamDescription] = [:]
    private var lastNumber = 0
    private var lastMark = WallTime.unknown
    private var groups: [(time: WallTime, entries: [(entry: JournalEntry, description: StreamDescription)])] = []

    /// A batch that opening found.
    package struct Found {
        package let name: StreamName
        package let header: BatchHeader
        package let position: JournalPosition
    }

    /// Opens the journal that ended at a position, or creates it at 0.
    ///
    /// - Parameters:
    ///   - end: where the merger's state says that it ends; bytes behind it are cut off.
    ///   - found: called for each batch from `start` on, in order.
    /// - Throws: ``MergedJournalFailure`` if it is shorter, or not a journal there.
    package init(
        directory: String, end: JournalPosition, fleet: Incarnation, files: Files,
        segmentByteCountMax: Int = 256 << 20, batchesFrom start: JournalPosition = JournalPosition(0),
        _ found: (Found) -> Void = { _ in }
    ) throws(MergedJournalFailure) {
        let recovery = try MergedJournalFailure.onDisk(
            Recovery(directory: directory, end: end, from: start, files: files, found))
        if let damage = recovery.damage { throw .damaged(damage) }
        self.directory = directory
        self.files = files
        self.fleet = fleet
        self.segmentByteCountMax = segmentByteCountMax
        self.end = end
        self.segments = recovery.segments
        self.numbers = recovery.numbers
        self.descriptions = recovery.descriptions
        self.lastNumber = recovery.lastNumber
        self.lastMark = recovery.lastMark
        self.file = recovery.file
    }

    deinit {
        if let file { self.files.close(file) }
    }

    // MARK: Writing

    /// Begins a group, with the time at which a receiver got it.
    package mutating func beginGroup(at time: WallTime) {
        if self.groups.last?.entries.isEmpty == true { self.groups.removeLast() }
        self.groups.append((time, []))
    }

    /// Stages an entry of the group; its payload is written as it is.
    package mutating func add(_ entry: JournalEntry, of description: StreamDescription) {
        precondition(!self.groups.isEmpty, "a group was begun")
        self.groups[self.groups.count - 1].entries.append((entry, description))
    }

    package var hasStaged: Bool {
        self.groups.contains { !$0.entries.isEmpty }
    }

    /// Makes the staged groups durable together.
    ///
    /// - Returns: the positions of their batches, in the order of staging.
    /// - Throws: if the disk refuses; then it must be opened again.
    package mutating func commit() throws(FileSystemError) -> [JournalPosition] {
        defer { self.groups = [] }
        guard self.hasStaged else { return [] }
        let file = try self.openSegment()
        var positions: [JournalPosition] = []
        for group in self.groups where !group.entries.isEmpty {
            var writer = GroupWriter(
                start: self.end, time: group.time, numbers: self.numbers, last: self.lastNumber)
            writer.mark()
            for (entry, description) in group.entries {
                if self.descriptions[description.name] != description {
                    writer.introduce(description)
                    self.descriptions[description.name] = description
                }
                writer.add(entry, of: description.name)
            }
            writer.finish()
            try writer.write(to: file, files: self.files)
            positions += writer.batchRanges.map(\.lowerBound)
            self.end = writer.end
            self.numbers = writer.numbers
            self.lastNumber = writer.lastNumber
            if group.time != .unknown { self.lastMark = group.time }
        }
        try self.files.synchronize(file)
        return positions
    }

    private mutating func openSegment() throws(FileSystemError) -> FileID {
        if let file, let last = self.segments.last, self.end.rawValue - last.rawValue < self.segmentByteCountMax {
            return file
        }
        let path = JournalPath.segment(self.end, in: self.directory)
        let file = try self.files.open(path, .appendNew)
        var history = StartHistory()
        history.begin(StartSeed(id: 0, incarnation: self.fleet), at: JournalPosition(0), isLossy: false)
        var head = GroupWriter(start: self.end, time: self.lastMark, numbers: [:], last: 0)
        head.restate(history, RestingExtent())
        head.mark()
        head.finish()
        do throws(FileSystemError) {
            try head.write(to: file, files: self.files)
            try self.files.synchronize(file)
            try self.files.synchronizeDirectory(self.directory)
        } catch {
            self.files.close(file)
            throw error
        }
        if let old = self.file { self.files.close(old) }
        self.file = file
        self.segments.append(self.end)
        self.end = head.end
        self.numbers = [:]
        self.descriptions = [:]
        self.lastNumber = 0
        return file
    }

    // MARK: Reading

    /// A batch's header and payload.
    ///
    /// - Returns: `nil` if there is no batch at that position any more.
    package func batch(
        at position: JournalPosition
    ) throws(FileSystemError) -> (header: BatchHeader, payload: [UInt8])? {
        guard let base = self.segments.last(where: { $0 <= position }) else { return nil }
        let file = try self.files.open(JournalPath.segment(base, in: self.directory), .read)
        defer { self.files.close(file) }
        let offset = position.rawValue - base.rawValue
        let line = try self.files.bytes(of: file, at: offset, count: 256)
        guard let decoded = line.withBytes({ Message.readable(atStartOf: $0) }),
            case .batch(let header) = decoded.message
        else { return nil }
        let payload = try self.files.bytes(of: file, at: offset + decoded.byteCount, count: header.wireByteCount)
        return payload.count == header.wireByteCount ? (header, payload) : nil
    }

    /// Deletes whole segments that end at or before a position.
    ///
    /// - Returns: how many.
    package mutating func retire(before position: JournalPosition) throws(FileSystemError) -> Int {
        var count = 0
        while self.segments.count > 1, self.segments[1] <= position {
            let path = JournalPath.segment(self.segments[0], in: self.directory)
            if try self.files.status(at: path) != nil { try self.files.unlink(path) }
            self.segments.removeFirst()
            count += 1
        }
        return count
    }
}

/// Why a merged journal cannot be opened.
package enum MergedJournalFailure: DiskFailure, CustomStringConvertible {
    case disk(FileSystemError)
    case damaged(JournalDamage)

    package var description: String {
        switch self {
        case .disk(let error): error.description
        case .damaged(let damage):
            "the merged journal cannot be read from position \(damage.start) to \(damage.end): \(damage.reason)"
        }
    }
}

/// What opening a merged journal finds.
private struct Recovery {
    private(set) var segments: [JournalPosition]
    private(set) var numbers: [StreamName: StreamNumber] = [:]
    private(set) var descriptions: [StreamName: StreamDescription] = [:]
    private(set) var lastNumber = 0
    private(set) var lastMark = WallTime.unknown
    private(set) var file: FileID?
    private(set) var damage: JournalDamage?

    init<Files: FileSystem>(
        directory: String, end: JournalPosition, from start: JournalPosition, files: Files,
        _ found: (MergedJournal<Files>.Found) -> Void
    ) throws(FileSystemError) {
        let all = try JournalPath.segments(in: directory, files)
        for segment in all where segment >= end { try files.unlink(JournalPath.segment(segment, in: directory)) }
        self.segments = all.filter { $0 < end }
        guard let last = self.segments.last else {
            if end > JournalPosition(0) { self.damage = Self.missing(from: JournalPosition(0), to: end) }
            return
        }
        for (index, segment) in self.segments.enumerated() {
            let limit = index + 1 < self.segments.count ? self.segments[index + 1] : end
            guard limit > start || segment == last else { continue }
            try self.scan(segment, upTo: limit, directory: directory, files: files, found)
            guard self.damage == nil else { return }
        }
        let path = JournalPath.segment(last, in: directory)
        let file = try files.open(path, .append)
        self.file = file
        if let status = try files.status(at: path), status.byteCount > end.rawValue - last.rawValue {
            try files.truncate(file, to: end.rawValue - last.rawValue)
            try files.synchronize(file)
        }
    }

    private static func missing(from start: JournalPosition, to end: JournalPosition) -> JournalDamage {
        JournalDamage(segment: start, start: start, end: end, reason: "its segments are missing")
    }

    private mutating func scan<Files: FileSystem>(
        _ base: JournalPosition, upTo limit: JournalPosition, directory: String, files: Files,
        _ found: (MergedJournal<Files>.Found) -> Void
    ) throws(FileSystemError) {
        self.numbers = [:]
        self.descriptions = [:]
        self.lastNumber = 0
        var scanner = try SegmentScanner(segment: base, in: directory, limit: limit, files: files)
        scanner.isReadingPayloads = false
        while true {
            let position = scanner.position
            switch try scanner.next() {
            case .message(.open(let number, let description, _)):
                self.numbers[description.name] = number
                self.descriptions[description.name] = description
                self.lastNumber = max(self.lastNumber, Int(number.rawValue))
            case .message(.mark):
                if scanner.receivedAt != .unknown { self.lastMark = scanner.receivedAt }
            case .message: break
            case .batch(let header, let description, _):
                found(.init(name: description.name, header: header, position: position))
            case .end: return
            case .damaged(let reason):
                self.damage = JournalDamage(segment: base, start: position, end: limit, reason: reason)
                return
            }
        }
    }
}
