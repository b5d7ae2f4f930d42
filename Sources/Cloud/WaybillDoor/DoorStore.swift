internal import WaybillEvent
package import WaybillIngest
internal import WaybillJSON
internal import WaybillSpool
package import WaybillSystem

/// Makes groups of requests durable: one write and one sync of each key for all that wait.
///
///     requests ─▶ without repeats ─▶ numbered lines ─▶ write(2) ─▶ fdatasync ─▶ their ids join the window ─▶ answers
///                      │                                             ▲
///                      └─ faults ─▶ quarantine/date=…/<reason>.ndjson ┘
///
///     <spool>/<bundle>-<env>/                a spool (`Protocol/formats/spool.md`) for each app and environment
///     <spool>/<bundle>-<env>/keep.json       asks the agent to keep what it shipped for the window (``KeepRequest``)
///
/// Each key has a writer of its own, whose id names the key (``IngestSource/tag``). So the segments say whose ids they have, and
/// what a key takes of the disk (``SpoolShares``).
///
/// An answer is given only after the sync. A line that is on the disk although its sync failed, or whose request was answered
/// by a full disk, comes again with the same id: the window has the ids of what was synced, and after it providers and
/// `transform --distinct` know the id. After a failed sync the writer is replaced, for its segment is in doubt for good.
package struct DoorStore<Files: FileSystem>: ~Copyable {
    private let files: Files
    private let root: String
    /// The folders of the spools that were used; reloads may add some.
    private var spools: [String] = []
    /// The positions of folders' names in ``spools``.
    private var spoolOfFolder: [String: Int] = [:]
    private let freeByteCountMin: Int
    /// By key.
    private var writers: [UInt32: WriterBox<Files>] = [:]
    /// Spools whose last group was not stored.
    private var failing: Set<Int> = []
    /// Spools whose agent was asked to keep what it ships.
    private var asked: Set<Int> = []
    /// The keys whose writers stay open; `nil`: all.
    private var kept: Set<UInt32>?
    /// A key that is alone has the disk to itself.
    private var keyCount: Int
    private var shares = SpoolShares()
    private var window: RepeatWindow
    private var quarantine: DoorQuarantine<Files>
    private var windowGuard: WindowGuard<Files>
    private var generator: SeededGenerator
    private var buffer = ByteBuilder(capacity: 64 << 10)

    /// - Parameters:
    ///   - root: the folder of the spools.
    ///   - freeByteCountMin: free space on its file system that is left to others.
    ///   - places: of the program; those in memory find nothing that a process before it left.
    package init(
        root: String, quarantine: String, sources: [IngestSource], window: consuming RepeatWindow,
        freeByteCountMin: Int, files: Files, places: ReadingPlaces = ReadingPlaces(), _ generator: SeededGenerator
    ) {
        self.files = files
        self.root = root
        self.freeByteCountMin = freeByteCountMin
        self.window = window
        self.quarantine = DoorQuarantine(root: quarantine, files: files)
        self.windowGuard = WindowGuard(places, quarantine: quarantine, files: files)
        self.generator = generator
        self.keyCount = sources.count
        for source in sources { _ = self.add(Self.folder(of: source)) }
    }

    private mutating func add(_ folder: String) -> Int {
        if let index = self.spoolOfFolder[folder] { return index }
        self.spools.append(Path.join(self.root, folder))
        self.spoolOfFolder[folder] = self.spools.count - 1
        return self.spools.count - 1
    }

    /// The spool of a source; if a reload has brought it, the ids of what it has are known first.
    private mutating func spool(of source: IngestSource, _ now: MonotonicTime, _ wall: WallTime) -> Int {
        let folder = Self.folder(of: source)
        if let index = self.spoolOfFolder[folder] { return index }
        let index = self.add(folder)
        let since = wall.milliseconds * 1_000_000 - self.window.duration.nanoseconds
        _ = self.fill(index, since: since, now)
        return index
    }

    /// Closes the writers of keys that a reload took away, now and after each group: a request that came before the reload
    /// opens its writer again.
    package mutating func closeWriters(except sources: [IngestSource]) {
        self.kept = Set(sources.map(\.tag))
        self.keyCount = sources.count
        self.closeOthers()
    }

    private mutating func closeOthers() {
        guard let kept else { return }
        for key in Array(self.writers.keys) where !kept.contains(key) { self.writers[key] = nil }
    }

    /// Writers that are open.
    package var openCount: Int { self.writers.count }

    private static func folder(of source: IngestSource) -> String {
        "\(PercentText.encode(source.bundle))-\(source.environment.rawValue)"
    }

    /// Bounds how long days of the quarantine are kept; before that, all are.
    package mutating func keepQuarantine(dayCountMax: Int, since programDate: WallTime) {
        self.quarantine.keep(dayCountMax: dayCountMax, since: programDate)
    }

    /// Deletes one day of the quarantine that is too old, if there is one.
    package mutating func retireQuarantine(_ wall: WallTime) -> QuarantineRetirement { self.quarantine.retire(wall) }

    /// Faulty events that the quarantine had no room for.
    package var droppedCount: Int { self.quarantine.droppedCount }

    /// How far back repeats are known.
    package var reach: Duration { self.window.reach }

    /// Whether the spools that refused bytes take some again, tried with a file that is deleted at once.
    ///
    /// The quarantine is not tried: what it refuses is told by the next faulty event, and holds no one else up.
    package func takesBytes() -> Bool {
        do throws(FileSystemError) {
            for folder in self.failing.isEmpty ? [self.root] : self.failing.map({ self.spools[$0] }) {
                try self.files.createDirectories(folder)
                try self.tryWriting(in: folder)
            }
            return true
        } catch {
            return false
        }
    }

    private func tryWriting(in folder: String) throws(FileSystemError) {
        let path = Path.join(folder, ".trial")
        let file = try self.files.open(path, .replace)
        defer { self.files.close(file) }
        do throws(FileSystemError) {
            try self.files.writeAll(file, [UInt8](repeating: 0x0A, count: 64 << 10))
            try self.files.synchronize(file)
        } catch {
            try self.files.unlink(path)
            throw error
        }
        try self.files.unlink(path)
        guard self.freeByteCountMin > 0, try self.files.space(at: folder).freeByteCount < self.freeByteCountMin else {
            return
        }
        throw FileSystemError("space", path: folder, errno: Errno.noSpace)
    }

    /// Forgets what is older than the window.
    package mutating func turn(_ now: MonotonicTime) {
        self.window.turn(now)
    }

    /// Fills the window from segments that are there, or were kept after they were shipped.
    ///
    /// - Parameter since: where the window begins, nanoseconds since 1970: segments that were last written before are too old.
    /// - Returns: how many ids it has now.
    package mutating func fill(since: Int64, now: MonotonicTime) -> Int {
        var count = 0
        do throws(FileSystemError) {
            try self.windowGuard.load()
        } catch {
            // A line that ended the door ends it again, and then its segment is read as after the first time.
        }
        for index in self.spools.indices { count += self.fill(index, since: since, now) }
        return count
    }

    /// Looks again as long as there are new names: an agent renames what it has shipped, also between a look and a read.
    ///
    /// The agent is asked first: what it ships from now on stays.
    private mutating func fill(_ index: Int, since: Int64, _ now: MonotonicTime) -> Int {
        let spool = self.spools[index]
        var count = 0
        var known: Set<String> = []
        var coverage = SpoolCoverage()
        do throws(FileSystemError) {
            guard let folder = try self.folderTimes(of: spool) else { return 0 }
            // What fails here is done before anything is written.
            do throws(FileSystemError) { try self.ask(index) } catch {}
            try self.files.synchronizeDirectory(spool)
            for _ in 0..<Self.lookCountMax {
                let names = try self.files.list(spool).filter { $0.contains(".ndjson") && !known.contains($0) }
                guard !names.isEmpty else { break }
                known.formUnion(names)
                for name in names {
                    count += try self.fill(from: Path.join(spool, name), since: since, now, &coverage)
                }
            }
            if let begin = coverage.since(folderCreated: folder.created, folderChanged: folder.changed) {
                self.limitReach(to: begin, since: since, now)
            }
        } catch {
            // Without it repeats are found later: by providers, and by `--distinct`.
            self.limitReach(to: .max, since: since, now)
        }
        return count
    }

    /// When a folder was created, and got or lost its last name; `nil` if there is none.
    private func folderTimes(of spool: String) throws(FileSystemError) -> (created: Int64, changed: Int64)? {
        guard try self.files.status(at: spool) != nil else { return nil }
        let folder = try self.files.open(spool, .read)
        defer { self.files.close(folder) }
        let status = try self.files.status(folder)
        return (status.birth, status.modified)
    }

    /// Only what was stored from `begin` on is known for sure.
    ///
    /// - Parameter since: where the window begins.
    private mutating func limitReach(to begin: Int64, since: Int64, _ now: MonotonicTime) {
        let end = since.saturatingSum(self.window.duration.nanoseconds)
        let covered = Duration.nanoseconds(max(0, end.saturatingSum(-max(0, begin))))
        guard covered < self.window.duration else { return }
        self.window.lacks(before: now + (.zero - covered), now: now)
    }

    /// Asks the agent of a spool to keep what it has shipped for as long as ids are known.
    private mutating func ask(_ index: Int) throws(FileSystemError) {
        guard !self.asked.contains(index) else { return }
        try KeepRequest(self.window.duration).write(to: self.spools[index], on: self.files)
        self.asked.insert(index)
    }

    private static var lookCountMax: Int { 100 }

    /// - Returns: how many ids the file has; none if it is gone, under another name.
    private mutating func fill(
        from path: String, since: Int64, _ now: MonotonicTime, _ coverage: inout SpoolCoverage
    ) throws(FileSystemError) -> Int {
        do throws(FileSystemError) {
            guard let status = try self.files.status(at: path), status.kind == .regular else { return 0 }
            guard status.modified >= since else {
                coverage.add(Path.name(of: path), created: status.modified)
                return 0
            }
            guard let bytes = try self.files.contents(of: path, byteCountMax: 4 << 20) else { return 0 }
            // What a process that was killed had written may not be durable, and its last line may be torn.
            let file = try self.files.open(path, .read)
            defer { self.files.close(file) }
            try self.files.synchronize(file)
            let birth = try self.files.status(file).birth
            coverage.add(Path.name(of: path), created: birth > 0 ? birth : status.modified)
            // Names begin with the writer.
            guard let key = UniqueID.tag(ofWriter: String(Path.name(of: path).prefix(36))) else { return 0 }
            return try self.fill(from: bytes, at: path, of: key, now)
        } catch {
            guard error.errno == Errno.noEntry else { throw error }
            return 0
        }
    }

    private mutating func fill(
        from bytes: [UInt8], at path: String, of key: UInt32, _ now: MonotonicTime
    ) throws(FileSystemError) -> Int {
        var ids: [UniqueID] = []
        // An agent adds to the name what it has shipped.
        let name = Path.name(of: path).split(separator: ".", maxSplits: 1).first.map(String.init) ?? path
        try self.windowGuard.read(bytes, of: name) { line in
            // As `IngestedEvents.append` begins a line.
            guard line.count > 52,
                let id = UniqueID(text: String(decoding: line.dropFirst(13).prefix(36), as: UTF8.self))
            else { return }
            ids.append(id)
        }
        for id in ids { self.window.add(id, of: key, at: now) }
        return ids.count
    }

    /// What ended the door while it filled its window, once.
    package mutating func takeWindowNotices() -> [WindowNotice] { self.windowGuard.takeNotices() }

    /// Makes requests durable.
    ///
    /// - Returns: an outcome for each.
    package mutating func store(_ requests: [DoorRequest], now: MonotonicTime, wall: WallTime) -> [DoorOutcome] {
        self.window.turn(now)
        var outcomes = [DoorOutcome](repeating: .stored(DoorCounts()), count: requests.count)
        var counts = [DoorCounts](repeating: DoorCounts(), count: requests.count)
        var places: [UInt32: Place] = [:]
        for index in requests.indices {
            let source = requests[index].source
            let (spool, key) = (self.spool(of: source, now, wall), source.tag)
            places[key, default: Place(spool: spool, key: key)].indexes.append(index)
        }
        for place in places.values.sorted(by: { ($0.spool, $0.key) < ($1.spool, $1.key) }) {
            let failure = self.store(place, of: requests, now, wall, &counts)
            if let failure { self.refused(place, failure.outcome) } else { self.failing.remove(place.spool) }
            for index in place.indexes {
                outcomes[index] = failure.flatMap { $0.indexes.contains(index) ? $0.outcome : nil } ?? outcomes[index]
            }
        }
        let faulty = requests.indices.filter { !requests[$0].events.faults.isEmpty && outcomes[$0].isStored }
        if !faulty.isEmpty, let outcome = self.setAside(faulty, of: requests, wall, &counts) {
            for index in faulty { outcomes[index] = outcome }
        }
        for index in requests.indices where outcomes[index].isStored { outcomes[index] = .stored(counts[index]) }
        self.closeOthers()
        return outcomes
    }

    /// On a full disk what was shipped is worth less than what comes: the agent need not keep it.
    private mutating func refused(_ place: Place, _ outcome: DoorOutcome) {
        guard outcome != .share else { return }
        self.failing.insert(place.spool)
        guard outcome == .full else { return }
        self.asked.remove(place.spool)
        self.writers[place.key] = nil
        do throws(FileSystemError) {
            try self.files.unlink(Path.join(self.spools[place.spool], KeepRequest.name))
        } catch {
            // It was not there, or the agent keeps its own reserve.
        }
    }

    /// The requests of one key.
    private struct Place {
        let spool: Int
        let key: UInt32
        var indexes: [Int] = []
    }

    private struct Failure {
        let outcome: DoorOutcome
        let indexes: Set<Int>
    }

    private mutating func store(
        _ place: Place, of requests: [DoorRequest], _ now: MonotonicTime, _ wall: WallTime,
        _ counts: inout [DoorCounts]
    ) -> Failure? {
        let writer: WriterBox<Files>
        do throws(FileSystemError) {
            writer = try self.writer(of: place, wall)
        } catch {
            return Failure(outcome: Self.outcome(of: error), indexes: Set(place.indexes))
        }
        self.buffer.removeAll()
        var byteCounts: [Int] = []
        var owners: [(request: Int, id: UniqueID, isAddition: Bool)] = []
        /// The positions of ids in `owners`.
        var positions: [UniqueID: Int] = [:]
        /// Requests with an event of another one of this group: they are answered alike.
        var repeats: [(request: Int, position: Int)] = []
        var number = writer.writer.nextSequence
        for index in place.indexes {
            for line in requests[index].events.lines {
                if let position = positions[line.id] {
                    repeats.append((index, position))
                    if !line.isAddition { counts[index].repeatedCount += 1 }
                    continue
                }
                guard !self.window.contains(line.id, of: place.key) else {
                    if !line.isAddition { counts[index].repeatedCount += 1 }
                    continue
                }
                positions[line.id] = owners.count
                let start = self.buffer.count
                requests[index].events.append(
                    line, number: number, writer: writer.writer.writer, via: requests[index].dialect, to: &self.buffer)
                number += 1
                byteCounts.append(self.buffer.count - start)
                owners.append((index, line.id, line.isAddition))
            }
        }
        guard !byteCounts.isEmpty else { return nil }
        guard self.hasShare(of: self.buffer.count, for: place.key, now) else {
            return Failure(outcome: .share, indexes: Set(owners.map(\.request) + repeats.map(\.request)))
        }
        let written = byteCounts.withUnsafeBufferPointer {
            writer.writer.append(lines: self.buffer.bytes, byteCounts: $0)
        }
        let sync = writer.writer.sync
        do throws(SpoolSyncFailure) {
            try sync.perform(on: self.files)
            writer.writer.synced(sync)
        } catch {
            self.writers[place.key] = nil
            return Failure(
                outcome: Self.outcome(of: error.error), indexes: Set(owners.map(\.request) + repeats.map(\.request)))
        }
        for owner in owners.prefix(written.storedCount) {
            self.window.add(owner.id, of: place.key, at: now)
            if !owner.isAddition { counts[owner.request].storedCount += 1 }
        }
        guard let failure = written.failure else { return nil }
        let unstored =
            owners.dropFirst(written.storedCount).map(\.request)
            + repeats.filter { $0.position >= written.storedCount }.map(\.request)
        return Failure(outcome: Self.outcome(of: failure), indexes: Set(unstored))
    }

    /// Whether a key may take so many bytes more of the disk.
    private mutating func hasShare(of byteCount: Int, for key: UInt32, _ now: MonotonicTime) -> Bool {
        guard self.keyCount > 1 else { return true }
        let (files, root, reserve) = (self.files, self.root, self.freeByteCountMin)
        return self.shares.take(byteCount, for: key, at: now) {
            do throws(FileSystemError) {
                guard let byteCounts = SpoolUsage.byteCounts(of: root, on: files) else { return nil }
                return .init(byteCounts: byteCounts, freeByteCount: try files.space(at: root).freeByteCount - reserve)
            } catch {
                return nil
            }
        }
    }

    private mutating func writer(of place: Place, _ wall: WallTime) throws(FileSystemError) -> WriterBox<Files> {
        if let writer = self.writers[place.key] { return writer }
        let spool = place.spool
        // Before the folder is created: ``SpoolCoverage`` compares the two times.
        let id = UniqueID.writer(of: place.key, wall.milliseconds, &self.generator).text
        if !self.asked.contains(spool) {
            try self.files.createDirectories(self.spools[spool])
            do throws(FileSystemError) {
                try self.ask(spool)
            } catch  where error.isDiskFull {
                throw error
            } catch {
                // Events are worth more than the request, which the next writer tries again.
            }
        }
        let writer = WriterBox(
            try SpoolWriter(
                directory: self.spools[spool], writer: id, on: self.files, freeByteCountMin: self.freeByteCountMin))
        self.writers[place.key] = writer
        return writer
    }

    /// Puts the faulty events of requests into the quarantine; what it has no room for is counted.
    private mutating func setAside(
        _ indexes: [Int], of requests: [DoorRequest], _ wall: WallTime, _ counts: inout [DoorCounts]
    ) -> DoorOutcome? {
        do throws(FileSystemError) {
            for index in indexes {
                let request = requests[index]
                var faults = request.events.faults[...]
                while let first = faults.first {
                    let event = request.body[first.range]
                    // Equal ones that follow each other are one line.
                    let count = faults.prefix { $0.reason == first.reason && request.body[$0.range] == event }.count
                    faults.removeFirst(count)
                    let isKept = try self.quarantine.add(
                        event, count: count, first.reason, request.dialect, request.source, request.address, wall)
                    if isKept { counts[index].quarantinedCount += count } else { counts[index].droppedCount += count }
                }
            }
            try self.quarantine.synchronize()
            return nil
        } catch {
            self.quarantine.giveUp()
            return Self.outcome(of: error)
        }
    }

    private static func outcome(of error: FileSystemError) -> DoorOutcome { error.isDiskFull ? .full : .failed }
}

/// A writer in a dictionary, which cannot hold what is not copyable.
private final class WriterBox<Files: FileSystem> {
    var writer: SpoolWriter<Files>

    init(_ writer: consuming SpoolWriter<Files>) {
        self.writer = writer
    }
}
