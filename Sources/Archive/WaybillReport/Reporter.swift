internal import WaybillData
internal import WaybillExport
internal import WaybillProjection
package import WaybillSystem

/// The result of a request.
package struct ReportSet: Sendable {
    /// Days, zone, environment and app, in one line.
    package var range: String
    package var reports: [Report] = []
    /// Days that were left out because a file of them is damaged, with the reason.
    package var damagedDays: [String] = []
    /// What was not done and does not change the numbers, in sentences.
    package var leftOut: [String] = []
    /// The catalogue of names, if the request asks for it.
    package var names: NamesDocument?
}

/// Reads what is kept of an app and makes reports of it.
///
///     archive days ─▶ one ``DayTable`` each, by as many workers as asked for ─▶ ``EventTable`` ─▶ ``Analysis`` ─▶ ``Report``
///
/// The tables are added in the order of their days, so the result does not depend on the number of
/// workers. Everything that is kept is read, because people and first days are made from all of it.
///
/// Constraints: it writes nothing, takes no lock, and reads beside a running receiver up to the archive's last
/// checkpoint. Memory: about 110 bytes for each event and each different text once, and what ``DayReader`` needs for
/// each worker.
package struct Reporter<Files: FileSystem>: Sendable {
    /// Observes the reading; called on the caller's thread, except `isStopped`.
    package struct Observer {
        package var progressed: (_ byteCount: Int, _ totalByteCount: Int) -> Void
        package var isStopped: @Sendable () -> Bool

        package init(
            progressed: @escaping (_ byteCount: Int, _ totalByteCount: Int) -> Void = { _, _ in },
            isStopped: @escaping @Sendable () -> Bool = { false }
        ) {
            self.progressed = progressed
            self.isStopped = isStopped
        }
    }

    let data: DataDirectory<Files>
    let request: ReportRequest

    package init(dataDirectory: String, files: Files, request: ReportRequest) {
        self.data = DataDirectory(root: dataDirectory, files: files)
        self.request = request
    }

    package func run(_ observer: Observer = Observer()) throws(ReportFailure) -> ReportSet {
        let kept = try self.keptDays()
        let zone = try self.zone(kept.zoneName)
        let rules = DayRules(
            options: RowOptions(
                properties: self.request.properties, wantsCatalogue: self.request.wantsCatalogue),
            zone: zone, isForeignZone: kept.zoneName.map { $0 != zone.name } ?? false,
            isStrict: self.request.options.strictCutOff, cutOffSecond: self.request.cutOffSecond,
            bundle: self.request.options.app ?? kept.bundles.first, idBudget: self.request.idBudget,
            erased: try ReportFailure.onDisk(ErasedPeople.read(in: self.data)))
        if let cache = self.request.cache, Path.isInside(cache, self.data.root) {
            throw .badOption(
                name: "cache", text: cache,
                remedy: "every file in the data directory is the receiver's; name another folder")
        }
        var workers = DayWorkers(data: self.data, days: kept.days, rules: rules, cache: self.request.cache)
        var table = try workers.read(self.request.jobCount, observer)
        table.finish(traits: self.request.traits)
        let range = try self.range(table)
        var set = ReportSet(
            range:
                "\(CalendarDay(daysSince1970: range.lowerBound)) to \(CalendarDay(daysSince1970: range.upperBound)), "
                + "\(zone.name), \(self.request.options.env), \(self.request.options.app ?? kept.bundles.sorted().first ?? "")",
            damagedDays: workers.damagedDays)
        if let failure = workers.cacheFailure { set.leftOut.append("the cache cannot be used: \(failure)") }
        let lastClosed = self.lastClosedDay(zone)
        let notes = RangeNotes(
            table: table, range: range, lastClosed: lastClosed, isStrict: self.request.options.strictCutOff,
            damagedDays: workers.damagedDays
        ).texts
        let analysis = try Analysis(
            table, self.request, zone: zone, range: range, lastClosed: lastClosed, notes: notes)
        if self.request.wantsNames {
            set.names = analysis.namesDocument(app: self.request.options.app ?? kept.bundles.sorted().first)
        }
        for name in self.request.names {
            if let missing = self.missing(name, analysis) {
                guard self.request.isEverything else {
                    throw .missingOption(report: name.rawValue, option: missing)
                }
                set.leftOut.append("\(name.rawValue) is left out: it needs --\(missing)")
                continue
            }
            set.reports += try self.make(name, analysis)
        }
        return set
    }

    // MARK: Days

    func keptDays() throws(ReportFailure) -> KeptDays {
        let options = self.request.options
        let isArchive = try ReportFailure.onDisk(self.data.files.status(at: self.data.archive))?.kind == .directory
        let kept = try ReportFailure.onDisk(KeptDays(self.data, environment: options.env, bundle: options.app))
        guard isArchive else { throw .noArchive(self.data.root) }
        if options.app == nil, kept.bundles.count > 1 { throw .severalApps(kept.bundles.sorted()) }
        guard !kept.days.isEmpty else {
            let others = kept.bundles.isEmpty ? kept.environments : kept.bundles
            throw .noDays(environment: options.env, app: options.app, others: others.sorted())
        }
        return kept
    }

    func zone(_ archiveZone: String?) throws(ReportFailure) -> TimeZoneRules {
        if let zone = self.request.zone { return zone }
        guard let archiveZone else { return .utc }
        do throws(TimeZoneError) {
            return try TimeZoneRules(named: archiveZone, from: self.data.files)
        } catch {
            throw .zone(error)
        }
    }

    private func range(_ table: EventTable) throws(ReportFailure) -> ClosedRange<Int32> {
        var first = Int32.max
        var last = Int32.min
        for row in table.rows {
            first = min(first, row.day)
            last = max(last, row.day)
        }
        guard first <= last else {
            throw .noDays(environment: self.request.options.env, app: self.request.options.app, others: [])
        }
        let range = try self.request.asked.range(of: first, last)
        guard table.rows.contains(where: { range.contains($0.day) }) else {
            throw .emptyRange(
                from: CalendarDay(daysSince1970: range.lowerBound), to: CalendarDay(daysSince1970: range.upperBound),
                first: CalendarDay(daysSince1970: first), last: CalendarDay(daysSince1970: last))
        }
        return range
    }

    private func lastClosedDay(_ zone: TimeZoneRules) -> Int32 {
        var day = zone.day(of: self.request.now)
        while zone.cutOff(of: day, self.request.cutOffSecond) > self.request.now.milliseconds {
            day = CalendarDay(daysSince1970: day.daysSince1970 - 1)
        }
        return day.daysSince1970
    }

    // MARK: Reports

    /// The option without which a report cannot be made.
    private func missing(_ name: ReportName, _ analysis: Analysis) -> String? {
        switch name {
        case .funnel where self.request.steps.isEmpty: "step"
        case .paths where self.request.before == nil: "before"
        case .next where self.request.options.screen == nil && !self.request.isEverything: "screen"
        case .next where self.request.options.screen == nil && analysis.mostViewedScreen() == nil: "screen"
        default: nil
        }
    }

    private func make(_ name: ReportName, _ analysis: Analysis) throws(ReportFailure) -> [Report] {
        let undivided: Set<ReportName> = [.breakdown, .names, .providers]
        guard self.request.division != nil, !undivided.contains(name) else { return try self.makeOne(name, analysis) }
        guard analysis.groupNames.count <= Analysis.groupCountMax else {
            throw .badOption(
                name: "by", text: self.request.options.by ?? "",
                remedy: "it has \(analysis.groupNames.count) values, and a report can be divided by at most "
                    + "\(Analysis.groupCountMax); the report breakdown shows them all")
        }
        var merged: [Report] = []
        let order = analysis.groupNames.indices.sorted { left, right in
            guard let a = analysis.groupNames[left] else { return false }
            return analysis.groupNames[right].map { String.isOrdered(a, $0) } ?? true
        }
        for group in order {
            let cell = analysis.groupNames[group].map { Report.Cell.text($0) } ?? .empty
            for (index, report) in try self.makeOne(name, analysis.part(UInt16(group + 1))).enumerated() {
                if index == merged.count {
                    merged.append(report)
                    merged[index].rows = []
                    merged[index].chart = .none
                    merged[index].columns.insert(.init(self.request.options.by ?? "", .text), at: 0)
                    merged[index].definition += " Each value of \(self.request.options.by ?? "") by itself."
                }
                merged[index].rows += report.rows.map { [cell] + $0 }
            }
        }
        return merged
    }

    private func makeOne(_ name: ReportName, _ analysis: Analysis) throws(ReportFailure) -> [Report] {
        switch name {
        case .overview: return [analysis.overview()]
        case .screens: return [analysis.screens()]
        case .next:
            let screen = self.request.options.screen ?? analysis.whole.mostViewedScreen() ?? ""
            return [try analysis.next(screen, isPrevious: self.request.options.previous)]
        case .paths:
            guard let before = self.request.before else {
                throw .missingOption(report: name.rawValue, option: "before")
            }
            return [try analysis.paths(before: before)]
        case .funnel: return [try analysis.funnel()]
        case .retention: return try analysis.retention()
        case .active: return try analysis.active()
        case .breakdown: return [try analysis.breakdown()]
        case .newReturning: return [analysis.newReturning()]
        case .versions: return [analysis.versions()]
        case .os: return [analysis.systems()]
        case .gaps: return [analysis.gaps()]
        case .sessions: return [analysis.sessions()]
        case .arrival: return [analysis.arrival()]
        case .providers: return [try self.providers(analysis)]
        case .names: return [analysis.names()]
        }
    }
}

