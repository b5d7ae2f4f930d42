internal import WaybillSystem

/// A request that an operator puts into a fleet's bucket: one object for each, in the order of their numbers from 1 on.
///
///     <prefix><number, 20 digits>.json
package protocol NumberedRequest: Hashable, Sendable {
    static var prefix: String { get }

    /// Reads a request; `nil` for bytes that are none, or not the one of that number.
    init?(_ bytes: [UInt8], number: Int)
}

/// What the bucket has under a number.
package enum FoundRequest<Request: NumberedRequest>: Hashable, Sendable {
    case absent
    case request(Request)
    case unreadable
}

extension NumberedRequest {
    private static var byteCountMax: Int { 64 << 10 }

    package static func key(of number: Int) -> String {
        self.prefix + ZeroPadded.text(number, digitCount: 20) + ".json"
    }

    package static func read(
        _ number: Int, from store: any ObjectStore
    ) throws(StoreError) -> FoundRequest<Self> {
        guard let bytes = try store.read(Self.key(of: number), 0..<Self.byteCountMax) else { return .absent }
        return Self(bytes, number: number).map { .request($0) } ?? .unreadable
    }
}
