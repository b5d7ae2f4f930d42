package import WaybillProtocol
package import WaybillSystem

/// Follows files and splits them into batches of whole lines: discovery, identity, rotation, registry.
///
/// Constraints, in this order:
/// 1. A byte that the receiver has not acknowledged is never deleted, and a byte that can no longer be read is counted
///    and reported in a ``TailNotice``.
/// 2. A stream is one incarnation of a file's bytes. A file that was truncated or rewritten is a new stream from offset
///    0.
/// 3. The receiver's position wins over the registry, when its proof agrees with the file's bytes; the registry only
///    shows which files need to be opened.
/// 4. No code here waits, reads a clock, opens a socket or starts a thread. Time is passed in as ``TailTime``.
/// 5. Open files are limited by ``TailLimits/openFileCountMax``, bytes in memory by the caller's buffer. An unchanged
///    file costs one `stat(2)` per scan; a batch costs one large `pread(2)`, two small ones that verify that the file
///    is still the same, and no allocation. An idle file takes about 200 bytes in memory (``FileTable``); its entry is
///    only in the registry's file, and a scan needs only the names of one folder at a time.
///
/// A stream's id:
///
///     client segment   <writer>-<first seq>                            from its name
///     foreign file     <agent>-<device>-<inode>-<birth>-<FNV-1a 64 of the first line>-<incarnation>
///
/// Life of a line:
///
///     scan, pathsChanged ─▶ discovered ─▶ identified ─▶ ready ─▶ nextReady ─▶ OPEN … AT, proof ─▶ positionLearned
///     forgotten ◀─ sealedByReceiver ◀─ SEAL … SEALED ◀─ .sealed ◀─ complete ◀─ acked ◀─ .batch ◀─ nextBatch
///
/// A segment is complete when its writer's lock is released; a foreign file when no pattern matches it any more (it was
/// renamed away or deleted) and it has not grown for a while. Until then a last line without LF is held back.
///
/// Why the id contains the first line and the creation time: an inode may be reused within milliseconds, some file
/// systems have no creation times, and many files begin in the same way. Why not a hash of the first KiB: a shorter
/// file would change its id while it grows.
///
/// - SeeAlso: `Protocol/formats/registry.md`.
package struct Tail<Files: FileSystem>: ~Copyable {
    /// The contents of the registry at the start.
    package let recovery: TailRecovery

    let files: Files
    let agent: AgentName
    var sources: [SourceConfiguration]
    var patterns: [FilePatterns]
    var limits: TailLimits
    let quarantineDirectory: String

    var registry: StateLog<Files>
    var changes: RegistryChanges
    var receivers = KnownReceivers()
    var rememberedFleet = RememberedFleet()
    /// What was deleted lately, next to the registry.
    var deleted: DeletedSegments<Files>
    var table = FileTable()
    var bySegment: [String: StreamKey] = [:]
    var former = FormerEntries()
    var successions = Successions()
    var queues = StreamQueues()
    var openFiles: OpenFiles
    var scanCount: UInt32 = 0

    /// Streams with lines returned since the start.
    package internal(set) var shippedStreamCount = 0
    package internal(set) var notices = TailNotices()
    var leftOut = LeftOutFiles()
    /// The time of the last search for unfinished segments.
    var sweptAt: MonotonicTime?
    var keeping = Keeping()
    var looks = Looks()
    /// The spools whose segments are followed; `nil`: all.
    var allowedSpools: Set<PathKey>?
    /// Files whose next line is behind NULs that are looked at again before they are skipped.
    var waitingHoles: Set<StreamKey> = []
    /// Whether the system tells of every change to the files: otherwise NULs that are seen may be bytes on their way.
    package var areHintsComplete = true
    /// The buffer for the heads of files.
    let headBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Fingerprint.byteCountMax, alignment: 16)

    /// What a ``RecordGuard`` knows the registry's entries by.
    private static var entriesName: String { "registry" }

    /// Starts with the state in the registry; checks no file before the first ``scan(_:enter:)``.
    ///
    /// - Parameters:
    ///   - quarantineDirectory: receives over-long lines as `<stream id>-<offset>.line`; must exist.
    ///   - records: keeps the agent alive while it reads the entries; `nil`: none of them has ended it.
    package init(
        fileSystem: Files, registry: consuming StateLog<Files>, agent: AgentName, sources: [SourceConfiguration],
        quarantineDirectory: String, limits: TailLimits = TailLimits(), records: RecordGuard? = nil
    ) {
        Self.check(sources, limits)
        self.files = fileSystem
        self.agent = agent
        self.sources = sources
        self.limits = limits
        self.openFiles = OpenFiles(countMax: limits.openFileCountMax)
        self.quarantineDirectory = quarantineDirectory
        self.patterns = Self.patterns(of: sources, isKeeping: limits.keep != nil)
        var recovery = TailRecovery()
        var receivers: [KnownReceivers.Entry] = []
        var usedOrdinals: Set<Int> = []
        var fleet: String?
        var fleetOrdinals: Set<Int> = []
        let reading = records?.begin(Self.entriesName)
        for (id, text) in registry.takeEntries() where recovery.takes(id, of: agent) {
            let place = Int(FNV1a.hash(id.utf8) >> 1)
            if reading?.poison == place {
                recovery.poison = TailRecovery.Poison(key: id, text: text, signal: reading?.signal ?? 0)
                recovery.unreadableKeys.append(id)
                continue
            }
            if reading?.isAlone ?? false { records?.enter(place, of: Self.entriesName) }
            if id == RememberedFleet.key {
                fleet = text
            } else if id.first == KnownReceivers.Entry.keyPrefix {
                guard let entry = KnownReceivers.Entry(text, key: id) else {
                    recovery.unreadableKeys.append(id)
                    continue
                }
                receivers.append(entry)
            } else if id.first == TakenStems.keyPrefix {
                guard let record = TakenStems.Record(text) else {
                    recovery.unreadableKeys.append(id)
                    continue
                }
                self.successions.stems.restore(record, of: id)
            } else if let entry = RegistryEntry(text, id: id) {
                usedOrdinals.formUnion(entry.held.map(\.receiver))
                if let stored = entry.stored { fleetOrdinals.insert(stored.fleet) }
                if let held = entry.number?.held { fleetOrdinals.insert(held.fleet) }
                if let before = entry.before {
                    usedOrdinals.insert(before.holder)
                    fleetOrdinals.insert(before.fleet)
                }
                recovery.entryCount += 1
                self.former.insert(entry)
            } else {
                recovery.unreadableKeys.append(id)
            }
        }
        records?.end()
        self.receivers.restore(receivers, usedOrdinals: usedOrdinals)
        self.rememberedFleet.restore(fleet, usedOrdinals: fleetOrdinals)
        recovery.unreadableKeys.sort()
        self.recovery = recovery
        self.deleted = DeletedSegments(
            path: Path.join(Path.parent(of: registry.path), "deleted.log"), files: fileSystem)
        self.registry = registry
        self.changes = RegistryChanges(removing: recovery.unreadableKeys + recovery.formerKeys)
    }

    deinit {
        for key in self.openFiles.keys {
            if let descriptor = self.table[key].descriptor { self.files.close(descriptor) }
        }
        self.headBuffer.deallocate()
    }

    // MARK: State

    /// The streams that have an id, in the order of their handles.
    package var streams: [StreamKey] {
        self.table.keys.filter { self.table[$0].isIdentified }
    }

    /// The followed files, identified or not.
    package var fileKeys: [StreamKey] { self.table.keys }

    /// The number of followed files, identified or not.
    package var fileCount: Int { self.table.count }

    package var openFileCount: Int { self.openFiles.count }

    /// What was kept at the last look.
    package var kept: KeptFiles { self.keeping.found }

    /// Whether there is anything to send, as of the last scan: unacknowledged bytes, or the end of a stream that is not
    /// sealed.
    package var needsReceiver: Bool {
        self.table.keys.contains { key in
            let file = self.table[key]
            return file.needsRead || file.byteCount > file.acked && file.reach != .gone
        }
    }

    /// Whether looks of the next seconds show which file has a content, and so what is left to
    /// ship, or whether NULs are skipped.
    package func isDeciding(_ now: MonotonicTime) -> Bool {
        !self.successions.departures.isEmpty || self.successions.short.isAnyPending(now)
            || !self.waitingHoles.isEmpty
    }

    /// The directories in which new files can appear, as of the last look.
    package var watchDirectories: [String] { self.looks.folders.map(\.text).sorted() }

    package func contains(_ stream: StreamKey) -> Bool {
        self.table.contains(stream)
    }

    /// A stream's id for the receiver; traps for a removed stream, as documented for other methods with a
    /// ``StreamKey``.
    package func id(of stream: StreamKey) -> StreamID {
        guard let id = self.streamID(of: self.table[stream]) else {
            preconditionFailure("stream \(stream.rawValue) is not identified")
        }
        return id
    }

    /// The state of a stream; traps for a removed stream.
    package func position(of stream: StreamKey) -> StreamPosition {
        let file = self.table[stream]
        return StreamPosition(
            source: file.source, place: file.place, acked: file.acked, cursor: file.cursor, byteCount: file.byteCount,
            modified: file.modified, isFaulty: file.isFaulty, isGone: file.reach == .gone, isDrained: file.isDrained)
    }

    /// Returns the notices since the last call, oldest first.
    package mutating func takeNotices() -> [TailNotice] {
        // What could not be opened for want of descriptors is not a fault of a file.
        if self.notices.takeLackOfDescriptors() { self.lowerOpenFileCount() }
        return self.notices.take()
    }

    /// Lowers the limits of lines and of their number in a batch to the receiver's.
    package mutating func lowerLineLimits(to limits: ProtocolLimits) {
        self.limits.lineByteCountMax = min(self.limits.lineByteCountMax, max(1, limits.lineByteCountMax))
        self.limits.batchLineCountMax = min(self.limits.batchLineCountMax, max(1, limits.lineCountMax))
    }

    // MARK: Work

    /// Removes and returns the stream that has waited longest in the ready queue.
    ///
    /// The caller opens the stream if it is not open, or reads it. Reading puts it back while there is more;
    /// ``readingPostponed(_:)`` puts back a stream that could not be read because the window was full.
    package mutating func nextReady() -> StreamKey? {
        while let key = self.queues.ready.popFirst() {
            guard self.table.contains(key) else { continue }
            self.table[key].isQueued = false
            if self.table[key].needsRead { return key }
        }
        return nil
    }

    /// Puts a stream back at the end of the ready queue; does nothing for a removed one.
    package mutating func readingPostponed(_ stream: StreamKey) {
        guard self.table.contains(stream) else { return }
        self.enqueue(stream)
    }

    /// The id of the file's content at the present receiver; `nil` before it is identified.
    func streamID(of file: TailedFile) -> StreamID? {
        self.streamID(of: file, incarnation: file.walk?.asked ?? file.streamIncarnation)
    }

    /// The key of the file's content in the registry, whatever its number at any receiver.
    func registryKey(of file: TailedFile) -> StreamID? {
        self.streamID(of: file, incarnation: file.incarnation)
    }

    func streamID(of file: TailedFile, incarnation: Int) -> StreamID? {
        switch file.origin {
        case .segment(let id): return StreamID(id)
        case .foreign:
            guard let fingerprint = file.fingerprint else { return nil }
            let head = Hexadecimal.text(fingerprint.hash, digitCount: 16)
            return StreamID(unchecked: "\(self.agent)-\(file.stem.text)-\(head)-\(incarnation)")
        }
    }

    mutating func enqueue(_ key: StreamKey) {
        guard !self.table[key].isQueued, self.table[key].needsRead else { return }
        self.table[key].isQueued = true
        self.queues.ready.append(key)
    }

    mutating func enqueueProbe(_ key: StreamKey) {
        let file = self.table[key]
        guard file.isSegment, file.phase == .following, file.reach != .gone, !file.isProbing else { return }
        self.table[key].isProbing = true
        self.queues.probes.append(key)
    }
}

