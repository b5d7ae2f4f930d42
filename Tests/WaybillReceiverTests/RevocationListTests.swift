import Testing
import WaybillProtocol
import WaybillSystem

@testable import WaybillHost

/// Certificates and lists of one authority, as the `openssl` command makes them.
enum CertificateSamples {
    /// For clients, with four subject alternative names; serial number 0x1000.
    static let good = """
        -----BEGIN CERTIFICATE-----
        MIIBtTCCAVugAwIBAgICEAAwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EwHhcN
        MjYwMTAxMDAwMDAwWhcNMzYwMTAxMDAwMDAwWjAPMQ0wCwYDVQQDDARnb29kMFkw
        EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE5zkMSOrIuIyUEBSOCnnYf3QXoITt2UPB
        3YT/U4NS3eosz7RWBAWyiyQFKLZb1UIGVZ6S0GaD1iyLtudGnPMscqOBqDCBpTAT
        BgNVHSUEDDAKBggrBgEFBQcDAjBOBgNVHREERzBFghBnb29kLmV4YW1wbGUuY29t
        hhlzcGlmZmU6Ly9leGFtcGxlLmNvbS9nb29khwQKAAABgRBnb29kQGV4YW1wbGUu
        Y29tMB0GA1UdDgQWBBRpk2/u/QWGkTtsEmTaY9O6h9AFODAfBgNVHSMEGDAWgBS0
        2tueRto+09qjmAAg/PJrOuzkDzAKBggqhkjOPQQDAgNIADBFAiEAwknP+C+qzBJ9
        STWZ6cBlgEbIkCsg1stqDeIjH5KHXugCIHBg1wd9wO/FU6s3n4hSLBodpf7NTP1F
        zDHqriyCKGYS
        -----END CERTIFICATE-----
        """
    /// For clients; serial number 0x1001.
    static let revoked = """
        -----BEGIN CERTIFICATE-----
        MIIBsTCCAVegAwIBAgICEAEwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EwHhcN
        MjYwMTAxMDAwMDAwWhcNMzYwMTAxMDAwMDAwWjAOMQwwCgYDVQQDDANiYWQwWTAT
        BgcqhkjOPQIBBggqhkjOPQMBBwNCAATW9FgxBFS3wm5CnHMjqK+oWZZcb+9dFvbc
        MdeC80LOBFT5/xVKJlZJtrhuromSKPts796hAqjNCI8E+eBOf2xzo4GlMIGiMBMG
        A1UdJQQMMAoGCCsGAQUFBwMCMEsGA1UdEQREMEKCD2JhZC5leGFtcGxlLmNvbYYY
        c3BpZmZlOi8vZXhhbXBsZS5jb20vYmFkhwQKAAABgQ9iYWRAZXhhbXBsZS5jb20w
        HQYDVR0OBBYEFO8jjgnEzxEWUV/l8v+6s08P56GBMB8GA1UdIwQYMBaAFLTa255G
        2j7T2qOYACD88ms67OQPMAoGCCqGSM49BAMCA0gAMEUCIBAzNiwukt7n7YgKgOEc
        o0es4FNYLOm0ABODRaEkE4xVAiEAm4xdpbjmOp7LqJP95tDJG7oIQT7PNhnyqHdw
        HbE2hqA=
        -----END CERTIFICATE-----
        """
    /// For servers; serial number 0x1002.
    static let server = """
        -----BEGIN CERTIFICATE-----
        MIIBvTCCAWOgAwIBAgICEAIwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EwHhcN
        MjYwMTAxMDAwMDAwWhcNMzYwMTAxMDAwMDAwWjARMQ8wDQYDVQQDDAZzZXJ2ZXIw
        WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQGhCJ6k0RbyWcPzIP6ch1CNVZZnvAK
        1Qpce7WtS765Cs0ec5Vi8idkP+FcO0S/QrAFZvIeXLPGt/ccODya3xYBo4GuMIGr
        MBMGA1UdJQQMMAoGCCsGAQUFBwMBMFQGA1UdEQRNMEuCEnNlcnZlci5leGFtcGxl
        LmNvbYYbc3BpZmZlOi8vZXhhbXBsZS5jb20vc2VydmVyhwQKAAABgRJzZXJ2ZXJA
        ZXhhbXBsZS5jb20wHQYDVR0OBBYEFCoMmGvzJD8dSUPzbclcPlqt2KEJMB8GA1Ud
        IwQYMBaAFLTa255G2j7T2qOYACD88ms67OQPMAoGCCqGSM49BAMCA0gAMEUCIQDl
        iyVTN6f+1+ebRSqEnZAvJh/+9wmoX5UZYvLAFQvLVgIgBevNnuodtXomndoIdPPt
        Wjb7JF2TblM6ZlNepj4R5Lg=
        -----END CERTIFICATE-----
        """
    /// Revokes ``revoked``.
    static let list = """
        -----BEGIN X509 CRL-----
        MIG7MGMCAQEwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EXDTI2MTEyMjE4MDEy
        N1oXDTI2MTIyMjE4MDEyN1owFTATAgIQARcNMjYxMTIyMTgwMTI3WqAOMAwwCgYD
        VR0UBAMCAQIwCgYIKoZIzj0EAwIDSAAwRQIgSlZLPKjGE4PsbtkiWK8s4K5yVc5s
        6bI5Sp8ugfFPi0gCIQDvlN6u+5LJtckVuiGYbKMWMPu/JAXVOP+nMeVBj/2eaw==
        -----END X509 CRL-----
        """
    static let emptyList = """
        -----BEGIN X509 CRL-----
        MIGkMEwCAQEwCgYIKoZIzj0EAwIwDTELMAkGA1UEAwwCY2EXDTI2MTEyMjE4MDEy
        N1oXDTI2MTIyMjE4MDEyN1qgDjAMMAoGA1UdFAQDAgEBMAoGCCqGSM49BAMCA0gA
        MEUCIQCq+UfMpZcjPXc3rPjoclO4QkuTwmKrIE3wDcrEnSanagIgIKVvk0YjQr3F
        LCPaamr5lk7Is90EJnh3bY+BvHijHyM=
        -----END X509 CRL-----
        """

