internal import WaybillEvent
internal import WaybillSystem

/// The salt for hashing private values, which a reset replaces; never locked together with the client's state.
struct CurrentSalt: ~Copyable {
    private let current: Lock<PrivacySalt?>
    /// Increases with each new salt.
    private let mark = Atomic<UInt64>(0)
    private let make: @Sendable () -> PrivacySalt

    init(_ salt: PrivacySalt?, _ make: @escaping @Sendable () -> PrivacySalt) {
        self.current = Lock(salt)
        self.make = make
    }

    var value: PrivacySalt? {
        self.current.withLock { $0 }
    }

    /// Replaces the salt; later events are hashed with the returned one.
    func renew() -> PrivacySalt {
        let salt = self.make()
        self.current.withLock { $0 = salt }
        self.mark.add(1, ordering: .releasing)
        return salt
    }

    /// Gives the place the current salt, without a lock if it has it.
    @inline(__always)
    func refresh(_ place: inout DraftPool.Place) {
        let mark = self.mark.load(ordering: .acquiring)
        guard mark != place.saltMark else { return }
        place.salt = self.value
        place.saltMark = mark
    }
}

/// Drafts that calls of `track` encode into without the client's lock; each keeps its memory for the next call.
///
/// `@unchecked Sendable`: a place is touched by the call that claimed it alone.
final class DraftPool: @unchecked Sendable {
    /// One call's.
    struct Place: ~Copyable {
        var draft = EventDraft()
        /// The salt for hashing private values, as of `saltMark`.
        var salt: PrivacySalt?
        var saltMark: UInt64 = .max
    }

    /// As many calls at the same time as have a place; more of them allocate.
    static var placeCount: Int { 16 }

    /// Allocated when first claimed.
    private let places: UnsafeMutablePointer<UnsafeMutablePointer<Place>?>
    /// One bit for each free place.
    private let free = Atomic<UInt32>(1 << 16 - 1)

    init() {
        self.places = .allocate(capacity: Self.placeCount)
        self.places.initialize(repeating: nil, count: Self.placeCount)
    }

    deinit {
        for index in 0..<Self.placeCount {
            guard let place = self.places[index] else { continue }
            place.deinitialize(count: 1)
            place.deallocate()
        }
        self.places.deallocate()
    }

    /// A place for the calling thread alone; `nil` when all are in use.
    @inline(__always)
    func claim() -> Int? {
        var free = self.free.load(ordering: .relaxed)
        while free != 0 {
            guard let now = self.free.replace(free, with: free & (free &- 1)) else { return free.trailingZeroBitCount }
            free = now
        }
        return nil
    }

    @inline(__always)
    func giveBack(_ index: Int) {
        self.free.set(1 << UInt32(truncatingIfNeeded: index), ordering: .releasing)
    }

    /// A place that the caller has claimed, or taken.
    @inline(__always)
    func place(_ index: Int) -> UnsafeMutablePointer<Place> {
        if let place = self.places[index] { return place }
        return self.makePlace(index)
    }

    @inline(never)
    private func makePlace(_ index: Int) -> UnsafeMutablePointer<Place> {
        let place = UnsafeMutablePointer<Place>.allocate(capacity: 1)
        place.initialize(to: Place())
        self.places[index] = place
        return place
    }
}
