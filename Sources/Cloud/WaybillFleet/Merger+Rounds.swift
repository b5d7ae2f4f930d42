internal import WaybillData
internal import WaybillProtocol
package import WaybillSystem

/// Which pieces come next: by the log, or proposed to it.
extension Merger {
    /// Applies the next round, which someone created or which is created here.
    ///
    /// - Returns: `.idle` if there is nothing to merge.
    /// - Throws: after ``MergeFailure/disk(_:)`` the merger must be opened again.
    package mutating func step(now: WallTime, _ monotonic: MonotonicTime) throws(MergeFailure) -> Step {
        let number = self.round + 1
        if let round = try self.readRound(number) { return try self.take(round) }
        // A clock that is ahead would seal days that are not over, and give up receivers that are heard.
        let now = self.store.earlierTime(now)
        try self.discover(monotonic)
        let pieces = try self.readableCandidates(monotonic)
        let through = max(self.through, self.reachedTime(pieces, now))
        let erasures = try self.newErasures(monotonic)
        let setAsides = try self.newSetAsides(monotonic)
        // Without pieces a round is worth while if days can be sealed behind it, or someone asked for something.
        let canSeal = !self.chains.isEmpty && self.passesBarrier(to: through)
        guard !pieces.isEmpty || canSeal || erasures != nil || !setAsides.isEmpty else { return .idle }
        // A round that was deleted must not be created again.
        guard try !RoundFloor.isBehind(self.round, self.store) else { throw .behind(round: self.round) }
        var round = MergeRound(
            number: number, merger: self.setup.name, time: now, through: through, pieces: pieces.map(\.piece))
        round.erasures = erasures
        round.setAsides = setAsides
        // Until this round, or the one in its place, is known to be new.
        self.mayHaveRevived = true
        switch try MergeFailure.inStore(self.store.create(MergeRound.key(of: number), ObjectBody(round.encoded))) {
        case .created: return try self.take(round)
        case .present:
            // Another merger was first, or this one's own attempt that nothing answered.
            guard let decided = try self.readRound(number) else { return .idle }
            return try self.take(decided)
        }
    }

    /// The round may be one that this merger created again before it was started, or before the bucket failed.
    private mutating func requireFormerOnce(of round: MergeRound) throws(MergeFailure) {
        guard self.mayHaveRevived else { return }
        if round.merger == self.setup.name { try self.requireFormer(of: round) }
        self.mayHaveRevived = false
    }

    /// A merger that was paused since it looked may have created a round again that was deleted meanwhile.
    private func requireFormer(of round: MergeRound) throws(MergeFailure) {
        guard try RoundFloor.isBehind(self.round, self.store) else { return }
        let key = MergeRound.key(of: round.number)
        do throws(MergeFailure) {
            try MergeFailure.inStore(self.store.delete(key))
        } catch {
            // Credentials may not allow it; the merger must not continue in any case.
            throw .behind(round: self.round)
        }
        throw .behind(round: self.round)
    }

    private func readRound(_ number: Int) throws(MergeFailure) -> MergeRound? {
        let object = try MergeFailure.inStore(self.store.read(MergeRound.key(of: number), nil))
        guard let object else { return nil }
        guard let round = MergeRound(object, number: number) else { throw .round(number) }
        return round
    }

    private mutating func take(_ round: MergeRound) throws(MergeFailure) -> Step {
        try self.requireFormerOnce(of: round)
        var objects: [HeldPiece] = []
        for piece in round.pieces { objects.append(try self.object(of: piece, in: round)) }
        let before = self.tally
        try self.apply(round, objects)
        for piece in round.pieces { self.look.held[piece.key] = nil }
        return .applied(round, self.tally - before)
    }

    private func object(of piece: MergeRound.Piece, in round: MergeRound) throws(MergeFailure) -> HeldPiece {
        guard let object = try self.object(at: piece.key, startingAt: piece.position) else {
            if try RoundFloor.isPassed(round.number, self.store) { throw .behind(round: self.round) }
            throw .piece(piece, round: round.number, isGone: true)
        }
        guard object.bytes.count == piece.byteCount, object.sha256 == piece.sha256 else {
            throw .piece(piece, round: round.number, isGone: false)
        }
        return object
    }

    /// A piece of the bucket, or `nil`.
    private func object(at key: String, startingAt start: JournalPosition) throws(MergeFailure) -> HeldPiece? {
        if let held = self.look.held[key] { return held }
        guard let bytes = try MergeFailure.inStore(self.store.read(key, nil)) else {
            return nil
        }
        return HeldPiece(
            bytes: bytes, sha256: SHA256Digest.text(of: bytes), extent: try self.extent(of: bytes, startingAt: start))
    }

    // MARK: Proposing

    /// A piece that may come next.
    private struct Candidate {
        let piece: MergeRound.Piece
        /// The last time in it; `nil` if it has none.
        let lastMark: WallTime?
    }

