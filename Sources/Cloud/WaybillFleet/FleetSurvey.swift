package import WaybillData
internal import WaybillJSON
package import WaybillSystem

/// What a bucket shows of its fleet, in a number of requests that does not grow with its history.
///
///     fleet-…                        the fleet
///     journal/ (folded)              the chains: a request for each thousand
///     merge/s00/ …                   the newest round, by halving; then the last rounds, at most 64
///     merge/s00/checkpoint/ (folded) the newest checkpoint
///     journal/<chain>/ …             of each chain what is not merged: one request, or some more for one of which nothing
///                                    is known
package struct FleetSurvey: Sendable {
    /// A receiver's journal in the bucket.
    package struct Chain: Hashable, Sendable {
        package let name: ChainName
        /// Where its newest piece begins; `nil` if none was found.
        package var newest: JournalPosition?
        package var newestByteCount = 0
        /// When the newest piece was written, or the receiver was heard of; ``WallTime/unknown`` if neither is known.
        package var heard = WallTime.unknown
        /// Up to which it is merged; `nil`: unknown.
        package var merged: JournalPosition?
        /// When the oldest piece that is not merged was written; `nil` if none waits.
        package var waitingSince: WallTime?
        /// When its first piece was written, if another chain of its receiver made that worth asking.
        package var began: WallTime?

        package init(name: ChainName) {
            self.name = name
        }

        /// The position up to which the bucket has it, heads of pieces included.
        package var uploaded: JournalPosition? {
            guard let newest else { return self.merged }
            if let merged, merged > newest { return merged }
            return JournalPosition(newest.rawValue + self.newestByteCount)
        }

        /// Bytes that are not merged; `nil` if that is unknown.
        package var waitingByteCount: Int? {
            guard let merged, let uploaded else { return nil }
            return self.waitingSince == nil ? 0 : max(0, uploaded.rawValue - merged.rawValue)
        }
    }

    /// Who proposed rounds lately.
    package struct Proposer: Hashable, Sendable {
        package let name: String
        /// The last round that it created.
        package var round: Int
        package var time: WallTime
        /// How many of the last rounds.
        package var count: Int

        package init(name: String, round: Int, time: WallTime, count: Int) {
            self.name = name
            self.round = round
            self.time = time
            self.count = count
        }
    }

    package struct Checkpoint: Hashable, Sendable {
        package let position: JournalPosition
        /// The last round in it, and who made it, if that can be read.
        package let round: Int?
        package let merger: String?
        package let time: WallTime
    }

    package var fleet: FleetFile?
    package var chains: [Chain] = []
    /// The last round; `nil`: there is none.
    package var round: (number: Int, time: WallTime)?
    package var proposers: [Proposer] = []
    package var checkpoint: Checkpoint?

    /// Where chains are merged up to, as a merger says.
    package typealias Positions = [ChainName: MergedChain]

    /// Runs `body` for each number below a count, several at once.
    package typealias Runner = (_ count: Int, _ body: @escaping @Sendable (Int) -> Void) -> Void

    /// At most so many rounds are read.
    private static let roundCountMax = 64
    private static let roundAge: Int64 = 600_000
    private static let checkpointByteCountMax = 8 << 20

    /// Reads the bucket.
    ///
    /// - Parameters:
    ///   - known: what mergers say; empty if none was asked.
    ///   - now: the time of this host.
    package init(
        of store: any ObjectStore, known: Positions, now: WallTime, runner: Runner
    ) throws(StoreError) {
        self.fleet = try FleetFile.read(from: store)
        let names = try ChainName.all(in: store)
        var merged = known
        var pieces: [ChainName: JournalPosition] = [:]
        try self.readCheckpoint(in: store, &merged)
        try self.readRounds(in: store, now, &merged, &pieces)
        let results = Lock<[Int: Result<Chain, StoreError>]>([:])
        let (positions, lastPieces) = (merged, pieces)
        runner(names.count) { index in
            let name = names[index]
            let result = Self.chain(name, in: store, merged: positions[name], piece: lastPieces[name])
            results.withLock { $0[index] = result }
        }
        for (_, result) in results.withLock({ $0 }).sorted(by: { $0.key < $1.key }) {
            self.chains.append(try result.get())
        }
        try self.readBeginnings(in: store, now)
    }

    // MARK: The log

    private mutating func readCheckpoint(
        in store: any ObjectStore, _ merged: inout Positions
    ) throws(StoreError) {
        let objects = NumberedObjects(store, prefix: "merge/s00/checkpoint/", suffix: ".wbc")
        var newest: NumberedObjects.Found?
        var pages = ListingPages(store, objects.prefix, isFolded: true)
        while let page = try pages.next() { newest = page.objects.compactMap(objects.found).last ?? newest }
        guard let newest else { return }
        let bytes = try store.read(newest.object.key, 0..<Self.checkpointByteCountMax)
        let json = bytes.flatMap { JSONValue($0) }
        for element in json?["chains"]?.elements ?? [] {
            guard let name = element["chain"]?.string.flatMap(ChainName.init), let position = element["position"]?.count
            else { continue }
            Self.reach(JournalPosition(position), of: name, &merged)
        }
        self.checkpoint = Checkpoint(
            position: JournalPosition(newest.number), round: json?["round"]?.count, merger: json?["merger"]?.string,
            time: json?["time"]?.count.map { WallTime(milliseconds: Int64($0)) } ?? newest.object.modified)
    }

    private static func reach(_ position: JournalPosition, of name: ChainName, _ merged: inout Positions) {
        if let known = merged[name] {
            guard known.position < position else { return }
            merged[name]?.position = position
        } else {
            merged[name] = MergedChain(position: position)
        }
    }

    /// Reads the last rounds, from the newest one back.
    ///
    /// - Parameter pieces: where each chain's last piece begins, of those that the rounds name.
    private mutating func readRounds(
        in store: any ObjectStore, _ now: WallTime, _ merged: inout Positions,
        _ pieces: inout [ChainName: JournalPosition]
    ) throws(StoreError) {
        // Other folders lie below it, whose names begin with letters.
        let objects = NumberedObjects(store, prefix: "merge/s00/", suffix: ".wbs", listed: "merge/s00/0")
        guard let newest = try objects.last() else { return }
        var proposers: [String: Proposer] = [:]
        for number in stride(from: newest.number, to: max(0, newest.number - Self.roundCountMax), by: -1) {
            // A round that is damaged stops mergers, which say so.
            guard let bytes = try store.read(MergeRound.key(of: number), nil),
                let round = MergeRound(bytes, number: number)
            else { continue }
            if self.round == nil { self.round = (number, round.time) }
            proposers[
                round.merger, default: Proposer(name: round.merger, round: number, time: round.time, count: 0)
            ].count += 1
            for piece in round.pieces where pieces[piece.chain].map({ $0 < piece.position }) ?? true {
                pieces[piece.chain] = piece.position
            }
            if now.milliseconds - round.time.milliseconds > Self.roundAge { break }
        }
        for (name, position) in pieces { Self.reach(JournalPosition(position.rawValue + 1), of: name, &merged) }
        self.proposers = proposers.values.sorted { ($1.round, $0.name) < ($0.round, $1.name) }
    }

    // MARK: Chains

    /// - Parameters:
    ///   - merged: how far it is merged, or one byte after the last piece that is.
    ///   - piece: where the last piece that a round names begins.
    private static func chain(
        _ name: ChainName, in store: any ObjectStore, merged: MergedChain?, piece: JournalPosition?
    ) -> Result<Chain, StoreError> {
        var chain = Chain(name: name)
        chain.heard = merged?.lastMark ?? .unknown
        let objects = NumberedObjects(store, prefix: name.prefix, suffix: ".wbj")
        let start = [piece, merged?.position].compactMap(\.self).min()?.rawValue ?? 0
        do throws(StoreError) {
            let page = try objects.page(from: start)
            // A chain has no gap: the first piece from there on is the next one.
            if let merged {
                chain.merged = merged.position
                let waiting = page.objects.first { $0.number >= merged.position.rawValue }
                chain.waitingSince = waiting?.object.modified
                // The position in the middle of a piece is its end.
                if let piece, merged.position.rawValue == piece.rawValue + 1 {
                    let end = page.objects.first { $0.number == piece.rawValue }
                    let next = waiting?.number ?? (piece.rawValue + (end?.object.byteCount ?? 1))
                    chain.merged = JournalPosition(next)
                }
            }
            if let newest = try objects.last(of: page) {
                chain.newest = JournalPosition(newest.number)
                chain.newestByteCount = newest.object.byteCount
                chain.heard = max(chain.heard, newest.object.modified)
            }
            return .success(chain)
        } catch {
            return .failure(error)
        }
    }

    /// Asks for the first pieces of chains whose receivers have several that were written lately.
    private mutating func readBeginnings(in store: any ObjectStore, _ now: WallTime) throws(StoreError) {
        for (_, indices) in Dictionary(grouping: self.chains.indices, by: { self.chains[$0].name.receiver }) {
            let recent = indices.filter { now.milliseconds - self.chains[$0].heard.milliseconds < Self.roundAge }
            guard recent.count > 1 else { continue }
            for index in recent {
                let objects = NumberedObjects(store, prefix: self.chains[index].name.prefix, suffix: ".wbj")
                self.chains[index].began = try objects.page(from: 0).objects.first?.object.modified
            }
        }
    }

    /// Receivers of which two chains grow at once: two receivers have one name.
    package var twins: [String] {
        Dictionary(grouping: self.chains.filter { $0.began != nil }) { $0.name.receiver }.filter {
            Self.growAtOnce($0.value)
        }.keys.sorted()
    }

    /// Whether two of a receiver's chains were written after the last one was begun.
    private static func growAtOnce(_ chains: [Chain]) -> Bool {
        let latestStart = chains.compactMap(\.began).max() ?? .unknown
        return chains.count { $0.heard > latestStart } > 1
    }

    /// Whether two receivers have this name, and both were heard of lately.
    package static func hasTwin(
        _ receiver: String, in store: any ObjectStore, now: WallTime
    ) throws(StoreError) -> Bool {
        var chains: [Chain] = []
        for name in try ChainName.all(in: store, of: receiver) {
            var chain = try Self.chain(name, in: store, merged: nil, piece: nil).get()
            guard now.milliseconds - chain.heard.milliseconds < Self.roundAge else { continue }
            let objects = NumberedObjects(store, prefix: name.prefix, suffix: ".wbj")
            chain.began = try objects.page(from: 0).objects.first?.object.modified
            chains.append(chain)
        }
        return Self.growAtOnce(chains)
    }
}

extension FleetSurvey {
    /// What the state of a merger on this host says.
    package struct LocalState: Sendable {
        package let round: Int
        package let chains: Positions
        package let missing: [MissingBytes]
        package let beforeFleet: [BytesBefore]
    }

    /// Reads a merger's state without changing it; `nil` without one.
    ///
    /// - Parameter data: the merger's data directory.
    package static func localState(in data: String, files: some FileSystem) throws(FileSystemError) -> LocalState? {
        let path = Path.join(data, "state/merge.state")
        guard let image = try StateImage.read(path, files: files) else { return nil }
        var state = MergeState()
        state.restore(image.entries)
        return LocalState(
            round: state.round, chains: state.chains, missing: state.streams.missing,
            beforeFleet: state.streams.beforeFleet)
    }
}
