internal import NIOCore
internal import NIOSSL
package import WaybillSystem
internal import WaybillTLS

/// How an agent speaks TLS.
///
/// The files are PEM and read once, when the agent starts. The receiver's certificate and its name are always verified; TLS 1.2 is the least.
package struct TLSClientConfiguration: Hashable, Sendable {
    /// A file of the authorities that are trusted, and no others; `nil`: those of the system.
    package var authorities: String?
    /// What the agent shows a receiver that asks for a certificate.
    package var identity: CertificateFiles?
    /// The name that the receiver's certificate must have; `nil`: the host that the agent connects to.
    package var serverName: String?
    /// Who reads why a connection failed.
    package var audience: Audience

    /// Who is told what to do, in words that are theirs.
    package enum Audience: Hashable, Sendable {
        /// Whoever runs `waybill agent`, with its options.
        case commandLine
        /// Whoever builds an app with a dispatcher.
        case app
    }

    package init(
        authorities: String? = nil, identity: CertificateFiles? = nil, serverName: String? = nil,
        audience: Audience = .commandLine
    ) {
        self.authorities = authorities
        self.identity = identity
        self.serverName = serverName
        self.audience = audience
    }

    /// Whether a certificate can be asked for by this name: that of a host, not an address.
    package static func isServerName(_ name: String) -> Bool {
        1...253 ~= name.utf8.count && !TLSClient.isAddress(name)
            && name.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."):
                    true
                default: false
                }
            }
    }
}

/// What all connections of an agent over TLS share.
struct TLSClient: Sendable {
    private let context: NIOSSLContext
    private let serverName: String?
    private let audience: TLSClientConfiguration.Audience

    init(_ configuration: TLSClientConfiguration) throws(TLSSetupError) {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        // Whoever does not answer the end of a connection is not waited for.
        tls.shutdownTimeout = .seconds(1)
        do {
            if let authorities = configuration.authorities {
                let bytes = try CertificateFiles.read(authorities, "certificates of authorities")
                tls.trustRoots = .certificates(try PEM.certificates(bytes, authorities))
            }
            if let identity = configuration.identity {
                let chain = try CertificateFiles.read(identity.chain, "the agent's certificate")
                tls.certificateChain = try PEM.certificates(chain, identity.chain).map { .certificate($0) }
                let key = try CertificateFiles.read(identity.key, "the agent's private key")
                tls.privateKey = .privateKey(try PEM.key(key, identity.key))
            }
            self.context = try NIOSSLContext(configuration: tls)
        } catch let error as TLSSetupError {
            throw error
        } catch {
            let cause = BoringSSLReason.list(of: error)
            let files = configuration.identity.map { "\($0.chain) and \($0.key) do not belong together, or " } ?? ""
            throw TLSSetupError("TLS: \(files)the system's authorities cannot be read (\(cause)); correct the paths")
        }
        self.serverName = configuration.serverName
        self.audience = configuration.audience
    }

    /// What a failure means, with what to do.
    func text(of failure: TLSFailure, _ detail: String) -> String {
        failure.text(detail, for: self.audience)
    }

    static func isAddress(_ host: String) -> Bool {
        do {
            _ = try SocketAddress(ipAddress: host, port: 0)
            return true
        } catch {
            return false
        }
    }

    /// The name that a receiver's certificate must have; `nil` where it is the address that was connected to.
    func name(of address: NetworkAddress) -> String? {
        self.serverName ?? (Self.isAddress(address.host) ? nil : address.host)
    }

    func handler(for address: NetworkAddress) throws -> NIOSSLClientHandler {
        try NIOSSLClientHandler(context: self.context, serverHostname: self.name(of: address))
    }
}

/// One connection's view of TLS: whether the receiver is the one that was asked for, and why it failed.
struct TLSPeer: Sendable {
    let client: TLSClient
    let address: NetworkAddress

    /// Whether the certificate has the name that was asked for.
    ///
    /// NIOSSL takes a certificate for the connected address also where a name was asked for; whoever forges the name's
    /// address could show one for an address of their own.
    func isNamed(by certificate: NIOSSLCertificate?) -> Bool {
        guard let name = self.client.name(of: self.address) else { return true }
        guard let certificate else { return false }
        return certificate._subjectAlternativeNames().contains { alternative in
            alternative.nameType == .dnsName
                && HostName.matches(String(decoding: alternative.contents, as: UTF8.self), name)
        }
    }

    /// What an error means, with what to do; `nil` where it is only the end of a connection.
    ///
    /// A connection that ends without TLS's goodbye is none: everything that counts is acknowledged by itself.
    func reason(of error: any Error, certificate: NIOSSLCertificate?, isEstablished: Bool) -> String? {
        if case NIOSSLError.uncleanShutdown = error { return nil }
        if let error = error as? NIOSSLExtraError {
            return error == .failedToValidateHostname || error == .serverHostnameImpossibleToMatch
                ? self.wrongHost : self.client.text(of: .other, "\(error)")
        }
        let causes = BoringSSLReason.list(of: error)
        if causes.isEmpty {
            let reason = ConnectionFailure.reason(of: error)
            return isEstablished ? reason : self.client.text(of: .closed, reason)
        }
        let now = POSIXClock().wallTime().milliseconds / 1000
        let validity = certificate.map { Int64($0.notValidBefore)...Int64(max($0.notValidBefore, $0.notValidAfter)) }
        return self.client.text(of: TLSFailure(causes, isValidNow: validity?.contains(now) ?? true), causes)
    }

    var wrongHost: String {
        self.client.text(of: .wrongHost, self.client.name(of: self.address) ?? self.address.host)
    }
}

/// Names of hosts in certificates.
///
/// - SeeAlso: RFC 6125, section 6.4; a `*` stands for the whole first label alone.
enum HostName {
    static func matches(_ pattern: String, _ name: String) -> Bool {
        let pattern = Self.labels(pattern)
        let name = Self.labels(name)
        guard pattern.count == name.count, pattern.dropFirst() == name.dropFirst() else { return false }
        return pattern[0] == name[0] || pattern[0] == "*" && pattern.count > 2
    }

    /// In lower case, without the dot of the root.
    private static func labels(_ name: String) -> [Substring] {
        let name = name.lowercased()
        return (name.hasSuffix(".") ? name.dropLast() : name[...]).split(
            separator: ".", omittingEmptySubsequences: false)
    }
}

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
            "the receiver's certificate is not valid at this time; renew it and start the receiver again, or set "
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
            "the receiver's certificate is not valid at this time; renew it and start the receiver again, or set "
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
