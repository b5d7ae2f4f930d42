internal import CLibcrypto
package import WaybillSystem
package import WaybillHost

/// A certificate that signs itself, and its key, for a receiver that clients know by its fingerprint.
///
/// The key is one of P-256, which every TLS library takes. Clients that pin it verify neither name nor dates; the name
/// is there for people who look at it, and the certificate is valid for ten years.
package struct SelfMadeCertificate: Sendable {
    /// Why none can be made.
    package struct Failure: Error, Sendable, CustomStringConvertible {
        package let description: String
    }

    /// The certificate (PEM).
    package let certificate: [UInt8]
    /// The private key (PEM, PKCS #8 without a passphrase).
    package let key: [UInt8]
    package let pin: CertificatePin

    /// - Parameters:
    ///   - host: a host's name or a network address.
    ///   - time: it is valid from a day before.
    package init(host: String, at time: WallTime) throws(Failure) {
        guard let key = Self.makeKey() else { throw Self.failure("make a key") }
        defer { EVP_PKEY_free(key) }
        guard let certificate = X509_new() else { throw Self.failure("allocate a certificate") }
        defer { X509_free(certificate) }
        try Self.fill(certificate, host, time)
        guard X509_set_pubkey(certificate, key) == 1, X509_sign(certificate, key, EVP_sha256()) > 0 else {
            throw Self.failure("sign the certificate")
        }
        guard let der = Self.der(of: certificate) else { throw Self.failure("encode the certificate") }
        self.pin = CertificatePin(of: der)
        self.certificate = try Self.text { PEM_write_bio_X509($0, certificate) }
        self.key = try Self.text { PEM_write_bio_PKCS8PrivateKey($0, key, nil, nil, 0, nil, nil) }
    }

    private static func failure(_ step: String) -> Failure {
        Failure(
            description:
                "no certificate can be made, because OpenSSL cannot \(step); check this machine's OpenSSL (openssl version)"
        )
    }

    private static func makeKey() -> OpaquePointer? {
        guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { return nil }
        defer { EVP_PKEY_CTX_free(context) }
        var key: OpaquePointer?
        guard EVP_PKEY_keygen_init(context) == 1,
            EVP_PKEY_CTX_set_group_name(context, "P-256") == 1, EVP_PKEY_keygen(context, &key) == 1
        else { return nil }
        return key
    }

    /// Everything but the public key and the signature.
    private static func fill(_ certificate: OpaquePointer, _ host: String, _ time: WallTime) throws(Failure) {
        var start = time_t(time.milliseconds / 1000 - 86_400)
        let serial = UInt64(time.milliseconds)
        let subject = Array("waybill live --dev".utf8)
        guard X509_set_version(certificate, 2) == 1,
            ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), serial) == 1,
            X509_time_adj_ex(X509_getm_notBefore(certificate), 0, 0, &start) != nil,
            X509_time_adj_ex(X509_getm_notAfter(certificate), 3650, 0, &start) != nil,
            let name = X509_get_subject_name(certificate),
            X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, subject, Int32(subject.count), -1, 0) == 1,
            X509_set_issuer_name(certificate, name) == 1
        else { throw Self.failure("fill in the certificate") }
        // Only letters of a name or an address reach OpenSSL's small language; any other host has no such name.
        let isName = host.utf8.allSatisfy { byte in
            switch byte {
            case 0x30...0x3A, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "."): true
            default: false
            }
        }
        let isAddress = host.contains(":") || host.utf8.allSatisfy { 0x30...0x39 ~= $0 || $0 == UInt8(ascii: ".") }
        guard isName, !host.isEmpty else { return }
        guard let names = X509V3_EXT_conf_nid(nil, nil, NID_subject_alt_name, "\(isAddress ? "IP" : "DNS"):\(host)")
        else {
            return ERR_clear_error()
        }
        defer { X509_EXTENSION_free(names) }
        guard X509_add_ext(certificate, names, -1) == 1 else { throw Self.failure("name the host") }
    }

    private static func der(of certificate: OpaquePointer) -> [UInt8]? {
        let count = i2d_X509(certificate, nil)
        guard count > 0 else { return nil }
        var bytes = [UInt8](repeating: 0, count: Int(count))
        let written = bytes.withUnsafeMutableBufferPointer { bytes in
            var start = bytes.baseAddress
            return i2d_X509(certificate, &start)
        }
        return written == count ? bytes : nil
    }

    /// The bytes that `write` puts into a buffer of OpenSSL's.
    private static func text(_ write: (OpaquePointer) -> Int32) throws(Failure) -> [UInt8] {
        guard let buffer = BIO_new(BIO_s_mem()) else { throw Self.failure("allocate a buffer") }
        defer { BIO_free(buffer) }
        guard write(buffer) == 1 else { throw Self.failure("write PEM") }
        var bytes = [UInt8](repeating: 0, count: BIO_ctrl_pending(buffer))
        let count = BIO_read(buffer, &bytes, Int32(bytes.count))
        guard count == bytes.count, !bytes.isEmpty else { throw Self.failure("write PEM") }
        return bytes
    }
}
