internal import NIOSSL
internal import WaybillSystem

/// Reads PEM files, for both ends of a connection.
enum PEM {
    /// The certificates in a file's bytes; at least one.
    ///
    /// - Parameter path: the file's path, for errors.
    static func certificates(
        _ bytes: [UInt8], _ path: String
    ) throws(TLSSetupError) -> [NIOSSLCertificate] {
        do {
            let certificates = try NIOSSLCertificate.fromPEMBytes(bytes)
            if !certificates.isEmpty { return certificates }
        } catch {
            throw TLSSetupError(
                "TLS: \(path) holds no PEM certificate (\(BoringSSLReason.list(of: error))); correct it")
        }
        throw TLSSetupError("TLS: \(path) holds no PEM certificate; correct it")
    }

    /// A certificate's bytes.
    static func der(_ certificate: NIOSSLCertificate) throws(TLSSetupError) -> [UInt8] {
        do {
            return try certificate.toDERBytes()
        } catch {
            throw TLSSetupError("TLS: a certificate cannot be encoded (\(BoringSSLReason.list(of: error)))")
        }
    }

    /// The period in which a certificate is valid.
    static func validity(of certificate: NIOSSLCertificate) -> ClosedRange<WallTime> {
        let start = WallTime(milliseconds: Int64(certificate.notValidBefore) * 1000)
        return start...max(start, WallTime(milliseconds: Int64(certificate.notValidAfter) * 1000))
    }

    /// The private key in a file's bytes.
    static func key(_ bytes: [UInt8], _ path: String) throws(TLSSetupError) -> NIOSSLPrivateKey {
        do {
            return try NIOSSLPrivateKey(bytes: bytes, format: .pem)
        } catch {
            throw TLSSetupError("TLS: \(path) holds no PEM private key, or one with a passphrase; give one without")
        }
    }
}
