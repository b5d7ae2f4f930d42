package import WaybillProtocol
package import WaybillSystem

/// Follows files and cuts them into batches of whole lines: discovery, identity, rotation, registry.
///
/// Constraints, in this order:
/// 1. A byte that the receiver has not acknowledged is never deleted, and a byte that cannot be had any more is
///    counted and named in a ``TailNotice``.
/// 2. A stream is one incarnation of one file's bytes. A file that was cut or rewritten is another stream from 0 on.
/// 3. The receiver's position wins over the registry, which only tells which files are worth opening.
/// 4. Nothing here waits, reads a clock, opens a socket or starts a thread. Time comes in as ``TailTime``.
/// 5. Bounded: open files by ``TailLimits/openFileCountMax``; bytes in memory by the caller's buffer. A file without
///    news costs one `stat(2)` a scan; a batch costs one large `pread(2)`, two small ones that make sure that the
///    file is still the same, and no allocation. A file at rest has some 200 bytes in memory (``FileTable``); its
///    entry is in the registry's file alone, and the names of one folder at a time are what a scan needs.
///
/// A stream's id:
///
///     client segment   <writer>-<first seq>                            from its name
///     foreign file     <agent>-<device>-<inode>-<birth>-<FNV-1a 64 of the first line>-<incarnation>
///
/// The life of one line:
///
///     scan, pathsChanged ─▶ discovered ─▶ identified ─▶ ready ─▶ nextReady ─▶ OPEN … AT ─▶ positionLearned
///     forgotten ◀─ sealedByReceiver ◀─ SEAL … SEALED ◀─ .sealed ◀─ complete ◀─ acked ◀─ .batch ◀─ nextBatch
///
/// A segment is complete when its writer's lock is gone; a foreign file when it has left its patterns (renamed away
/// or deleted) and has not grown for a while. Until then a last line without LF is held back.
///
/// Why the first line is in the id, and the birth: an inode is given out again within milliseconds, some file
/// systems know no birth, and many files begin alike. Why not a hash of the first KiB: a file shorter than that
/// would change its id while it grows.
///
/// - SeeAlso: `Protocol/formats/registry.md`.
package struct Tail<Files: FileSystem>: ~Copyable {
    /// What the registry held.
    package let recovery: TailRecovery

    let files: Files
    let agent: AgentName
    let sources: [SourceConfiguration]
    let patterns: [[GlobPattern]]
    private(set) var limits: TailLimits
    let quarantineDirectory: String

    var registry: StateLog<Files>
    /// What the registry has of each stream, all in all.
    var registeredByteCount = 0
    var table = FileTable()
    var bySegment: [String: StreamKey] = [:]
    /// Registry entries of foreign files that have not been seen since the start, by inode.
    var remembered: [UInt64: [RegistryEntry]] = [:]
    /// The same for segments, by stream id.
    var rememberedSegments: [String: RegistryEntry] = [:]

    /// Ids of the streams whose bytes cannot be had any more and that the receiver has not sealed.
    var goneIDs: Set<String> = []

    /// Ids of registry entries that were made such streams; once is enough.
    var frozenIDs: Set<String> = []

    var ready = StreamQueue()
    /// Fully read segments, to be asked in turn whether their writer is gone.
    var probes = StreamQueue()
    var faulty: [StreamKey] = []
    var openKeys: [StreamKey] = []
    var useCount = 0
    var scanCount: UInt32 = 0

    /// Streams of which lines were handed out since the start.
    package internal(set) var shippedStreamCount = 0
    /// What was lost since the start; each time with a notice.
    package internal(set) var loss = TailLoss()
    var notices: [TailNotice] = []
    /// Paths complained about, so that each is complained about once.
    var complaints: Set<String> = []
    var changed: Set<StreamKey> = []
    var removedIDs: Set<String> = []
    var checkpointedAt: MonotonicTime?
    /// When the spools were last looked through for unfinished segments.
    var sweptAt: MonotonicTime?
    var directories: [String] = []
    /// For the heads of files.
    let headBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Fingerprint.byteCountMax, alignment: 16)

    /// Begins where the registry left off; looks at no file before the first ``scan(_:)``.
    ///
    /// - Parameter quarantineDirectory: takes over-long lines as `<stream id>-<offset>.line`; must exist.
    package init(
        fileSystem: Files, registry: consuming StateLog<Files>, agent: AgentName, sources: [SourceConfiguration],
        quarantineDirectory: String, limits: TailLimits = TailLimits()
    ) {
        precondition(limits.lineByteCountMax > 0 && limits.openFileCountMax > 0, "limits are positive")
        precondition(Set(sources.map(\.name)).count == sources.count, "two sources have one name")
        self.files = fileSystem
        self.agent = agent
        self.sources = sources
        self.limits = limits
        self.quarantineDirectory = quarantineDirectory
        self.patterns = sources.map { source in
            switch source.kind {
            case .spool(let directory): [GlobPattern(Path.join(directory, "*.ndjson"))]
            case .files(let patterns): patterns.map { GlobPattern($0) }
            }
        }
        var recovery = TailRecovery()
        for (id, text) in registry.takeEntries() {
            if let entry = RegistryEntry(text, id: id) {
                recovery.entryCount += 1
                switch entry.kind {
                case .segment: self.rememberedSegments[id] = entry
                case .foreign: self.remembered[entry.identity.inode, default: []].append(entry)
                }
            } else {
                recovery.unreadableKeys.append(id)
            }
        }
        recovery.unreadableKeys.sort()
        self.recovery = recovery
        self.registry = registry
        self.removedIDs = Set(recovery.unreadableKeys)
    }

    deinit {
        for key in self.openKeys {
            if let descriptor = self.table[key].descriptor { self.files.close(descriptor) }
        }
        self.headBuffer.deallocate()
    }

    // MARK: What there is

    /// The streams that have an id, in the order of their handles.
    package var streams: [StreamKey] {
        self.table.keys.filter { self.table[$0].isIdentified }
    }

    /// How many files are followed, identified or not.
    package var fileCount: Int { self.table.count }

    package var openFileCount: Int { self.openKeys.count }

    /// Whether a receiver must hear of anything, as of the last scan: of bytes that none has acknowledged, or of a stream
    /// that has ended and is not sealed.
    package var needsReceiver: Bool {
        self.table.keys.contains { key in
            let file = self.table[key]
            return file.needsRead || file.byteCount > file.acked
        }
    }

    /// The directories in which new files can appear, as of the last scan.
    package var watchDirectories: [String] { self.directories }

    package func contains(_ stream: StreamKey) -> Bool {
        self.table.contains(stream)
    }

    /// A stream's name for the receiver; traps for a forgotten stream, as all that takes a ``StreamKey`` and says so.
    package func id(of stream: StreamKey) -> StreamID {
        guard let id = self.streamID(of: self.table[stream]) else {
            preconditionFailure("stream \(stream.rawValue) is not identified")
        }
        return id
    }

    /// Where a stream stands; traps for a forgotten stream.
    package func position(of stream: StreamKey) -> StreamPosition {
        let file = self.table[stream]
        return StreamPosition(
            source: file.source, place: file.place, acked: file.acked, cursor: file.cursor, byteCount: file.byteCount)
    }

    /// Hands over what happened since the last call, oldest first.
    package mutating func takeNotices() -> [TailNotice] {
        let notices = self.notices
        self.notices = []
        return notices
    }

    /// Treats lines as too long from `byteCount` on, for a receiver that takes no longer ones.
    package mutating func lowerLineLimit(to byteCount: Int) {
        self.limits.lineByteCountMax = min(self.limits.lineByteCountMax, max(1, byteCount))
    }

    // MARK: Work

    /// Takes the stream out of the ready queue that has waited longest.
    ///
    /// The caller opens it, if it is not open, or reads it. Reading puts it back while there is more;
    /// ``readingPostponed(_:)`` does for a stream that could not be read for want of window.
    package mutating func nextReady() -> StreamKey? {
        while let key = self.ready.popFirst() {
            guard self.table.contains(key) else { continue }
            self.table[key].isQueued = false
            if self.table[key].needsRead { return key }
        }
        return nil
    }

    /// Puts a stream back at the end of the ready queue; does nothing for a forgotten one.
    package mutating func readingPostponed(_ stream: StreamKey) {
        guard self.table.contains(stream) else { return }
        self.enqueue(stream)
    }

    func streamID(of file: TailedFile) -> StreamID? {
        switch file.origin {
        case .segment(let id): return StreamID(unchecked: id)
        case .foreign:
            guard let fingerprint = file.fingerprint else { return nil }
            let birth = String(UInt64(bitPattern: file.birth), radix: 16)
            let device = String(file.idDevice, radix: 16)
            let inode = String(file.identity.inode, radix: 16)
            let head = Hexadecimal.text(fingerprint.hash, digitCount: 16)
            return StreamID(unchecked: "\(self.agent)-\(device)-\(inode)-\(birth)-\(head)-\(file.incarnation)")
        }
    }

    mutating func enqueue(_ key: StreamKey) {
        guard !self.table[key].isQueued, self.table[key].needsRead else { return }
        self.table[key].isQueued = true
        self.ready.append(key)
    }

    mutating func enqueueProbe(_ key: StreamKey) {
        let file = self.table[key]
        guard file.isSegment, file.phase == .following, file.reach != .gone, !file.isProbing else { return }
        self.table[key].isProbing = true
        self.probes.append(key)
    }

    mutating func complain(_ path: String, _ notice: TailNotice) {
        // A folder with more trouble than this is reported by the first so many.
        guard self.complaints.count < 65536, self.complaints.insert(path).inserted else { return }
        self.notices.append(notice)
    }
}

/// Where a stream stands, and which file it is.
package struct StreamPosition: Hashable, Sendable {
    /// Index of the source in the configuration.
    package let source: Int
    let place: FilePlace
    /// What the receiver holds.
    package let acked: Int
    /// What was handed out.
    package let cursor: Int
    /// The file's length as last seen.
    package let byteCount: Int

    /// Made when it is asked for.
    package var path: String { self.place.path }
}