    static func der(_ pem: String) throws -> [UInt8] {
        let lines = pem.split(separator: "\n").filter { !$0.hasPrefix("-----") }
        return try #require(Base64.bytes(lines.joined().utf8))
    }

    static func certificate(_ pem: String) throws -> PeerCertificate {
        try #require(PeerCertificate(der: try self.der(pem), expiry: WallTime(milliseconds: 2_000_000_000_000)))
    }
}

@Suite struct RevocationListTests {
    @Test func `a certificate tells its names, its use and its fingerprint`() throws {
        let certificate = try CertificateSamples.certificate(CertificateSamples.good)
        #expect(
            certificate.names == ["good.example.com", "spiffe://example.com/good", "good@example.com"])
        #expect(certificate.isForClients)
        #expect(certificate.fingerprint == "6f81d95c022bf8d9e82bdcb768fce7675e5cabe6e5d33ff9988b829cfb1edba7")
        #expect(try !CertificateSamples.certificate(CertificateSamples.server).isForClients)
    }

    @Test func `no cut certificate is read, and none stops the program`() throws {
        let der = try CertificateSamples.der(CertificateSamples.good)
        for count in 0..<der.count {
            #expect(PeerCertificate(der: Array(der[..<count]), expiry: WallTime(milliseconds: 0)) == nil)
        }
        for index in der.indices {
            var changed = der
            changed[index] ^= 0x80
            // Any answer but a crash: the TLS library reads the certificate first.
            _ = PeerCertificate(der: changed, expiry: WallTime(milliseconds: 0))
        }
    }

    @Test func `a list revokes the certificates that it names, and no other`() throws {
        let list = try #require(RevocationList(pem: CertificateSamples.list))
        #expect(list.count == 1)
        #expect(try list.revokes(CertificateSamples.certificate(CertificateSamples.revoked)))
        #expect(try !list.revokes(CertificateSamples.certificate(CertificateSamples.good)))
    }

    @Test func `a list may be empty, and a file may have several`() throws {
        #expect(try #require(RevocationList(pem: CertificateSamples.emptyList)).count == 0)
        let both = CertificateSamples.emptyList + "\n" + CertificateSamples.list + "\n"
        #expect(try #require(RevocationList(pem: both)).count == 1)
    }

    @Test(arguments: ["", "text", "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----", CertificateSamples.good])
    func `what is no list is refused`(text: String) {
        #expect(RevocationList(pem: text) == nil)
    }

    @Test func `a list that is cut off is refused`() {
        #expect(RevocationList(pem: String(CertificateSamples.list.dropLast(30))) == nil)
    }
}