    /// Looks for chains that no one has named.
    private mutating func discover(_ now: MonotonicTime) throws(MergeFailure) {
        if let next = self.look.next, now < next, !self.chains.isEmpty { return }
        for chain in try MergeFailure.inStore(ChainName.all(in: self.store))
        where self.chains[chain] == nil && self.look.found[chain] == nil {
            self.look.found[chain] = try self.firstPosition(of: chain)
        }
        self.look.next = now + self.setup.discoveryInterval
    }

    private func firstPosition(of chain: ChainName) throws(MergeFailure) -> JournalPosition? {
        var pages = ListingPages(self.store, chain.prefix, isFolded: false)
        while let page = try MergeFailure.inStore(pages.next()) {
            for object in page.objects {
                if let position = chain.position(of: object.key) { return position }
            }
        }
        return nil
    }

    /// The next pieces; if the store gives none of any chain, its refusal is told.
    ///
    /// Who writes one chain can make its objects unreadable to others, by a key or a storage class of its own.
    private mutating func readableCandidates(_ now: MonotonicTime) throws(MergeFailure) -> [Candidate] {
        let candidates = try self.candidates(now)
        if candidates.isEmpty, let refusal = self.look.refusal { throw .store(refusal) }
        return candidates
    }

    /// The next pieces of every chain, in turn, as many as fit into a round.
    private mutating func candidates(_ now: MonotonicTime) throws(MergeFailure) -> [Candidate] {
        var candidates: [Candidate] = []
        var positions = self.chains.mapValues(\.position)
        positions.merge(self.look.found) { merged, _ in merged }
        var waiting = positions.keys.sorted()
        var byteCount = 0
        // Whether the store has answered for a chain: what it refuses of another one is not a lack of rights.
        var isGiven = false
        // The first one's turn changes, so that a round that is full is not always full of the same chains.
        let first = waiting.isEmpty ? 0 : self.round % waiting.count
        waiting = Array(waiting[first...] + waiting[..<first])
        while !waiting.isEmpty {
            var next: [ChainName] = []
            for chain in waiting {
                guard byteCount < self.setup.roundByteCountMax, candidates.count < MergeRound.pieceCountMax,
                    let position = positions[chain]
                else { return candidates }
                let key = chain.key(of: position)
                if let again = self.look.unreadable[key], now < again { continue }
                let found: HeldPiece?
                do throws(MergeFailure) {
                    found = try self.object(at: key, startingAt: position)
                } catch {
                    guard case .store(let cause) = error, cause.isOfObject else { throw error }
                    self.look.unreadable[key] = now + .seconds(60)
                    if cause.kind != .tooLarge, !isGiven { self.look.refusal = cause }
                    continue
                }
                (isGiven, self.look.refusal) = (true, nil)
                guard let object = found else { continue }
                guard let extent = object.extent else {
                    // Its chain waits until someone puts the piece back; it is not read each second until then.
                    self.look.unreadable[key] = now + .seconds(60)
                    continue
                }
                self.look.unreadable[key] = nil
                self.look.held[key] = object
                byteCount += object.bytes.count
                candidates.append(
                    Candidate(
                        piece: MergeRound.Piece(
                            chain: chain, position: position, byteCount: object.bytes.count,
                            sha256: object.sha256),
                        lastMark: extent.lastMark))
                positions[chain] = extent.end
                next.append(chain)
            }
            waiting = next
        }
        return candidates
    }

    /// The time that every live receiver has passed, with these pieces.
    private func reachedTime(_ candidates: [Candidate], _ now: WallTime) -> WallTime {
        var marks = self.chains.mapValues(\.lastMark)
        for candidate in candidates {
            if let mark = candidate.lastMark { marks[candidate.piece.chain] = mark }
        }
        // A chain without a first piece, or without a time, says nothing.
        let patience = self.setup.patience.nanoseconds / 1_000_000
        let silent = WallTime(milliseconds: now.milliseconds - patience)
        return marks.values.filter { $0 > silent }.min().map { min($0, now) } ?? silent
    }
}

extension StoreError {
    /// Whether it may concern one object alone: no piece has so many bytes, or the store does not give this one.
    fileprivate var isOfObject: Bool { [.tooLarge, .forbidden, .refused].contains(self.kind) }
}

/// A piece that was read, with what is computed of it once.
struct HeldPiece {
    let bytes: [UInt8]
    let sha256: String
    /// `nil` if the bytes are no piece that begins where their name says.
    let extent: PieceExtent?
}

/// How far a piece goes.
struct PieceExtent {
    let base: JournalPosition
    let end: JournalPosition
    let lastMark: WallTime?
}

extension Merger {
    /// - Returns: `nil` if the bytes are no piece that begins at `start`.
    private func extent(of object: [UInt8], startingAt start: JournalPosition) throws(MergeFailure) -> PieceExtent? {
        guard let base = object.withUnsafeBytes({ JournalPiece.base(of: $0, startingAt: start) }),
            base.rawValue + object.count > start.rawValue
        else { return nil }
        var scanner = SegmentScanner(bytes: object, base: base, files: self.files)
        return PieceExtent(
            base: base, end: JournalPosition(base.rawValue + object.count),
            lastMark: try MergeFailure.onDisk(scanner.lastTime()))
    }
}
