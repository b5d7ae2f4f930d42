/// Reports about screens and the ways between them.
extension Analysis {
    func screens() -> Report {
        var views: [UInt32: Int] = [:]
        var people = PeopleCount()
        var dwells: [UInt32: [Double]] = [:]
        self.forEach { _, row in
            if row.kind == .screen {
                views[row.screen, default: 0] += 1
                people.add(row.person, to: row.screen)
            }
            if row.dwell >= 0 { dwells[row.dwellScreen, default: []].append(Double(row.dwell)) }
        }
        let peopleCounts = people.counts()
        var report = Report(
            name: "screens", title: "Screens",
            definition: "Views of each screen and the different people who viewed it. The time on a screen is measured "
                + "when the next screen comes, or when the screen ends: \"measured\" is the number of views that have "
                + "it; total, mean and median are about those.",
            notes: self.notes,
            columns: [
                .init("screen", .text), .init("views", .count), .init("people", .count), .init("measured", .count),
                .init("total", .seconds), .init("mean", .seconds), .init("median", .seconds),
            ], chart: .bars(label: 0, value: 1))
        for (screen, count) in views.sorted(by: self.isBefore) {
            var row: [Report.Cell] = [self.text(screen), .count(count), .count(peopleCounts[screen] ?? 0)]
            if let dwell = dwells[screen]?.sorted(), !dwell.isEmpty, screen != 0 {
                let total = dwell.reduce(0, +)
                let median = Figure.quantile(0.5, of: dwell) ?? 0
                row += [
                    .count(dwell.count), .number(total / 1000),
                    .number(Figure.rounded(total / Double(dwell.count) / 1000, digits: 1)),
                    .number(Figure.rounded(median / 1000, digits: 1)),
                ]
            } else {
                row += [.count(0), .empty, .empty, .empty]
            }
            report.rows.append(row)
        }
        return report
    }

    /// More comes first, then the order of the texts.
    func isBefore(_ left: (key: UInt32, value: Int), _ right: (key: UInt32, value: Int)) -> Bool {
        left.value == right.value ? self.table.strings.isOrdered(left.key, right.key) : left.value > right.value
    }

    /// The screen with the most views; `nil` without any.
    func mostViewedScreen() -> String? {
        var views: [UInt32: Int] = [:]
        self.forEach { _, row in
            if row.kind == .screen, row.screen != 0 { views[row.screen, default: 0] += 1 }
        }
        return views.min(by: self.isBefore).map { self.table.strings.text($0.key) }
    }

    /// The screens that follow a screen, or that lead to it.
    func next(_ screen: String, isPrevious: Bool) throws(ReportFailure) -> Report {
        try self.requireScreen(screen)
        let wanted = self.table.strings.find(screen)
        /// The last view of each session, and whether there was one.
        var last = [UInt32](repeating: 0, count: self.table.strings.count)
        var hasViews = [Bool](repeating: false, count: last.count)
        var counts: [UInt32: Int] = [:]
        self.forEach { _, row in
            guard row.kind == .screen, row.session != 0 else { return }
            let session = Int(row.session)
            if isPrevious {
                if row.screen == wanted { counts[last[session], default: 0] += 1 }
            } else if hasViews[session], last[session] == wanted {
                counts[row.screen, default: 0] += 1
            }
            last[session] = row.screen
            hasViews[session] = true
        }
        if !isPrevious {
            for session in last.indices where hasViews[session] && last[session] == wanted {
                counts[0, default: 0] += 1
            }
        }
        let total = counts.values.reduce(0, +)
        let edge = isPrevious ? "(start)" : "(end)"
        var report = Report(
            name: "next", title: isPrevious ? "Screens before \(screen)" : "Screens after \(screen)",
            definition:
                "The screen that was viewed \(isPrevious ? "before" : "after") each view of \(screen), in the same "
                + "session, also if another person signed in between; \(edge) if there was none.",
            notes: self.notes,
            columns: [.init(isPrevious ? "previous" : "next", .text), .init("times", .count), .init("share", .share)],
            chart: .bars(label: 0, value: 1))
        // A screen may be called as the edge is.
        let named = Dictionary(
            counts.map { ($0.key == 0 ? edge : self.table.strings.text($0.key), $0.value) }, uniquingKeysWith: +
        ).map { (name: $0.key, count: $0.value) }
        let sorted = named.sorted { $0.count == $1.count ? String.isOrdered($0.name, $1.name) : $0.count > $1.count }
        for (name, count) in sorted {
            report.rows.append([.text(name), .count(count), Figure.share(count, of: total)])
        }
        return report
    }

    /// The screens that were viewed before an event.
    func paths(before condition: EventCondition) throws(ReportFailure) -> Report {
        try self.require(condition)
        let matcher = Matcher(condition, self.table)
        struct Path: Hashable {
            var first: UInt32 = 0
            var second: UInt32 = 0
            var third: UInt32 = 0
        }
        var paths = [Path](repeating: Path(), count: self.table.strings.count)
        var counts: [Path: (times: Int, people: Set<UInt32>)] = [:]
        self.forEach { index, row in
            guard row.isActive else { return }
            if row.kind == .screen, row.session != 0 {
                let old = paths[Int(row.session)]
                paths[Int(row.session)] = Path(first: old.second, second: old.third, third: row.screen)
            }
            guard matcher.matches(row, at: index, in: self.table) else { return }
            let path = row.session == 0 ? Path() : paths[Int(row.session)]
            counts[path, default: (0, [])].times += 1
            counts[path, default: (0, [])].people.insert(row.person)
        }
        var report = Report(
            name: "paths", title: "Ways to \(condition.text)",
            definition:
                "The last three screens in front of each event \"\(condition.text)\", in its session; (none) if "
                + "there was no screen before it.",
            notes: self.notes,
            columns: [.init("path", .text), .init("times", .count), .init("people", .count)],
            chart: .bars(label: 0, value: 1))
        // Different paths may have one text: a screen without a name is left out of it.
        var named: [String: (times: Int, people: Set<UInt32>)] = [:]
        for (path, count) in counts {
            let screens = [path.first, path.second, path.third].filter { $0 != 0 }
            let name = screens.isEmpty ? "(none)" : screens.map { self.table.strings.text($0) }.joined(separator: " > ")
            named[name, default: (0, [])].times += count.times
            named[name, default: (0, [])].people.formUnion(count.people)
        }
        let sorted = named.sorted { left, right in
            left.value.times == right.value.times
                ? String.isOrdered(left.key, right.key) : left.value.times > right.value.times
        }
        for (path, count) in sorted {
            report.rows.append([.text(path), .count(count.times), .count(count.people.count)])
        }
        return report
    }
}
