internal import WaybillExport
internal import WaybillJSON
package import WaybillHost
package import WaybillSystem

/// What a process knows of its deliveries: each writes its own progress, and metrics and status read all of them.
package final class DeliveryStates: Sendable {
    private let progress = Lock<[String: DeliveryProgress]>([:])

    private let software: String
    private let started: WallTime

    package init(software: String, started: WallTime) {
        self.software = software
        self.started = started
    }

    /// In the order of names.
    package var all: [DeliveryProgress] {
        self.progress.withLock { $0.values.sorted { $0.name < $1.name } }
    }

    /// Begins a delivery, with the counts of an earlier one of the same name and provider.
    package func begin(_ progress: DeliveryProgress) {
        self.progress.withLock { all in
            var progress = progress
            if let former = all[progress.name], former.provider == progress.provider { progress.inherit(former) }
            all[progress.name] = progress
        }
    }

    /// Changes the progress of a delivery; does nothing after it was removed.
    package func update<Result>(_ name: String, _ body: (inout DeliveryProgress) -> Result) -> Result? {
        self.progress.withLock { all in
            guard var progress = all[name] else { return nil }
            defer { all[name] = progress }
            return body(&progress)
        }
    }

    package func remove(_ name: String) {
        self.progress.withLock { _ = $0.removeValue(forKey: name) }
    }

    // MARK: What it says

    /// What `GET /readyz` answers: a delivery that waits makes the process no less ready.
    package var readiness: Readiness {
        Readiness(
            isReady: true,
            problems: self.all.flatMap(\.problems).map(\.line))
    }

    /// The JSON of `GET /status`.
    package func status(at now: WallTime) -> [UInt8] {
        let all = self.all
        return JSONWriter.object { json in
            let problems = all.flatMap(\.problems)
            json.member("part", "deliver")
            json.member("name", "deliveries")
            json.member("software", self.software)
            json.member("time", now.milliseconds)
            json.member("started", self.started.milliseconds)
            json.member("health", (problems.isEmpty ? Health.ok : .degraded).rawValue)
            json.member("problems", array: problems) { $0.string($1.line) }
            json.member("lines", all.reduce(0) { $0 + $1.sentEventCount })
            json.member("deliveries", objects: all) { json, delivery in
                json.member("name", delivery.name)
                json.member("provider", delivery.provider.rawValue)
                json.member("state", delivery.condition.name.rawValue)
                json.member("sent", delivery.sentEventCount)
                json.member("refused", Self.refused(delivery))
                json.member("requests", delivery.requestCount)
                json.member("retried", delivery.retriedRequestCount)
                json.member("waiting", delivery.waitingEventCount)
                json.member("open", delivery.openRecordCount)
                if let claims = delivery.claims {
                    json.member("claimed_parts", claims.claimed)
                    json.member("elsewhere_parts", claims.elsewhere)
                    json.member("waiting_parts", claims.waiting)
                }
                if let age = delivery.oldestUnsentSeconds(at: now) { json.member("oldest_unsent_s", age) }
                if let time = delivery.lastSuccess { json.member("last_success", time.milliseconds) }
                json.member("problems", objects: delivery.problems) { json, problem in
                    json.member("code", problem.code.rawValue)
                    json.member("text", problem.text)
                }
            }
        }
    }

    private static func refused(_ delivery: DeliveryProgress) -> [String: Int] {
        var counts: [String: Int] = [:]
        for reason in GivenUpRecord.Reason.allCases {
            let count = delivery.refusedEventCount(reason)
            if count > 0 { counts[reason.rawValue] = count }
        }
        return counts
    }

    /// The page of `GET /metrics`.
    package func page(at now: WallTime) -> MetricsPage {
        let all = self.all
        var page = MetricsPage()
        page.add(.sentEvents, for: all) { $0.sentEventCount }
        page.add(.refusedEvents, for: all, by: GivenUpRecord.Reason.allCases) { $0.refusedEventCount($1) }
        page.add(.requests, for: all) { $0.requestCount }
        page.add(.retriedRequests, for: all) { $0.retriedRequestCount }
        page.add(.waitingEvents, for: all) { $0.waitingEventCount }
        page.add(.openRecords, for: all) { $0.openRecordCount }
        page.add(.parts, for: all.filter { $0.claims != nil }, by: Metric.Claim.allCases) { delivery, claim in
            switch claim {
            case .claimed: delivery.claims?.claimed ?? 0
            case .elsewhere: delivery.claims?.elsewhere ?? 0
            case .waiting: delivery.claims?.waiting ?? 0
            }
        }
        page.add(.oldestUnsent, for: all) { $0.oldestUnsentSeconds(at: now) ?? 0 }
        page.add(.state, for: all, by: DeliveryProgress.Condition.Name.allCases) { $0.condition.name == $1 ? 1 : 0 }
        page.add(.lastSuccess) { family in
            for delivery in all {
                guard let time = delivery.lastSuccess else { continue }
                family.sample(Double(time.milliseconds) / 1000, delivery.name)
            }
        }
        page.addProcess()
        return page
    }
}

extension MetricsPage {
    /// Adds a metric with one value for each delivery.
    fileprivate mutating func add(
        _ metric: Metric, for deliveries: [DeliveryProgress], _ value: (DeliveryProgress) -> Int
    ) {
        self.add(metric) { family in
            for delivery in deliveries { family.sample(value(delivery), delivery.name) }
        }
    }

    /// Adds a metric with a value for each delivery and each value of its second label.
    fileprivate mutating func add<Value: RawRepresentable<String>>(
        _ metric: Metric, for deliveries: [DeliveryProgress], by labels: [Value],
        _ value: (DeliveryProgress, Value) -> Int
    ) {
        self.add(metric) { family in
            for delivery in deliveries {
                for label in labels { family.sample(value(delivery, label), delivery.name, label.rawValue) }
            }
        }
    }
}
