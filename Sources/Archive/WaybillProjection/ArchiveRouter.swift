package import WaybillData
internal import WaybillEvent
package import WaybillExport
internal import WaybillProtocol
package import WaybillSystem

internal import WaybillJSON

/// Decides which file of the archive or the quarantine each line of a batch belongs in; accesses no disk.
///
/// The live projection, the repair of a damaged file and the verification use the same router, so they cannot disagree.
package struct ArchiveRouter: ~Copyable {
    /// The lines for one day of an app or one file of the quarantine.
    package struct Route {
        /// Below the data directory: a day's folder, or the quarantine file's path without `.ndjson`.
        package let place: String
        /// Whether ``place`` is a day's folder; the part in which the lines belong depends on when the day was sealed.
        package let isDay: Bool
        /// Runs of the current batch, in order.
        package fileprivate(set) var runs: [RoutedRun] = []
        /// The lines of all runs.
        package fileprivate(set) var lineCount = 0

        /// Whether it has the lines of apps, or days, that were too many.
        let isOverflow: Bool

        fileprivate init(place: String, isDay: Bool, isOverflow: Bool = false) {
            self.place = place
            self.isDay = isDay
            self.isOverflow = isOverflow
        }

        /// Whether the lines can be in the file with that stem.
        package func mayBe(in stem: String) -> Bool {
            self.isDay ? Path.parent(of: stem) == self.place : stem == self.place
        }
    }

    private struct Key: Hashable {
        let env: DeploymentEnvironment
        var bundle: String
        var day: CalendarDay

        var place: String { "archive/env=\(self.env.rawValue)/bundle=\(self.bundle)/date=\(self.day)" }
        var text: String { "\(self.env.rawValue)/\(self.bundle)/\(self.day)" }
    }

    /// The files that lines were routed to, in the order of their first line.
    package private(set) var routes: [Route] = []
    /// The routes of the current batch.
    package private(set) var touched: [Int] = []
    package var zone: TimeZoneRules { self.days.rules }
    private var days: DayCursor
    private var keys: [Key: Int] = [:]
    private var quarantines: [String: Int] = [:]
    private var readers: EventReaders
    private var apps: Set<String>
    private var creations: PartitionCreations
    /// The days that principals may write to.
    private(set) var granted: GrantedDays
    /// Where lines of this batch belong that do not belong in the folder of their app and day.
    private var recordedKeys: [Key: Key] = [:]

    /// Whether a day's folder has lines of the batch, according to what was recorded when they were written.
    package typealias IsRecorded = (_ place: String) -> Bool

    /// Distinct files in memory before the table is reset; about 300 bytes each.
    private static var routeCountMax: Int { 10_000 }
    /// Runs for which a route keeps its memory from batch to batch; 32 bytes each.
    private static var runCapacityMax: Int { 4096 }
    /// Distinct apps before further ones share a folder.
    private static var appCountMax: Int { 1_000 }
    /// From so many on, accounts that have created many get no more.
    private static var scarceAppCount: Int { 750 }

    /// Prepares a router.
    ///
    /// - Parameters:
    ///   - apps: existing folders of apps.
    ///   - entries: of the archive's checkpoint.
    ///   - erased: the people whose lines are counted and not stored.
    ///   - poison: the lines that are not read.
    package init(
        zone: TimeZoneRules, apps: Set<String> = [], quotas: PartitionQuotas = PartitionQuotas(),
        entries: [String: String] = [:], erased: ErasedPeople? = nil, poison: PoisonedLines? = nil
    ) {
        self.readers = EventReaders(erased: erased, poison: poison)
        self.days = DayCursor(zone)
        self.apps = apps
        self.creations = PartitionCreations(quotas)
        self.granted = GrantedDays(quotas, entries)
    }

    /// An archive's folders of apps, from the paths in its checkpoint and from the disk.
    package static func apps(
        in data: DataDirectory<some FileSystem>, _ paths: some Sequence<String>
    ) throws(FileSystemError) -> Set<String> {
        var apps = try data.archivedBundles()
        for path in paths {
            if let folder = DayFolder(path: Path.parent(of: path)) { apps.insert(folder.bundle) }
        }
        return apps.subtracting([PartitionPath.overflowBundle])
    }

    /// Changes which lines are not read, for the batches from now on.
    mutating func use(_ poison: PoisonedLines) {
        self.readers.use(poison)
    }

    /// Says that a checkpoint has what was decided so far.
    mutating func committed() {
        self.granted.committed()
    }

    /// Routes every line of a batch; ``touched`` and ``routes`` have the result until ``finishBatch()``.
    ///
    /// - Parameter isRecorded: for a batch that was routed before: quotas decided then, and are not asked again.
    /// - Returns: how many lines are events, and how many are not.
    package mutating func route(
        _ batch: ProjectedBatch, isRecorded: IsRecorded? = nil
    ) -> (archived: Int, quarantined: Int) {
        self.creations.begin(receivedAt: batch.receivedAt)
        self.recordedKeys.removeAll(keepingCapacity: true)
        let reader = self.readers.reader(for: batch.description)
        let source = reader.source
        var counts = (archived: 0, quarantined: 0)
        var last = (index: -1, content: RoutedRun.Content.stored)
        var lastFacts: EventFacts?
        var lastLine = UnsafeRawBufferPointer(start: nil, count: 0)
        batch.raw.forEachLine { range in
            if range.isEmpty {
                self.add(
                    range.lowerBound..<(range.lowerBound + 1), as: .emptyLines,
                    to: self.quarantine(.empty, receivedAt: batch.receivedAt))
                counts.quarantined += 1
                return
            }
            let line = UnsafeRawBufferPointer(rebasing: batch.raw[range])
            // Including its LF; a stream's last line may lack one, which is then added when it is written.
            let bytes = range.lowerBound..<min(range.upperBound + 1, batch.raw.count)
            switch reader.read(line, at: batch.offset.rawValue + UInt64(range.lowerBound)) {
            case .event(let facts):
                if last.index < 0 || !self.isSamePartition(facts, line, lastFacts, lastLine) {
                    last = self.partition(of: facts, line, source, batch, isRecorded)
                }
                lastFacts = facts
                lastLine = line
                self.add(bytes, as: last.content, to: last.index)
                counts.archived += 1
            case .quarantine(let reason):
                self.add(
                    bytes, as: reason == .erased ? .erased : reason == .poison ? .poison : .stored,
                    to: self.quarantine(reason, receivedAt: batch.receivedAt))
                counts.quarantined += 1
            }
        }
        return counts
    }

    /// Forgets the batch.
    ///
    /// - Returns: whether the routes were reset because there were too many.
    package mutating func finishBatch() -> Bool {
        for index in self.touched {
            self.routes[index].runs.removeAll(keepingCapacity: self.routes[index].runs.capacity <= Self.runCapacityMax)
            self.routes[index].lineCount = 0
        }
        self.touched.removeAll(keepingCapacity: true)
        guard self.routes.count > Self.routeCountMax else { return false }
        self.routes.removeAll()
        self.keys.removeAll()
        self.quarantines.removeAll()
        return true
    }

    /// Whether an event belongs in the same partition as the previous one; called for every line, so it compares bytes.
    private mutating func isSamePartition(
        _ facts: EventFacts, _ line: UnsafeRawBufferPointer, _ last: EventFacts?, _ lastLine: UnsafeRawBufferPointer
    ) -> Bool {
        guard let last, facts.env == last.env, self.days.day(of: facts.time) == self.days.day(of: last.time) else {
            return false
        }
        switch (facts.bundle, last.bundle) {
        case (nil, nil): return true
        case (let bundle?, let lastBundle?):
            return JSONText.equals(
                UnsafeRawBufferPointer(rebasing: line[bundle]), UnsafeRawBufferPointer(rebasing: lastLine[lastBundle]))
        case (nil, _?), (_?, nil): return false
        }
    }

    private mutating func partition(
        of facts: EventFacts, _ line: UnsafeRawBufferPointer, _ source: SourceDescription, _ batch: ProjectedBatch,
        _ isRecorded: IsRecorded?
    ) -> (index: Int, content: RoutedRun.Content) {
        let bundle = PartitionPath.component(facts.bundleText(in: line, source: source))
        let wanted = Key(env: facts.env, bundle: bundle, day: self.days.day(of: facts.time))
        let key =
            if let known = self.recordedKeys[wanted] { known } else if let isRecorded {
                self.recorded(wanted, batch, isRecorded)
            } else {
                self.admitted(wanted, batch)
            }
        self.recordedKeys[wanted] = key
        return (self.route(of: key), key.day == wanted.day ? .stored : .shifted)
    }

    private func recorded(_ wanted: Key, _ batch: ProjectedBatch, _ isRecorded: IsRecorded) -> Key {
        var key = wanted
        if !self.apps.contains(wanted.bundle) { key.bundle = PartitionPath.overflowBundle }
        return self.places(for: wanted, batch).first { isRecorded($0.place) } ?? key
    }

    /// Where a line may be: the folder of its app, or that of the apps that were too many, at its day or, if its day was
    /// one too many, at the day of receipt.
    private func places(for wanted: Key, _ batch: ProjectedBatch) -> [Key] {
        let overflow = Key(env: wanted.env, bundle: PartitionPath.overflowBundle, day: wanted.day)
        var today = overflow
        today.day = self.days.rules.day(of: batch.receivedAt)
        return [wanted, overflow, today]
    }

    /// The first of a line's places that may be written to.
    private mutating func admitted(_ wanted: Key, _ batch: ProjectedBatch) -> Key {
        let places = self.places(for: wanted, batch)
        let today = places[2].day.daysSince1970
        let isUsual = (today - 2...today + 1).contains(wanted.day.daysSince1970)
        let hasApp = self.admitApp(wanted.bundle, batch.account)
        for place in places[(hasApp ? 0 : 1)...1] where isUsual || self.granted.take(place.text, for: batch) {
            return place
        }
        // Few: one for each environment and day of receipt.
        return places[2]
    }

    private mutating func admitApp(_ app: String, _ account: Account?) -> Bool {
        if self.apps.contains(app) { return true }
        guard self.apps.count < Self.appCountMax,
            self.creations.takeApp(account, isScarce: self.apps.count >= Self.scarceAppCount)
        else { return false }
        self.apps.insert(app)
        return true
    }

    private mutating func route(of key: Key) -> Int {
        if let index = self.keys[key] { return index }
        let index = self.addRoute(key.place, isDay: true, isOverflow: key.bundle == PartitionPath.overflowBundle)
        self.keys[key] = index
        return index
    }

    private mutating func quarantine(_ reason: QuarantineReason, receivedAt: WallTime) -> Int {
        let day = CalendarDay(daysSince1970: Int32(clamping: receivedAt.milliseconds / 86_400_000))
        let path = "quarantine/date=\(day)/\(reason.rawValue)"
        if let index = self.quarantines[path] { return index }
        let index = self.addRoute(path, isDay: false)
        self.quarantines[path] = index
        return index
    }

    private mutating func addRoute(_ place: String, isDay: Bool, isOverflow: Bool = false) -> Int {
        self.routes.append(Route(place: place, isDay: isDay, isOverflow: isOverflow))
        return self.routes.count - 1
    }

    private mutating func add(_ range: Range<Int>, as content: RoutedRun.Content = .stored, to index: Int) {
        if self.routes[index].lineCount == 0 { self.touched.append(index) }
        self.routes[index].lineCount += 1
        if let last = self.routes[index].runs.indices.last,
            self.routes[index].runs[last].range.upperBound == range.lowerBound,
            self.routes[index].runs[last].content == content, content != .erased
        {
            self.routes[index].runs[last].range = self.routes[index].runs[last].range.lowerBound..<range.upperBound
            self.routes[index].runs[last].lineCount += 1
        } else {
            self.routes[index].runs.append(RoutedRun(range: range, lineCount: 1, content: content))
        }
    }
}

