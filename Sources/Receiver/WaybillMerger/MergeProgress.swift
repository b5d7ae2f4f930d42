internal import WaybillData
internal import WaybillFleet
internal import WaybillReceiver
internal import WaybillSystem

/// How a merger stands: its threads write it, and metrics, status and probes read it.
final class MergeProgress: Sendable {
    struct Standing: Sendable {
        /// The rounds that were applied since the start, and the number of the last one.
        var roundCount = 0
        var round = 0
        /// Who created the last round.
        var roundMerger: String?
        var tally = MergeTally()
        /// Days that end by then can be sealed.
        var through = WallTime.unknown
        /// Everything that was in the bucket by then is merged, as far as is known.
        var caughtUp: WallTime
        /// When the bucket last answered.
        var answered = WallTime.unknown
        var chains: [ChainName: MergedChain] = [:]
        var missing: [MissingBytes] = []
        /// What receivers took before they belonged to the fleet, and no piece has.
        var beforeFleet: [BytesBefore] = []
        /// Why the merger does not continue; `nil` while it does.
        var failure: MergeFailure?
        var createdCount = 0
        var presentCount = 0
        var differentCount = 0
        var publishFailureCount = 0
        var publishedByteCount = 0
        /// Why the last attempt to publish failed, as a code.
        var publishFailure: String?

        var missingByteCount: Int {
            self.missing.reduce(0) { sum, missing in
                let (total, overflow) = sum.addingReportingOverflow(missing.byteCount)
                return overflow ? .max : total
            }
        }

        /// How long what the bucket has may wait already.
        func lag(at now: WallTime) -> Duration {
            .milliseconds(max(0, now.milliseconds - self.caughtUp.milliseconds))
        }

        /// Receivers whose newest chain has been silent for longer than `patience`, and for less than a week: after that
        /// they count as taken away.
        func staleChains(patience: Duration) -> [ChainName] {
            let newest = Dictionary(grouping: self.chains) { $0.key.receiver }.compactMap { _, chains in
                chains.max { ($0.value.lastMark.milliseconds, $0.key) < ($1.value.lastMark.milliseconds, $1.key) }
            }
            let age = { (mark: WallTime) in self.answered.milliseconds - mark.milliseconds }
            let limit = patience.nanoseconds / 1_000_000
            return newest.filter { _, chain in
                chain.lastMark != .unknown && age(chain.lastMark) > limit && age(chain.lastMark) < Self.memory
            }.map(\.key).sorted()
        }

        /// Milliseconds.
        private static let memory: Int64 = 7 * 86_400_000
    }

    private struct State {
        var standing: Standing
        var lastTurn: MonotonicTime
        /// The missing ranges are looked for again then: it takes at most a twentieth of the time.
        var nextSearch: MonotonicTime
    }

    private let state: Lock<State>
    private let clock: any SystemClock
    /// The merger's thread counts as hanging when it has not turned for so long; one request to the bucket may take a
    /// minute.
    static let patience = Duration.seconds(300)

    init(clock: any SystemClock) {
        self.clock = clock
        let now = clock.monotonicTime()
        self.state = Lock(
            State(standing: Standing(caughtUp: clock.wallTime()), lastTurn: now, nextSearch: now))
    }

    var standing: Standing { self.state.withLock { $0.standing } }

    /// The merger's thread continues.
    func turned() {
        let now = self.clock.monotonicTime()
        self.state.withLock { $0.lastTurn = now }
    }

    var isAlive: Bool {
        let now = self.clock.monotonicTime()
        return now - self.state.withLock({ $0.lastTurn }) < Self.patience
    }

