internal import WaybillSystem

/// Reports with a row for each day: overview, new and returning people, versions, sessions.
extension Analysis {
    func overview() -> Report {
        struct Day {
            var events = 0
            var people = 0
            var new = 0
            var sessions = 0
            var views = 0
            var late = 0
            var isKept = false
        }
        var days = [Day](repeating: Day(), count: self.range.count)
        var lastDays = [Int32](repeating: .min, count: self.table.personCount + 1)
        self.forEachByDay { _, row in
            let place = Int(row.day - self.range.lowerBound)
            days[place].isKept = true
            if row.isLate { days[place].late += 1 }
            if row.kind != .meta { days[place].events += 1 }
            if row.kind == .screen { days[place].views += 1 }
            guard row.isActive, lastDays[Int(row.person)] != row.day else { return }
            lastDays[Int(row.person)] = row.day
            days[place].people += 1
            if self.isNew(row) { days[place].new += 1 }
        }
        for session in self.sessionFacts() where self.range.contains(session.day) {
            days[Int(session.day - self.range.lowerBound)].sessions += 1
        }
        var report = Report(
            name: "overview", title: "Overview",
            definition:
                "Each day: events (an id once, without kind meta), different people, those of them who were never "
                + "active before, sessions that began on that day, views of screens, and lines that came after the "
                + "day's cut-off. People of several days are not the sum of the days.",
            notes: self.notes,
            columns: [
                .init("day", .day), .init("events", .count), .init("people", .count), .init("new", .count),
                .init("sessions", .count), .init("views", .count), .init("late", .count),
            ], chart: .lines(x: 0, values: [2, 3, 4]))
        for (number, day) in zip(self.range, days) where day.isKept {
            report.rows.append([
                self.day(number), .count(day.events), .count(day.people), .count(day.new), .count(day.sessions),
                .count(day.views), .count(day.late),
            ])
        }
        return report
    }

    func newReturning() -> Report {
        var new = [Int](repeating: 0, count: self.range.count)
        var returning = new
        var lastDays = [Int32](repeating: .min, count: self.table.personCount + 1)
        self.forEachByDay { _, row in
            guard row.isActive, lastDays[Int(row.person)] != row.day else { return }
            lastDays[Int(row.person)] = row.day
            let place = Int(row.day - self.range.lowerBound)
            if self.isNew(row) { new[place] += 1 } else { returning[place] += 1 }
        }
        var report = Report(
            name: "new-returning", title: "New and returning people",
            definition:
                "Each day's people: new if they were never active before that day in all that is kept, otherwise "
                + "returning.",
            notes: self.notes, columns: [.init("day", .day), .init("new", .count), .init("returning", .count)],
            chart: .lines(x: 0, values: [1, 2]))
        for (place, number) in self.range.enumerated() where new[place] + returning[place] > 0 {
            report.rows.append([self.day(number), .count(new[place]), .count(returning[place])])
        }
        return report
    }

    func versions() -> Report {
        var report = Report(
            name: "versions", title: "Versions",
            definition:
                "Each day's people, each under the app's version in the last of their events of that day that has "
                + "one.",
            notes: self.notes,
            columns: [.init("day", .day), .init("version", .text), .init("people", .count), .init("share", .share)],
            chart: .bars(label: 1, value: 2))
        var current = Int32.min
        var versions: [UInt32: UInt32] = [:]
        func finish() {
            var counts: [UInt32: Int] = [:]
            for version in versions.values { counts[version, default: 0] += 1 }
            for (version, count) in counts.sorted(by: { self.table.strings.isOrdered($0.key, $1.key) }) {
                report.rows.append([
                    self.day(current), self.text(version), .count(count), Figure.share(count, of: versions.count),
                ])
            }
            versions.removeAll(keepingCapacity: true)
        }
        self.forEachByDay { _, row in
            guard row.isActive else { return }
            if row.day != current {
                finish()
                current = row.day
            }
            if row.version != 0 || versions[row.person] == nil { versions[row.person] = row.version }
        }
        finish()
        return report
    }

    func sessions() -> Report {
        var days: [Int32: [SessionFacts]] = [:]
        for session in self.sessionFacts() where self.range.contains(session.day) {
            days[session.day, default: []].append(session)
        }
        var report = Report(
            name: "sessions", title: "Sessions",
            definition:
                "Sessions of the client, each once, on the day on which it began: how many, the median time from "
                + "first to last event, views of screens in the mean, and those with at most one view in less than 10 "
                + "seconds.",
            notes: self.notes,
            columns: [
                .init("day", .day), .init("sessions", .count), .init("median", .seconds), .init("views", .count),
                .init("bounced", .count),
            ], chart: .lines(x: 0, values: [1]))
        for (day, sessions) in days.sorted(by: { $0.key < $1.key }) {
            let seconds = sessions.map { Double($0.last - $0.first) / 1000 }.sorted()
            let views = sessions.reduce(0) { $0 + Int($1.views) }
            let bounced = sessions.count { $0.views <= 1 && $0.last - $0.first < 10_000 }
            report.rows.append([
                self.day(day), .count(sessions.count), .number(Figure.quantile(0.5, of: seconds) ?? 0),
                .number(Figure.rounded(Double(views) / Double(sessions.count), digits: 2)), .count(bounced),
            ])
        }
        return report
    }

    /// A session over all that is kept.
    struct SessionFacts {
        var day: Int32
        var views: Int32 = 0
        var first: Int64
        var last: Int64
    }

    /// The sessions with at least one event, in the order of their first ones.
    func sessionFacts() -> [SessionFacts] {
        var places = [Int32](repeating: -1, count: self.table.strings.count)
        var sessions: [SessionFacts] = []
        var days = DayCursor(self.zone)
        self.forEachKept { _, row in
            guard row.session != 0, row.kind != .meta else { return }
            if places[Int(row.session)] < 0 {
                places[Int(row.session)] = Int32(sessions.count)
                // Its id has the time of its start; any other id says nothing.
                let start = self.table.strings.uuidTime(row.session)
                let day = start.map { days.day(of: WallTime(milliseconds: $0)).daysSince1970 } ?? row.day
                sessions.append(SessionFacts(day: day, first: row.time, last: row.time))
            }
            let place = Int(places[Int(row.session)])
            sessions[place].last = row.time
            if row.kind == .screen { sessions[place].views += 1 }
        }
        return sessions
    }
}