/// Adjacent lines of a batch that belong in one file.
package struct RoutedRun: Hashable, Sendable {
    /// In the batch, with their line feeds.
    package fileprivate(set) var range: Range<Int>
    package fileprivate(set) var lineCount: Int
    /// What a run's lines leave in its file.
    package enum Content: Hashable, Sendable {
        /// The lines are in the file.
        case stored
        /// Each line is an LF alone: the quarantine counts such lines and does not store them.
        case emptyLines
        /// The lines are of people whose events were erased: they are counted and not stored.
        case erased
        /// The lines are in the file, and nothing reads them.
        case poison
        /// The lines are in the file, and count on the day of their receipt: their own day was one too many.
        case shifted
    }

    package let content: Content
    /// Whether the lines are in the file.
    package var isStored: Bool { self.content != .emptyLines && self.content != .erased }

    /// The run's entry in a `.sources` file.
    ///
    /// - Parameter start: where its bytes begin in the file of lines.
    package func source(of batch: ProjectedBatch, at start: Int) -> SourceRun {
        SourceRun(
            description: batch.description, offset: batch.offset.advanced(by: self.range.lowerBound),
            receivedAt: batch.receivedAt, range: start..<(start + self.byteCount(of: batch.raw)),
            lineCount: self.lineCount, emptyLineCount: self.content == .emptyLines ? self.lineCount : 0,
            erasedByteCount: self.content == .erased ? self.range.count : 0, isPoison: self.content == .poison,
            shiftedAt: self.content == .shifted ? batch.position : nil)
    }

    /// Calls `body` with the file's new bytes, piece by piece, and an LF if a stream's last line lacks it.
    package func pieces(of raw: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        guard self.isStored else { return }
        body(UnsafeRawBufferPointer(rebasing: raw[self.range]))
        if self.isLineFeedMissing(in: raw) { [UInt8(ascii: "\n")].withUnsafeBytes(body) }
    }

    /// Whether the run's last line is the stream's last and lacks an LF.
    package func isLineFeedMissing(in raw: UnsafeRawBufferPointer) -> Bool {
        self.isStored && self.range.upperBound == raw.count && raw.last != 0x0A
    }

    /// The number of the file's new bytes.
    package func byteCount(of raw: UnsafeRawBufferPointer) -> Int {
        !self.isStored ? 0 : self.range.count + (self.isLineFeedMissing(in: raw) ? 1 : 0)
    }
}

extension ArchiveRouter.Route {
    /// Calls `body` with the file's new bytes, piece by piece.
    package func pieces(of raw: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        for run in self.runs { run.pieces(of: raw, body) }
    }
}
