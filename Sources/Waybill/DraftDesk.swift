internal import Synchronization
internal import WaybillEvent
internal import WaybillSystem

/// A set of places where calls of `track` prepare drafts, and leave them to a call that is already storing.
///
///     call A   claim ─ draft ─ │ lock │ encode A, B, C ─ one write(2) ─ answers │ ─ release
///     call B   claim ─ draft ─ post ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ answered ─ release
///     call C   claim ─ draft ─ post ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ answered ─ release
///
/// `@unchecked Sendable`: a place is accessed by the call that claimed it; between ``post(_:)`` and the answer, by the
/// call that took it with ``takePosted()``, of which the client's state lock allows one at a time.
final class DraftDesk: @unchecked Sendable {
    /// The place of one call.
    struct Place: ~Copyable {
        var draft = EventDraft()
        /// The salt for hashing private values, as of `saltMark`.
        var salt: PrivacySalt?
        var saltMark: UInt64 = .max
        /// The outcome of a posted draft; valid once `isAnswered` is set.
        var outcome = TrackOutcome.held
        let isAnswered = Atomic(false)
    }

    /// The number of simultaneous calls that get a place; further calls allocate.
    static var placeCount: Int { 16 }
    /// About half a microsecond: a third of the cost of another write(2).
    private static var companyPauseCountMax: Int { 24 }

    /// Created when first claimed.
    private let places: UnsafeMutablePointer<UnsafeMutablePointer<Place>?>
    /// One bit for each free place.
    private let free = Atomic<UInt32>(1 << 16 - 1)
    /// One bit for each place with a draft waiting to be stored.
    private let posted = Atomic<UInt32>(0)

    /// The number of drafts taken the last time.
    private var lastCount = 0

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

    /// Claims a place for the calling thread; `nil` if all are in use.
    @inline(__always)
    func claim() -> Int? {
        var free = self.free.load(ordering: .relaxed)
        while free != 0 {
            let (isClaimed, now) = self.free.weakCompareExchange(
                expected: free, desired: free & (free &- 1), successOrdering: .acquiring, failureOrdering: .relaxed)
            if isClaimed { return free.trailingZeroBitCount }
            free = now
        }
        return nil
    }

    @inline(__always)
    func giveBack(_ index: Int) {
        self.free.bitwiseOr(1 << UInt32(truncatingIfNeeded: index), ordering: .releasing)
    }

    /// A place that the caller has claimed or taken.
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

    /// Leaves a draft to the next holder of the client's lock; the caller must not touch the place until it is
    /// answered.
    func post(_ index: Int) {
        self.place(index).pointee.isAnswered.store(false, ordering: .relaxed)
        self.posted.bitwiseOr(1 << UInt32(truncatingIfNeeded: index), ordering: .releasing)
    }

    func isAnswered(_ index: Int) -> Bool {
        self.place(index).pointee.isAnswered.load(ordering: .acquiring)
    }

    /// Whether drafts are waiting to be stored, or were at the last call of ``takePosted()``.
    @inline(__always)
    var hasCompany: Bool {
        self.lastCount > 1 || self.posted.load(ordering: .relaxed) != 0
    }

    /// Takes all waiting drafts; the caller must answer or repost each one before it releases the lock.
    ///
    /// Calls answered together tend to return together, so it waits briefly for as many drafts as the last time.
    func takePosted() -> UInt32 {
        var pauseCount = 0
        while pauseCount < Self.companyPauseCountMax,
            self.posted.load(ordering: .relaxed).nonzeroBitCount < self.lastCount
        {
            Patience.pause()
            pauseCount += 1
        }
        let taken = self.posted.exchange(0, ordering: .acquiring)
        self.lastCount = taken.nonzeroBitCount
        return taken
    }

    /// Reposts drafts that were taken and not stored.
    func post(mask: UInt32) {
        self.posted.bitwiseOr(mask, ordering: .releasing)
    }

    /// Releases the call that posted the draft.
    func answer(_ index: Int) {
        self.place(index).pointee.isAnswered.store(true, ordering: .releasing)
    }
}
