import NIOCore
import Testing
import WaybillHost

struct ProxyHeaderTests {
    private static func read(_ bytes: [UInt8]) throws(ProxyHeader.Failure) -> (header: ProxyHeader?, rest: Int) {
        var buffer = ByteBuffer(bytes: bytes)
        let header = try ProxyHeader(readingFrom: &buffer)
        return (header, buffer.readableBytes)
    }

    private static func made(_ command: UInt8, _ family: UInt8, _ content: [UInt8]) -> [UInt8] {
        ProxyHeader.signature + [command, family, UInt8(content.count >> 8), UInt8(content.count & 0xFF)] + content
    }

    private static func address(_ text: String, _ port: Int) throws -> ProxyHeader.Source {
        .address(try SocketAddress(ipAddress: text, port: port))
    }

    @Test(arguments: ["192.0.2.7", "2001:db8::7"])
    func `what a door writes is what a receiver reads`(text: String) throws {
        let header = ProxyHeader(source: try Self.address(text, 51_000), software: "door")
        let (read, rest) = try Self.read(header.encoded + [0x48])
        #expect(read == header)
        #expect(rest == 1)
        let unnamed = ProxyHeader(source: .proxy, software: "door")
        #expect(try Self.read(unnamed.encoded).header == unnamed)
    }

    /// As in the examples of the specification's section 2.2.
    @Test func `headers of other proxies`() throws {
        let version4: [UInt8] = [192, 0, 2, 7, 10, 0, 0, 1, 0xC7, 0x38, 0x11, 0x26]
        #expect(try Self.read(Self.made(0x21, 0x11, version4)).header?.source == Self.address("192.0.2.7", 51_000))
        // With a TLV that no one knows: PP2_TYPE_NETNS.
        let more = version4 + [0x30, 0, 2, 0x6E, 0x73]
        let named = try #require(try Self.read(Self.made(0x21, 0x11, more)).header)
        #expect(named == ProxyHeader(source: try Self.address("192.0.2.7", 51_000)))
        let mapped = [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF, 192, 0, 2, 7] + [UInt8](repeating: 0, count: 16)
        let version6 = Self.made(0x21, 0x21, mapped + [0xC7, 0x38, 0x11, 0x26])
        #expect(try Self.read(version6).header?.source == Self.address("192.0.2.7", 51_000), "version 4 in version 6")
        #expect(try Self.read(Self.made(0x20, 0x11, version4)).header?.source == .proxy, "LOCAL")
        #expect(try Self.read(Self.made(0x20, 0x00, [])).header?.source == .proxy)
        #expect(try Self.read(Self.made(0x21, 0x00, [])).header?.source == .proxy, "UNSPEC")
        let socket = Self.made(0x21, 0x31, [UInt8](repeating: 0, count: 216))
        #expect(try Self.read(socket).header?.source == .proxy)
    }

    @Test func `a header in pieces is awaited, and nothing else is`() throws {
        let bytes = ProxyHeader(source: try Self.address("192.0.2.7", 51_000), software: "door").encoded
        for count in 0..<bytes.count { #expect(try Self.read(Array(bytes[..<count])).header == nil) }
        for index in ProxyHeader.signature.indices {
            var wrong = bytes
            wrong[index] ^= 1
            #expect(throws: ProxyHeader.Failure.signature) { try Self.read(wrong) }
            #expect(throws: ProxyHeader.Failure.signature) { try Self.read(Array(wrong[...index])) }
        }
        #expect(throws: ProxyHeader.Failure.signature) { try Self.read(Array("PROXY TCP4 192.0.2.7 ".utf8)) }
        #expect(throws: ProxyHeader.Failure.signature) { try Self.read(Array("HELLO".utf8)) }
    }

    @Test func `what no proxy of ours sends is refused`() throws {
        let version4 = [UInt8](repeating: 1, count: 12)
        for command: UInt8 in [0x11, 0x22, 0x31, 0x00] {
            #expect(throws: ProxyHeader.Failure.version) { try Self.read(Self.made(command, 0x11, version4)) }
        }
        for family: UInt8 in [0x12, 0x22, 0x32, 0x41, 0x10] {
            #expect(throws: ProxyHeader.Failure.version) { try Self.read(Self.made(0x21, family, version4)) }
        }
        #expect(throws: ProxyHeader.Failure.length) { try Self.read(Self.made(0x21, 0x11, Array(version4.dropLast()))) }
        #expect(throws: ProxyHeader.Failure.length) { try Self.read(Self.made(0x21, 0x21, version4)) }
        let long = version4 + [UInt8](repeating: 0, count: ProxyHeader.byteCountMax - 16 - version4.count)
        #expect(try Self.read(Self.made(0x21, 0x11, long)).header != nil)
        #expect(throws: ProxyHeader.Failure.length) { try Self.read(Self.made(0x21, 0x11, long + [0])) }
        // Of a TLV that ends early, nothing is believed.
        let broken = Self.made(0x21, 0x11, version4 + [0xE0, 0, 9, 0x64])
        #expect(try Self.read(broken).header?.software == nil)
    }
}
