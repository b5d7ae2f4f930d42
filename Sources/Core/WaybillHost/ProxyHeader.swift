package import NIOCore
internal import WaybillSystem

/// The header of the PROXY protocol, version 2: with it a proxy says at the start of a connection whose bytes follow.
///
///     0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A │ version, command │ family │ length │ addresses, TLVs
///
/// - SeeAlso: https://www.haproxy.org/download/3.0/doc/proxy-protocol.txt, section 2.2.
package struct ProxyHeader: Hashable, Sendable {
    /// Who speaks through the proxy.
    package enum Source: Hashable, Sendable {
        /// The proxy itself: a check of its own, or a peer that it does not name.
        case proxy
        /// Version 4 addresses within version 6 are version 4.
        case address(SocketAddress)
    }

    package var source: Source
    /// What a door says about itself; `nil` of other proxies.
    package var software: String?

    /// Why bytes are no header.
    package enum Failure: Error, Hashable, Sendable {
        case signature
        /// A version, a command or a family that no proxy of ours has.
        case version
        case length
    }

    package init(source: Source, software: String? = nil) {
        self.source = source
        self.software = software
    }

    package static let signature: [UInt8] = [0x0D, 0x0A, 0x0D, 0x0A, 0x00, 0x0D, 0x0A, 0x51, 0x55, 0x49, 0x54, 0x0A]
    /// What a door calls itself.
    package static let door = "door"
    /// The longest header that is taken, in bytes.
    package static let byteCountMax = 536
    private static let fixedByteCount = 16
    /// The first of the types that are free for applications (PP2_TYPE_MIN_CUSTOM).
    private static let softwareType: UInt8 = 0xE0

    /// Reads a header off a buffer's start.
    ///
    /// - Returns: `nil` if more bytes are needed.
    package init?(readingFrom buffer: inout ByteBuffer) throws(Failure) {
        let bytes = buffer.readableBytesView
        guard bytes.prefix(Self.signature.count).elementsEqual(Self.signature.prefix(bytes.count)) else {
            throw .signature
        }
        guard bytes.count >= Self.fixedByteCount else { return nil }
        let start = bytes.startIndex
        let (command, family) = (bytes[start + 12], bytes[start + 13])
        let byteCount = Int(bytes[start + 14]) << 8 | Int(bytes[start + 15])
        guard command == 0x20 || command == 0x21 else { throw .version }
        guard Self.fixedByteCount + byteCount <= Self.byteCountMax else { throw .length }
        guard bytes.count >= Self.fixedByteCount + byteCount else { return nil }
        let content = bytes[(start + Self.fixedByteCount)..<(start + Self.fixedByteCount + byteCount)]
        let (source, addressByteCount) = try Self.source(of: content, family: family)
        self.source = command == 0x20 ? .proxy : source
        self.software = Self.software(in: content.dropFirst(addressByteCount))
        buffer.moveReaderIndex(forwardBy: Self.fixedByteCount + byteCount)
    }

    private static func source(
        of content: ByteBufferView, family: UInt8
    ) throws(Failure) -> (Source, byteCount: Int) {
        let lengths: [UInt8: (address: Int, all: Int)] = [0x11: (4, 12), 0x21: (16, 36), 0x31: (0, 216)]
        // UNSPEC has no addresses.
        if family == 0x00 { return (.proxy, 0) }
        guard let (addressByteCount, byteCount) = lengths[family] else { throw .version }
        guard content.count >= byteCount else { throw .length }
        guard addressByteCount > 0 else { return (.proxy, byteCount) }
        let portIndex = content.startIndex + 2 * addressByteCount
        let port = Int(content[portIndex]) << 8 | Int(content[portIndex + 1])
        guard let text = AddressBytes.plainText(of: Array(content.prefix(addressByteCount))) else { throw .version }
        do {
            return (.address(try SocketAddress(ipAddress: text, port: port)), byteCount)
        } catch {
            throw .version
        }
    }

    private static func software(in content: ByteBufferView) -> String? {
        var rest = content[...]
        while rest.count >= 3 {
            let start = rest.startIndex
            let (type, byteCount) = (rest[start], Int(rest[start + 1]) << 8 | Int(rest[start + 2]))
            let value = rest.dropFirst(3).prefix(byteCount)
            guard value.count == byteCount else { return nil }
            if type == Self.softwareType { return String(decoding: value, as: UTF8.self) }
            rest = rest.dropFirst(3 + byteCount)
        }
        return nil
    }

    /// The header's bytes, with the source's address as the other end's too: no one reads that.
    package var encoded: [UInt8] {
        var content: [UInt8] = []
        var family: UInt8 = 0
        if case .address(let address) = self.source, let bytes = address.ipAddress.flatMap({ AddressBytes.parse($0) }) {
            let port = UInt16(clamping: address.port ?? 0)
            let portBytes = [UInt8(port >> 8), UInt8(port & 0xFF)]
            family = bytes.count == 4 ? 0x11 : 0x21
            content = bytes + bytes + portBytes + portBytes
        }
        if let software {
            let value = Array(software.utf8.prefix(64))
            content += [Self.softwareType, 0, UInt8(value.count)] + value
        }
        return Self.signature + [0x21, family, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
    }
}
