package import WaybillData
package import WaybillSystem

/// An erasure that the log has named and that is not applied yet: at this position of the merged journal, with this time.
package struct PendingErasure: Hashable, Sendable {
    package let number: Int
    /// The round that named it.
    package let round: Int
    /// Everything before it is projected when the person's lines are taken out, and nothing behind it.
    package let position: JournalPosition
    /// What records of the erasure say: of the round that named it.
    package let time: WallTime

    package init(number: Int, round: Int, position: JournalPosition, time: WallTime) {
        self.number = number
        self.round = round
        self.position = position
        self.time = time
    }
}

/// What the log has named to be erased, in a merger's state.
///
///     erasures                  how many the log has named
///     erasure/<number>          <round> <position> <milliseconds>: named and not applied
///     erased                    <position> of the last one that was applied
package struct MergedErasures: Hashable, Sendable {
    /// How many the log has named.
    package private(set) var count = 0
    /// Those that are not applied, in order.
    package private(set) var pending: [PendingErasure] = []
    /// Where the last one was applied; checkpoints up to there refer to objects that it replaces.
    package private(set) var appliedPosition: JournalPosition?

    /// How many a round names at most that were not named before.
    static var countMax: Int { 64 }

    package init() {}

    mutating func restore(_ key: String, _ value: String) {
        if key == "erasures" { self.count = Int(value) ?? 0 }
        if key == "erased" { self.appliedPosition = Int(value).map { JournalPosition($0) } }
        let numbers = value.split(separator: " ").compactMap { Int($0) }
        guard key.hasPrefix("erasure/"), let number = Int(key.dropFirst(8)), numbers.count == 3 else { return }
        self.pending.append(
            PendingErasure(
                number: number, round: numbers[0], position: JournalPosition(numbers[1]),
                time: WallTime(milliseconds: Int64(numbers[2]))))
        self.pending.sort { $0.number < $1.number }
    }

    func write(_ lines: inout StateLines) {
        guard self.count > 0 else { return }
        lines.set("erasures", String(self.count))
        for erasure in self.pending { Self.set(erasure, &lines) }
        if let position = self.appliedPosition { lines.set("erased", String(position.rawValue)) }
    }

    private static func set(_ erasure: PendingErasure, _ lines: inout StateLines) {
        lines.set(
            "erasure/\(erasure.number)",
            "\(erasure.round) \(erasure.position.rawValue) \(erasure.time.milliseconds)")
    }

    /// A round names this many; those that are new apply where it ends.
    mutating func name(
        upTo named: Int?, behind round: MergeRound, at position: JournalPosition, _ lines: inout StateLines
    ) {
        guard let named, named > self.count else { return }
        let last = min(named, self.count + Self.countMax)
        for number in (self.count + 1)...last {
            let erasure = PendingErasure(
                number: number, round: round.number, position: position, time: round.time)
            self.pending.append(erasure)
            Self.set(erasure, &lines)
        }
        self.count = last
        lines.set("erasures", String(last))
    }

    /// Makes all pending that the log has named, at a position.
    mutating func repeatAll(
        behind round: Int, at position: JournalPosition, _ time: WallTime, _ lines: inout StateLines
    ) {
        for number in 1..<(self.count + 1) where !self.pending.contains(where: { $0.number == number }) {
            let erasure = PendingErasure(number: number, round: round, position: position, time: time)
            self.pending.append(erasure)
            Self.set(erasure, &lines)
        }
        self.pending.sort { $0.number < $1.number }
    }

    mutating func applied(_ erasure: PendingErasure, _ lines: inout StateLines) {
        self.pending.removeAll { $0.number == erasure.number }
        self.appliedPosition = erasure.position
        lines.remove("erasure/\(erasure.number)")
        lines.set("erased", String(erasure.position.rawValue))
    }
}

/// Which erasures come next.
extension Merger {
    /// Looks for requests that no round has named, as often as for chains.
    ///
    /// - Returns: how many apply with the next round; `nil` if there is no new one. One that is damaged, or has another
    ///   key than the first one, is not named, nor are those behind it: what is in the bucket under a wrong name stops
    ///   no merger.
    mutating func newErasures(_ now: MonotonicTime) throws(MergeFailure) -> Int? {
        if let nextErasureLook, now < nextErasureLook { return nil }
        let known = self.erasures.count
        var count = known
        var key: [UInt8]?
        while count < known + MergedErasures.countMax {
            let number = count + 1
            guard let request = try self.readableRequest(number) else { break }
            if key == nil { key = try number == 1 ? request.key : self.readableRequest(1)?.key }
            guard request.key == key else { break }
            count = number
        }
        if count == known { self.nextErasureLook = now + self.setup.discoveryInterval }
        return count > known ? count : nil
    }

    /// - Returns: `nil` if it is absent or damaged.
    private func readableRequest(_ number: Int) throws(MergeFailure) -> ErasureRequest? {
        let found = try MergeFailure.inStore(ErasureRequest.read(number, from: self.store))
        guard case .request(let request) = found else { return nil }
        return request
    }

    /// The request that a round named.
    package func request(of erasure: PendingErasure) throws(MergeFailure) -> ErasureRequest {
        let found = try MergeFailure.inStore(ErasureRequest.read(erasure.number, from: self.store))
        guard case .request(let request) = found else { throw .erasure(erasure.number) }
        return request
    }

    /// Makes all erasures apply where the merged journal ends, for projections that begin there without a record of any.
    package mutating func repeatErasures() throws(MergeFailure) {
        var lines = StateLines()
        self.erasures.repeatAll(behind: self.round, at: self.end, self.through, &lines)
        try self.commit(lines)
    }

    /// Records that an erasure was applied to everything that the projections of this merger wrote.
    package mutating func erased(_ erasure: PendingErasure) throws(MergeFailure) {
        var lines = StateLines()
        self.erasures.applied(erasure, &lines)
        try self.commit(lines)
    }
}
