internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// Repairs externally damaged archive files from the batches that the journal still has.
///
/// A file that is missing or shorter than its checkpoint: the remaining runs are kept, the runs after them are taken
/// from the journal as far back as it reaches, and the damaged pair is set aside.
///
///     1. part-00001.ndjson.repair, .sources.repair are written and synced
///     2. one commit: the new lengths, and that the pair is to be exchanged
///     3. the old pair moves to set-aside/, the new one takes its names
///     4. one commit: the exchange is done
///
/// A checkpoint that is lost, or older than the journal's first batch: it is rebuilt from the `.sources`, which list
/// the runs in each file. No bytes that a run covers are cut off, and nothing is projected twice.
extension ArchiveProjection {
    private static var repairPrefix: String { "repair:" }
    private static var repairSuffix: String { ".repair" }
    static var suffixes: [String] { [".ndjson", ".sources"] }

    /// A run as identified in a `.sources` file: its stream, and the offset of its first line.
    private struct RunKey: Hashable {
        let name: StreamName
        let offset: StreamOffset

        init(_ run: SourceRun) {
            self.name = run.description.name
            self.offset = run.offset
        }

        init(_ run: RoutedRun, of batch: ProjectedBatch) {
            self.name = batch.description.name
            self.offset = batch.offset.advanced(by: run.range.lowerBound)
        }
    }

    // MARK: A lost checkpoint

    /// Rebuilds the checkpoint from the files if it is lost or the journal no longer reaches back to it.
    ///
    /// - Returns: a description of the repair, for logs.
    mutating func rebuildCheckpoint() throws(FileSystemError) -> String? {
        let coverage = JournalCoverage(directory: self.journal, files: self.files)
        let first = try coverage.first()
        let old = self.checkpointedPosition
        if self.state.entries["position"] != nil {
            guard let first, first > old else { return nil }
        } else if try coverage.isWhole(from: old) {
            // Never committed, or lost while the journal has everything: projecting it again restores all.
            return nil
        }
        var stems: Set<String> = []
        for root in Self.roots { try self.collectStems(root, into: &stems) }
        // Sealed files are recorded in a manifest.
        for stem in stems.sorted() where try self.isSealed(stem) { stems.remove(stem) }
        guard !stems.isEmpty || first ?? old > old else { return nil }
        let found = try self.runsOnDisk(stems.sorted())
        let position = try self.firstUnarchived(found.holders, from: first ?? old, upTo: try coverage.end())
        var changes: [String: String?] = ["position": String(position.position.rawValue)]
        for path in self.checkpointedLengths.keys { changes.updateValue(nil, forKey: FileSet<Files>.keyPrefix + path) }
        for (stem, ends) in found.ends {
            var lines = ends.lines
            var sources = ends.sources
            if let cut = position.cuts[stem] { (lines, sources) = (cut.lines, cut.sources) }
            changes[FileSet<Files>.keyPrefix + stem + ".ndjson"] = String(lines)
            changes[FileSet<Files>.keyPrefix + stem + ".sources"] = String(sources)
        }
        try self.secure(stems.sorted().flatMap { stem in Self.suffixes.map { stem + $0 } })
        try self.state.commit(changes)
        let why =
            old == JournalPosition(0)
            ? "the archive's checkpoint was lost" : "the journal no longer reaches back to the checkpoint at \(old)"
        return "\(why); it was rebuilt at \(position.position) from the .sources of \(stems.count) files"
            + found.aside.map { ", set aside \($0)" }.joined()
    }

    /// Makes the bytes durable of which the last checkpoint does not speak.
    ///
    /// The process that wrote them died before its checkpoint, perhaps because their sync had failed.
    private func secure(_ paths: [String]) throws(FileSystemError) {
        var uncommitted: [String] = []
        for path in paths {
            let byteCount = try self.files.status(at: Path.join(self.root, path))?.byteCount ?? 0
            if byteCount > self.checkpointedLengths[path] ?? -1 { uncommitted.append(path) }
        }
        try DataDirectory(root: self.root, files: self.files).rewrite(uncommitted)
    }

