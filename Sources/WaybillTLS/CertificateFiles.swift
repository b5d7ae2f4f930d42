internal import WaybillSystem

/// The files by which one side of a TLS connection shows who it is; PEM.
package struct CertificateFiles: Hashable, Sendable {
    /// The certificate, followed by those that lead to its authority.
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
    /// The cause and what to do; never what a file holds.
    package let description: String

    package init(_ description: String) {
        self.description = description
    }
}

extension CertificateFiles {
    /// The bytes of a PEM file; one of more than 1 MiB is cut to it.
    ///
    /// - Parameter content: what it is to hold, for errors.
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
