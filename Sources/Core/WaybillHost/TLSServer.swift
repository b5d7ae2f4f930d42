package import NIOCore
internal import NIOSSL
internal import WaybillProtocol
package import WaybillSystem

/// The TLS settings of a receiver, a door, or the live page.
///
/// The files are PEM and read when the program starts and when it reloads its configuration; the minimum is TLS 1.2.
package struct TLSServerConfiguration: Hashable, Sendable {
    /// Whose certificate it is, for errors; the set is closed.
    package enum Owner: String, Hashable, Sendable {
        case receiver
        case door
        case page
    }

    package var identity: CertificateFiles
    package var owner: Owner
    /// A file with the authorities that issue agents' certificates; `nil` if agents need no certificate.
    package var clientAuthorities: String?
    /// A file with the revocation lists of these authorities; `nil` for none.
    package var revocations: String?

    package init(
        identity: CertificateFiles, of owner: Owner = .receiver, clientAuthorities: String? = nil,
        revocations: String? = nil
    ) {
        self.identity = identity
        self.owner = owner
        self.clientAuthorities = clientAuthorities
        self.revocations = revocations
    }

    /// Reads the files as at a start.
    ///
    /// - Returns: when the certificate is valid.
    package func validity(
        isSigned: RevocationList.SignatureCheck
    ) throws(TLSSetupError) -> ClosedRange<WallTime> {
        PEM.validity(of: try TLSServer(self, isSigned: isSigned).certificate)
    }
}

/// What all TLS connections of a receiver, a door, or the live page share.
package struct TLSServer: Sendable {
    /// When the certificate expires.
    package var expiry: WallTime { PEM.validity(of: self.certificate).upperBound }
    /// When the certificate becomes valid.
    package var start: WallTime { PEM.validity(of: self.certificate).lowerBound }
    fileprivate let certificate: NIOSSLCertificate
    package let asksAgents: Bool
    private let owner: TLSServerConfiguration.Owner
    /// Agents' certificates that are no longer valid.
    package let revocations: RevocationList
    private let context: NIOSSLContext
    /// Of connections that come through a proxy: no certificate of an agent is asked for.
    private let proxiedContext: NIOSSLContext

    /// - Parameter isSigned: checks the signatures of revocation lists.
    package init(
        _ configuration: TLSServerConfiguration, isSigned: RevocationList.SignatureCheck
    ) throws(TLSSetupError) {
        let identity = configuration.identity
        self.owner = configuration.owner
        let chain = try CertificateFiles.read(identity.chain, "the \(configuration.owner)'s certificate")
        let certificates = try PEM.certificates(chain, identity.chain)
        self.certificate = certificates[0]
        let key = try CertificateFiles.read(identity.key, "the \(configuration.owner)'s private key")
        var tls = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(try PEM.key(key, identity.key)))
        tls.minimumTLSVersion = .tlsv12
        // Of TLS 1.2, what Mozilla's list "intermediate" has (version 5.7): forward secrecy, and no CBC.
        tls.cipherSuites = "ECDHE+AESGCM:ECDHE+CHACHA20"
        // A peer that does not answer the end of a connection is not waited for.
        tls.shutdownTimeout = .seconds(1)
        self.asksAgents = configuration.clientAuthorities != nil
        let proxied = tls
        var revocations = RevocationList.empty
        if let authorities = configuration.clientAuthorities {
            let bytes = try CertificateFiles.read(authorities, "certificates of the agents' authorities")
            let roots = try PEM.certificates(bytes, authorities)
            tls.trustRoots = .certificates(roots)
            if let path = configuration.revocations {
                revocations = try RevocationList(
                    path: path, authorities: try roots.map(PEM.der), authorities, isSigned: isSigned)
            }
            // Agents have no host names; their authority admits them.
            tls.certificateVerification = .noHostnameVerification
        }
        self.revocations = revocations
        do {
            self.context = try NIOSSLContext(configuration: tls)
            self.proxiedContext = self.asksAgents ? try NIOSSLContext(configuration: proxied) : self.context
        } catch {
            throw TLSSetupError(
                "TLS: \(identity.chain) and \(identity.key) do not belong together "
                    + "(\(BoringSSLReason.list(of: error))); name the key of this certificate")
        }
    }

    /// What its certificate changes that takes the place of another one while the program runs.
    ///
    /// - Parameters:
    ///   - former: `nil`: there was none.
    ///   - chain: the file with the certificate.
    ///   - section: of the configuration file.
    /// - Returns: `nil` if the certificate is the same.
    /// - Throws: if the certificate is not valid at this time.
    package func change(
        from former: TLSServer?, chain: String, in section: String
    ) throws(TLSSetupError) -> ConfigurationChange? {
        guard former?.certificate != self.certificate else { return nil }
        let now = POSIXClock().wallTime()
        guard self.start <= now else {
            throw TLSSetupError(
                "TLS: the new certificate in \(chain) is not valid before \(self.start.text); set this host's clock, or "
                    + "renew it")
        }
        guard self.expiry > now else {
            throw TLSSetupError("TLS: the new certificate in \(chain) expired at \(self.expiry.text); renew it")
        }
        return ConfigurationChange(
            key: "\(section).tls (certificate)", old: former.map { "valid until \($0.expiry.text)" } ?? "none",
            new: "valid until \(self.expiry.text)", needsRestart: false)
    }

    /// Puts TLS between a new connection's socket and its handler.
    ///
    ///     socket ── TLSEntrance ── NIOSSLServerHandler ── TLSWatch ── ConnectionHandler
    ///
    /// - Parameters:
    ///   - linger: how long a refused peer has to read the reason.
    ///   - proxied: the peer that a proxy names; `nil`: the other end of the socket.
    ///   - refused: called once when TLS cannot be set up, with BoringSSL's names for the error and the peer's address.
    package func addHandlers(
        to channel: any Channel, linger: TimeAmount, proxied: String? = nil,
        refused: @escaping @Sendable (TLSRefusal, _ causes: String, _ peer: String) -> Void
    ) throws {
        let pipeline = channel.pipeline.syncOperations
        let entrance = TLSEntrance(plaintextAnswer: self.owner.plaintextAnswer, linger: linger)
        try pipeline.addHandler(entrance)
        try pipeline.addHandler(NIOSSLServerHandler(context: proxied == nil ? self.context : self.proxiedContext))
        try pipeline.addHandler(TLSWatch(entrance: entrance, peer: proxied, refused: refused))
    }
}

extension TLSServerConfiguration.Owner {
    /// What a peer is answered that does not speak TLS, in its own protocol.
    fileprivate var plaintextAnswer: [UInt8] {
        switch self {
        case .receiver:
            return Message.err(.syntax, text: "this port takes TLS alone; start the agent with --tls or --tls-ca")
                .encoded
        case .door, .page:
            let text = "this port takes HTTPS alone: begin the address with https://\n"
            let head = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: \(text.utf8.count)\r\n"
            return Array((head + "Connection: close\r\n\r\n" + text).utf8)
        }
    }
}
