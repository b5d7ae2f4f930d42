/// Where a program listens, or is asked: an address, or a UNIX socket.
package enum ListeningPlace: Hashable, Sendable, CustomStringConvertible {
    case address(NetworkAddress)
    /// The path of a UNIX socket.
    case socket(String)

    /// Reads `HOST:PORT` or an absolute path; `nil` for any other text.
    package init?(_ text: String) {
        if text.hasPrefix("/") {
            self = .socket(text)
        } else {
            guard let address = NetworkAddress(text) else { return nil }
            self = .address(address)
        }
    }

    package var description: String {
        switch self {
        case .address(let address): address.description
        case .socket(let path): path
        }
    }
}
