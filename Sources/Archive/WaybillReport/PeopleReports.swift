internal import WaybillSystem

/// Reports about what people do over time: funnel, retention, active people.
extension Analysis {
    /// How many people went through steps in order, in their best attempt.
    func funnel() throws(ReportFailure) -> Report {
        let steps = self.request.steps
        for step in steps { try self.require(step) }
        let best = self.bestLevels(steps.map { Matcher($0, self.table) })
        let people = steps.indices.map { step in best.count { $0 > step } }
        let window = self.request.options.within ?? "1d"
        var report = Report(
            name: "funnel", title: "Funnel",
            definition: "People whose best attempt reached each step: an attempt begins with any event of step 1, and "
                + "the others follow in order within \(window) of it; steps at the same millisecond count as ordered. "
                + (self.request.options.strict ? "No other step may come in between. " : "")
                + "Shares are of the people of step 1 and of the step before.",
            notes: self.notes,
            columns: [
                .init("step", .count), .init("condition", .text), .init("people", .count), .init("share", .share),
                .init("of previous", .share),
            ], chart: .steps(label: 1, value: 2))
        for (step, condition) in steps.enumerated() {
            report.rows.append([
                .count(step + 1), .text(condition.text), .count(people[step]),
                Figure.share(people[step], of: people[0]),
                Figure.share(people[step], of: people[max(0, step - 1)]),
            ])
        }
        return report
    }

    /// For each person, how many steps their best attempt reached.
    private func bestLevels(_ steps: [Matcher]) -> [UInt8] {
        let window = self.request.window
        let isStrict = self.request.options.strict
        var best = [UInt8](repeating: 0, count: self.table.personCount + 1)
        // For each person and step, the latest beginning of an attempt that has reached the step.
        var starts = [Int64](repeating: .min, count: best.count * steps.count)
        var matched = [Bool](repeating: false, count: steps.count)
        self.forEach { index, row in
            guard row.isActive else { return }
            var isAny = false
            for step in steps.indices {
                matched[step] = steps[step].matches(row, at: index, in: self.table)
                isAny = isAny || matched[step]
            }
            guard isAny else { return }
            let base = Int(row.person) * steps.count
            for step in steps.indices.reversed() {
                let place = base + step
                if matched[step] {
                    if step == 0 {
                        starts[place] = row.time
                    } else if starts[place - 1] != .min, row.time <= starts[place - 1] + window {
                        starts[place] = max(starts[place - 1], isStrict ? .min : starts[place])
                    } else if isStrict {
                        starts[place] = .min
                    }
                    if starts[place] != .min { best[Int(row.person)] = max(best[Int(row.person)], UInt8(step + 1)) }
                } else if isStrict {
                    starts[place] = .min
                }
            }
        }
        return best
    }

    // MARK: Retention

    /// One grid by day, and one that counts everybody who was there on that day or later.
    func retention() throws(ReportFailure) -> [Report] {
        let first = self.range.lowerBound
        let offsets = try self.retentionDays()
        let isRolling = self.request.rollingDayCount != nil
        var sizes = [Int](repeating: 0, count: self.range.count)
        for day in self.table.firstDays where day != .max && self.range.contains(day) { sizes[Int(day - first)] += 1 }
        // For each person, the last number of a day that was counted, and the highest.
        var counted = [Int32](repeating: -1, count: self.table.personCount + 1)
        var highest = counted
        var daily = [[Int]](repeating: [Int](repeating: 0, count: offsets.count), count: self.range.count)
        var pairs: Set<UInt64> = []
        self.forEachByDay { _, row in
            guard row.isActive else { return }
            let person = Int(row.person)
            let cohort = self.table.firstDays[person]
            guard self.range.contains(cohort) else { return }
            let number =
                isRolling ? Int32((row.time - self.table.firstTimes[person]) / 86_400_000) : row.day - cohort
            guard number != counted[person] else { return }
            counted[person] = number
            highest[person] = max(highest[person], number)
            guard let place = offsets.firstIndex(of: Int(number)) else { return }
            // A person's rows are not ordered by number if clocks were set back.
            if pairs.insert(UInt64(person) << 32 | UInt64(number)).inserted { daily[Int(cohort - first)][place] += 1 }
        }
        var unbounded = [[Int]](repeating: [Int](repeating: 0, count: offsets.count), count: self.range.count)
        for person in highest.indices where highest[person] >= 0 {
            for (place, offset) in offsets.enumerated() where Int(highest[person]) >= offset {
                unbounded[Int(self.table.firstDays[person] - first)][place] += 1
            }
        }
        let unit = isRolling ? "24 hours" : "day"
        return [
            self.grid(
                "retention", "Retention",
                "People by the day on which they were first seen, and how many of them were active n \(unit)s later, "
                    + "on that \(unit) itself. A cell is empty if that time is not over or is after the range.",
                offsets, sizes, daily),
            self.grid(
                "retention-unbounded", "Retention, that day or later",
                "People by the day on which they were first seen, and how many of them were active n \(unit)s later or "
                    + "at any time of the range after that. A cell is empty if that time is not over or is after the "
                    + "range.",
                offsets, sizes, unbounded),
        ]
    }

