internal import WaybillSystem

/// The SHA-256 of a certificate, by which a receiver's own certificate is recognised.
///
/// It is the digest of the whole certificate in DER, as `openssl x509 -noout -fingerprint -sha256` and browsers show it, and
/// not that of its key: both sides can read it without tools of their own. A renewed certificate has another one; name
/// both while it changes.
package struct CertificatePin: Hashable, Sendable, CustomStringConvertible {
    /// 64 lower-case hexadecimal digits.
    package let digits: String

    /// Reads 64 hexadecimal digits in either case, with or without colons between the bytes, and with or without
    /// `sha256:` before them.
    package init?(_ text: String) {
        let digits = (text.hasPrefix("sha256:") ? text.dropFirst(7) : text[...]).filter { $0 != ":" }.lowercased()
        guard digits.utf8.count == 64, Hexadecimal.bytes(digits) != nil else { return nil }
        self.digits = digits
    }

    /// The pin of a certificate.
    ///
    /// - Parameter der: the certificate's bytes.
    package init(of der: [UInt8]) {
        self.digits = Hexadecimal.text(SHA256.digest(der))
    }

    /// "sha256:" and the digits.
    package var description: String { "sha256:\(self.digits)" }

    /// What the text of a pin must be.
    package static let rule =
        "the SHA-256 of a certificate: 64 hexadecimal digits, as openssl x509 -noout -fingerprint -sha256 prints them"
}