/// What a reader must know of a range besides its numbers.
struct RangeNotes {
    let table: EventTable
    let range: ClosedRange<Int32>
    let lastClosed: Int32
    let isStrict: Bool
    let damagedDays: [String]

    private static var listedCountMax: Int { 10 }

    var texts: [String] {
        var late = [Int](repeating: 0, count: self.range.count)
        var isKept = [Bool](repeating: false, count: self.range.count)
        var strangers = 0
        for row in self.table.rows where self.range.contains(row.day) {
            let place = Int(row.day - self.range.lowerBound)
            isKept[place] = true
            if row.isLate { late[place] += 1 }
            if row.person == 0, row.kind != .meta { strangers += 1 }
        }
        var texts: [String] = []
        let days = Array(zip(self.range, zip(isKept, late)))
        self.note(
            days.filter { $0.1.0 && $0.0 > self.lastClosed }.map(\.0), "open, so that their numbers still grow", &texts)
        let revised = days.filter { $0.1.1 > 0 && $0.0 <= self.lastClosed }
        if !revised.isEmpty {
            let list = revised.prefix(Self.listedCountMax).map {
                "\(CalendarDay(daysSince1970: $0.0)) (+\($0.1.1))"
            }
            texts.append("lines came after the cut-off of \(list.joined(separator: ", "))\(Self.more(revised.count))")
        }
        if self.isStrict { texts.append("lines that came after their day's cut-off are left out") }
        self.note(days.filter { !$0.1.0 && $0.0 <= self.lastClosed }.map(\.0), "without any line", &texts)
        if !self.damagedDays.isEmpty {
            texts.append("left out because of damage: \(self.damagedDays.joined(separator: "; "))")
        }
        if strangers > 0 {
            texts.append("events that name neither a user nor an install, and count as no person: \(strangers)")
        }
        if self.table.repeatCount > 0 {
            texts.append("lines that repeat the id of another and do not count: \(self.table.repeatCount)")
        }
        if self.table.strayLineCount > 0 {
            texts.append("lines that are not events and do not count: \(self.table.strayLineCount)")
        }
        if self.table.unexplainedByteCount > 0 {
            texts.append(
                "the origin of \(self.table.unexplainedByteCount) bytes is lost: their lines are read as Waybill's own")
        }
        return texts
    }

    private func note(_ days: [Int32], _ text: String, _ texts: inout [String]) {
        guard !days.isEmpty else { return }
        let list = days.prefix(Self.listedCountMax).map { CalendarDay(daysSince1970: $0).description }
        texts.append("days \(text): \(list.joined(separator: ", "))\(Self.more(days.count))")
    }

    private static func more(_ count: Int) -> String {
        count > self.listedCountMax ? " and \(count - self.listedCountMax) more" : ""
    }
}

extension Path {
    /// Whether a path is a folder or in it, as far as the names tell.
    fileprivate static func isInside(_ path: String, _ folder: String) -> Bool {
        let (inner, outer) = (self.components(of: path), self.components(of: folder))
        return self.isAbsolute(path) == self.isAbsolute(folder) && inner.starts(with: outer)
    }
}

extension Reporter {
    /// The request as text for DuckDB; see ``SQLReports``.
    package func sql() throws(ReportFailure) -> String {
        let kept = try self.keptDays()
        return SQLReports.text(
            self.request, archive: self.data.archive,
            app: self.request.options.app ?? kept.bundles.sorted().first ?? "",
            zone: try self.zone(kept.zoneName).name)
    }
}
