internal import WaybillSystem

/// The PEM files with which one side of a TLS connection proves its identity.
package struct CertificateFiles: Hashable, Sendable {
    /// The certificate, followed by the chain to its authority.
    package var chain: String
    /// The private key of the certificate, without a passphrase.
    package var key: String

    package init(chain: String, key: String) {
        self.chain = chain
        self.key = key
    }
}

/// Why TLS cannot be set up.
package struct TLSSetupError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The cause and what to do; never the content of a file.
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

extension CertificateFiles {
    /// The fingerprint of the certificate.
    package func pin() throws(TLSSetupError) -> CertificatePin {
        let certificates = try PEM.certificates(try Self.read(self.chain, "a certificate"), self.chain)
        return CertificatePin(of: try PEM.der(certificates[0]))
    }

    /// The bytes of a PEM file, at most the first 1 MiB.
    ///
    /// - Parameter content: what the file should contain, for errors.
    static func read(_ path: String, _ content: String) throws(TLSSetupError) -> [UInt8] {
        let bytes: [UInt8]?
        do throws(FileSystemError) {
            bytes = try POSIXFileSystem().contents(of: path, byteCountMax: 1 << 20)
        } catch {
            throw TLSSetupError("TLS: \(content) cannot be read: \(error)")
        }
        guard let bytes else { throw TLSSetupError("TLS: \(path): there is no such file; name \(content) (PEM)") }
        return bytes
    }
}
