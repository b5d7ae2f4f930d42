package import WaybillHost

/// What deliveries count.
extension Metric {
    package static let deliveries = [
        sentEvents, refusedEvents, requests, retriedRequests, waitingEvents, openRecords, parts, oldestUnsent, state,
        lastSuccess,
    ]

    static let sentEvents = Metric(
        "waybill_delivery_sent_events_total", .counter, "Events that the provider accepted.", labels: [delivery])
    static let refusedEvents = Metric(
        "waybill_delivery_refused_events_total", .counter, "Events that went to the dead letters.",
        more: "[Deliveries](formats/delivery.md) describes the reasons.",
        labels: [delivery, MetricLabel("reason", GivenUpRecord.Reason.allCases)])
    static let requests = Metric(
        "waybill_delivery_requests_total", .counter, "Requests that were sent to the provider.", labels: [delivery])
    static let retriedRequests = Metric(
        "waybill_delivery_retried_requests_total", .counter, "Requests that had to be repeated.", labels: [delivery])
    static let waitingEvents = Metric(
        "waybill_delivery_waiting_events", .gauge, "Events of closed parts that are neither sent nor given up.",
        more: "Those that wait for another day are among them.", labels: [delivery])
    static let openRecords = Metric(
        "waybill_delivery_open_records", .gauge, "Records of parts that cannot be sent yet.",
        more: "The parts are open, or closed and not compressed yet.", labels: [delivery])
    static let parts = Metric(
        "waybill_delivery_parts", .gauge, "In a fleet: parts that are not delivered, by which merger sends them.",
        more: "Events of parts that are `elsewhere` are in no other metric of this merger.",
        labels: [
            delivery,
            MetricLabel(
                "claim", Claim.allCases,
                [
                    .claimed: "this merger sends them",
                    .elsewhere: "another one does, or their claim cannot be read",
                    .waiting: "the bucket was not asked yet, or does not answer",
                ]),
        ])
    static let oldestUnsent = Metric(
        "waybill_delivery_oldest_unsent_seconds", .gauge, "Age of the oldest event that waits; 0 if none does.",
        more: """
            In closed parts it is the time since the event, in open ones since its receipt. A part counts until it is sent \
            whole. Alert when it grows.
            """,
        labels: [delivery])
    static let state = Metric(
        "waybill_delivery_state", .gauge, "1 for the state that the delivery is in, 0 for others.",
        more: "Alert on `refused` and `failed`: they need an operator.",
        labels: [delivery, MetricLabel("state", DeliveryProgress.Condition.Name.allCases)])
    static let lastSuccess = Metric(
        "waybill_delivery_last_success_timestamp_seconds", .gauge,
        "When the provider last accepted a record, in seconds since 1970.", more: "Missing before the first time.",
        labels: [delivery])

    enum Claim: String, CaseIterable {
        case claimed, elsewhere, waiting
    }

    private static let delivery = MetricLabel("delivery")
}
