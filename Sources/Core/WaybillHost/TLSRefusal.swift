/// Why a receiver refused a connection before its TLS was set up.
package enum TLSRefusal: String, Error, CaseIterable, CustomStringConvertible {
    case plaintext
    case clientCertificateMissing = "client-certificate-missing"
    case clientCertificateExpired = "client-certificate-expired"
    case clientCertificateUntrusted = "client-certificate-untrusted"
    case refusedByPeer = "refused-by-peer"
    case noCommonVersion = "no-common-version"
    case timeout
    case closed
    case malformed

    /// - Parameters:
    ///   - causes: BoringSSL's names for the error; empty when the connection broke.
    ///   - isValidNow: whether the peer's certificate is valid now.
    init(_ causes: String, isValidNow: Bool) {
        func has(_ words: String...) -> Bool { words.contains { causes.contains($0) } }
        self =
            if causes.isEmpty || has("EOF") {
                .closed
            } else if has("PEER_DID_NOT_RETURN_A_CERTIFICATE") {
                .clientCertificateMissing
            } else if has("CERTIFICATE_VERIFY_FAILED") {
                isValidNow ? .clientCertificateUntrusted : .clientCertificateExpired
            } else if has("_ALERT_") {
                .refusedByPeer
            } else if has(
                "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER", "NO_SHARED_GROUP", "NO_COMMON_SIGNATURE_ALGORITHMS")
            {
                .noCommonVersion
            } else {
                .malformed
            }
    }

    /// Cause and remedy for the operator.
    package var description: String {
        switch self {
        case .plaintext: "the peer does not speak TLS; start the agent with --tls or --tls-ca"
        case .clientCertificateMissing:
            "the agent has no certificate; give it --tls-certificate and --tls-key of an authority in --tls-client-ca"
        case .clientCertificateExpired: "the agent's certificate is not valid at this time; renew it"
        case .clientCertificateUntrusted:
            "the agent's certificate was not issued by an authority in --tls-client-ca; give it one that was"
        case .refusedByPeer:
            "the peer rejected this receiver's certificate or its TLS; give the agent its authority with --tls-ca"
        case .noCommonVersion: "the peer has no TLS version or cipher in common; the minimum is TLS 1.2"
        case .timeout: "the TLS handshake took too long"
        case .closed: "the peer closed during the TLS handshake"
        case .malformed: "the peer sent an invalid TLS handshake"
        }
    }
}
