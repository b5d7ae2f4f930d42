/// A rule for the share of events to keep.
///
///     configuration.sampling = [.events(0.1, ListScrolled.self), .users(0.5)]
///
/// The first rule with an event's type decides. The decision for a user or an event is the same everywhere and at any
/// time; kept events contain the rate. Events of kind `user` and Waybill's own are always kept. A user is identified by
/// the user id, or by the anonymous id before sign-in: signing in may change the decision.
///
/// A rate is a share from 0 to 1: 0 keeps nothing; 1 or more, or NaN, keeps everything.
public struct Sampling: Hashable, Sendable {
    package enum Unit: Hashable, Sendable {
        case user
        case event
    }

    package let unit: Unit
    /// The share to keep, from 0 to 1.
    package let rate: Double
    /// The types of the events; `nil` for all events.
    private let types: Set<ObjectIdentifier>?
    /// The member `,"sample_rate":…`; empty for rate 1.
    let member: [UInt8]

    /// Keeps all events of a share of the users, limited to the given types if any.
    public static func users(_ rate: Double, _ types: any Event.Type...) -> Sampling {
        Sampling(.user, rate, types)
    }

    /// Keeps a share of the events, limited to the given types if any.
    public static func events(_ rate: Double, _ types: any Event.Type...) -> Sampling {
        Sampling(.event, rate, types)
    }

    private init(_ unit: Unit, _ rate: Double, _ types: [any Event.Type]) {
        let rate = rate.isNaN ? 1 : min(max(rate, 0), 1)
        self.unit = unit
        self.rate = rate
        self.types = types.isEmpty ? nil : Set(types.map { ObjectIdentifier($0) })
        self.member = rate < 1 ? Array(",\"sample_rate\":\(rate)".utf8) : []
    }

    func decides(on type: ObjectIdentifier) -> Bool {
        self.types?.contains(type) ?? true
    }

    /// Whether a user or event with this hash is kept.
    package func keeps(_ hash: UInt64) -> Bool {
        Double(hash >> 11) * 0x1p-53 < self.rate
    }

    /// The hash of a user or anonymous id: FNV-1a, then the finalizer of SplitMix64 to spread it over all bits.
    package static func hash(_ text: String) -> UInt64 {
        var hash: UInt64 = 0xCBF2_9CE4_8422_2325
        for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x0000_0100_0000_01B3 }
        return self.spread(hash)
    }

    /// The hash of an event.
    package static func hash(_ id: UniqueID) -> UInt64 {
        self.spread(id.low)
    }

    private static func spread(_ bits: UInt64) -> UInt64 {
        var mixed = (bits ^ (bits >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}
