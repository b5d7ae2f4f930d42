internal import WaybillProtocol
internal import WaybillSystem

/// The certificates that their authorities have revoked, from a file of revocation lists (PEM, "X509 CRL").
///
/// The TLS library reads no such lists. Each must be signed by one of the agents' authorities; its next update is not
/// checked, because an old list is better than none.
///
/// - SeeAlso: RFC 5280, section 5.1.
package struct RevocationList: Hashable, Sendable {
    /// Whether a list (DER) is signed by an authority, given by its certificate (DER).
    package typealias SignatureCheck = (_ list: [UInt8], _ authority: [UInt8]) -> Bool

    private struct Signed {
        let der: [UInt8]
        let revoked: [CertificateSerial]
    }

    private let revoked: Set<CertificateSerial>

    package static let empty = RevocationList(revoked: [])

    private init(revoked: Set<CertificateSerial>) {
        self.revoked = revoked
    }

    /// Reads a file.
    ///
    /// - Parameters:
    ///   - authorities: the certificates (DER) of those who may sign its lists.
    ///   - authoritiesPath: the file that they are from, for errors.
    init(
        path: String, authorities: [[UInt8]], _ authoritiesPath: String, isSigned: SignatureCheck
    ) throws(TLSSetupError) {
        let bytes = try CertificateFiles.read(path, "the authorities' revocation lists")
        guard let lists = Self.lists(pem: String(decoding: bytes, as: UTF8.self)) else {
            throw TLSSetupError("TLS: \(path) holds no PEM revocation list (X509 CRL); correct it")
        }
        for (index, list) in lists.enumerated()
        where !authorities.contains(where: { isSigned(list.der, $0) }) {
            throw TLSSetupError(
                "TLS: list \(index + 1) in \(path) is not signed by an authority in \(authoritiesPath); use the lists of "
                    + "these authorities, or add the certificate of the one that signed it")
        }
        self.revoked = Set(lists.flatMap(\.revoked))
    }

    /// Reads the text of a file and checks no signature; `nil` if it holds no list, or something else.
    init?(pem: String) {
        guard let lists = Self.lists(pem: pem) else { return nil }
        self.revoked = Set(lists.flatMap(\.revoked))
    }

    package var count: Int { self.revoked.count }

    package func revokes(_ certificate: PeerCertificate) -> Bool {
        self.revoked.contains(certificate.serial)
    }

    private static func lists(pem: String) -> [Signed]? {
        var lists: [Signed] = []
        var text: [UInt8]?
        for line in pem.split(whereSeparator: \.isNewline) {
            switch line {
            case "-----BEGIN X509 CRL-----": text = []
            case "-----END X509 CRL-----":
                guard let bytes = text.flatMap(Base64.bytes), let found = Self.revoked(der: bytes) else { return nil }
                lists.append(Signed(der: bytes, revoked: found))
                text = nil
            default: text?.append(contentsOf: line.utf8)
            }
        }
        return lists.isEmpty || text != nil ? nil : lists
    }

    private static func revoked(der: [UInt8]) -> [CertificateSerial]? {
        var outer = DER(der[...])
        guard var list = outer.next(DER.Tag.sequence)?.elements,
            var members = list.next(DER.Tag.sequence)?.elements
        else { return nil }
        // The version.
        _ = members.next(DER.Tag.integer)
        guard members.next(DER.Tag.sequence) != nil, let issuer = members.next(DER.Tag.sequence) else { return nil }
        guard members.next(DER.Tag.utcTime) ?? members.next(DER.Tag.generalizedTime) != nil else { return nil }
        // The next update.
        _ = members.next(DER.Tag.utcTime) ?? members.next(DER.Tag.generalizedTime)
        guard var entries = members.next(DER.Tag.sequence)?.elements else { return [] }
        var revoked: [CertificateSerial] = []
        while let entry = entries.next(DER.Tag.sequence) {
            var fields = entry.elements
            guard let number = fields.next(DER.Tag.integer) else { return nil }
            revoked.append(CertificateSerial(issuer: Array(issuer.whole), number: Array(number.content)))
        }
        return revoked
    }
}
