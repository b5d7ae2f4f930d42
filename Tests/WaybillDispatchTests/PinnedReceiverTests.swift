import Testing
import Waybill
import WaybillDispatch
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillHost

/// A receiver with a certificate that it made itself, for no host, and that has expired in 2021.
@Suite struct PinnedReceiverTests {
    private static let certificate = """
        -----BEGIN CERTIFICATE-----
        MIIBEDCBtwICEAAwCgYIKoZIzj0EAwIwFDESMBAGA1UEAwwJc2VsZi1tYWRlMB4X
        DTIwMDEwMTAwMDAwMFoXDTIxMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJc2VsZi1t
        YWRlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQI47PoemP9cuVI1NfEC952/W
        opnZldt+mgN7pNFcN6A5yPb19t1WBbBF5RqooNLTj9trQ9+72raR30Rta4Mi/zAK
        BggqhkjOPQQDAgNIADBFAiEAwv9biXhThSmD3aAoVBJXvocs2XH48vYUK5mbS6FD
        nmMCIDLXpytzky8hohhAHR3CR8jA4n71BDIoHXmqr/1E60SD
        -----END CERTIFICATE-----

        """
    private static let key = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgyFU+kmGecqRqnYEb
        taPkITEn/C0W6SSwnYfT7N8PMCqhRANCAARAjjs+h6Y/1y5UjU18QL3nb9aimdmV
        236aA3uk0Vw3oDnI9vX23VYFsEXlGqig0tOP22tD37vatpHfRG1rgyL/
        -----END PRIVATE KEY-----

        """
    /// As `openssl x509 -noout -fingerprint -sha256` prints it.
    private static let fingerprint =
        "FF:BE:DA:E7:00:97:41:09:6C:16:67:D7:9E:0F:51:7A:BB:85:91:90:05:64:EB:DD:B5:00:74:25:E0:41:A4:8C"
    private static let another = String(repeating: "0", count: 64)

    /// Tracks an event, and runs a receiver that has the certificate.
    private static func receiving<Result>(
        in place: Place, _ body: () async throws -> Result
    ) async throws -> Result {
        try place.waybill().track("e0")
        let files = POSIXFileSystem()
        let identity = CertificateFiles(chain: "\(place.path)/c.pem", key: "\(place.path)/k.pem")
        try files.replace(identity.chain, with: Array(Self.certificate.utf8))
        try files.replace(identity.key, with: Array(Self.key.utf8))
        return try await place.receiving(adjusting: { $0.tls = TLSServerConfiguration(identity: identity) }, body)
    }

    /// The failure of a round that was long enough for a handshake.
    private static func refusal(in place: Place, _ security: Dispatcher.Security) async throws -> DispatchFailure {
        try await self.receiving(in: place) {
            try await failure(until: { $0.message.contains("(tls-") }) { limit in
                try await place.dispatcher(security: security, patience: limit).flush()
            }
        }
    }

    @Test(arguments: [
        Dispatcher.Security.pinned(sha256: fingerprint), .pinned(sha256: another, fingerprint.lowercased()),
        .pinned(sha256: fingerprint.filter { $0 != ":" }),
    ])
    func `a pinned certificate is accepted, whoever made it, for whatever name and time`(
        security: Dispatcher.Security
    ) async throws {
        let place = try Place()
        let result = try await Self.receiving(in: place) {
            try await place.dispatcher(security: security).flush()
        }
        #expect(result == .delivered(1, remaining: 0))
        #expect(try place.archivedNames() == ["e0"])
    }

    @Test func `another certificate is refused, and nothing is sent`() async throws {
        let place = try Place()
        let failure = try await Self.refusal(in: place, .pinned(sha256: Self.another))
        #expect(failure.code == .unreachable)
        #expect([failure.deliveredCount, failure.remainingCount] == [0, 1])
        let presented = "sha256:" + Self.fingerprint.filter { $0 != ":" }.lowercased()
        #expect(failure.message.contains("the receiver's certificate is \(presented), which is not pinned; if"))
        #expect(failure.message.contains("name it in `security: .pinned(sha256:)` (tls-wrong-pin)"))
        #expect(try place.archivedNames() == [])
    }

    @Test func `without its pin the same certificate is refused`() async throws {
        let place = try Place()
        #expect(try await Self.refusal(in: place, .tls).message.contains("(tls-expired)"))
    }

    @Test(arguments: ["", "FF:BE", String(repeating: "g", count: 64), String(repeating: "0", count: 63), "sha256:"])
    func `a text that is not a fingerprint is refused with what to write`(text: String) throws {
        let place = try Place()
        let failure = #expect(throws: DispatchFailure.self) {
            _ = try place.dispatcher(security: .pinned(sha256: Self.fingerprint, text))
        }
        #expect(failure?.code == .configuration)
        #expect(
            failure?.message == "\(text) is not a fingerprint; name the SHA-256 of a certificate: 64 hexadecimal "
                + "digits, as openssl x509 -noout -fingerprint -sha256 prints them")
    }
}