/// The state of a stream and its file.
package struct StreamPosition: Hashable, Sendable {
    /// Index of the source in the configuration.
    package let source: Int
    let place: FilePlace
    /// The offset acknowledged by the receiver.
    package let acked: Int
    /// The offset up to which bytes were returned.
    package let cursor: Int
    /// The file's length as last seen.
    package let byteCount: Int
    /// When it was written last, as last seen: nanoseconds since 1970.
    package let modified: Int64
    /// Whether it could not be read at the last attempt.
    package let isFaulty: Bool
    /// Whether it can no longer be read.
    package let isGone: Bool
    /// Whether all its whole lines were returned.
    package let isDrained: Bool

    /// Created on access.
    package var path: String { self.place.path }
}

/// Recognises foreign files that are no NDJSON when they are first read, and leaves out those that have no lines at all.
extension Tail {
    /// Judges the head of a file whose stream is not known yet; one without lines is refused and forgotten.
    mutating func isSuitable(
        _ key: StreamKey, _ descriptor: FileID, _ head: UnsafeRawBufferPointer
    ) throws(FileSystemError) -> Bool {
        guard let format = ForeignFormat(head: head) else { return true }
        let path = self.table[key].path
        guard format == .compressed else {
            self.notices.recognized(format, of: path)
            return true
        }
        self.leftOut.insert(try self.files.status(descriptor), inScan: self.scanCount)
        self.notices.refuseCompressed(path)
        self.forget(key)
        return false
    }
}

