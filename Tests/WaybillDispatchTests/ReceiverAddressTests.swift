import Testing
import Waybill
import WaybillDispatch
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillHost

/// One text with receiver, token and certificate.
@Suite struct ReceiverAddressTests {
    private static let digits = String(repeating: "0123456789abcdef", count: 4)
    private static let token = "aZ09-_aZ09-_aZ09-_aZ09-_"

    @Test(arguments: ["192.168.0.12:4390", "[fe80::1]:4390", "host.example.com:1"])
    func `an address is read as it was written`(host: String) throws {
        let text = "waybill://\(host)#\(Self.token),\(Self.digits)"
        let address = try ReceiverAddress(text)
        #expect(address.revealed == text)
        #expect(address.token.revealed == Self.token)
        #expect(try ReceiverAddress(" \(text)\r\n") == address)
        let colons = "waybill://\(host)#\(Self.token),sha256:\(Self.digits.uppercased())"
        #expect(try ReceiverAddress(colons) == address)
    }

    @Test(arguments: [
        ("", "the address is empty"), (" \n", "the address is empty"),
        ("192.168.0.12:4390#\(token),\(digits)", "the address does not begin with waybill://"),
        ("http://127.0.0.1:4392/#t=\(token)", "this is the address of the page, and not that of the receiver"),
        ("waybill://192.168.0.12:4390", "the address has no # with token and certificate"),
        ("waybill://192.168.0.12#\(token),\(digits)", "192.168.0.12 is not a host and a port, as in 192.168.0.12:4390"),
        ("waybill://h:0#\(token),\(digits)", "h:0 is not a host and a port, as in 192.168.0.12:4390"),
        ("waybill://h:1#\(token)", "what follows # is not a token, a comma and the SHA-256 of a certificate"),
        (
            "waybill://h:1#\(token),\(digits),x",
            "what follows # is not a token, a comma and the SHA-256 of a certificate"
        ),
        ("waybill://h:1#,\(digits)", "what follows # is not a token: one has letters, digits, - and _"),
        ("waybill://h:1#a b,\(digits)", "what follows # is not a token: one has letters, digits, - and _"),
        (
            "waybill://h:1#\(token),\(digits.dropLast())",
            "what follows the comma is not the SHA-256 of a certificate, which has 64 hexadecimal digits"
        ),
    ])
    func `another text is refused with what to give, and the token is not shown`(text: String, cause: String) throws {
        let failure = #expect(throws: DispatchFailure.self) {
            _ = try Dispatcher.Configuration(spool: "spool", address: text)
        }
        #expect(failure?.code == .configuration)
        #expect(
            failure?.message == "\(cause); give the whole line that waybill live --dev prints: "
                + "waybill://HOST:PORT#TOKEN,SHA256")
        #expect(failure?.message.contains(Self.token) == false)
    }

    /// A receiver with a certificate that it made itself and a token; returns its address.
    private static func address(in place: Place, pin other: CertificatePin? = nil) throws -> (
        ReceiverAddress, CertificateFiles
    ) {
        let made = try SelfMadeCertificate(host: "127.0.0.1", at: POSIXClock().wallTime())
        let identity = CertificateFiles(chain: "\(place.path)/c.pem", key: "\(place.path)/k.pem")
        try POSIXFileSystem().replace(identity.chain, with: made.certificate)
        try POSIXFileSystem().replace(identity.key, with: made.key)
        let token = try #require(Secret(Self.token))
        return (
            ReceiverAddress(
                address: NetworkAddress(host: "127.0.0.1", port: place.port), token: token, pin: other ?? made.pin),
            identity
        )
    }

    @Test func `a dispatcher that takes the address whole delivers`() async throws {
        let place = try Place()
        let (address, identity) = try Self.address(in: place)
        try place.waybill().track("e0")
        let result = try await place.receiving(adjusting: {
            $0.tls = TLSServerConfiguration(identity: identity)
            $0.token = address.token
        }) {
            let configuration = try Dispatcher.Configuration(
                spool: place.spool, address: address.revealed, mode: .manual)
            return await (try Dispatcher(configuration)).flush()
        }
        #expect(result == .delivered(1, remaining: 0))
        #expect(try place.archivedNames() == ["e0"])
    }

    @Test(arguments: [true, false])
    func `another token or another certificate is refused, and nothing is delivered`(hasOtherToken: Bool) async throws {
        let place = try Place()
        let pin = hasOtherToken ? nil : CertificatePin(Self.digits)
        let (address, identity) = try Self.address(in: place, pin: pin)
        try place.waybill().track("e0")
        let expected = hasOtherToken ? "the token is missing or wrong" : "(tls-wrong-pin)"
        let failure = try await place.receiving(adjusting: {
            $0.tls = TLSServerConfiguration(identity: identity)
            $0.token = hasOtherToken ? Secret("another-token-of-the-receiver") : address.token
        }) {
            try await Self.failure(saying: expected, place, address)
        }
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 1])
        #expect(!failure.message.contains(Self.token))
        #expect(try place.archivedNames() == [])
    }

    private static func failure(
        saying text: String, _ place: Place, _ address: ReceiverAddress
    ) async throws -> DispatchFailure {
        try await WaybillDispatchTests.failure(until: { $0.message.contains(text) }) { limit in
            var configuration = try Dispatcher.Configuration(
                spool: place.spool, address: address.revealed, mode: .manual)
            configuration.patience = limit
            return await (try Dispatcher(configuration)).flush()
        }
    }
}
