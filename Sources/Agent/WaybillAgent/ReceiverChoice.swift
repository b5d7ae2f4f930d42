internal import WaybillProtocol
internal import WaybillSystem

/// Which receiver is connected to, when the next attempt is due, and how long a connection to one of a fleet lasts.
///
///     next ──▶ address ──accepted──▶ settle (fleet): an age, then renewal ──▶ next: from the first one again
///      ▲          └─failed: wait ── turned away: after it ── unknown one within a minute: its address is barred ─┐
///      └─────────────────────────────────────────────────────────────────────────────────────────────────────────┘
struct ReceiverChoice {
    enum Attempt: Equatable {
        case connect(NetworkAddress)
        /// None may be tried before.
        case wait(until: MonotonicTime)
    }

    /// How long after a receiver that was not known, or came back older, another such one is taken at its address: each
    /// asks for every file.
    private static let unfamiliarPause = Duration.seconds(60)
    /// How long a connection that has its age waits for what is in flight.
    private static let renewalPatience = Duration.seconds(10)

    /// Where the present connection goes, or the last one went.
    private(set) var address = ""
    /// Of the next attempt, among the receivers in their order.
    private var index = 0
    private var reconnection: Reconnection
    /// When to connect again so that agents stay spread over a fleet; `nil` without one.
    private var renewalAt: MonotonicTime?
    /// For the times of renewals.
    private var dice: SeededGenerator
    /// When a receiver was last met of which nothing was known, or that came back older, by address.
    private var unfamiliarAt: [String: MonotonicTime] = [:]
    /// Addresses that are not tried for a while.
    private var barredUntil: [String: MonotonicTime] = [:]

    init(seed: UInt64) {
        self.reconnection = Reconnection(SeededGenerator(seed: seed))
        self.dice = SeededGenerator(seed: ~seed)
    }

    // MARK: The next attempt

    /// Takes the next receiver in turn.
    mutating func next(of receivers: [NetworkAddress], _ now: MonotonicTime) -> Attempt {
        for _ in receivers {
            let receiver = receivers[self.index % receivers.count]
            self.index += 1
            if let time = self.barredUntil[receiver.description], time > now { continue }
            self.address = receiver.description
            return .connect(receiver)
        }
        return .wait(until: self.barredUntil.values.min() ?? now + .seconds(1))
    }

    /// The receiver wants no connection now: the next attempt begins with the one after it.
    mutating func turnAway(in receivers: [NetworkAddress]) {
        if let index = receivers.firstIndex(where: { $0.description == self.address }) { self.index = index + 1 }
    }

    /// The next attempt begins with the first receiver.
    mutating func beginWithFirst() {
        self.index = 0
    }

    /// The next attempt is made at the same receiver.
    mutating func stay() {
        self.index = max(0, self.index - 1)
    }

    /// - Returns: how long to wait for the next attempt.
    mutating func failed(_ cause: Reconnection.Cause, at now: MonotonicTime) -> Duration {
        self.reconnection.failed(cause, at: now)
    }

    /// A receiver has acknowledged something, or this agent ended the connection itself.
    mutating func succeeded() {
        self.reconnection.succeeded()
    }

    // MARK: The present receiver

    /// Whether a receiver that is not known, or came back older, is taken at the present address; if not, the address is
    /// barred for a while.
    mutating func admitsUnfamiliar(at now: MonotonicTime) -> Bool {
        if let last = self.unfamiliarAt[self.address], now - last < Self.unfamiliarPause {
            self.barredUntil[self.address] = last + Self.unfamiliarPause
            return false
        }
        self.unfamiliarAt[self.address] = now
        return true
    }

    /// A receiver has accepted this agent.
    mutating func accepted(at now: MonotonicTime) {
        self.reconnection.accepted(at: now)
    }

    /// The receiver is one of a fleet: the connection has an age, and the next attempt begins with the first receiver.
    ///
    /// - Parameters:
    ///   - age: how long it lasts, more or less a fifth.
    ///   - isNew: whether this agent learns only now that there is a fleet, from a receiver that holds nothing of it. It
    ///     is at the receiver that it was told first, as all agents are then, and goes to its own. One that holds
    ///     something stood alone before: it says first what the fleet has of that.
    mutating func settle(among receivers: [NetworkAddress], age: Duration, isNew: Bool, at now: MonotonicTime) {
        self.index = 0
        let isElsewhere = isNew && receivers.first?.description != self.address
        self.renewalAt = isElsewhere ? now : now + age * Int.random(in: 800...1200, using: &self.dice) / 1000
    }

    /// The connection has ended.
    mutating func ended() {
        self.renewalAt = nil
    }

    // MARK: Renewal

    /// Whether the connection has its age: nothing more is sent on it.
    func isRenewing(_ now: MonotonicTime) -> Bool {
        self.renewalAt.map { $0 <= now } ?? false
    }

    /// Whether a connection that has its age ends: what was sent is acknowledged, or has taken too long.
    func isRenewalDue(isInFlight: Bool, _ now: MonotonicTime) -> Bool {
        self.isRenewing(now) && (!isInFlight || self.renewalAt.map { $0 + Self.renewalPatience <= now } ?? false)
    }

    /// When the age of the connection is looked at next.
    func nextRenewal(_ now: MonotonicTime) -> MonotonicTime? {
        self.renewalAt.map { $0 <= now ? $0 + Self.renewalPatience : $0 }
    }
}
