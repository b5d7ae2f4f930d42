package import NIOCore
package import NIOSSL
package import WaybillSystem

/// An agent's TLS settings.
///
/// The files are PEM and read when the agent starts and when it reloads its configuration. The receiver's certificate and its name are always verified, or
/// the certificate is a pinned one; the minimum is TLS 1.2.
package struct TLSClientConfiguration: Hashable, Sendable {
    /// A file with the only authorities that are trusted; `nil` for those of the system.
    package var authorities: String?
    /// The only certificates that a receiver may have; empty for any that an authority has issued.
    ///
    /// A pin names the certificate itself: its issuer, its names and its dates are not verified. The receiver proves with
    /// each handshake that it has the key.
    package var pins: [CertificatePin] = []
    /// The agent's certificate, for a receiver that asks for one.
    package var identity: CertificateFiles?
    /// The name that the receiver's certificate must have; `nil` for the host that the agent connects to.
    package var serverName: String?
    /// The readers of error messages.
    package var audience: Audience

    /// For whom error messages say what to do.
    package enum Audience: Hashable, Sendable {
        /// Operators of `waybill agent`, who set its options.
        case commandLine
        /// Developers of an app with a dispatcher.
        case app
    }

    package init(
        authorities: String? = nil, pins: [CertificatePin] = [], identity: CertificateFiles? = nil,
        serverName: String? = nil, audience: Audience = .commandLine
    ) {
        self.authorities = authorities
        self.pins = pins
        self.identity = identity
        self.serverName = serverName
        self.audience = audience
    }

    /// Reads the files as at a start.
    ///
    /// - Returns: when the agent's certificate is valid; `nil` without one.
    package func validity() throws(TLSSetupError) -> ClosedRange<WallTime>? {
        _ = try TLSClient(self)
        guard let chain = self.identity?.chain else { return nil }
        let bytes = try CertificateFiles.read(chain, "the agent's certificate")
        return PEM.validity(of: try PEM.certificates(bytes, chain)[0])
    }

    /// Whether this can be the server name in a handshake: a host name, not an address.
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

/// What all TLS connections of an agent share.
package struct TLSClient: Sendable {
    private let context: NIOSSLContext
    private let serverName: String?
    private let pins: Set<CertificatePin>
    private let audience: TLSClientConfiguration.Audience
    /// The end of the agent's certificate; `nil` without one.
    package let expiry: WallTime?
    /// Equal for files with equal bytes; not for proofs.
    private let checksum: UInt64

    package init(_ configuration: TLSClientConfiguration) throws(TLSSetupError) {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        tls.certificateVerification = .fullVerification
        // A peer that does not answer the end of a connection is not waited for.
        tls.shutdownTimeout = .seconds(1)
        var expiry: WallTime?
        var read: [UInt8] = []
        do {
            if !configuration.pins.isEmpty {
                // The handler's own verification takes the place of the library's, and needs no roots.
                tls.certificateVerification = .noHostnameVerification
                tls.trustRoots = .certificates([])
            } else if let authorities = configuration.authorities {
                let bytes = try CertificateFiles.read(authorities, "certificates of authorities")
                tls.trustRoots = .certificates(try PEM.certificates(bytes, authorities))
                read += bytes
            }
            if let identity = configuration.identity {
                let chain = try CertificateFiles.read(identity.chain, "the agent's certificate")
                let certificates = try PEM.certificates(chain, identity.chain)
                tls.certificateChain = certificates.map { .certificate($0) }
                expiry = PEM.validity(of: certificates[0]).upperBound
                let key = try CertificateFiles.read(identity.key, "the agent's private key")
                tls.privateKey = .privateKey(try PEM.key(key, identity.key))
                read += chain + key
            }
            self.context = try NIOSSLContext(configuration: tls)
        } catch let error as TLSSetupError {
            throw error
        } catch {
            let cause = BoringSSLReason.list(of: error)
            let files = configuration.identity.map { "\($0.chain) and \($0.key) do not belong together, or " } ?? ""
            throw TLSSetupError("TLS: \(files)the system's authorities cannot be read (\(cause)); correct the paths")
        }
        self.expiry = expiry
        self.checksum = FNV1a.hash(read)
        self.serverName = configuration.serverName
        self.pins = Set(configuration.pins)
        self.audience = configuration.audience
    }

    /// Whether the files of another client had the same bytes.
    package func hasFiles(of other: TLSClient) -> Bool { self.checksum == other.checksum }

    /// Whether the receiver must have one of certain certificates.
    var isPinned: Bool { !self.pins.isEmpty }

    /// The text for a failure, with its remedy.
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

    /// The name that a receiver's certificate must have; `nil` when it must have the connected address.
    func name(of address: NetworkAddress) -> String? {
        self.serverName ?? (Self.isAddress(address.host) ? nil : address.host)
    }

    /// The TLS handler for a connection.
    package func handler(for address: NetworkAddress) throws -> NIOSSLClientHandler {
        let name = self.name(of: address)
        guard self.isPinned else { return try NIOSSLClientHandler(context: self.context, serverHostname: name) }
        let pins = self.pins
        return try NIOSSLClientHandler(
            context: self.context, serverHostname: name,
            customVerificationCallback: { chain, promise in
                let pin = chain.first.flatMap(CertificatePin.init)
                promise.succeed(pin.map(pins.contains) == true ? .certificateVerified : .failed)
            })
    }
}

/// TLS of one connection: whether the receiver is the expected one, and why the connection failed.
package struct TLSPeer: Sendable {
    package let client: TLSClient
    package let address: NetworkAddress

    package init(client: TLSClient, address: NetworkAddress) {
        self.client = client
        self.address = address
    }

    /// Whether the certificate that the peer presented has the expected name.
    ///
    /// NIOSSL accepts a certificate for the connected address even when a name was given; an attacker who forges the
    /// name's address could present one for their own address.
    package func isNamed(on pipeline: ChannelPipeline.SynchronousOperations) -> Bool {
        guard !self.client.isPinned, let name = self.client.name(of: self.address) else { return true }
        guard let certificate = Self.certificate(on: pipeline) else { return false }
        return certificate._subjectAlternativeNames().contains { alternative in
            alternative.nameType == .dnsName
                && HostName.matches(String(decoding: alternative.contents, as: UTF8.self), name)
        }
    }

    /// The text for an error, with its remedy; `nil` when the error is only the end of a connection.
    ///
    /// A connection that ends without TLS's close alert is not a failure: the line protocol has its own
    /// acknowledgements.
    ///
    /// - Parameter reason: the system's text for an error outside of TLS.
    package func reason(
        of error: any Error, on pipeline: ChannelPipeline.SynchronousOperations, isEstablished: Bool,
        otherwise reason: String
    ) -> String? {
        if case NIOSSLError.uncleanShutdown = error { return nil }
        if let error = error as? NIOSSLExtraError {
            return error == .failedToValidateHostname || error == .serverHostnameImpossibleToMatch
                ? self.wrongHost : self.client.text(of: .other, "\(error)")
        }
        let causes = BoringSSLReason.list(of: error)
        if causes.isEmpty {
            return isEstablished ? reason : self.client.text(of: .closed, reason)
        }
        let now = POSIXClock().wallTime().milliseconds / 1000
        let certificate = Self.certificate(on: pipeline)
        let validity = certificate.map { Int64($0.notValidBefore)...Int64(max($0.notValidBefore, $0.notValidAfter)) }
        let failure = TLSFailure(
            causes, isValidNow: validity?.contains(now) ?? true, isPinned: self.client.isPinned)
        guard failure == .wrongPin else { return self.client.text(of: failure, causes) }
        let pin = certificate.flatMap(CertificatePin.init)
        return self.client.text(of: failure, pin.map { "\($0)" } ?? "one that cannot be read")
    }

    /// The certificate that the peer presented, valid or not.
    private static func certificate(on pipeline: ChannelPipeline.SynchronousOperations) -> NIOSSLCertificate? {
        do {
            return try pipeline.handler(type: NIOSSLClientHandler.self).peerCertificate
        } catch {
            // The TLS handler has left the pipeline, and the certificate with it.
            return nil
        }
    }

    /// The text for a certificate with the wrong name.
    package var wrongHost: String {
        self.client.text(of: .wrongHost, self.client.name(of: self.address) ?? self.address.host)
    }
}

extension CertificatePin {
    /// The pin of a certificate; `nil` if the library cannot encode it.
    fileprivate init?(_ certificate: NIOSSLCertificate) {
        do {
            self.init(of: try PEM.der(certificate))
        } catch {
            return nil
        }
    }
}

/// Host names in certificates.
///
/// - SeeAlso: RFC 6125, section 6.4; a `*` matches the whole first label only.
enum HostName {
    static func matches(_ pattern: String, _ name: String) -> Bool {
        let pattern = Self.labels(pattern)
        let name = Self.labels(name)
        guard pattern.count == name.count, pattern.dropFirst() == name.dropFirst() else { return false }
        return pattern[0] == name[0] || pattern[0] == "*" && pattern.count > 2
    }

    /// The labels in lower case, without the root's dot.
    private static func labels(_ name: String) -> [Substring] {
        let name = name.lowercased()
        return (name.hasSuffix(".") ? name.dropLast() : name[...]).split(
            separator: ".", omittingEmptySubsequences: false)
    }
}
