internal import WaybillData
internal import WaybillExport
internal import WaybillJSON
package import WaybillSystem

/// How many records a provider had at the end of each second, as the receiver counted them.
struct ExportedHistory {
    private var counts: [(second: Int64, count: Int)] = []

    mutating func add(_ count: Int, at time: WallTime) {
        let second = time.milliseconds / 1000
        if let last = self.counts.last, last.second == second { self.counts.removeLast() }
        // The receiver has started again, and counts from 0.
        if let last = self.counts.last, last.count > count { self.counts = [] }
        self.counts.append((second, count))
        self.counts.removeAll { $0.second < second - 61 }
    }

    /// For each of the last 60 seconds, oldest first; the receiver counts in steps, at its checkpoints.
    func rates(now: WallTime) -> [Int] {
        let end = now.milliseconds / 1000
        var rates = [Int](repeating: 0, count: 60)
        for (before, after) in zip(self.counts, self.counts.dropFirst()) {
            let index = Int(after.second - (end - 59))
            if rates.indices.contains(index) { rates[index] += after.count - before.count }
        }
        return rates
    }
}

/// What the receiver said about itself last, and how fast it exports; nothing without one.
struct ReceiverFigures {
    private(set) var report: ReceiverReport?
    /// Exported records by provider, as the receiver counted them, by second.
    private var history: [String: ExportedHistory] = [:]

    mutating func take(_ report: ReceiverReport, now: WallTime) {
        self.report = report
        for projection in report.projections where projection.name != "archive" {
            var history = self.history.removeValue(forKey: projection.name) ?? ExportedHistory()
            history.add(projection.exported, at: now)
            self.history[projection.name] = history
        }
    }

    /// Lines by the reason for which they were put into the quarantine; `nil` if that is not known.
    var quarantined: [String: Int]? { self.report?.projections.first { $0.name == "archive" }?.quarantined }

    /// Writes what is due, and what each provider has.
    ///
    /// - Parameter names: providers that are named even if the receiver does not know them.
    func write(providers names: [String], now: WallTime, to json: inout JSONWriter) {
        let projections = self.report?.projections
        json.member("unaccounted", projections?.reduce(0) { $0 + $1.unaccounted })
        json.member("pending", projections.map { $0.map(\.pending).max() ?? 0 })
        let known = projections?.filter { $0.name != "archive" } ?? []
        let names = known.map(\.name) + names.filter { name in !known.contains { $0.name == name } }
        json.member("providers", objects: names) { json, name in
            json.member("name", name)
            let projection = known.first { $0.name == name }
            json.member("exported", projection?.exported)
            json.member("refused", projection?.refused.values.reduce(0, +))
            json.member("skipped", projection?.skipped.values.reduce(0, +))
            json.member("held", projection?.held)
            json.member("rate", array: self.history[name]?.rates(now: now) ?? []) { $0.integer(Int64($1)) }
            json.member(
                "reasons", objects: (projection?.refused ?? [:]).sorted { ($1.value, $0.key) < ($0.value, $1.key) }
            ) {
                json, entry in
                json.member("reason", entry.key)
                json.member("count", entry.value)
            }
            json.member("skips", projection?.skipped ?? [:])
        }
    }
}

/// The state of the whole, as a page shows it.
extension LiveState {
    /// Takes what the receiver says about itself.
    package mutating func take(_ report: ReceiverReport, now: WallTime) {
        self.receiver.take(report, now: now)
    }

    /// The answer of `/api/status`.
    ///
    /// - Parameters:
    ///   - problem: why the receiver does not answer.
    ///   - quarantinedMax: lines of the quarantine for each reason; a stream has fewer, for it has them each second.
    package mutating func status(now: WallTime, problem: String?, quarantinedMax: Int = 20) -> [UInt8] {
        let rates = self.rate.rates(now: now)
        return JSONWriter.object { json in
            json.member("time", now.milliseconds)
            json.member("position", self.cursor.description)
            json.member("journal_end", (self.receiver.report?.journalEnd ?? self.position)?.rawValue)
            json.member("receiver", problem)
            json.member("rate", array: rates) { $0.integer(Int64($1)) }
            json.member("delay") { json in
                json.member("p50", self.delays.percentiles?.p50)
                json.member("p99", self.delays.percentiles?.p99)
            }
            self.receiver.write(providers: self.outcomes.names, now: now, to: &json)
            self.sources.write(to: &json)
            if let report = self.receiver.report {
                json.member("agents", array: report.agents) { json, agent in
                    agent.withUnsafeBytes { json.verbatim($0) }
                }
            }
            let own = Dictionary(uniqueKeysWithValues: self.kept.counts.map { ($0.key.rawValue, $0.value) })
            json.member("quarantined", self.receiver.quarantined ?? own)
            json.member("quarantine", objects: self.kept.lines(max: quarantinedMax)) { json, line in
                json.member("reason", line.reason.rawValue)
                json.member("line", ShownText.cut(RowWriter.text(of: line, self.mask), to: 200))
                json.member("received", line.receivedAt == .unknown ? nil : Int(line.receivedAt.milliseconds))
                json.member("source", line.path)
                json.member("position", line.id.description)
            }
        }
    }
}
