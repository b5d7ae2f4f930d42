import Testing
import WaybillReceiver
import WaybillServerTestSupport
import WaybillSystem
import WaybillHost

@Suite struct SelfMadeCertificateTests {
    private static let now = WallTime(milliseconds: 1_795_435_200_000)

    @Test(arguments: ["192.168.0.12", "fe80::1", "host.example.com", "under_score", "", "a,DNS:b"])
    func `a certificate for any host can be served, and has the pin of its file`(host: String) throws {
        let place = try Place()
        let made = try SelfMadeCertificate(host: host, at: Self.now)
        let identity = CertificateFiles(chain: "\(place.path)/c.pem", key: "\(place.path)/k.pem")
        let files = POSIXFileSystem()
        try files.replace(identity.chain, with: made.certificate)
        try files.replace(identity.key, with: made.key)
        #expect(try identity.pin() == made.pin)
        let validity = try TLSServerConfiguration(identity: identity).validity { _, _ in false }
        #expect(validity.lowerBound.milliseconds == Self.now.milliseconds - 86_400_000)
        #expect(validity.upperBound.milliseconds > Self.now.milliseconds + 3600 * 86_400_000)
    }

    @Test func `two certificates have different keys`() throws {
        let made = try (0..<2).map { _ in try SelfMadeCertificate(host: "localhost", at: Self.now) }
        #expect(made[0].pin != made[1].pin)
        #expect(made[0].key != made[1].key)
    }
}
