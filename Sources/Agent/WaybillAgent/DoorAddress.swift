package import WaybillSystem

/// The address of a door: `https://HOST[:PORT][/PATH]`, or `http://` on this machine.
package struct DoorAddress: Hashable, Sendable {
    /// Why an address cannot be used; completes "ADDRESS …".
    package struct Failure: Error, Hashable, Sendable {
        package let text: String

        package init(text: String) {
            self.text = text
        }
    }

    package let isEncrypted: Bool
    package let address: NetworkAddress
    /// Begins and ends with `/`.
    private let path: String

    /// Whether a receiver's address is meant for a door.
    package static func isDoor(_ text: String) -> Bool { text.contains("://") }

    package init(_ text: String) throws(Failure) {
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

    /// Of the request for a tunnel.
    var linePath: String { self.path + "v1/line" }

    /// As the header `Host` has it.
    var host: String { self.address.port == (self.isEncrypted ? 443 : 80) ? self.hostName : "\(self.address)" }

    private var hostName: String { self.address.host.contains(":") ? "[\(self.address.host)]" : self.address.host }

    /// Of the tunnel, for a system's own WebSocket.
    package var url: String { "\(self.isEncrypted ? "wss" : "ws")://\(self.address)\(self.linePath)" }
}
