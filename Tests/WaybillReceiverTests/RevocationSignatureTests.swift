import Testing
import WaybillReceiver

@testable import WaybillHost

/// Revocation lists are taken from the authorities of the agents alone.
@Suite struct RevocationSignatureTests {
    private static let authority = """
        -----BEGIN CERTIFICATE-----
        MIIBmDCCAT2gAwIBAgIUFvnoa/AvsqwhNc4LPRzd7QgvsrswCgYIKoZIzj0EAwIw
        GTEXMBUGA1UEAwwObGlzdCBhdXRob3JpdHkwHhcNMjYxMTIyMTk0MDE4WhcNMzYx
        MTE5MTk0MDE4WjAZMRcwFQYDVQQDDA5saXN0IGF1dGhvcml0eTBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABNk10Y0DiVAuRbZz2P0jXkWYFom3sgul03zaKSVXt0SZ
        Nd9+Hto6tBLzl81yUsn02lz7J8DwF3ArxR/sXrOxY4ujYzBhMB0GA1UdDgQWBBTQ
        jN3n59qAWtRetXsXQjtEQYMmpjAfBgNVHSMEGDAWgBTQjN3n59qAWtRetXsXQjtE
        QYMmpjAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAKBggqhkjOPQQD
        AgNJADBGAiEAn847OkWpLGEYWih+k2Z71momHYBH+z+z5JIUFGSChnoCIQC8IlHB
        1gffqkdTk6hLj/OFrEwy8cOqGYtrt4+aP/jVyg==
        -----END CERTIFICATE-----
        """
    /// The same name, another key.
    private static let namesake = """
        -----BEGIN CERTIFICATE-----
        MIIBlzCCAT2gAwIBAgIUV2k6f3fqpronedCSoXzZT9g+b/AwCgYIKoZIzj0EAwIw
        GTEXMBUGA1UEAwwObGlzdCBhdXRob3JpdHkwHhcNMjYxMTIyMTk0MDE4WhcNMzYx
        MTE5MTk0MDE4WjAZMRcwFQYDVQQDDA5saXN0IGF1dGhvcml0eTBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABLzH1PhtRh7TdP1KoxJxIJS5zxT57msQXEqq66KX3VUT
        JfVYBm5z55GA8TsgBBk3k3mH02X/CQb0Wurggtsgp32jYzBhMB0GA1UdDgQWBBSl
        H3X425zt54AjlDNK/2iiFtlcSDAfBgNVHSMEGDAWgBSlH3X425zt54AjlDNK/2ii
        FtlcSDAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAKBggqhkjOPQQD
        AgNIADBFAiEAmlxkc9RPnlAFUpOCAbhIDmMmSgfNzIJlCB959QnLHGwCIBM/SHAu
        2aXtSOTZ6arNYw9u+rVgCWb98BVq0fcCdYER
        -----END CERTIFICATE-----
        """
    /// The same key, another name.
    private static let renamed = """
        -----BEGIN CERTIFICATE-----
        MIIBnTCCAUOgAwIBAgIUNxqRXa6+MJOrMg45Jix47x9XwmwwCgYIKoZIzj0EAwIw
        HDEaMBgGA1UEAwwRYW5vdGhlciBhdXRob3JpdHkwHhcNMjYxMTIyMTk0MDE4WhcN
        MzYxMTE5MTk0MDE4WjAcMRowGAYDVQQDDBFhbm90aGVyIGF1dGhvcml0eTBZMBMG
        ByqGSM49AgEGCCqGSM49AwEHA0IABNk10Y0DiVAuRbZz2P0jXkWYFom3sgul03za
        KSVXt0SZNd9+Hto6tBLzl81yUsn02lz7J8DwF3ArxR/sXrOxY4ujYzBhMB0GA1Ud
        DgQWBBTQjN3n59qAWtRetXsXQjtEQYMmpjAfBgNVHSMEGDAWgBTQjN3n59qAWtRe
        tXsXQjtEQYMmpjAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwIBBjAKBggq
        hkjOPQQDAgNIADBFAiAr0OUglPNW9QISmg+VktqyaUrrKAp7gKAgaMqWyEZt7wIh
        AJIllY51i8bT4fKGKYcM1tvxHtgU1gR1LGazxiGi8vAt
        -----END CERTIFICATE-----
        """
    /// The same name and key; may not sign lists.
    private static let limited = """
        -----BEGIN CERTIFICATE-----
        MIIBlzCCAT2gAwIBAgIUVYjd9+VU10d0ZhjkrdfXrV8SWEQwCgYIKoZIzj0EAwIw
        GTEXMBUGA1UEAwwObGlzdCBhdXRob3JpdHkwHhcNMjYxMTIyMTk0MDE4WhcNMzYx
        MTE5MTk0MDE4WjAZMRcwFQYDVQQDDA5saXN0IGF1dGhvcml0eTBZMBMGByqGSM49
        AgEGCCqGSM49AwEHA0IABNk10Y0DiVAuRbZz2P0jXkWYFom3sgul03zaKSVXt0SZ
        Nd9+Hto6tBLzl81yUsn02lz7J8DwF3ArxR/sXrOxY4ujYzBhMB0GA1UdDgQWBBTQ
        jN3n59qAWtRetXsXQjtEQYMmpjAfBgNVHSMEGDAWgBTQjN3n59qAWtRetXsXQjtE
        QYMmpjAPBgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAKBggqhkjOPQQD
        AgNIADBFAiEA5wuU5/+dwdg4gQE4P/qe8RtoQ1MUMIRhi86uKNMlKPcCIHY9KKaF
        fERw+JTfeykkxAkMFdZ8tqDCo3lQqU2IiZjd
        -----END CERTIFICATE-----
        """
    /// By ``authority``.
    private static let list = """
        -----BEGIN X509 CRL-----
        MIGdMEUwCgYIKoZIzj0EAwIwGTEXMBUGA1UEAwwObGlzdCBhdXRob3JpdHkXDTI2
        MTEyMjE5NDAxOFoXDTM2MTExOTE5NDAxOFowCgYIKoZIzj0EAwIDSAAwRQIgI/4K
        PzSqPwZm0E9UqQP9297eJKELOnULT9H1cj9IcYsCIQCZ2uAgzTrhaiBEXXb4iaoS
        LAfCuiDT40Yh6u6/w6rn8g==
        -----END X509 CRL-----
        """

    private static func isValid(_ list: [UInt8], of authority: String) throws -> Bool {
        RevocationSignature.isValid(list, of: try CertificateSamples.der(authority))
    }

    @Test func `a list is valid for the authority that signed it, and for no other`() throws {
        let list = try CertificateSamples.der(Self.list)
        #expect(try Self.isValid(list, of: Self.authority))
        for other in [Self.namesake, Self.renamed, Self.limited] {
            #expect(try !Self.isValid(list, of: other))
        }
        #expect(try !Self.isValid(CertificateSamples.der(CertificateSamples.list), of: Self.authority))
    }

    @Test func `a list that was changed or cut is valid for no one`() throws {
        let list = try CertificateSamples.der(Self.list)
        for index in list.indices {
            var changed = list
            changed[index] ^= 1
            #expect(try !Self.isValid(changed, of: Self.authority), "byte \(index)")
            #expect(try !Self.isValid(Array(list[..<index]), of: Self.authority))
        }
        #expect(!RevocationSignature.isValid(list, of: list))
    }
}
