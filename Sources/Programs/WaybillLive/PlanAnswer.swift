internal import WaybillData
internal import WaybillExport
internal import WaybillJSON

/// What came of a plan, for programs and for people.
///
/// The entries are in the plan's order. `Documentation/live.md` has an example.
package struct PlanAnswer: Sendable, Equatable {
    /// Whether all that must come came, as often as it may, and nothing that must not.
    package let isFulfilled: Bool
    /// One object, without a line feed.
    package let json: [UInt8]
    /// What is wrong, line by line; the first line says how much came.
    package let summary: [String]

    init(_ progress: PlanProgress, _ end: PlanEnd) {
        self.isFulfilled = progress.isFulfilled
        self.json = JSONWriter.object { json in
            json.member("ok", progress.isFulfilled)
            json.member("end", end.rawValue)
            json.member("events", progress.eventCount)
            progress.writeExpected(to: &json)
            progress.writeNever(to: &json)
            progress.writeRefused(to: &json)
            progress.writeQuarantined(to: &json)
            progress.writeOthers(to: &json)
            json.member("unread", objects: progress.gaps) { json, gap in
                json.member("from", gap.start.rawValue)
                json.member("to", gap.end.rawValue)
                json.member("reason", gap.reason)
            }
        }
        self.summary = progress.summary
    }
}

extension EventPlan.Expectation {
    func outcome(_ count: Int) -> String {
        if count < self.countMin { return "missing" }
        return count > self.countMax ?? .max ? "too-many" : "came"
    }
}

extension PlanProgress {
    fileprivate func writeExpected(to json: inout JSONWriter) {
        json.member("expect", objects: Array(zip(self.plan.expectations, self.expected))) { json, pair in
            let (expectation, entry) = pair
            let outcome = expectation.outcome(entry.count)
            json.member("name", expectation.pattern.name)
            json.member("outcome", outcome)
            json.member("count", entry.count)
            json.member("min", expectation.countMin)
            json.member("max", expectation.countMax)
            guard outcome == "missing" else { return }
            json.member("differing", entry.differingCount)
            if let nearest = self.nearest(expectation, entry) { json.member("nearest", nearest) }
            json.member("examples", objects: entry.examples) { json, example in example.write(to: &json) }
        }
    }

    fileprivate func writeNever(to json: inout JSONWriter) {
        json.member("never", objects: Array(zip(self.plan.never, self.never))) { json, pair in
            json.member("name", pair.0.name)
            json.member("outcome", pair.1.count == 0 ? "absent" : "came")
            json.member("count", pair.1.count)
            json.member("examples", objects: pair.1.examples) { json, example in example.write(to: &json) }
        }
    }

    fileprivate func writeRefused(to json: inout JSONWriter) {
        let refused = self.refused.sorted {
            ($0.key.name, $0.key.provider, $0.key.reason) < ($1.key.name, $1.key.provider, $1.key.reason)
        }
        json.member("refused", objects: refused) { json, refused in
            json.member("name", refused.key.name)
            json.member("provider", refused.key.provider)
            json.member("reason", refused.key.reason)
            json.member("count", refused.value.count)
            if let detail = refused.value.detail { json.member("detail", detail) }
            if let field = refused.value.field { json.member("field", field) }
            if let remedy = Self.remedy(refused.key.reason) { json.member("remedy", remedy) }
        }
    }

    fileprivate func writeQuarantined(to json: inout JSONWriter) {
        let quarantined = self.quarantined.sorted { $0.key.rawValue < $1.key.rawValue }
        json.member("quarantined", objects: quarantined) { json, quarantined in
            json.member("reason", quarantined.key.rawValue)
            json.member("count", quarantined.value.count)
            if let name = quarantined.value.name { json.member("name", name) }
            json.member("line", quarantined.value.line)
            json.member("remedy", Outcome.quarantined(quarantined.key).remedy)
        }
    }

    fileprivate func writeOthers(to json: inout JSONWriter) {
        json.member("others", objects: self.others.sorted { $0.key < $1.key }) { json, other in
            json.member("name", other.key)
            json.member("count", other.value)
        }
        if self.uncountedOtherCount > 0 { json.member("more_others", self.uncountedOtherCount) }
    }

    static func remedy(_ reason: String) -> String? {
        RefusalReason(rawValue: reason).map { Outcome.refused($0).remedy }
    }

    /// The name of other events that may be meant, if none came with an entry's own.
    private func nearest(_ expectation: EventPlan.Expectation, _ entry: Entry) -> String? {
        guard entry.count + entry.differingCount == 0 else { return nil }
        return NearestName.find(expectation.pattern.name, in: self.others.keys.sorted())
    }

    // MARK: For people

    fileprivate var summary: [String] {
        let outcomes = zip(self.plan.expectations, self.expected).map { $0.outcome($1.count) }
        let wanted = zip(self.plan.expectations, outcomes).filter { $0.0.countMin > 0 }
        var lines = ["\(wanted.count { $0.1 != "missing" }) of \(wanted.count) expected events came"]
        for (index, (expectation, entry)) in zip(self.plan.expectations, self.expected).enumerated() {
            let name = "expect[\(index)] \(expectation.pattern.name)"
            switch outcomes[index] {
            case "missing": lines.append("missing: \(name): \(self.text(expectation, entry))")
            case "too-many":
                lines.append("too many: \(name): \(entry.count), and at most \(expectation.countMax ?? 0) may come")
            default: break
            }
        }
        for (index, entry) in self.never.enumerated() where entry.count > 0 {
            lines.append("must not come: never[\(index)] \(self.plan.never[index].name): \(entry.count) came")
        }
        for (reason, lost) in self.quarantined.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
            lines.append(
                "\(lost.count) lines are not events (\(reason.rawValue)): \(Outcome.quarantined(reason).remedy)")
        }
        for gap in self.gaps {
            lines.append("positions \(gap.start) to \(gap.end) of the journal could not be read: \(gap.reason)")
        }
        return lines
    }

    private func text(_ expectation: EventPlan.Expectation, _ entry: Entry) -> String {
        var text = "\(entry.count) came, and \(expectation.countMin) must"
        if let example = entry.examples.first, let difference = example.differences.first {
            text += "; \(entry.differingCount) with this name differ: \(difference.text)"
        } else if let nearest = self.nearest(expectation, entry) {
            text += "; events with the name \"\(nearest)\" came"
        }
        return text
    }
}

extension PlanProgress.Difference {
    fileprivate var text: String {
        let found = self.found ?? "absent"
        guard self.isProvider else { return "\(self.subject) is \(found), and not \(self.expected)" }
        let reason = self.reason.map { " (\($0))" } ?? ""
        let remedy = self.reason.flatMap(PlanProgress.remedy).map { ": \($0)" } ?? ""
        return "\(self.subject): \(found)\(reason), and not \(self.expected)\(remedy)"
    }
}

extension PlanProgress.Example {
    fileprivate func write(to json: inout JSONWriter) {
        json.member("at", self.place.description)
        if let id = self.id { json.member("id", ShownText.cut(id)) }
        guard !self.differences.isEmpty else { return }
        json.member("differences", objects: self.differences) { json, difference in
            json.member(difference.isProvider ? "provider" : "member", difference.subject)
            json.member("expected", difference.expected)
            json.member("found", difference.found)
            if let reason = difference.reason { json.member("reason", reason) }
            if let detail = difference.detail { json.member("detail", detail) }
            if let field = difference.field { json.member("field", field) }
            if let remedy = difference.reason.flatMap(PlanProgress.remedy) { json.member("remedy", remedy) }
        }
    }
}
