internal import WaybillHost
internal import WaybillIngest
internal import WaybillSystem

/// Where tunnels lead.
struct TunnelConfiguration: Sendable {
    /// The receiver's proxied listener.
    let receiver: ListeningPlace
    /// The TLS settings for the receiver; `nil` without TLS.
    var tls: TLSClientConfiguration?
    var connectionCountMax: Int

    /// - Returns: `nil` if they lead nowhere.
    init?(_ line: IngestLine) {
        guard let receiver = line.receiver else { return nil }
        self.receiver = receiver
        self.tls =
            line.usesTLS || line.authorities != nil ? TLSClientConfiguration(authorities: line.authorities) : nil
        self.connectionCountMax = line.connectionCountMax
    }
}