    /// The days after the first that the range can have; days past it are not known for any cohort.
    private func retentionDays() throws(ReportFailure) -> [Int] {
        let days = self.request.days
        guard days.lowerBound < self.range.count else {
            throw .badOption(
                name: "days", text: self.request.options.days ?? "",
                remedy: "the range has \(self.range.count) \(self.range.count == 1 ? "day" : "days"), so the last day "
                    + "after the first is \(self.range.count - 1)")
        }
        return Array(days.clamped(to: 0...(self.range.count - 1)))
    }

    private func grid(
        _ name: String, _ title: String, _ definition: String, _ offsets: [Int], _ sizes: [Int], _ counts: [[Int]]
    ) -> Report {
        var report = Report(
            name: name, title: title, definition: definition, notes: self.notes,
            columns: [.init("cohort", .day), .init("people", .count)] + offsets.map { .init("day \($0)", .count) },
            chart: .cohorts(label: 0, size: 1, first: 2))
        // With windows of 24 hours, the last person's window ends a day later.
        let extra: Int32 = self.request.rollingDayCount == nil ? 0 : 1
        let end = min(self.range.upperBound, self.lastClosed)
        for (place, day) in self.range.enumerated() where sizes[place] > 0 {
            let cells = offsets.enumerated().map { index, offset in
                day + Int32(offset) + extra <= end ? Report.Cell.count(counts[place][index]) : .empty
            }
            report.rows.append([self.day(day), .count(sizes[place])] + cells)
        }
        return report
    }

    // MARK: Active people

    func active() throws(ReportFailure) -> [Report] {
        for rule in self.request.rules { try self.require(rule.condition) }
        if let count = self.request.rollingDayCount { return [self.rolling(count)] }
        return [self.months(), self.weeks()]
    }

    private static func month(_ day: Int32) -> Int32 {
        let (year, month, _) = CalendarDay(daysSince1970: day).components
        return Int32(year * 12 + month - 1)
    }

    private func months() -> Report {
        let wanted = Self.month(self.range.lowerBound)...Self.month(self.range.upperBound)
        let rules = self.request.rules.map { Matcher($0.condition, self.table) }
        var people: [[UInt32: [Int]]] = wanted.map { _ in [:] }
        var personDays = [Int](repeating: 0, count: wanted.count)
        var days = [Set<Int32>](repeating: [], count: wanted.count)
        var lastDays = [Int32](repeating: .min, count: self.table.personCount + 1)
        var month = (day: Int32.min, number: Int32.min)
        self.forEachKeptByDay { index, row in
            guard row.isActive else { return }
            if month.day != row.day { month = (row.day, Self.month(row.day)) }
            guard wanted.contains(month.number) else { return }
            let place = Int(month.number - wanted.lowerBound)
            if lastDays[Int(row.person)] != row.day {
                lastDays[Int(row.person)] = row.day
                personDays[place] += 1
                days[place].insert(row.day)
                if people[place][row.person] == nil { people[place][row.person] = rules.map { _ in 0 } }
            }
            for (rule, matcher) in rules.enumerated() where matcher.matches(row, at: index, in: self.table) {
                people[place][row.person]?[rule] += 1
            }
        }
        var report = Report(
            name: "active", title: "Active people by month",
            definition: "Different people in each calendar month, over all of its days that are kept"
                + (rules.isEmpty ? "" : ", and those of them who fulfil each rule within the month")
                + ". \"a day\" is the mean over the days with people; stickiness is that divided by the month's people.",
            notes: self.notes,
            columns: [.init("month", .text), .init("people", .count)]
                + self.request.rules.map { .init($0.text, .count) }
                + [.init("a day", .count), .init("stickiness", .share)],
            chart: .bars(label: 0, value: 1))
        for (place, number) in wanted.enumerated() where !people[place].isEmpty {
            let count = people[place].count
            let daily = Double(personDays[place]) / Double(days[place].count)
            let fulfilled = self.request.rules.indices.map { rule in
                Report.Cell.count(people[place].values.count { $0[rule] >= self.request.rules[rule].countMin })
            }
            let digits = String(number % 12 + 1)
            report.rows.append(
                [.text("\(number / 12)-\(digits.utf8.count == 1 ? "0" : "")\(digits)"), .count(count)] + fulfilled
                    + [
                        .number(Figure.rounded(daily, digits: 1)),
                        .number(Figure.rounded(daily / Double(count), digits: 3)),
                    ])
        }
        return report
    }

