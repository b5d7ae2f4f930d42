/// Why a connection over TLS failed.
enum TLSFailure: String {
    case untrusted = "tls-untrusted"
    case expired = "tls-expired"
    case wrongHost = "tls-wrong-host"
    case plaintext = "tls-plaintext"
    case clientCertificate = "tls-client-certificate"
    case noCommonVersion = "tls-no-common-version"
    case closed = "tls-closed"
    case other = "tls-failed"

    /// - Parameters:
    ///   - causes: BoringSSL's words.
    ///   - isValidNow: whether now lies in the time of the receiver's certificate.
    init(_ causes: String, isValidNow: Bool) {
        func has(_ words: String...) -> Bool { words.contains { causes.contains($0) } }
        self =
            if has("CERTIFICATE_VERIFY_FAILED") {
                isValidNow ? .untrusted : .expired
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
    /// - Parameter detail: the name that was asked for, or BoringSSL's words.
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
            "the receiver's certificate leads to no authority that this agent trusts; name its authority with "
                + "--tls-ca, or mend the receiver's --tls-certificate"
        case .expired:
            "the receiver's certificate is not valid at this time; renew it and reload the receiver (SIGHUP), or set "
                + "this host's clock"
        case .wrongHost:
            "the receiver's certificate is not for \(detail); connect by a name that its subjectAltName has, or "
                + "say which with --tls-server-name"
        case .plaintext:
            "the receiver does not answer by TLS; start it with --tls-certificate and --tls-key, or this agent "
                + "without TLS"
        case .clientCertificate:
            "the receiver does not take this agent's certificate, or the lack of one (\(detail)); give "
                + "--tls-certificate and --tls-key of an authority in the receiver's --tls-client-ca"
        case .noCommonVersion:
            "the receiver has no version or cipher of TLS in common with this agent, or wants a certificate "
                + "(\(detail)); TLS 1.2 is the least"
        case .closed:
            "the connection ended during the TLS handshake (\(detail)); see the receiver's log, and whether it "
                + "speaks TLS on this port and has connections left"
        case .other:
            "TLS failed (\(detail)); see the receiver's log"
        }
    }

    private func appText(_ detail: String) -> String {
        switch self {
        case .untrusted:
            "the receiver's certificate leads to no authority that this app trusts; name its authority by "
                + "`security: .tls(authorities:)`, or give the receiver a certificate that devices trust"
        case .expired:
            "the receiver's certificate is not valid at this time; renew it and reload the receiver (SIGHUP), or set "
                + "this device's clock"
        case .wrongHost:
            "the receiver's certificate is not for \(detail); name the receiver in `receivers` as the certificate's "
                + "subjectAltName does"
        case .plaintext:
            "the receiver does not answer by TLS; start it with --tls-certificate and --tls-key, or make the "
                + "dispatcher with `security: .plain`"
        case .clientCertificate:
            "the receiver asks for a certificate, and a dispatcher has none (\(detail)); start the receiver without "
                + "--tls-client-ca, and tell apps by their `token`"
        case .noCommonVersion:
            "the receiver has no version or cipher of TLS in common with this app, or wants a certificate "
                + "(\(detail)); TLS 1.2 is the least"
        case .closed, .other: self.commandLineText(detail)
        }
    }
}
