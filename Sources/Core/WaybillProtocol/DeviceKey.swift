internal import WaybillSystem

/// The key of one install of an app, which proves the name of its agent.
///
/// Installs share one credential, which ships with the app. Each makes a key of its own, and its agent's name is a hash
/// of the key: no one who only knows the name can use it, and the receiver keeps no table of names.
package struct DeviceKey: Hashable, Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    package static let byteCount = 16

    private let bytes: [UInt8]

    /// `nil` unless there are 16 bytes.
    package init?(_ bytes: [UInt8]) {
        guard bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }

    /// Reads what ``text`` returns; `nil` for anything else.
    package init?(text: some Collection<UInt8>) {
        let plain = text.map { byte in
            switch byte {
            case UInt8(ascii: "-"): UInt8(ascii: "+")
            case UInt8(ascii: "_"): UInt8(ascii: "/")
            // What this alphabet has in place of the two.
            case UInt8(ascii: "+"), UInt8(ascii: "/"): UInt8(ascii: "=")
            default: byte
            }
        }
        guard let bytes = Base64.bytes(plain + "==".utf8) else { return nil }
        self.init(bytes)
    }

    /// The member `key` of `HELLO`: 22 characters of base64url (RFC 4648, section 5) without padding.
    package var text: String {
        Base64.urlText(self.bytes)
    }

    /// The first 32 hexadecimal digits of the key's SHA-256.
    package var agentName: String {
        ProofDigest(SHA256.digest(self.bytes)).text
    }

    package var description: String { "<device key>" }
    package var debugDescription: String { self.description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
