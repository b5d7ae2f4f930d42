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
                json.member("state", delivery.condition.name)
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
        page.add("waybill_delivery_sent_events_total", .counter, "Events that the provider accepted.") { family in
            for delivery in all { family.sample(delivery.sentEventCount, [("delivery", delivery.name)]) }
        }
        page.add(
            "waybill_delivery_refused_events_total", .counter, "Events that are in the dead letters of a delivery."
        ) { family in
            for delivery in all {
                for reason in GivenUpRecord.Reason.allCases {
                    family.sample(
                        delivery.refusedEventCount(reason), [("delivery", delivery.name), ("reason", reason.rawValue)])
                }
            }
        }
        page.add("waybill_delivery_requests_total", .counter, "Requests that were sent to the provider.") { family in
            for delivery in all { family.sample(delivery.requestCount, [("delivery", delivery.name)]) }
        }
        page.add("waybill_delivery_retried_requests_total", .counter, "Requests that had to be repeated.") { family in
            for delivery in all { family.sample(delivery.retriedRequestCount, [("delivery", delivery.name)]) }
        }
        page.add("waybill_delivery_waiting_events", .gauge, "Events of closed parts that are not settled.") { family in
            for delivery in all { family.sample(delivery.waitingEventCount, [("delivery", delivery.name)]) }
        }
        page.add("waybill_delivery_open_records", .gauge, "Records of parts that cannot be sent yet.") { family in
            for delivery in all { family.sample(delivery.openRecordCount, [("delivery", delivery.name)]) }
        }
        page.add(
            "waybill_delivery_parts", .gauge, "In a fleet: parts that are not delivered, by which merger sends them."
        ) { family in
            for delivery in all {
                guard let claims = delivery.claims else { continue }
                for (name, count) in [
                    ("claimed", claims.claimed), ("elsewhere", claims.elsewhere), ("waiting", claims.waiting),
                ] {
                    family.sample(count, [("delivery", delivery.name), ("claim", name)])
                }
            }
        }
        page.add(
            "waybill_delivery_oldest_unsent_seconds", .gauge, "Age of the oldest event that is not settled; 0 if none."
        ) { family in
            for delivery in all {
                family.sample(delivery.oldestUnsentSeconds(at: now) ?? 0, [("delivery", delivery.name)])
            }
        }
        page.add("waybill_delivery_state", .gauge, "1 for the state that the delivery is in, 0 for others.") { family in
            for delivery in all {
                for name in DeliveryProgress.Condition.names {
                    family.sample(
                        delivery.condition.name == name ? 1 : 0, [("delivery", delivery.name), ("state", name)])
                }
            }
        }
        page.add(
            "waybill_delivery_last_success_timestamp_seconds", .gauge,
            "When the provider last accepted a record, since 1970; missing before the first time."
        ) { family in
            for delivery in all {
                guard let time = delivery.lastSuccess else { continue }
                family.sample(Double(time.milliseconds) / 1000, [("delivery", delivery.name)])
            }
        }
        page.addProcess()
        return page
    }
}
