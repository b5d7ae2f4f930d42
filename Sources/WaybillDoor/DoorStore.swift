internal import WaybillEvent
package import WaybillIngest
internal import WaybillJSON
internal import WaybillSpool
package import WaybillSystem

/// A request whose events wait to be stored.
///
/// One thread hands it to another; nobody changes it in between.
package final class DoorRequest: Sendable {
    /// The position of its source in the configuration.
    package let source: Int
    package let dialect: Dialect
    package let events: IngestedEvents
    /// What the faults point into.
    package let body: [UInt8]

    package init(source: Int, dialect: Dialect, _ events: IngestedEvents, body: [UInt8]) {
        self.source = source
        self.dialect = dialect
        self.events = events
        self.body = body
    }
}

/// The result of storing a request.
package enum DoorOutcome: Hashable, Sendable {
    case stored(DoorCounts)
    /// The disk is full, or has less room than is reserved: the sender keeps its events.
    case full
    /// The files cannot be written.
    case failed
}

/// The results of a request's events.
package struct DoorCounts: Hashable, Sendable {
    package var storedCount = 0
    /// Events that had been stored before.
    package var repeatedCount = 0
    /// Events in the quarantine.
    package var quarantinedCount = 0

    package init(storedCount: Int = 0, repeatedCount: Int = 0, quarantinedCount: Int = 0) {
        self.storedCount = storedCount
        self.repeatedCount = repeatedCount
        self.quarantinedCount = quarantinedCount
    }

    package static func += (left: inout DoorCounts, right: DoorCounts) {
        left.storedCount += right.storedCount
        left.repeatedCount += right.repeatedCount
        left.quarantinedCount += right.quarantinedCount
    }
}