    private func collectStems(_ path: String, into stems: inout Set<String>) throws(FileSystemError) {
        guard let status = try self.files.status(at: Path.join(self.root, path)) else { return }
        guard status.kind == .directory else {
            for suffix in Self.suffixes where Self.isOwnName(Path.name(of: path)) && path.hasSuffix(suffix) {
                stems.insert(String(path.dropLast(suffix.utf8.count)))
            }
            return
        }
        for name in try self.files.list(Path.join(self.root, path)) {
            try self.collectStems(Path.join(path, name), into: &stems)
        }
    }

    /// Whether a pair of files was sealed, which leaves only its `.sources`.
    private func isSealed(_ stem: String) throws(FileSystemError) -> Bool {
        guard try self.files.status(at: Path.join(self.root, stem + ".ndjson")) == nil else { return false }
        return try self.files.status(at: Path.join(self.root, stem + ".ndjson.gz")) != nil
    }

    /// Where a pair of files ends.
    private typealias PairEnd = (lines: Int, sources: Int)
    /// A run in a file, and where the `.sources` ended before it.
    private typealias Holder = (offset: StreamOffset, stem: String, range: Range<Int>, sources: Int)
    /// By stream, ascending by offset.
    private typealias Holders = [StreamName: [Holder]]

    /// The contents of each pair of files by its runs; lines after the last run are set aside.
    private func runsOnDisk(
        _ stems: [String]
    ) throws(FileSystemError) -> (
        holders: Holders, ends: [String: PairEnd], aside: [String]
    ) {
        var holders: Holders = [:]
        var ends: [String: PairEnd] = [:]
        var aside: [String] = []
        for stem in stems {
            let lines = try self.files.status(at: Path.join(self.root, stem + ".ndjson"))?.byteCount ?? 0
            ends[stem] = (0, 0)
            let path = Path.join(self.root, stem + ".sources")
            if let status = try self.files.status(at: path) {
                var reader = try SourceRuns(
                    path: path, byteCount: status.byteCount, linesByteCount: lines, files: self.files)
                while let item = try reader.next() {
                    guard case .run(let run, let end) = item else { continue }
                    // What a power cut has torn ends the file: the next line would be glued to it.
                    guard try self.isWhole(run, in: stem) else { break }
                    holders[run.description.name, default: []].append(
                        (run.offset, stem, run.range, ends[stem]?.sources ?? 0))
                    ends[stem] = (run.range.upperBound, end)
                }
            }
            if let end = ends[stem]?.lines, end < lines {
                let kept = SetAside(root: self.root, files: self.files)
                aside.append(try kept.copyTail(of: stem + ".ndjson", from: end))
            }
        }
        return (holders.mapValues { $0.sorted { $0.offset < $1.offset } }, ends, aside)
    }

    /// Whether a run has the bytes that its `.sources` say, as far as no checkpoint vouches for them: its lines, and in the
    /// archive no NUL.
    private func isWhole(_ run: SourceRun, in stem: String) throws(FileSystemError) -> Bool {
        guard run.range.upperBound > self.checkpointedLengths[stem + ".ndjson"] ?? 0, !run.range.isEmpty else {
            return true
        }
        return try self.files.hasLines(
            at: Path.join(self.root, stem + ".ndjson"), in: run.range, mayHaveNULs: stem.hasPrefix("quarantine"))
    }

