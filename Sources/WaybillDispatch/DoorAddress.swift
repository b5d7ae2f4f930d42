internal import WaybillAgent
internal import WaybillSystem
internal import WaybillTLS

/// The address of a door: `https://HOST[:PORT][/PATH]`, or `http://` on this machine.
struct DoorAddress: Hashable, Sendable {
    /// Why an address cannot be used; completes "ADDRESS …".
    struct Failure: Error, Hashable, Sendable {
        let text: String
    }

    let isEncrypted: Bool
    let address: NetworkAddress
    /// Begins and ends with `/`.
    let path: String

    /// Whether a receiver's address is meant for a door.
    static func isDoor(_ text: String) -> Bool { text.contains("://") }

    init(_ text: String) throws(Failure) {
        let parts = text.split(separator: "/", maxSplits: 3, omittingEmptySubsequences: false)
        guard parts.count >= 3, ["https:", "http:"].contains(parts[0].lowercased()), parts[1].isEmpty else {
            throw Failure(text: "is not an address such as https://events.example.com")
        }
        self.isEncrypted = parts[0].lowercased() == "https:"
        let path = parts.count == 4 ? parts[3] : ""
        let isPlain = { (byte: UInt8) -> Bool in byte > 0x20 && byte < 0x7F && byte != UInt8(ascii: "\"") }
        guard !parts[2].contains("@"), path.utf8.allSatisfy(isPlain), !path.contains("?"), !path.contains("#") else {
            throw Failure(text: "has a user, a query or a fragment; a door's address ends with its path")
        }
        let host = String(parts[2])
        guard let address = NetworkAddress(host) ?? NetworkAddress("\(host):\(self.isEncrypted ? 443 : 80)"),
            address.host.utf8.allSatisfy(isPlain)
        else { throw Failure(text: "is not an address such as https://events.example.com") }
        guard self.isEncrypted || Self.isLoopback(address.host) else {
            throw Failure(text: "would send the token and the events in the clear; use https://")
        }
        self.address = address
        self.path = path.isEmpty ? "/" : "/\(path)" + (path.hasSuffix("/") ? "" : "/")
    }

    private static func isLoopback(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" { return true }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// What the paths of requests follow.
    var url: String { "\(self.isEncrypted ? "https" : "http")://\(self.address)\(self.path)" }

    /// Opens transports to the door.
    ///
    /// - Parameter security: as of receivers; `https:` means TLS in any case.
    func opener(_ security: Dispatcher.Security) throws(Failure) -> DoorOpener {
        let url = self.url
        switch security.kind {
        case .plain, .systemAuthorities: return { HTTPDoorTransport(url, authorities: nil) }
        case .authorities(let file):
            guard HTTPDoorTransport.takesAuthorities else {
                throw Failure(text: "cannot stand with authorities of its own here; the system's are asked")
            }
            return { HTTPDoorTransport(url, authorities: file) }
        case .pinned:
            throw Failure(text: "cannot stand with pinned certificates; use `.tls`, or HOST:PORT of a receiver")
        }
    }
}
