#if canImport(Glibc)
    internal import Glibc
#elseif canImport(Darwin)
    internal import Darwin
#endif

/// The bytes of an address: 4, or 16.
package enum AddressBytes {
    package static func parse(_ text: String) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: 16)
        if inet_pton(AF_INET, text, &bytes) == 1 { return Array(bytes[..<4]) }
        guard inet_pton(AF_INET6, text, &bytes) == 1 else { return nil }
        // A version 4 address in version 6.
        if bytes.starts(with: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF]) { return Array(bytes[12...]) }
        return bytes
    }

    /// The bytes of an address that may have a port, as proxies write it: `192.0.2.1:5678`, `[2001:db8::7]:443`.
    package static func parse(withPort text: String) -> [UInt8]? {
        if let bytes = self.parse(text) { return bytes }
        let (address, port): (Substring, Substring)
        if text.hasPrefix("["), let end = text.firstIndex(of: "]") {
            (address, port) = (text[..<end].dropFirst(), text[text.index(after: end)...])
        } else if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
            (address, port) = (text[..<colon], text[colon...])
        } else {
            return nil
        }
        let isPort = port.first == ":" && port.utf8.dropFirst().allSatisfy { 0x30...0x39 ~= $0 }
        return port.isEmpty || isPort && UInt16(port.dropFirst()) != nil ? self.parse(String(address)) : nil
    }

    /// An address as RFC 5952 writes it, of version 4 where it is one in version 6.
    package static func plainText(of bytes: [UInt8]) -> String? {
        self.text(of: bytes).flatMap { self.parse($0) }.flatMap { self.text(of: $0) }
    }

    /// An address as RFC 5952 writes it.
    package static func text(of bytes: [UInt8]) -> String? {
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        let family = bytes.count == 4 ? AF_INET : AF_INET6
        guard inet_ntop(family, bytes, &text, socklen_t(text.count)) != nil else { return nil }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}

/// An address as proxies, sockets and senders give it.
package enum AddressText {
    /// Without a port, and of version 4 where it is one in version 6, as a socket for both versions says it.
    ///
    /// - Returns: `nil` if it is not an address.
    package static func plain(_ text: String) -> String? {
        AddressBytes.parse(withPort: text).flatMap { AddressBytes.text(of: $0) }
    }
}

/// An address, or a network as `10.0.0.0/8`.
package struct AddressRange: Hashable, Sendable {
    private let bytes: [UInt8]
    private let bitCount: Int

    /// - Returns: `nil` if it is neither.
    package init?(_ text: String) {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count <= 2, let bytes = AddressBytes.parse(String(parts[0])) else { return nil }
        let bitCount = parts.count == 2 ? Int(parts[1]) : bytes.count * 8
        guard let bitCount, (0...(bytes.count * 8)).contains(bitCount) else { return nil }
        self.bytes = bytes
        self.bitCount = bitCount
    }

    package func contains(_ address: String) -> Bool {
        guard let other = AddressBytes.parse(address), other.count == self.bytes.count else { return false }
        for bit in stride(from: 0, to: self.bitCount, by: 8) {
            let mask = UInt8(truncatingIfNeeded: 0xFF00 >> min(8, self.bitCount - bit))
            if (self.bytes[bit / 8] ^ other[bit / 8]) & mask != 0 { return false }
        }
        return true
    }
}
