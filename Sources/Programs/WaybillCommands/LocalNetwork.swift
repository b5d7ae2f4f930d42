import WaybillSystem

#if canImport(Glibc)
    import Glibc
    private let datagrams = Int32(SOCK_DGRAM.rawValue)
#elseif canImport(Darwin)
    import Darwin
    private let datagrams = SOCK_DGRAM
#endif

/// This machine's place in its network.
enum LocalNetwork {
    /// The address of this machine that other machines of its network reach: the one from which it would send to
    /// elsewhere; `nil` without a network.
    ///
    /// Nothing is sent: a socket for datagrams that is "connected" only has its own address chosen, by the system's
    /// routes. The other end is an address for documentation (RFC 5737).
    static var address: String? {
        let file = socket(AF_INET, datagrams, 0)
        guard file >= 0 else { return nil }
        defer { close(file) }
        var other = sockaddr_in()
        other.sin_family = sa_family_t(AF_INET)
        other.sin_port = in_port_t(9).bigEndian
        other.sin_addr.s_addr = UInt32(0xC000_0201).bigEndian
        var own = sockaddr_in()
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let status = withUnsafePointer(to: &other) { other in
            other.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(file, $0, length) }
        }
        guard status == 0 else { return nil }
        let named = withUnsafeMutablePointer(to: &own) { own in
            own.withMemoryRebound(to: sockaddr.self, capacity: 1) { getsockname(file, $0, &length) }
        }
        let address = UInt32(bigEndian: own.sin_addr.s_addr)
        // A system without a route may choose no address, or one of its own machine.
        guard named == 0, address != 0, address >> 24 != 127 else { return nil }
        return stride(from: 24, through: 0, by: -8).map { String(address >> UInt32($0) & 0xFF) }.joined(separator: ".")
    }
}
