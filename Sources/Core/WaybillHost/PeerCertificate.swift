package import NIOCore
internal import NIOSSL
package import WaybillSystem

/// What a receiver reads from the certificate that an agent has presented.
package struct PeerCertificate: Hashable, Sendable {
    /// 64 lower-case hexadecimal digits: the SHA-256 of the certificate's DER.
    package let fingerprint: String
    /// The subject alternative names that are text: DNS names, e-mail addresses and URIs.
    package let names: [String]
    /// Whether the extended key usage names client authentication.
    package let isForClients: Bool
    /// When it expires.
    package let expiry: WallTime
    /// The issuer and the serial number, which revocation lists name.
    let serial: CertificateSerial

    /// For tests.
    package init(fingerprint: String, names: [String], isForClients: Bool, expiry: WallTime) {
        self.fingerprint = fingerprint
        self.names = names
        self.isForClients = isForClients
        self.expiry = expiry
        self.serial = CertificateSerial(issuer: [], number: [])
    }

    /// Reads a certificate that the TLS library has verified.
    ///
    /// - Returns: `nil` if it is not the DER of a certificate.
    init?(der: [UInt8], expiry: WallTime) {
        self.fingerprint = Hexadecimal.text(SHA256.digest(der))
        self.expiry = expiry
        var outer = DER(der[...])
        guard var certificate = outer.next(DER.Tag.sequence)?.elements,
            var members = certificate.next(DER.Tag.sequence)?.elements
        else { return nil }
        // The version.
        _ = members.next(DER.Tag.context(0, isConstructed: true))
        guard let number = members.next(DER.Tag.integer), members.next(DER.Tag.sequence) != nil,
            let issuer = members.next(DER.Tag.sequence)
        else { return nil }
        self.serial = CertificateSerial(issuer: Array(issuer.whole), number: Array(number.content))
        var names: [String] = []
        var isForClients = false
        while let member = members.next() {
            guard member.tag == DER.Tag.context(3, isConstructed: true) else { continue }
            var wrapper = member.elements
            guard var extensions = wrapper.next(DER.Tag.sequence)?.elements else { return nil }
            while var fields = extensions.next(DER.Tag.sequence)?.elements {
                guard let identifier = fields.next(DER.Tag.identifier) else { return nil }
                _ = fields.next(DER.Tag.boolean)
                guard let value = fields.next(DER.Tag.octets) else { return nil }
                switch Array(identifier.content) {
                case Self.subjectAlternativeName: names = Self.names(value)
                case Self.extendedKeyUsage: isForClients = Self.isForClients(value)
                default: break
                }
            }
        }
        self.names = names
        self.isForClients = isForClients
    }

    /// The certificate of a connection's peer.
    ///
    /// - Returns: `nil` without TLS, and when the peer has presented none.
    package static func ofPeer(on pipeline: ChannelPipeline.SynchronousOperations) -> PeerCertificate? {
        do {
            guard let certificate = try pipeline.handler(type: NIOSSLServerHandler.self).peerCertificate else {
                return nil
            }
            return PeerCertificate(
                der: try certificate.toDERBytes(), expiry: PEM.validity(of: certificate).upperBound)
        } catch {
            // There is no TLS handler: the connection is a plain one.
            return nil
        }
    }

    // MARK: Extensions

    /// The identifier 2.5.29.17.
    private static let subjectAlternativeName: [UInt8] = [0x55, 0x1D, 0x11]
    /// The identifier 2.5.29.37.
    private static let extendedKeyUsage: [UInt8] = [0x55, 0x1D, 0x25]
    /// The identifier 1.3.6.1.5.5.7.3.2.
    private static let clientAuthentication: [UInt8] = [0x2B, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x02]

    private static func names(_ value: DER.Element) -> [String] {
        var names: [String] = []
        var outer = value.elements
        guard var list = outer.next(DER.Tag.sequence)?.elements else { return [] }
        while let name = list.next() {
            switch name.tag {
            // rfc822Name, dNSName and uniformResourceIdentifier.
            case 0x81, 0x82, 0x86:
                if let text = String(validating: name.content, as: UTF8.self) { names.append(text) }
            default: break
            }
        }
        return names
    }

    private static func isForClients(_ value: DER.Element) -> Bool {
        var outer = value.elements
        guard var list = outer.next(DER.Tag.sequence)?.elements else { return false }
        while let usage = list.next(DER.Tag.identifier) {
            if Array(usage.content) == Self.clientAuthentication { return true }
        }
        return false
    }
}

/// What a revocation list calls a certificate.
struct CertificateSerial: Hashable, Sendable {
    /// The issuer's name in DER.
    let issuer: [UInt8]
    let number: [UInt8]
}
