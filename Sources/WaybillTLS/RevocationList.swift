internal import WaybillProtocol

/// The certificates that their authorities have revoked, from a file of revocation lists (PEM, "X509 CRL").
///
/// The TLS library reads no such lists. The file belongs to the operator, like the authorities' file, and is believed as
/// it is: neither a list's signature nor its next update is checked.
///
/// - SeeAlso: RFC 5280, section 5.1.
package struct RevocationList: Hashable, Sendable {
    private let revoked: Set<CertificateSerial>

    package static let empty = RevocationList(revoked: [])

    private init(revoked: Set<CertificateSerial>) {
        self.revoked = revoked
    }

    /// Reads a file.
    package init(path: String) throws(TLSSetupError) {
        let bytes = try CertificateFiles.read(path, "the authorities' revocation lists")
        guard let revoked = Self.revoked(pem: String(decoding: bytes, as: UTF8.self)) else {
            throw TLSSetupError("TLS: \(path) holds no PEM revocation list (X509 CRL); correct it")
        }
        self.revoked = revoked
    }

    /// Reads the text of a file; `nil` if it holds no list, or something else.
    init?(pem: String) {
        guard let revoked = Self.revoked(pem: pem) else { return nil }
        self.revoked = revoked
    }

    package var count: Int { self.revoked.count }

    package func revokes(_ certificate: PeerCertificate) -> Bool {
        self.revoked.contains(certificate.serial)
    }

    private static func revoked(pem: String) -> Set<CertificateSerial>? {
        var revoked: Set<CertificateSerial> = []
        var text: [UInt8]?
        var listCount = 0
        for line in pem.split(whereSeparator: \.isNewline) {
            switch line {
            case "-----BEGIN X509 CRL-----": text = []
            case "-----END X509 CRL-----":
                guard let bytes = text.flatMap(Base64.bytes), let found = Self.revoked(der: bytes) else { return nil }
                revoked.formUnion(found)
                listCount += 1
                text = nil
            default: text?.append(contentsOf: line.utf8)
            }
        }
        return listCount == 0 || text != nil ? nil : revoked
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
