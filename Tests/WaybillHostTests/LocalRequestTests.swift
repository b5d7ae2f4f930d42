import NIOCore
import Testing
import WaybillHost

@Suite struct LocalRequestTests {
    @Test(arguments: [
        ("127.0.0.1:4391", "127.0.0.1"), ("LocalHost", "localhost"), ("[::1]:80", "::1"), ("[::1]", "::1"),
        ("evil.example.com:4391", "evil.example.com"), ("a:99999", "a"),
    ])
    func `a header's host is read without its port`(header: String, host: String) {
        #expect(LocalRequest.host(ofHeader: header) == host)
    }

    @Test(arguments: ["", ":80", "[::1", "[]:80", "a:b", "a:", "a:1:2", "[::1]x", "localhost:+1", "a:123456"])
    func `what is not a host is nothing`(header: String) {
        #expect(LocalRequest.host(ofHeader: header) == nil)
    }

    @Test func `only names of this machine count as such`() {
        for name in ["localhost", "127.0.0.1", "127.8.9.10", "::1"] { #expect(LocalRequest.isLoopbackName(name)) }
        for name in [
            "127.0.0.1.evil.example", "127.1", "127.0.0.256", "1270.0.0.1", "0.0.0.0", "localhost.", "", "127...1",
        ] {
            #expect(!LocalRequest.isLoopbackName(name), "\(name)")
        }
    }

    @Test func `only peers of this machine count as such`() throws {
        for address in ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"] {
            #expect(LocalRequest.isLoopback(try SocketAddress(ipAddress: address, port: 9)), "\(address)")
        }
        for address in ["192.168.0.4", "::ffff:10.0.0.1", "::2", "126.255.255.255", "128.0.0.1"] {
            #expect(!LocalRequest.isLoopback(try SocketAddress(ipAddress: address, port: 9)), "\(address)")
        }
        #expect(LocalRequest.isLoopback(try SocketAddress(unixDomainSocketPath: "/run/waybill.sock")))
        #expect(!LocalRequest.isLoopback(nil))
    }
}