    /// The merger was opened, or made a step.
    ///
    /// - Parameter step: `nil`: none yet.
    func stepped<Files>(_ step: Merger<Files>.Step?, _ merger: borrowing Merger<Files>) {
        let (now, start) = (self.clock.wallTime(), self.clock.monotonicTime())
        let isDue = self.state.withLock { $0.nextSearch <= start }
        let missing = isDue ? merger.missing : nil
        let beforeFleet = isDue ? merger.beforeFleet : []
        let end = self.clock.monotonicTime()
        let (round, through, chains) = (merger.round, merger.through, merger.chains)
        self.state.withLock { state in
            state.lastTurn = end
            state.standing.round = round
            state.standing.through = through
            state.standing.chains = chains
            if let missing {
                state.standing.missing = missing
                state.standing.beforeFleet = beforeFleet
                state.nextSearch = end + max(.seconds(1), (end - start) * 20)
            }
            switch step {
            case nil: break
            case .idle:
                state.standing.failure = nil
                state.standing.answered = now
                state.standing.caughtUp = now
            case .applied(let round, let tally):
                state.standing.failure = nil
                state.standing.answered = now
                state.standing.roundCount += 1
                state.standing.roundMerger = round.merger
                state.standing.tally = state.standing.tally + tally
                // What these chains have after it is unknown, and no older than this.
                let marks = Set(round.pieces.map(\.chain)).compactMap { chains[$0]?.lastMark }
                if let slowest = marks.filter({ $0 != .unknown }).min() { state.standing.caughtUp = min(slowest, now) }
            }
        }
    }

    func failed(_ failure: MergeFailure) {
        self.state.withLock { $0.standing.failure = failure }
    }

    func published(created: Int, present: Int, different: Int, byteCount: Int) {
        self.state.withLock { state in
            state.standing.createdCount += created
            state.standing.presentCount += present - different
            state.standing.differentCount += different
            state.standing.publishedByteCount += byteCount
        }
    }

    /// A pass over the sealed days ended.
    func publishEnded(_ failure: UploadFailure?) {
        let code = failure?.code
        self.state.withLock { state in
            state.standing.publishFailure = code
            if code != nil { state.standing.publishFailureCount += 1 }
        }
    }
}

extension MergeFailure {
    /// A short word of a closed set: for metrics.
    enum Code: String, CaseIterable {
        case store, disk, journal, foreign, fleet, piece, round, behind, checkpoint, erasure
        case poison
    }

    var code: Code {
        switch self {
        case .store: .store
        case .disk: .disk
        case .journal: .journal
        case .foreign: .foreign
        case .otherFleet: .fleet
        case .piece: .piece
        case .round: .round
        case .behind: .behind
        case .noCheckpoint: .checkpoint
        case .erasure, .erasureKey: .erasure
        case .setAsideGone, .hasRead: .poison
        }
    }

    /// What a probe is told; it names no file and no one.
    var problem: String {
        switch self {
        case .store(let error):
            "the bucket is not reached or refuses (\(error.kind.rawValue)): nothing is merged, receivers keep on"
        case .disk(let error): "the disk refuses the merged journal (\(error.code)): nothing is merged"
        case .journal: "the merged journal cannot be read: move the data directory away and start again"
        case .foreign: "the data directory is not a merger's"
        case .otherFleet: "the data directory belongs to another fleet"
        case .piece(_, let round, let isGone):
            "a piece that round \(round) names \(isGone ? "is missing" : "was changed") in the bucket: put it back"
        case .round(let number): "round \(number) in the bucket is damaged: put it back"
        case .behind(let round): "the rounds behind round \(round) are deleted: start again, from the newest checkpoint"
        case .noCheckpoint: "no checkpoint in the bucket is whole, and the first rounds are deleted: put them back"
        case .erasure(let number): "erasure \(number) in the bucket is missing or damaged: put it back"
        case .erasureKey: "the data directory's record of erasures is not the fleet's: move the directory away"
        case .setAsideGone(let number): "set-aside request \(number) in the bucket is missing or damaged: put it back"
        case .hasRead:
            "a line that the fleet does not read is in the archive: start again, from a checkpoint without it"
        }
    }
}
