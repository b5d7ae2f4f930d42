/// Reports about what events and people have in common: values, systems, writers, names.
extension Analysis {
    /// Events and people by the value of a field.
    func breakdown() throws(ReportFailure) -> Report {
        if let event = self.request.event { try self.require(event) }
        let matcher = self.request.event.map { Matcher($0, self.table) }
        let field = self.request.division ?? .name
        let by = self.request.options.by ?? "name"
        var numbers: [String?: UInt32] = [:]
        var events: [Int] = []
        var people = PeopleCount()
        self.forEach { index, row in
            guard row.kind != .meta, matcher?.matches(row, at: index, in: self.table) ?? true else { return }
            let number = self.valueNumber(field, row, at: index, &numbers)
            if number == events.count { events.append(0) }
            events[Int(number)] += 1
            people.add(row.person, to: number)
        }
        let counts = people.counts()
        let total = events.reduce(0, +)
        var report = Report(
            name: "breakdown", title: "\(self.request.event?.text ?? "Events") by \(by)",
            definition:
                "Events\(self.request.event.map { " \"\($0.text)\"" } ?? "") by the value of \(by), the different "
                + "people with them, and the share of the events. A person may have several values. "
                + "A trait is what the person's newest event up to then says.",
            notes: self.notes,
            columns: [
                .init(by, .text), .init("events", .count), .init("people", .count), .init("share", .share),
            ], chart: .bars(label: 0, value: 1))
        let sorted = numbers.sorted { left, right in
            let (a, b) = (events[Int(left.value)], events[Int(right.value)])
            if a != b { return a > b }
            guard let leftText = left.key else { return false }
            return right.key.map { String.isOrdered(leftText, $0) } ?? true
        }
        for (text, number) in sorted {
            report.rows.append([
                text.map { .text($0) } ?? .empty, .count(events[Int(number)]), .count(counts[number] ?? 0),
                Figure.share(events[Int(number)], of: total),
            ])
        }
        return report
    }

    /// The number of an event's value among those so far, or the next one.
    private func valueNumber(
        _ field: EventField, _ row: EventRow, at index: Int, _ numbers: inout [String?: UInt32]
    ) -> UInt32 {
        let text = self.table.text(of: field, row, at: index)
        if let known = numbers[text] { return known }
        let number = UInt32(numbers.count)
        numbers[text] = number
        return number
    }

    func systems() -> Report {
        var versions = [UInt32](repeating: 0, count: self.table.personCount + 1)
        var isActive = [Bool](repeating: false, count: versions.count)
        self.forEach { _, row in
            guard row.isActive else { return }
            isActive[Int(row.person)] = true
            if row.systemVersion != 0 { versions[Int(row.person)] = row.systemVersion }
        }
        var counts: [String?: Int] = [:]
        var majors: [UInt32: String] = [:]
        for person in versions.indices where isActive[person] {
            let version = versions[person]
            guard version != 0 else {
                counts[nil, default: 0] += 1
                continue
            }
            if majors[version] == nil {
                majors[version] = String(self.table.strings.text(version).prefix { $0 != "." })
            }
            counts[majors[version], default: 0] += 1
        }
        let total = counts.values.reduce(0, +)
        var report = Report(
            name: "os", title: "Systems",
            definition:
                "Each person of the range once, under the first part of the system's version in the last of their "
                + "events that has one.",
            notes: self.notes,
            columns: [.init("os", .text), .init("people", .count), .init("share", .share)],
            chart: .bars(label: 0, value: 1))
        let sorted = counts.sorted { left, right in
            guard let leftText = left.key else { return false }
            return right.key.map { String.isOrdered(leftText, $0) } ?? true
        }
        for (version, count) in sorted {
            report.rows.append([version.map { .text($0) } ?? .empty, .count(count), Figure.share(count, of: total)])
        }
        return report
    }

    func gaps() -> Report {
        struct Writer {
            var numbers: [Int64] = []
        }
        var places = [Int32](repeating: -1, count: self.table.strings.count)
        var writers: [(text: UInt32, facts: Writer)] = []
        self.forEachKept { _, row in
            guard row.writer != 0, row.sequence >= 0 else { return }
            if places[Int(row.writer)] < 0 {
                places[Int(row.writer)] = Int32(writers.count)
                writers.append((row.writer, Writer()))
            }
            writers[Int(places[Int(row.writer)])].facts.numbers.append(row.sequence)
        }
        var report = Report(
            name: "gaps", title: "Gaps",
            definition:
                "Each writer numbers its events; a number between its lowest and its highest that is not kept is an "
                + "event that was lost or is still on its way. All days that are kept count, not the range alone.",
            notes: self.notes,
            columns: [
                .init("writer", .text), .init("missing", .count), .init("first", .count), .init("last", .count),
            ])
        writers.sort { self.table.strings.isOrdered($0.text, $1.text) }
        for (text, facts) in writers {
            let numbers = facts.numbers.sorted()
            guard let low = numbers.first, let high = numbers.last else { continue }
            let different = zip(numbers, numbers.dropFirst()).count { $0 != $1 } + 1
            // Any numbers may come, the greatest one, too.
            let missing = Int(high - low) - (different - 1)
            guard missing > 0 else { continue }
            report.rows.append([self.text(text), .count(missing), .count(Int(low)), .count(Int(high))])
        }
        report.notes.append("\(writers.count) writers, \(report.rows.count) of them with gaps")
        return report
    }

    func arrival() -> Report {
        struct Key: Hashable {
            let day: Int32
            let version: UInt32
        }
        struct Lines {
            var delays: [Double] = []
            var lines = 0
            var late = 0
        }
        var groups: [Key: Lines] = [:]
        self.forEach { _, row in
            let key = Key(day: row.day, version: row.version)
            groups[key, default: Lines()].lines += 1
            if row.isLate { groups[key]?.late += 1 }
            if row.received != 0 { groups[key]?.delays.append(Double(row.received - row.time)) }
        }
        var report = Report(
            name: "arrival", title: "Arrival",
            definition:
                "How long after its own time the receiver had each line, by day and version of the app: half, nine "
                + "tenths and 99 of 100 came within these times. \"late\" is the share that came after the day's "
                + "cut-off. Lines whose time of receipt is not known have no delay. A clock that runs ahead makes "
                + "times negative.",
            notes: self.notes,
            columns: [
                .init("day", .day), .init("version", .text), .init("lines", .count), .init("p50", .milliseconds),
                .init("p90", .milliseconds), .init("p99", .milliseconds), .init("late", .share),
            ], chart: .lines(x: 0, values: [3, 4, 5]))
        let sorted = groups.sorted { left, right in
            left.key.day == right.key.day
                ? self.table.strings.isOrdered(left.key.version, right.key.version) : left.key.day < right.key.day
        }
        for (key, lines) in sorted {
            let delays = lines.delays.sorted()
            let times = [0.5, 0.9, 0.99].map { share in
                Figure.quantile(share, of: delays).map { Report.Cell.number($0.rounded()) } ?? .empty
            }
            report.rows.append(
                [self.day(key.day), self.text(key.version), .count(lines.lines)] + times
                    + [Figure.share(lines.late, of: lines.lines)])
        }
        return report
    }

}
