internal import WaybillData
internal import WaybillProtocol

/// What a connection's agent has said with `OPEN` about bytes that the fleet has, and what it is to hear of the store.
///
/// Without a fleet nothing is remembered, and nothing waits.
struct StorageAnswers {
    /// How an `OPEN` is answered.
    enum Opening: Equatable {
        /// With `AT`, and `SEALED` if the stream is.
        case at
        /// With `AT` and `STORED`.
        case atStored
        /// With `AT`; `SEALED` waits for the store.
        case sealedLater
    }

    /// Bytes that the fleet has and this receiver has not, with their proof.
    private struct Claim {
        let from: StreamOffset
        let proof: ProofDigest
    }

    private let membership: FleetMembership?
    private var claims: [StreamNumber: Claim] = [:]
    private var reports = PendingStorageReports()
    private var isWaiting = false

    init(_ membership: FleetMembership?) {
        self.membership = membership
    }

    private func stored(in membership: FleetMembership) -> UInt64 { UInt64(membership.stored.rawValue) }

    /// Whether nothing waits for the store.
    var isEmpty: Bool { self.reports.isEmpty }

    // MARK: Claims

    /// Remembers what an `OPEN` says.
    mutating func remember(_ claim: OpenClaim, of number: StreamNumber) {
        guard self.membership != nil else { return }
        self.claims[number] = nil
        if let from = claim.from, from > StreamOffset(0), let proof = claim.proof {
            self.claims[number] = Claim(from: from, proof: proof)
        }
    }

    /// Why a skip is not taken; `nil` if it may be.
    func fault(in range: SkippedRange, of id: StreamID, _ number: StreamNumber) -> String? {
        if range.reason == .hole, !range.hasOnlyNULs {
            return "the tail of a hole has a byte that is not NUL: send what is before the next line as a batch"
        }
        guard range.reason.isOfFleet, !self.isClaimed(range, of: id, number) else { return nil }
        return self.membership == nil
            ? "this receiver belongs to no fleet: no other one has these bytes"
            : "OPEN did not say that the fleet has the stream up to the end of this skip"
    }

    private func isClaimed(_ range: SkippedRange, of id: StreamID, _ number: StreamNumber) -> Bool {
        guard let claim = self.claims[number], let tail = range.tail else { return false }
        // The skip that has the proof follows the one of what was before the fleet.
        if range.reason == .before, range.end < claim.from { return true }
        guard claim.from == range.end else { return false }
        return StreamProof(of: id, at: range.end, tail: tail).digest == claim.proof
    }

    private mutating func settle(_ number: StreamNumber, upTo offset: StreamOffset) {
        if let claim = self.claims[number], claim.from <= offset { self.claims[number] = nil }
    }

    /// The stream is not open on the connection any more.
    mutating func forget(_ number: StreamNumber) {
        self.claims[number] = nil
    }

    // MARK: Answers

    /// Handles an `OPEN` that is about to be answered: what the stream has is owed `STORED`, or `SEALED`.
    ///
    /// What a stream has that this process has not changed was durable before it began: in a fleet that is new, the store
    /// counts from there, and `STORED` goes with the first `AT`.
    mutating func opened(
        _ number: StreamNumber, at offset: StreamOffset, seal: StreamProof?, isChanged: Bool, end: UInt64
    ) -> Opening {
        guard let membership else { return .at }
        self.settle(number, upTo: offset)
        let durableAt = isChanged ? end : membership.formerEnd.map { UInt64($0.rawValue) } ?? end
        guard durableAt > self.stored(in: membership) else {
            return seal == nil && offset > StreamOffset(0) ? .atStored : .at
        }
        if seal != nil || offset > StreamOffset(0) {
            self.reports.add(PendingStorageReports.Report(end: durableAt, offset: offset, seal: seal), of: number)
        }
        return seal == nil ? .at : .sealedLater
    }

    /// Handles an `ACK` that is about to be written.
    mutating func acknowledged(_ number: StreamNumber, upTo offset: StreamOffset, end: UInt64) {
        guard self.membership != nil else { return }
        self.settle(number, upTo: offset)
        self.reports.add(PendingStorageReports.Report(end: end, offset: offset), of: number)
    }

    /// Handles a stream's end, which is durable.
    ///
    /// - Returns: whether `SEALED` waits for the store.
    mutating func sealed(
        _ number: StreamNumber, at offset: StreamOffset, _ proof: StreamProof, end: UInt64
    ) -> Bool {
        guard self.membership != nil else { return false }
        self.reports.add(PendingStorageReports.Report(end: end, offset: offset, seal: proof), of: number)
        return true
    }

    // MARK: The store

    /// The store has more of the journal.
    mutating func advanced() {
        self.isWaiting = false
    }

    /// Whether the store has enough for something that waits.
    var isDue: Bool { self.membership.map { self.reports.isDue(at: self.stored(in: $0)) } ?? false }

    /// Removes and returns what may be told; `nil` when nothing more.
    mutating func next() -> (number: StreamNumber, report: PendingStorageReports.Report)? {
        guard let membership else { return nil }
        return self.reports.next(at: self.stored(in: membership))
    }

    /// - Returns: whether to ask for the store's next advance, because something waits and this was not asked since the last.
    mutating func beginWaiting() -> Bool {
        guard !self.reports.isEmpty, !self.isWaiting else { return false }
        self.isWaiting = true
        return true
    }
}
