package import NIOCore

/// Who may ask for what only users of this machine may see.
package enum LocalRequest {
    /// The host in a `Host` header, in lower case and without port and brackets; `nil` if it is not one.
    package static func host(ofHeader header: String) -> String? {
        var rest = header.lowercased()[...]
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { return nil }
            let host = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            return Self.isPort(rest) && !host.isEmpty ? String(host) : nil
        }
        let host = rest.prefix { $0 != ":" }
        guard Self.isPort(rest[host.endIndex...]), !host.isEmpty else { return nil }
        return String(host)
    }

    private static func isPort(_ text: Substring) -> Bool {
        guard !text.isEmpty else { return true }
        let digits = text.dropFirst().utf8
        return text.hasPrefix(":") && (1...5).contains(digits.count) && digits.allSatisfy { 0x30...0x39 ~= $0 }
    }

    /// Whether a host's name can only mean this machine: a page of another site whose name leads here has its own.
    package static func isLoopbackName(_ host: String) -> Bool {
        if host == "localhost" || host == "::1" { return true }
        let numbers = host.split(separator: ".", omittingEmptySubsequences: false)
        return numbers.count == 4 && numbers[0] == "127" && numbers.allSatisfy { UInt8($0) != nil }
    }

    /// Whether a peer is on this machine.
    package static func isLoopback(_ peer: SocketAddress?) -> Bool {
        switch peer {
        case .unixDomainSocket: return true
        case .v4, .v6:
            guard let address = peer?.ipAddress?.lowercased() else { return false }
            return Self.isLoopbackName(address.hasPrefix("::ffff:") ? String(address.dropFirst(7)) : address)
        case nil: return false
        }
    }
}