/// Foreign files that are not followed because they have no lines, for as long as they do not change.
struct LeftOutFiles {
    private struct File {
        let byteCount: Int
        let modified: Int64
        var scanSeen: UInt32
    }

    private var files: [FileIdentity: File] = [:]

    mutating func insert(_ status: FileStatus, inScan scan: UInt32) {
        self.files[status.identity] = File(byteCount: status.byteCount, modified: status.modified, scanSeen: scan)
    }

    /// Whether a file was left out before and has not changed since; called for each new one that a scan finds.
    mutating func contains(_ status: FileStatus, inScan scan: UInt32) -> Bool {
        guard let known = self.files[status.identity], known.byteCount == status.byteCount,
            known.modified == status.modified
        else { return false }
        self.files[status.identity]?.scanSeen = scan
        return true
    }

    /// Forgets the files that no pattern matched in a scan.
    mutating func forgetUnseen(inScan scan: UInt32) {
        guard !self.files.isEmpty else { return }
        self.files = self.files.filter { $0.value.scanSeen == scan }
    }
}

/// Which files are open, which of them is closed first, and how many there may be.
struct OpenFiles {
    /// Opening a file takes a descriptor for its folder and one for itself.
    private static var descriptorCountOfOpening: Int { 2 }

    /// How many may be open.
    private(set) var countMax: Int
    /// In the order of their last use, which is the one in which they are closed.
    private(set) var keys: [StreamKey] = []
    /// Whether the process has run out of descriptors.
    private var isShort = false

    init(countMax: Int) {
        self.countMax = countMax
    }

    var count: Int { self.keys.count }
    var isFull: Bool { self.keys.count >= self.countMax }

    /// Notes that a file is used now, and open.
    mutating func use(_ key: StreamKey) {
        self.remove(key)
        self.keys.append(key)
    }

    mutating func remove(_ key: StreamKey) {
        // The one that was used last is used again most often.
        if let index = self.keys.lastIndex(of: key) { self.keys.remove(at: index) }
    }

    /// The same descriptor belongs to another stream from now on.
    mutating func replace(_ key: StreamKey, by other: StreamKey) {
        if let index = self.keys.firstIndex(of: key) { self.keys[index] = other }
    }

    /// Takes a configured number; one that the process could not keep stays the greatest.
    mutating func configure(countMax: Int) {
        self.countMax = self.isShort ? min(self.countMax, countMax) : countMax
    }

    /// Allows fewer, because the process has no descriptor left.
    ///
    /// - Returns: whether that is so for the first time.
    mutating func lower() -> Bool {
        self.countMax = max(1, min(self.countMax, self.count) - Self.descriptorCountOfOpening)
        defer { self.isShort = true }
        return !self.isShort
    }
}