    /// The first batch of the journal that is not completely in the files, or the end of the last batch, and where to cut
    /// the files before it.
    ///
    /// What follows the last batch may not be durable: a journal that lost it would end before the checkpoint.
    private func firstUnarchived(
        _ holders: Holders, from first: JournalPosition, upTo end: JournalPosition
    ) throws(FileSystemError) -> (position: JournalPosition, cuts: [String: PairEnd]) {
        var router = ArchiveRouter(
            zone: self.recordedZone, apps: try self.apps(), erased: self.erased, poison: self.poison)
        let recorded = try RecordedPlaces(root: self.root, files: self.files)
        var reader = BatchReader(journalDirectory: self.journal, position: first, files: self.files)
        var sealedBefore: [String: JournalPosition] = [:]
        var position: JournalPosition?
        var cuts: [String: PairEnd] = [:]
        var batchEnd = first
        while let batch = try reader.next(upTo: end) {
            batchEnd = reader.position
            let runs = Self.runs(of: batch, in: holders)
            if position == nil {
                _ = router.route(batch) { recorded.hasLines(of: batch, in: $0) }
                if let failure = recorded.failure { throw failure }
                for index in router.touched where position == nil {
                    let route = router.routes[index]
                    if try self.isSealed(route, batch, &sealedBefore) { continue }
                    if try !self.hold(runs, route, of: batch) { position = batch.position }
                }
                _ = router.finishBatch()
            }
            guard position != nil else { continue }
            for run in runs where run.sources < cuts[run.stem]?.sources ?? .max {
                cuts[run.stem] = (run.range.lowerBound, run.sources)
            }
        }
        return (position ?? batchEnd, cuts)
    }

    /// The runs of a batch, which are those that begin in it.
    private static func runs(of batch: ProjectedBatch, in holders: Holders) -> ArraySlice<Holder> {
        let known = holders[batch.description.name] ?? []
        let start = known.firstIndex(atOrAfter: batch.offset, of: \.offset)
        let end = known.firstIndex(atOrAfter: batch.offset.advanced(by: batch.raw.count), of: \.offset)
        return known[start..<max(start, end)]
    }

    /// Whether a batch's lines for a day are in the day's sealed files.
    private func isSealed(
        _ route: ArchiveRouter.Route, _ batch: ProjectedBatch, _ sealedBefore: inout [String: JournalPosition]
    ) throws(FileSystemError) -> Bool {
        guard route.isDay else { return false }
        if let known = sealedBefore[route.place] { return batch.position < known }
        let position = try self.standing(of: route.place).sealedBefore
        sealedBefore[route.place] = position
        return batch.position < position
    }

    /// Whether a file has a route's runs, one after the other, and their bytes; unsynced bytes may be arbitrary after a
    /// power cut.
    private func hold(
        _ runs: ArraySlice<Holder>, _ route: ArchiveRouter.Route, of batch: ProjectedBatch
    ) throws(FileSystemError) -> Bool {
        var stem: String?
        var range = 0..<0
        for run in route.runs {
            let offset = batch.offset.advanced(by: run.range.lowerBound)
            let held = runs[runs.firstIndex(atOrAfter: offset, of: \.offset)...].prefix { $0.offset == offset }
                .first { stem == nil ? route.mayBe(in: $0.stem) : $0.stem == stem }
            guard let held, held.range.count == run.byteCount(of: batch.raw),
                stem == nil || held.range.lowerBound == range.upperBound
            else { return false }
            range = (stem == nil ? held.range.lowerBound : range.lowerBound)..<held.range.upperBound
            stem = held.stem
        }
        guard let stem, let file = try self.openIfThere(stem + ".ndjson") else { return false }
        defer { self.files.close(file) }
        var checksum: UInt32 = 0
        route.pieces(of: batch.raw) { checksum = FrameChecksum.checksum(continuing: checksum, $0) }
        return try self.checksum(of: file, range) == checksum
    }

    private static func checksum(of run: RoutedRun, _ batch: ProjectedBatch) -> UInt32 {
        var checksum: UInt32 = 0
        run.pieces(of: batch.raw) { checksum = FrameChecksum.checksum(continuing: checksum, $0) }
        return checksum
    }

