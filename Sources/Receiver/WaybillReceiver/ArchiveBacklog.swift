internal import WaybillData
internal import WaybillProjection

/// How much work may wait in front of the archive, and whose turn it is to add some.
///
/// The cost of a batch is an assumption, made from its header; how long the archive really takes for what it has been
/// assumed to take is measured, and moves the bound.
struct ArchiveBacklog<Ticket> {
    /// The archive's time that may wait in front of it.
    private static var backlogNanosecondsMax: Int { 400_000_000 }
    private static var shortBacklogNanosecondsMax: Int { 100_000_000 }
    private static var measuredCostMin: Int { 1_000_000 }
    /// Costs of single batches that are remembered; past that, neighbours are taken together.
    private static var batchCountMax: Int { 8192 }

    private struct Batch {
        var end: JournalPosition
        var cost: Int
        var shortCost: Int
        /// `nil` once neighbours of several accounts are taken together.
        var account: Account?
    }

    private enum State {
        /// No one waits: the archive does not work, or not yet.
        case stopped
        /// No one waits before the archive has read up to there, and little is in front of it.
        case catchingUp(to: JournalPosition)
        case following
    }

    private var state = State.stopped
    private var long = FairQueue<Ticket>(capacity: Int.max / 2)
    private var short = FairQueue<Ticket>(capacity: Int.max / 2)
    /// What is durable and not archived, in the journal's order, from `first` on.
    private var batches: [Batch] = []
    private var first = 0
    private var position = JournalPosition(0)
    private var journalEnd: JournalPosition
    /// Nanoseconds that the archive took, and that it was assumed to take; older ones count less.
    private var took = 0.0
    private var assumed = 0.0

    init(journalEnd: JournalPosition) {
        self.journalEnd = journalEnd
    }

    /// What the archive takes for a nanosecond of assumed cost.
    private var factor: Double {
        self.assumed > 0 ? min(max(self.took / self.assumed, 0.05), 50) : 1
    }

    var backlogNanoseconds: Int { Int(Double(self.long.used + self.short.used) * self.factor) }

    mutating func request(
        _ cost: Int, isShort: Bool, for account: Account, _ ticket: @autoclosure () -> Ticket
    ) -> Bool {
        isShort
            ? self.short.request(cost, for: account, ticket()) : self.long.request(cost, for: account, ticket())
    }

    mutating func release(_ cost: Int, short: Int) {
        self.long.release(cost)
        self.short.release(short)
    }

    mutating func admitted() -> [Ticket] {
        self.short.admitted() + self.long.admitted()
    }

    mutating func committed(_ cost: Int, short: Int, of account: Account, end: JournalPosition) {
        self.journalEnd = max(self.journalEnd, end)
        if case .stopped = self.state { return self.release(cost, short: short) }
        guard end > self.position else { return self.release(cost, short: short) }
        let last = self.batches.last?.end ?? JournalPosition(0)
        precondition(end > last, "a batch that ends at \(end) comes after one that ends at \(last)")
        if self.batches.count - self.first >= Self.batchCountMax {
            let last = self.batches.count - 1
            self.batches[last].end = end
            self.batches[last].cost += cost
            self.batches[last].shortCost += short
            if self.batches[last].account != account { self.batches[last].account = nil }
        } else {
            self.batches.append(Batch(end: end, cost: cost, shortCost: short, account: account))
        }
    }

    /// Who brought the next batch that the archive reads, which ends there; `nil` if that is not known.
    func account(ofBatchEndingAt end: JournalPosition) -> Account? {
        guard self.first < self.batches.count, self.batches[self.first].end == end else { return nil }
        return self.batches[self.first].account
    }

    mutating func start(at position: JournalPosition) {
        self.stop()
        self.position = position
        self.state = .catchingUp(to: self.journalEnd)
        self.follow()
    }

    mutating func stop() {
        self.state = .stopped
        self.giveBack { _ in true }
        self.long.capacity = Int.max / 2
        self.short.capacity = Int.max / 2
    }

    mutating func archived(upTo position: JournalPosition, nanoseconds: Int) {
        if case .stopped = self.state { return }
        self.position = max(self.position, position)
        let cost = self.giveBack { $0.end <= position }
        // What is short says little: it takes as long as its system calls.
        if cost >= Self.measuredCostMin {
            self.took = self.took * 0.95 + Double(nanoseconds)
            self.assumed = self.assumed * 0.95 + Double(cost)
        }
        self.follow()
    }

    /// Gives back the cost of batches from the first one on.
    @discardableResult private mutating func giveBack(while isArchived: (Batch) -> Bool) -> Int {
        var cost = 0
        while self.first < self.batches.count, isArchived(self.batches[self.first]) {
            let batch = self.batches[self.first]
            self.release(batch.cost, short: batch.shortCost)
            cost += batch.cost + batch.shortCost
            self.first += 1
        }
        if self.first == self.batches.count || self.first > Self.batchCountMax {
            self.batches.removeFirst(self.first)
            self.first = 0
        }
        return cost
    }

    /// Bounds the backlog once the archive has caught up.
    private mutating func follow() {
        let long = Int(Double(Self.backlogNanosecondsMax) / self.factor)
        let short = Int(Double(Self.shortBacklogNanosecondsMax) / self.factor)
        switch self.state {
        case .stopped: return
        case .catchingUp(let end):
            guard self.position >= end, self.long.used <= long, self.short.used <= short else { return }
            self.state = .following
        case .following: break
        }
        self.long.capacity = long
        self.short.capacity = short
    }
}
