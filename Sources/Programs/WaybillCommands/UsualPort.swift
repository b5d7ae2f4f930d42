import WaybillSystem

/// The ports that Waybill's programs use unless they are told otherwise, and those of examples; no two are equal.
enum UsualPort {
    /// Where a receiver takes agents.
    static let agents = 4390
    /// Metrics and status of a receiver.
    static let receiver = 4391
    /// The page of `waybill live`.
    static let live = 4392
    /// Metrics and status of an agent.
    static let agent = 4393
    /// Metrics and status of `waybill deliver --config`.
    static let deliver = 4394
    /// Metrics and status of a fleet's merger.
    static let merger = 4395
    /// Where a receiver takes agents that proxies bring.
    static let proxied = 4396
    /// Where `waybill ingest` takes events.
    static let ingest = 4380
    /// Metrics and status of `waybill ingest`.
    static let ingestMetrics = 4381

    /// The addresses at which `waybill status` asks where there are no sockets.
    static var statusAddresses: [NetworkAddress] {
        [Self.receiver, Self.agent, Self.deliver, Self.merger, Self.ingestMetrics].map {
            NetworkAddress(host: "127.0.0.1", port: $0)
        }
    }
}
