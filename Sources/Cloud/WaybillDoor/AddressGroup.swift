internal import WaybillSystem

/// Who a request counts for: an address of version 4, or a network of 64 bits of version 6, which one sender has to itself.
package struct AddressGroup: Hashable, Sendable {
    private let bits: UInt64
    private let isVersion6: Bool

    /// Senders whose address is not known are one group.
    package static let unknown = AddressGroup(bits: 0, isVersion6: true)

    private init(bits: UInt64, isVersion6: Bool) {
        self.bits = bits
        self.isVersion6 = isVersion6
    }

    /// At most 15 bytes, which a text holds without memory of its own.
    var text: String { String(self.bits, radix: 36) + (self.isVersion6 ? "/6" : "/4") }

    package init(_ address: String?) {
        guard let bytes = address.flatMap({ AddressBytes.parse($0) }) else {
            self = .unknown
            return
        }
        self.bits = bytes.prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
        self.isVersion6 = bytes.count > 4
    }
}
