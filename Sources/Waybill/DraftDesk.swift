internal import Synchronization
internal import WaybillEvent
internal import WaybillSystem

/// Where calls of `track` prepare their drafts, and leave them to be stored by a call that is at it already.
///
///     call A   claim ─ draft ─ │ lock │ encode A, B, C ─ one write(2) ─ answers │ ─ give back
///     call B   claim ─ draft ─ post ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ answered ─ give back
///     call C   claim ─ draft ─ post ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈ answered ─ give back
///
/// `@unchecked Sendable`: a place is touched by the call that claimed it, and from ``post(_:)`` to its answer by the one
/// that took it with ``takePosted()``, which the client's state lock makes one at a time.
final class DraftDesk: @unchecked Sendable {
    /// One call's.
    struct Place: ~Copyable {
        var draft = EventDraft()
        /// What private values are hashed with, as of `saltMark`.
        var salt: PrivacySalt?
        var saltMark: UInt64 = .max
        /// What became of a draft that was posted; before `isAnswered`, nothing.
        var outcome = TrackOutcome.held
        let isAnswered = Atomic(false)
    }

    /// As many calls at the same time as have a place; more of them allocate.
    static var placeCount: Int { 16 }
    /// Half a microsecond, about: a third of what another write(2) costs.
    private static var companyPauseCountMax: Int { 24 }

    /// Made when they are claimed first.
    private let places: UnsafeMutablePointer<UnsafeMutablePointer<Place>?>
    /// A bit for each place that no call has.
    private let free = Atomic<UInt32>(1 << 16 - 1)
    /// A bit for each place with a draft that waits to be stored.
    private let posted = Atomic<UInt32>(0)

    /// How many drafts were taken last.
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

    /// A place for the calling thread alone; `nil` when all are in use.
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

    /// Leaves a draft to whoever has the client's lock next; the call keeps off its place until it is answered.
    func post(_ index: Int) {
        self.place(index).pointee.isAnswered.store(false, ordering: .relaxed)
        self.posted.bitwiseOr(1 << UInt32(truncatingIfNeeded: index), ordering: .releasing)
    }

    func isAnswered(_ index: Int) -> Bool {
        self.place(index).pointee.isAnswered.load(ordering: .acquiring)
    }

    /// Whether drafts wait to be stored, or did when ``takePosted()`` was called last.
    @inline(__always)
    var hasCompany: Bool {
        self.lastCount > 1 || self.posted.load(ordering: .relaxed) != 0
    }

    /// Takes all drafts that wait; the caller answers or posts each again before it gives the lock back.
    ///
    /// Calls that were answered together come again together: it waits a moment for as many as there were the last time.
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

    /// Posts again what was taken and not stored.
    func post(mask: UInt32) {
        self.posted.bitwiseOr(mask, ordering: .releasing)
    }

    /// Lets the call go on that posted the draft.
    func answer(_ index: Int) {
        self.place(index).pointee.isAnswered.store(true, ordering: .releasing)
    }
}