    /// The time zone of the days that the archive last wrote.
    private var recordedZone: TimeZoneRules {
        let name = self.state.entries["zone"] ?? self.router.zone.name
        guard name != self.router.zone.name else { return self.router.zone }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: name, from: self.files)
        } catch {
            // This machine does not know the zone, so its days cannot be distinguished from the configured one's.
            return self.router.zone
        }
    }

    // MARK: Damaged files

    /// One damaged pair of files.
    private struct Damaged {
        let stem: String
        /// The length in the checkpoint.
        let lines: Int
        let sources: Int
        /// The remaining length, at most ``lines``.
        let linesLeft: Int
        let runs: [SourceRun]
        /// The file's runs in the journal, in order, with their bytes' checksums.
        var items: [Item] = []
        /// The number of bytes kept from the file.
        var keptByteCount = 0
        var keptRuns: [SourceRun] = []
        /// The runs taken from the journal.
        var wanted: Set<RunKey> = []
        /// The length of the new file so far.
        var end = 0
        var newSources = SourcesText()
        var rebuiltByteCount = 0

        init(stem: String, lines: Int, sources: Int, linesLeft: Int, runs: [SourceRun]) {
            self.stem = stem
            self.lines = lines
            self.sources = sources
            self.linesLeft = linesLeft
            self.runs = runs
        }
    }

    /// Where the lines of damaged files belong, which is not decided by their day alone.
    private struct Places {
        struct Day {
            /// The damaged files of the day, with the runs in their `.sources`.
            var damaged: [(stem: String, keys: Set<RunKey>)] = []
            /// The runs in other open files of the day.
            var elsewhere: Set<RunKey> = []
            var standing = DayStanding()
            var seal: Seal?
        }

        var days: [String: Day] = [:]
        var quarantined: Set<String> = []

        /// The damaged file in which a run belongs; `nil` if it belongs in another file.
        func stem(of run: RoutedRun, _ route: ArchiveRouter.Route, _ batch: ProjectedBatch) -> String? {
            guard route.isDay else { return self.quarantined.contains(route.place) ? route.place : nil }
            guard let day = self.days[route.place], batch.position >= day.standing.sealedBefore else { return nil }
            let key = RunKey(run, of: batch)
            if let known = day.damaged.first(where: { $0.keys.contains(key) }) { return known.stem }
            if day.elsewhere.contains(key) { return nil }
            // The .sources do not have it, so the position at which the sealing began decides.
            var name = DayFolder.openPart(revision: day.standing.revision)
            if let seal = day.seal, batch.position.rawValue < seal.position { name = seal.stem }
            return day.damaged.first { Path.name(of: $0.stem) == name }?.stem
        }
    }

    private func places(of damaged: [String: Damaged]) throws(FileSystemError) -> Places {
        var places = Places()
        for (stem, pair) in damaged.sorted(by: { $0.key < $1.key }) {
            let folder = Path.parent(of: stem)
            guard DayFolder(path: folder) != nil else {
                places.quarantined.insert(stem)
                continue
            }
            var day = places.days[folder] ?? Places.Day()
            if day.damaged.isEmpty {
                day.standing = try self.standing(of: folder)
                day.seal = self.seals[folder]
                for path in self.checkpointedLengths.keys.sorted()
                where path.hasSuffix(".ndjson") && Path.parent(of: path) == folder {
                    let other = String(path.dropLast(7))
                    guard damaged[other] == nil else { continue }
                    day.elsewhere.formUnion(try self.damage(of: other).runs.map { RunKey($0) })
                }
            }
            day.damaged.append((stem, Set(pair.runs.map { RunKey($0) })))
            places.days[folder] = day
        }
        return places
    }

    private struct Item {
        let key: RunKey
        let byteCount: Int
        let checksum: UInt32
    }

    /// Repairs files that are shorter than in the checkpoint.
    ///
    /// - Returns: the result for each file, for logs.
    mutating func repair(_ shortFiles: [String: Int]) throws(FileSystemError) -> [String] {
        var stems: Set<String> = []
        for path in shortFiles.keys {
            for suffix in Self.suffixes where path.hasSuffix(suffix) {
                stems.insert(String(path.dropLast(suffix.utf8.count)))
            }
        }
        var damaged: [String: Damaged] = [:]
        for stem in stems.sorted() { damaged[stem] = try self.damage(of: stem) }
        let places = try self.places(of: damaged)
        try self.visitJournal { run, route, batch in
            guard let stem = places.stem(of: run, route, batch) else { return }
            damaged[stem]?.items.append(
                Item(
                    key: RunKey(run, of: batch), byteCount: run.byteCount(of: batch.raw),
                    checksum: Self.checksum(of: run, batch)))
        }
        for stem in stems.sorted() {
            if let plan = try damaged[stem].map({ pair throws(FileSystemError) in try self.plan(pair, places) }) {
                damaged[stem] = plan
            }
        }
        try self.write(&damaged, places)
        var changes: [String: String?] = [:]
        var notes: [String] = []
        for stem in stems.sorted() {
            guard let pair = damaged[stem] else { continue }
            let sources = try self.files.status(at: Path.join(self.root, stem + ".sources" + Self.repairSuffix))
            changes[FileSet<Files>.keyPrefix + stem + ".ndjson"] = String(pair.end)
            changes[FileSet<Files>.keyPrefix + stem + ".sources"] = String(sources?.byteCount ?? 0)
            changes[Self.repairPrefix + stem] = "1"
            notes.append(
                "\(stem).ndjson: \(pair.lines - pair.linesLeft) bytes were missing, \(pair.rebuiltByteCount) rebuilt "
                    + "from the journal, \(max(0, pair.lines - pair.end)) are lost; the rest of it is in "
                    + SetAside<Files>.folder)
        }
        try self.state.commit(changes)
        try self.finishRepairs()
        return notes
    }

    /// Completes the exchanges recorded in the checkpoint.
    mutating func finishRepairs() throws(FileSystemError) {
        let aside = SetAside(root: self.root, files: self.files)
        var changes: [String: String?] = [:]
        for key in self.state.entries.keys.sorted() where key.hasPrefix(Self.repairPrefix) {
            let stem = String(key.dropFirst(Self.repairPrefix.utf8.count))
            for suffix in Self.suffixes {
                let path = stem + suffix
                let new = Path.join(self.root, path + Self.repairSuffix)
                guard try self.files.status(at: new) != nil else { continue }
                if let damaged = try self.openIfThere(path) {
                    defer { self.files.close(damaged) }
                    try self.narrow(new, like: damaged)
                    _ = try aside.move(path)
                }
                try self.files.rename(new, to: Path.join(self.root, path))
            }
            try self.files.synchronizeDirectory(Path.parent(of: Path.join(self.root, stem)))
            changes.updateValue(nil, forKey: key)
        }
        try self.state.commit(changes)
    }

    private func damage(of stem: String) throws(FileSystemError) -> Damaged {
        let lengths = self.checkpointedLengths
        let lines = lengths[stem + ".ndjson"] ?? 0
        let sources = lengths[stem + ".sources"] ?? 0
        let left = try self.files.status(at: Path.join(self.root, stem + ".ndjson"))?.byteCount ?? 0
        var runs: [SourceRun] = []
        try SourceRuns.visit(
            Path.join(self.root, stem + ".sources"), byteCount: sources, linesByteCount: lines, files: self.files
        ) { runs.append($0) }
        return Damaged(stem: stem, lines: lines, sources: sources, linesLeft: min(left, lines), runs: runs)
    }

    /// Reads the journal up to the checkpoint and calls `body` for each run of each batch, file by file.
    private func visitJournal(
        _ body: (RoutedRun, ArchiveRouter.Route, ProjectedBatch) -> Void
    ) throws(FileSystemError) {
        let coverage = JournalCoverage(directory: self.journal, files: self.files)
        guard let first = try coverage.first() else { return }
        var router = ArchiveRouter(
            zone: self.recordedZone, apps: try self.apps(), erased: self.erased, poison: self.poison)
        let recorded = try RecordedPlaces(root: self.root, files: self.files)
        var reader = BatchReader(journalDirectory: self.journal, position: first, files: self.files)
        while let batch = try reader.next(upTo: self.checkpointedPosition) {
            _ = router.route(batch) { recorded.hasLines(of: batch, in: $0) }
            if let failure = recorded.failure { throw failure }
            for index in router.touched {
                for run in router.routes[index].runs { body(run, router.routes[index], batch) }
            }
            _ = router.finishBatch()
        }
    }

    /// Decides which bytes of a damaged pair are kept and which are taken from the journal.
    private func plan(_ pair: Damaged, _ places: Places) throws(FileSystemError) -> Damaged {
        var pair = pair
        let keys = Set(pair.items.map(\.key))
        var slots = pair.runs
        // A file of empty lines alone has no bytes, and its runs are in the journal or nowhere.
        if pair.runs.last?.range.upperBound ?? 0 < pair.lines || pair.lines == 0 {
            slots = try self.alignedRuns(of: pair, places) ?? slots
        }
        let path = Path.join(self.root, pair.stem + ".ndjson")
        // The run in which the file now ends, or else the bytes that no run covers.
        let broken = slots.first { $0.range.upperBound > pair.linesLeft }
        if let broken, broken.range.lowerBound <= pair.linesLeft, keys.contains(RunKey(broken)) {
            pair.keptByteCount = broken.range.lowerBound
        } else if pair.linesLeft == pair.lines {
            pair.keptByteCount = pair.lines
        } else {
            pair.keptByteCount = try self.files.lineEnd(of: path, upTo: pair.linesLeft)
        }
        for run in slots {
            if run.range.upperBound <= pair.keptByteCount {
                pair.keptRuns.append(run)
            } else if run.range.lowerBound < pair.keptByteCount {
                let range = run.range.lowerBound..<pair.keptByteCount
                pair.keptRuns.append(
                    SourceRun(
                        description: run.description, offset: run.offset, receivedAt: run.receivedAt, range: range,
                        lineCount: try self.lineCount(in: path, range) + run.absentLineCount,
                        emptyLineCount: run.emptyLineCount, erasedByteCount: run.erasedByteCount,
                        isPoison: run.isPoison, shiftedAt: run.shiftedAt))
            } else if keys.contains(RunKey(run)) {
                pair.wanted.insert(RunKey(run))
            }
        }
        return pair
    }

    /// The runs of a file whose sources are damaged, if the journal's are the last in the file.
    ///
    /// - Returns: `nil` if the remaining bytes contradict that.
    private func alignedRuns(of pair: Damaged, _ places: Places) throws(FileSystemError) -> [SourceRun]? {
        var known: [RunKey: SourceRun] = [:]
        for run in pair.runs { known[RunKey(run)] = run }
        var start = pair.lines - pair.items.reduce(0) { $0 + $1.byteCount }
        var runs = pair.runs.filter { $0.range.upperBound <= start }
        guard start >= 0, let file = try self.openIfThere(pair.stem + ".ndjson") else {
            return start >= 0 ? try self.describe(pair, places, from: start) : nil
        }
        defer { self.files.close(file) }
        for item in pair.items {
            let range = start..<(start + item.byteCount)
            if let run = known[item.key], run.range != range { return nil }
            if range.upperBound <= pair.linesLeft, try self.checksum(of: file, range) != item.checksum { return nil }
            start = range.upperBound
        }
        runs += try self.describe(pair, places, from: pair.lines - pair.items.reduce(0) { $0 + $1.byteCount })
        return runs
    }

    /// The pair's runs in the journal, from `start` on.
    private func describe(
        _ pair: Damaged, _ places: Places, from start: Int
    ) throws(FileSystemError) -> [SourceRun] {
        var runs: [SourceRun] = []
        var start = start
        try self.visitJournal { run, route, batch in
            guard places.stem(of: run, route, batch) == pair.stem else { return }
            let source = run.source(of: batch, at: start)
            runs.append(source)
            start = source.range.upperBound
        }
        return runs
    }

    /// Writes the new pairs next to the old ones.
    private func write(_ damaged: inout [String: Damaged], _ places: Places) throws(FileSystemError) {
        var set = FileSet(root: self.root, files: self.files)
        for stem in damaged.keys.sorted() {
            guard var pair = damaged[stem] else { continue }
            for suffix in Self.suffixes {
                let path = Path.join(self.root, stem + suffix + Self.repairSuffix)
                if try self.files.status(at: path) != nil { try self.files.unlink(path) }
            }
            let lines = set.index(of: stem + ".ndjson" + Self.repairSuffix)
            let sources = set.index(of: stem + ".sources" + Self.repairSuffix)
            try set.append([UInt8](), to: lines)
            try set.append([UInt8](), to: sources)
            try self.copy(stem + ".ndjson", upTo: pair.keptByteCount, to: lines, of: &set)
            pair.end = pair.keptByteCount
            for run in pair.keptRuns { try set.append(pair.newSources.line(of: run), to: sources) }
            damaged[stem] = pair
        }
        var failure: FileSystemError?
        try self.visitJournal { run, route, batch in
            guard failure == nil, let stem = places.stem(of: run, route, batch),
                damaged[stem]?.wanted.remove(RunKey(run, of: batch)) != nil, let end = damaged[stem]?.end
            else { return }
            do throws(FileSystemError) {
                let lines = set.index(of: stem + ".ndjson" + Self.repairSuffix)
                var bytes: [UInt8] = []
                run.pieces(of: batch.raw) { bytes.append(contentsOf: $0) }
                try set.append(bytes, to: lines)
                let sources = set.index(of: stem + ".sources" + Self.repairSuffix)
                try set.append(damaged[stem]?.newSources.line(of: run.source(of: batch, at: end)) ?? [], to: sources)
                damaged[stem]?.end += bytes.count
                damaged[stem]?.rebuiltByteCount += bytes.count
            } catch {
                failure = error
            }
        }
        if let failure { throw failure }
        _ = try set.synchronize()
    }

    // MARK: Bytes

    private func narrow(_ path: String, like source: FileID) throws(FileSystemError) {
        let file = try self.files.open(path, .append)
        defer { self.files.close(file) }
        try self.files.narrow(file, like: source)
    }

    private func openIfThere(_ path: String) throws(FileSystemError) -> FileID? {
        let absolute = Path.join(self.root, path)
        return try self.files.status(at: absolute) == nil ? nil : try self.files.open(absolute, .read)
    }

    private func copy(
        _ path: String, upTo byteCount: Int, to index: FileSet<Files>.Index, of set: inout FileSet<Files>
    ) throws(FileSystemError) {
        guard byteCount > 0, let file = try self.openIfThere(path) else { return }
        defer { self.files.close(file) }
        try self.files.visit(file, 0..<byteCount) { (piece) throws(FileSystemError) in
            try set.append([piece], to: index)
        }
    }

    private func checksum(of file: FileID, _ range: Range<Int>) throws(FileSystemError) -> UInt32 {
        var checksum: UInt32 = 0
        try self.files.visit(file, range) { (piece) throws(FileSystemError) in
            checksum = FrameChecksum.checksum(continuing: checksum, piece)
        }
        return checksum
    }

    private func lineCount(in path: String, _ range: Range<Int>) throws(FileSystemError) -> Int {
        let file = try self.files.open(path, .read)
        defer { self.files.close(file) }
        var count = 0
        try self.files.visit(file, range) { (piece) throws(FileSystemError) in count += piece.count { $0 == 0x0A } }
        return count
    }
}
