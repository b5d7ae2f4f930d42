internal import WaybillProjection
internal import WaybillSystem

/// Room of a fixed size, and a queue in front of it in which accounts take turns.
///
/// Who has taken much comes after who has taken little: start-time fair queueing (Goyal, Vin, Cheng, 1996), once among
/// principals, weighted by their shares, and once among the devices of each. A newcomer is therefore next, however many
/// requests of others wait. Room that is taken is given back without its account: holding room is bounded by deadlines,
/// not by turns.
struct FairQueue<Ticket> {
    private struct Waiter {
        let start: Double
        let order: Int
        let amount: Int
        let share: Int
        let ticket: Ticket
    }

    /// One principal.
    private struct Line {
        /// Where its next turn begins, in what it has taken.
        var finish = 0.0
        var virtualTime = 0.0
        /// Where the next turn of each device begins.
        var finishes: [String?: Double] = [:]
        /// The next one is last.
        var waiters: [Waiter] = []

        /// A turn for one of its devices.
        mutating func start(_ device: String?, _ amount: Int) -> Double {
            let start = max(self.virtualTime, self.finishes[device] ?? 0)
            if self.finishes.count >= FairQueue.deviceCountMax { self.forget() }
            self.finishes[device] = start + Double(amount)
            return start
        }

        /// Forgets devices that have no advantage over newcomers; all of them if that is not enough.
        private mutating func forget() {
            self.finishes = self.finishes.filter { $0.value > self.virtualTime }
            if self.finishes.count >= FairQueue.deviceCountMax / 2 { self.finishes.removeAll() }
        }
    }

    /// Devices whose turns are remembered, of one principal.
    private static var deviceCountMax: Int { 4096 }

    var capacity: Int
    private(set) var used = 0
    private(set) var waiterCount = 0
    private var virtualTime = 0.0
    private var lines: [String: Line] = [:]
    private var order = 0

    init(capacity: Int) {
        self.capacity = capacity
    }

    /// Takes room now, or keeps the ticket until there is some.
    ///
    /// - Returns: whether it was taken now.
    mutating func request(_ amount: Int, for account: Account, _ ticket: @autoclosure () -> Ticket) -> Bool {
        precondition(amount >= 0 && account.share > 0, "\(amount) for a share of \(account.share)")
        var line = self.lines.removeValue(forKey: account.principal) ?? Line(finish: self.virtualTime)
        let start = line.start(account.device, amount)
        let isNext = self.isNext(line, start)
        if self.hasRoom(amount), isNext {
            line.virtualTime = max(line.virtualTime, start)
            self.lines[account.principal] = line
            self.take(amount, account.principal, share: account.share)
            return true
        }
        self.order += 1
        let waiter = Waiter(
            start: start, order: self.order, amount: amount, share: account.share, ticket: ticket())
        let place = line.waiters.partitionIndex { $0.start > start }
        line.waiters.insert(waiter, at: place)
        self.lines[account.principal] = line
        self.waiterCount += 1
        return false
    }

    /// Whether a request that begins at `start`, of a principal that is not in ``lines``, comes before all who wait.
    private func isNext(_ line: Line, _ start: Double) -> Bool {
        guard self.waiterCount > 0 else { return true }
        if let first = line.waiters.last, first.start <= start { return false }
        let own = max(self.virtualTime, line.finish)
        return self.lines.values.allSatisfy { $0.waiters.isEmpty || max(self.virtualTime, $0.finish) > own }
    }

    /// Takes room that needs no turn.
    mutating func take(_ amount: Int) {
        precondition(amount >= 0, "\(amount) cannot be taken")
        self.used += amount
    }

    private mutating func take(_ amount: Int, _ principal: String, share: Int) {
        let start = max(self.virtualTime, self.lines[principal]?.finish ?? 0)
        self.lines[principal]?.finish = start + Double(amount) / Double(share)
        self.virtualTime = start
        self.used += amount
    }

    /// A request larger than the whole is admitted alone.
    private func hasRoom(_ amount: Int) -> Bool {
        self.used == 0 || self.used + amount <= self.capacity
    }

    mutating func release(_ amount: Int) {
        precondition((0...self.used).contains(amount), "\(amount) of \(self.used) given back")
        self.used -= amount
    }

    /// The tickets for which there is room now, which is taken.
    mutating func admitted() -> [Ticket] {
        var tickets: [Ticket] = []
        while let principal = self.nextPrincipal, let waiter = self.lines[principal]?.waiters.last,
            self.hasRoom(waiter.amount)
        {
            self.lines[principal]?.waiters.removeLast()
            self.lines[principal]?.virtualTime = waiter.start
            self.waiterCount -= 1
            self.take(waiter.amount, principal, share: waiter.share)
            tickets.append(waiter.ticket)
        }
        precondition(self.waiterCount >= 0, "fewer than none wait")
        // Nothing is taken and no one waits: all are equal again.
        if self.used == 0, self.waiterCount == 0, !self.lines.isEmpty {
            self.lines.removeAll(keepingCapacity: self.lines.count < 64)
            self.virtualTime = 0
        }
        return tickets
    }

    private var nextPrincipal: String? {
        guard self.waiterCount > 0 else { return nil }
        var next: (principal: String, start: Double, order: Int)?
        for (principal, line) in self.lines {
            guard let order = line.waiters.last?.order else { continue }
            let start = max(self.virtualTime, line.finish)
            if let next, (next.start, next.order) <= (start, order) { continue }
            next = (principal, start, order)
        }
        return next?.principal
    }
}
