internal import WaybillHost
internal import WaybillIngest
internal import WaybillSystem

/// Where tunnels lead.
struct TunnelConfiguration: Sendable {
    /// The receiver's proxied listener.
    enum Receiver: Hashable, Sendable, CustomStringConvertible {
        case address(NetworkAddress)
        case socket(path: String)

        var description: String {
            switch self {
            case .address(let address): "\(address)"
            case .socket(let path): path
            }
        }
    }

    let receiver: Receiver
    /// The TLS settings for the receiver; `nil` without TLS.
    var tls: TLSClientConfiguration?
    var connectionCountMax: Int

    /// - Returns: `nil` if they lead nowhere.
    init?(_ line: IngestLine) {
        guard let place = line.receiver else { return nil }
        if place.hasPrefix("/") {
            self.receiver = .socket(path: place)
        } else if let address = NetworkAddress(place) {
            self.receiver = .address(address)
        } else {
            return nil
        }
        self.tls =
            line.usesTLS || line.authorities != nil ? TLSClientConfiguration(authorities: line.authorities) : nil
        self.connectionCountMax = line.connectionCountMax
    }
}
