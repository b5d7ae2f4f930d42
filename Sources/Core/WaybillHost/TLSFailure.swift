/// Why a connection over TLS failed.
enum TLSFailure: String {
    case untrusted = "tls-untrusted"
    case expired = "tls-expired"
    case wrongPin = "tls-wrong-pin"
    case wrongHost = "tls-wrong-host"
    case plaintext = "tls-plaintext"
    case clientCertificate = "tls-client-certificate"
    case noCommonVersion = "tls-no-common-version"
    case closed = "tls-closed"
    case other = "tls-failed"

    /// - Parameters:
    ///   - causes: BoringSSL's names for the error.
    ///   - isValidNow: whether the receiver's certificate is valid now.
    ///   - isPinned: whether the receiver must have a pinned certificate.
    init(_ causes: String, isValidNow: Bool, isPinned: Bool) {
        func has(_ words: String...) -> Bool { words.contains { causes.contains($0) } }
        self =
            if has("CERTIFICATE_VERIFY_FAILED") {
                isPinned ? .wrongPin : isValidNow ? .untrusted : .expired
            } else if has("WRONG_VERSION_NUMBER") {
                .plaintext
            } else if has("ALERT"), has("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED") {
                .clientCertificate
            } else if has(
                "PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "ALERT_HANDSHAKE_FAILURE", "INSUFFICIENT_SECURITY")
            {
                .noCommonVersion
            } else if has("EOF") {
                .closed
            } else {
                .other
            }
    }

    /// Cause and remedy.
    ///
    /// - Parameter detail: the expected name, the presented certificate's pin, or BoringSSL's names for the error.
    func text(_ detail: String, for audience: TLSClientConfiguration.Audience) -> String {
        let text =
            switch audience {
            case .commandLine: self.commandLineText(detail)
            case .app: self.appText(detail)
            }
        return "\(text) (\(self.rawValue))"
    }

    private func commandLineText(_ detail: String) -> String {
        switch self {
        case .untrusted:
            "the receiver's certificate was not issued by an authority that this agent trusts; name its authority with "
                + "--tls-ca, or correct the receiver's --tls-certificate"
        case .expired:
            "the receiver's certificate is not valid at this time; renew it and reload the receiver (SIGHUP), or set "
                + "this host's clock"
        case .wrongPin:
            "the receiver's certificate is \(detail), which is not pinned; if `openssl x509 -noout -fingerprint -sha256` "
                + "on the receiver's host prints the same for its --tls-certificate, add it with --tls-pinned"
        case .wrongHost:
            "the receiver's certificate is not for \(detail); connect by a name in its subjectAltName, or "
                + "set one with --tls-server-name"
        case .plaintext:
            "the receiver does not speak TLS; start it with --tls-certificate and --tls-key, or this agent "
                + "without TLS"
        case .clientCertificate:
            "the receiver rejected this agent's certificate, or requires one (\(detail)); give "
                + "--tls-certificate and --tls-key of an authority in the receiver's --tls-client-ca"
        case .noCommonVersion:
            "the receiver and this agent have no TLS version or cipher in common, or the receiver wants a certificate "
                + "(\(detail)); the minimum is TLS 1.2"
        case .closed:
            "the connection ended during the TLS handshake (\(detail)); see the receiver's log, and check that it "
                + "speaks TLS on this port and has not reached its connection limit"
        case .other:
            "TLS failed (\(detail)); see the receiver's log"
        }
    }

    private func appText(_ detail: String) -> String {
        switch self {
        case .untrusted:
            "the receiver's certificate was not issued by an authority that this app trusts; name its authority with "
                + "`security: .tls(authorities:)`, or give the receiver a certificate that devices trust"
        case .expired:
            "the receiver's certificate is not valid at this time; renew it and reload the receiver (SIGHUP), or set "
                + "this device's clock"
        case .wrongPin:
            "the receiver's certificate is \(detail), which is not pinned; if `openssl x509 -noout -fingerprint -sha256` "
                + "on the receiver's host prints the same for its --tls-certificate, name it in "
                + "`security: .pinned(sha256:)`"
        case .wrongHost:
            "the receiver's certificate is not for \(detail); name the receiver in `receivers` as in the certificate's "
                + "subjectAltName"
        case .plaintext:
            "the receiver does not speak TLS; start it with --tls-certificate and --tls-key, or make the "
                + "dispatcher with `security: .plain`"
        case .clientCertificate:
            "the receiver requires a certificate, and a dispatcher has none (\(detail)); start the receiver without "
                + "--tls-client-ca, and identify apps by their `token`"
        case .noCommonVersion:
            "the receiver and this app have no TLS version or cipher in common, or the receiver wants a certificate "
                + "(\(detail)); the minimum is TLS 1.2"
        case .closed, .other: self.commandLineText(detail)
        }
    }
}