    private func weeks() -> Report {
        /// The Monday of a day's week; 1970-01-01 was a Thursday.
        func monday(_ day: Int32) -> Int32 { day - ((day + 3) % 7 + 7) % 7 }
        let wanted = monday(self.range.lowerBound)...monday(self.range.upperBound)
        var people = PeopleCount()
        self.forEachKept { _, row in
            let week = monday(row.day)
            if row.isActive, wanted.contains(week) { people.add(row.person, to: UInt32(bitPattern: week)) }
        }
        var report = Report(
            name: "active-weeks", title: "Active people by week",
            definition: "Different people in each week from Monday to Sunday, over all of its days that are kept.",
            notes: self.notes, columns: [.init("week of", .day), .init("people", .count)],
            chart: .lines(x: 0, values: [1]))
        let counts = people.counts().map { (Int32(bitPattern: $0.key), $0.value) }.sorted { $0.0 < $1.0 }
        report.rows = counts.map { [self.day($0.0), .count($0.1)] }
        return report
    }

    /// People of the last days up to each day.
    private func rolling(_ count: Int) -> Report {
        var pairs: [UInt64] = []
        self.forEachKept { _, row in
            guard row.isActive, row.day <= self.range.upperBound else { return }
            let pair = UInt64(row.person) << 32 | UInt64(UInt32(bitPattern: row.day))
            if pairs.last != pair { pairs.append(pair) }
        }
        pairs.sortByDigits()
        let widths = [1, 7, count]
        // Differences of the numbers of people from day to day.
        var changes = [[Int]](repeating: [Int](repeating: 0, count: self.range.count + 1), count: widths.count)
        var covered = [Int32](repeating: .min, count: widths.count)
        var person = UInt32.max
        for pair in pairs {
            let day = Int32(bitPattern: UInt32(truncatingIfNeeded: pair))
            if UInt32(truncatingIfNeeded: pair >> 32) != person {
                person = UInt32(truncatingIfNeeded: pair >> 32)
                covered = covered.map { _ in .min }
            }
            for (index, width) in widths.enumerated() {
                let start = max(day, covered[index], self.range.lowerBound)
                let end = min(day + Int32(width), self.range.upperBound + 1)
                covered[index] = max(covered[index], day + Int32(width))
                guard start < end else { continue }
                changes[index][Int(start - self.range.lowerBound)] += 1
                changes[index][Int(end - self.range.lowerBound)] -= 1
            }
        }
        var report = Report(
            name: "active", title: "Active people",
            definition:
                "Different people on each day, in the 7 days up to it, and in the \(count) days up to it, itself "
                + "included. Stickiness is the first divided by the last.",
            notes: self.notes,
            columns: [
                .init("day", .day), .init("people", .count), .init("7 days", .count), .init("\(count) days", .count),
                .init("stickiness", .share),
            ], chart: .lines(x: 0, values: [1, 2, 3]))
        var sums = [0, 0, 0]
        for (place, day) in self.range.enumerated() {
            for index in widths.indices { sums[index] += changes[index][place] }
            guard sums[2] > 0 else { continue }
            report.rows.append(
                [self.day(day)] + sums.map { .count($0) } + [Figure.share(sums[0], of: sums[2])])
        }
        return report
    }
}
