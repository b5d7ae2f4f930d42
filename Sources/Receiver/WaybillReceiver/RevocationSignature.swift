internal import CLibcrypto

/// Checks who signed a revocation list, by OpenSSL.
package enum RevocationSignature {
    /// Whether a list (X509 CRL, DER) is of the authority with this certificate (DER): its name is the issuer's, it may
    /// sign lists, and its key made the signature.
    package static func isValid(_ list: [UInt8], of authority: [UInt8]) -> Bool {
        guard let list = Self.decode(list, d2i_X509_CRL) else { return false }
        defer { X509_CRL_free(list) }
        guard let authority = Self.decode(authority, d2i_X509) else { return false }
        defer { X509_free(authority) }
        // Without the extension every bit is set.
        let maySign = X509_get_key_usage(authority) & UInt32(KU_CRL_SIGN) != 0
        return maySign && X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_subject_name(authority)) == 0
            && X509_CRL_verify(list, X509_get0_pubkey(authority)) == 1
    }

    private typealias Decoder = (
        UnsafeMutablePointer<OpaquePointer?>?, UnsafeMutablePointer<UnsafePointer<UInt8>?>?, Int
    ) -> OpaquePointer?

    private static func decode(_ bytes: [UInt8], _ decoder: Decoder) -> OpaquePointer? {
        bytes.withUnsafeBufferPointer { bytes in
            var start = bytes.baseAddress
            return decoder(nil, &start, bytes.count)
        }
    }
}
