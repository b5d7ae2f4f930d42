package import WaybillSystem

/// All that a client needs to reach a receiver that made its own certificate, in one text.
///
///     waybill://HOST:PORT#TOKEN,SHA256
///     waybill://192.168.0.12:4390#Yk3…9w,ffbedae70097…e0a48c
///
/// It is a URL without user, path and query (RFC 3986), so that a camera's app can hand it to an app that asks for
/// addresses with this scheme. What follows `#` is not part of what a host is asked for. The token has letters, digits,
/// `-` and `_`; the fingerprint is the SHA-256 of the certificate, as ``CertificatePin`` has it, and it is the only
/// certificate that the client accepts.
package struct ReceiverAddress: Hashable, Sendable {
    /// Why a text is not such an address; it quotes nothing that follows `#`.
    package struct Failure: Error, Hashable, Sendable, CustomStringConvertible {
        /// The cause and what to do.
        package let description: String

        init(_ cause: String) {
            self.description = "\(cause); give the whole line that waybill live --dev prints: \(ReceiverAddress.form)"
        }
    }

    private static let scheme = "waybill://"
    package static let form = "waybill://HOST:PORT#TOKEN,SHA256"

    package let address: NetworkAddress
    package let token: Secret
    package let pin: CertificatePin

    /// - Parameter token: of letters, digits, `-` and `_`.
    package init(address: NetworkAddress, token: Secret, pin: CertificatePin) {
        precondition(Self.isToken(token.revealed), "a token in an address has letters, digits, - and _")
        self.address = address
        self.token = token
        self.pin = pin
    }

    /// Reads the text; white space around it does not matter.
    package init(_ text: String) throws(Failure) {
        let start = text.drop { $0.isWhitespace }
        let text = String(start.reversed().drop { $0.isWhitespace }.reversed())
        guard !text.isEmpty else { throw Failure("the address is empty") }
        guard text.hasPrefix(Self.scheme) else {
            throw Failure(
                text.hasPrefix("http")
                    ? "this is the address of the page, and not that of the receiver"
                    : "the address does not begin with \(Self.scheme)")
        }
        let rest = text.dropFirst(Self.scheme.count)
        guard let hash = rest.firstIndex(of: "#") else {
            throw Failure("the address has no # with token and certificate")
        }
        guard let address = NetworkAddress(String(rest[..<hash])), address.port > 0 else {
            throw Failure("\(rest[..<hash]) is not a host and a port, as in 192.168.0.12:4390")
        }
        let parts = rest[rest.index(after: hash)...].split(separator: ",", omittingEmptySubsequences: false)
        guard parts.count == 2 else {
            throw Failure("what follows # is not a token, a comma and the SHA-256 of a certificate")
        }
        guard let token = Secret(String(parts[0])), Self.isToken(token.revealed) else {
            throw Failure("what follows # is not a token: one has letters, digits, - and _")
        }
        guard let pin = CertificatePin(String(parts[1])) else {
            throw Failure("what follows the comma is not the SHA-256 of a certificate, which has 64 hexadecimal digits")
        }
        self.init(address: address, token: token, pin: pin)
    }

    /// The text that ``init(_:)`` reads, with the secret token in it.
    package var revealed: String {
        "\(Self.scheme)\(self.address)#\(self.token.revealed),\(self.pin.digits)"
    }

    private static func isToken(_ text: String) -> Bool {
        !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, UInt8(ascii: "-"), UInt8(ascii: "_"): true
                default: false
                }
            }
    }
}