/// Makes groups of requests durable: one write and one sync of each spool for all that wait.
///
///     requests ─▶ without repeats ─▶ numbered lines ─▶ write(2) ─▶ fdatasync ─▶ their ids join the window ─▶ answers
///                      │                                             ▲
///                      └─ faults ─▶ quarantine/date=…/<reason>.ndjson ┘
///
///     <spool>/<bundle>-<env>/                a spool (`Protocol/formats/spool.md`) for each app and environment
///
/// An answer is given only after the sync. A line that is on the disk although its sync failed, or whose request was answered
/// by a full disk, comes again with the same id: the window has the ids of what was synced, and beyond it providers and
/// `transform --distinct` know the id. After a failed sync the writer is replaced, for its segment is in doubt for good.
package struct DoorStore<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let sources: [IngestSource]
    private let spools: [String]
    /// The spool of each source.
    private let spoolOfSource: [Int]
    private let freeByteCountMin: Int
    private var writers: [Int: WriterBox<Files>] = [:]
    private var window: RepeatWindow
    private var quarantine: DoorQuarantine<Files>
    private var generator: SeededGenerator
    private var buffer = ByteBuilder(capacity: 64 << 10)

    /// - Parameters:
    ///   - root: the folder of the spools.
    ///   - freeByteCountMin: free space on its file system that is left to others.
    package init(
        root: String, quarantine: String, sources: [IngestSource], window: consuming RepeatWindow,
        freeByteCountMin: Int, files: Files, _ generator: SeededGenerator
    ) {
        self.files = files
        self.sources = sources
        var spools: [String] = []
        var spoolOfSource: [Int] = []
        for source in sources {
            let path = Path.join(root, Self.folder(of: source))
            let index = spools.firstIndex(of: path) ?? spools.count
            if index == spools.count { spools.append(path) }
            spoolOfSource.append(index)
        }
        self.spools = spools
        self.spoolOfSource = spoolOfSource
        self.freeByteCountMin = freeByteCountMin
        self.window = window
        self.quarantine = DoorQuarantine(root: quarantine, files: files)
        self.generator = generator
    }

    private static func folder(of source: IngestSource) -> String {
        "\(PercentText.encode(source.bundle))-\(source.environment.rawValue)"
    }

    /// Faulty events that the quarantine had no room for.
    package var droppedCount: Int { self.quarantine.droppedCount }

    /// How far back repeats are known, if memory shortened it.
    package var reach: Duration { self.window.reach }

    /// Fills the window from segments that are there, or were kept after they were shipped.
    ///
    /// - Parameter since: segments that were last written before it are too old, nanoseconds since 1970.
    /// - Returns: how many ids it has now.
    package mutating func fill(since: Int64, now: MonotonicTime) -> Int {
        var count = 0
        for (index, spool) in self.spools.enumerated() {
            do throws(FileSystemError) {
                guard try self.files.status(at: spool) != nil else { continue }
                try self.files.synchronizeDirectory(spool)
                for name in try self.files.list(spool) where name.contains(".ndjson") {
                    count += try self.fill(from: Path.join(spool, name), of: index, since: since, now)
                }
            } catch {
                // Without it repeats are found later: by providers, and by `--distinct`.
                continue
            }
        }
        return count
    }

    private mutating func fill(
        from path: String, of spool: Int, since: Int64, _ now: MonotonicTime
    ) throws(FileSystemError) -> Int {
        guard let status = try self.files.status(at: path), status.kind == .regular, status.modified >= since,
            let bytes = try self.files.contents(of: path, byteCountMax: 4 << 20)
        else { return 0 }
        // What a process that was killed had written may not be durable, and its last line may be torn.
        let file = try self.files.open(path, .read)
        defer { self.files.close(file) }
        try self.files.synchronize(file)
        var count = 0
        for line in bytes[..<((bytes.lastIndex(of: 0x0A) ?? -1) + 1)].split(separator: 0x0A) {
            // As `IngestedEvents.append` begins a line.
            guard line.count > 52,
                let id = UniqueID(text: String(decoding: line.dropFirst(13).prefix(36), as: UTF8.self))
            else { continue }
            self.window.add(id, of: spool, at: now)
            count += 1
        }
        return count
    }

    /// Makes requests durable.
    ///
    /// - Returns: an outcome for each.
    package mutating func store(_ requests: [DoorRequest], now: MonotonicTime, wall: WallTime) -> [DoorOutcome] {
        self.window.turn(now)
        var outcomes = [DoorOutcome](repeating: .stored(DoorCounts()), count: requests.count)
        var counts = [DoorCounts](repeating: DoorCounts(), count: requests.count)
        let bySpool = Dictionary(grouping: requests.indices) { self.spoolOfSource[requests[$0].source] }
        for (spool, indexes) in bySpool.sorted(by: { $0.key < $1.key }) {
            let failure = self.store(indexes, of: requests, in: spool, now, &counts)
            for index in indexes {
                outcomes[index] = failure.flatMap { $0.indexes.contains(index) ? $0.outcome : nil } ?? outcomes[index]
            }
        }
        let faulty = requests.indices.filter { !requests[$0].events.faults.isEmpty && outcomes[$0].isStored }
        if !faulty.isEmpty, let outcome = self.setAside(faulty, of: requests, wall) {
            for index in faulty { outcomes[index] = outcome }
        }
        for index in requests.indices where outcomes[index].isStored {
            counts[index].quarantinedCount = requests[index].events.faults.count
            outcomes[index] = .stored(counts[index])
        }
        return outcomes
    }

    private struct Failure {
        let outcome: DoorOutcome
        let indexes: Set<Int>
    }

    private mutating func store(
        _ indexes: [Int], of requests: [DoorRequest], in spool: Int, _ now: MonotonicTime,
        _ counts: inout [DoorCounts]
    ) -> Failure? {
        let writer: WriterBox<Files>
        do throws(FileSystemError) {
            writer = try self.writer(of: spool)
        } catch {
            return Failure(outcome: Self.outcome(of: error), indexes: Set(indexes))
        }
        self.buffer.removeAll()
        var byteCounts: [Int] = []
        var owners: [(request: Int, id: UniqueID)] = []
        /// The positions of ids in `owners`.
        var positions: [UniqueID: Int] = [:]
        /// Requests with an event of another one of this group: they are answered alike.
        var repeats: [(request: Int, position: Int)] = []
        var number = writer.writer.nextSequence
        for index in indexes {
            for line in requests[index].events.lines {
                if let position = positions[line.id] {
                    repeats.append((index, position))
                    counts[index].repeatedCount += 1
                    continue
                }
                guard !self.window.contains(line.id, of: spool) else {
                    counts[index].repeatedCount += 1
                    continue
                }
                positions[line.id] = owners.count
                let start = self.buffer.count
                requests[index].events.append(line, number: number, writer: writer.writer.writer, to: &self.buffer)
                number += 1
                byteCounts.append(self.buffer.count - start)
                owners.append((index, line.id))
            }
        }
        guard !byteCounts.isEmpty else { return nil }
        let written = byteCounts.withUnsafeBufferPointer {
            writer.writer.append(lines: self.buffer.bytes, byteCounts: $0)
        }
        let sync = writer.writer.sync
        do throws(SpoolSyncFailure) {
            try sync.perform(on: self.files)
            writer.writer.synced(sync)
        } catch {
            self.writers[spool] = nil
            return Failure(
                outcome: Self.outcome(of: error.error), indexes: Set(owners.map(\.request) + repeats.map(\.request)))
        }
        for owner in owners.prefix(written.storedCount) {
            self.window.add(owner.id, of: spool, at: now)
            counts[owner.request].storedCount += 1
        }
        guard let failure = written.failure else { return nil }
        let unstored =
            owners.dropFirst(written.storedCount).map(\.request)
            + repeats.filter { $0.position >= written.storedCount }.map(\.request)
        return Failure(outcome: Self.outcome(of: failure), indexes: Set(unstored))
    }

    private mutating func writer(of spool: Int) throws(FileSystemError) -> WriterBox<Files> {
        if let writer = self.writers[spool] { return writer }
        let id = UniqueID.timed(POSIXClock().wallTime().milliseconds, &self.generator).text
        let writer = WriterBox(
            try SpoolWriter(
                directory: self.spools[spool], writer: id, on: self.files, freeByteCountMin: self.freeByteCountMin))
        self.writers[spool] = writer
        return writer
    }

    private mutating func setAside(
        _ indexes: [Int], of requests: [DoorRequest], _ wall: WallTime
    ) -> DoorOutcome? {
        do throws(FileSystemError) {
            for index in indexes {
                let request = requests[index]
                for fault in request.events.faults {
                    try self.quarantine.add(
                        request.body[fault.range], fault.reason, request.dialect, self.sources[request.source], wall)
                }
            }
            try self.quarantine.synchronize()
            return nil
        } catch {
            return Self.outcome(of: error)
        }
    }

    private static func outcome(of error: FileSystemError) -> DoorOutcome { error.isDiskFull ? .full : .failed }
}

extension DoorOutcome {
    var isStored: Bool {
        switch self {
        case .stored: true
        case .full, .failed: false
        }
    }
}

/// A writer in a dictionary, which cannot hold what is not copyable.
private final class WriterBox<Files: FileSystem> {
    var writer: SpoolWriter<Files>

    init(_ writer: consuming SpoolWriter<Files>) {
        self.writer = writer
    }
}
