package import WaybillSystem

/// Whether the receiver of a connection is there, by what was sent and heard, and by what the kernel knows of its peer.
///
///     sent, heard, acknowledged ─▶ Liveness ─▶ PING, ask the kernel, close
///                           TCPPeer ───▶
///
/// A receiver that pauses reading, for a quota or for its disk, is silent and alive: its kernel acknowledges what it has
/// room for, and answers probes where it has none. So silence ends a connection after a quarter of a minute only where
/// that kernel is silent, too; otherwise, and where no one can ask it, after the protocol's `idle_ms`.
///
/// It has no clock, no socket and no messages: its driver tells it what happened, and does what it asks for.
///
/// - SeeAlso: `Protocol/protocol.md`, section 12.
package struct Liveness: Sendable {
    package enum Step: Equatable, Sendable {
        /// Send a `PING`.
        case ping
        /// Ask the kernel, and pass on what it says.
        case askKernel
        /// Close the connection: nothing was heard for so long.
        case close(after: Duration)
    }

    package enum Report: Equatable, Sendable {
        /// Nothing at all was heard.
        case unheard(for: Duration)
        /// The receiver is heard, and acknowledges nothing of what was sent.
        case unacknowledged(for: Duration)
        /// It acknowledges again.
        case resumed
    }

    /// How long `READY` may take.
    private static let handshake = Duration.seconds(20)
    /// How long both the receiver and its kernel are silent when the connection is dead.
    private static let dead = Duration.seconds(15)
    /// A try may be lost on the way to a peer that is there; the kernel's probes may be a minute apart.
    private static let deadTryCount = 2
    /// The silence in which the kernel is asked, and how long until it is asked again.
    private static let doubt = Duration.seconds(5)
    /// The same, once the silence is long enough for a dead connection.
    private static let lateDoubt = Duration.seconds(1)

    /// How long the receiver keeps a silent connection; `nil` before `READY`.
    private var idle: Duration?
    private var heardAt: MonotonicTime
    package private(set) var sentAt: MonotonicTime
    /// When something was first sent since something was heard.
    private var firstSentAt: MonotonicTime?
    private var askAt: MonotonicTime
    /// Since when something is in flight without a pause.
    private var inFlightSince: MonotonicTime?
    /// When a receiver last acknowledged or stored something, on this connection or an earlier one.
    package private(set) var acknowledgedAt: MonotonicTime
    private var watch = SilenceWatch()
    /// The last `PING` that is not answered yet.
    private var unansweredPing: UInt64?

    package init(at now: MonotonicTime) {
        self.heardAt = now
        self.sentAt = now
        self.askAt = now
        self.acknowledgedAt = now
    }

    // MARK: What happened

    /// A connection begins or ends.
    package mutating func reset(at now: MonotonicTime) {
        let acknowledgedAt = self.acknowledgedAt
        self = Liveness(at: now)
        self.acknowledgedAt = acknowledgedAt
    }

    /// - Parameter idle: how long the receiver keeps a silent connection.
    package mutating func becameReady(idle: Duration) {
        self.idle = idle
    }

    package mutating func heard(at now: MonotonicTime) {
        self.heardAt = now
        self.firstSentAt = nil
        self.askAt = now + Self.doubt
    }

    package mutating func sent(at now: MonotonicTime) {
        self.sentAt = now
        self.firstSentAt = self.firstSentAt ?? now
    }

    /// - Parameter isAlone: whether no other batch is in flight.
    package mutating func sentBatch(isAlone: Bool, at now: MonotonicTime) {
        self.sent(at: now)
        if isAlone { self.inFlightSince = now }
    }

    package mutating func acknowledged(at now: MonotonicTime) {
        self.acknowledgedAt = now
    }

    /// The receiver asks whether this side is there.
    package mutating func heardPing(_ number: UInt64) {
        self.unansweredPing = number
    }

    /// The number to answer now: one answer shows that this side is there, however many questions came.
    package mutating func takePing() -> UInt64? {
        self.unansweredPing.take()
    }

    // MARK: What to do

    /// - Parameter isInFlight: whether batches are not acknowledged yet.
    package mutating func step(isInFlight: Bool, at now: MonotonicTime) -> Step? {
        let silence = now - self.heardAt
        if silence >= self.idle ?? Self.handshake { return .close(after: silence) }
        guard let idle else { return nil }
        if now - self.sentAt >= idle / 3 { return .ping }
        guard self.isAnswerDue(isInFlight), now >= self.askAt else { return nil }
        self.askAt = now + (silence < Self.dead ? Self.doubt : Self.lateDoubt)
        return .askKernel
    }

    /// What follows from the kernel's answer.
    package mutating func weigh(_ peer: TCPPeer, isInFlight: Bool, at now: MonotonicTime) -> Step? {
        let silence = now - self.heardAt
        guard self.idle != nil, self.isAnswerDue(isInFlight), silence >= Self.doubt else { return nil }
        guard peer.unacknowledgedByteCount > 0 else {
            // Its kernel owes nothing: only something more to acknowledge shows whether it is still there.
            return now - self.sentAt >= Self.doubt ? .ping : nil
        }
        let unanswered = now - max(self.heardAt, self.firstSentAt ?? self.heardAt)
        let isDead =
            unanswered >= Self.dead && peer.silence >= Self.dead && peer.unansweredTryCount >= Self.deadTryCount
        return isDead ? .close(after: silence) : nil
    }

    /// When the next step is due.
    package func nextStep(isInFlight: Bool) -> MonotonicTime {
        guard let idle else { return self.heardAt + Self.handshake }
        let due = min(self.heardAt + idle, self.sentAt + idle / 3)
        return self.isAnswerDue(isInFlight) ? min(due, self.askAt) : due
    }

    private func isAnswerDue(_ isInFlight: Bool) -> Bool { isInFlight || self.firstSentAt != nil }

    // MARK: What to tell

    /// Whether the receiver has acknowledged nothing for a minute of what is in flight.
    package func isStalled(isInFlight: Bool, at now: MonotonicTime) -> Bool {
        self.owingSince(isInFlight).map { SilenceWatch.isSilent($0, now) } ?? false
    }

    /// Whether to log that acknowledgements stay away, or that they come again.
    package mutating func report(isInFlight: Bool, at now: MonotonicTime) -> Report? {
        switch self.watch.look(self.owingSince(isInFlight), at: now) {
        case .silent(let duration):
            // A receiver that is there is heard at least every third of this.
            let isHeard = self.idle.map { now - self.heardAt < $0 / 2 } ?? false
            return isHeard ? .unacknowledged(for: duration) : .unheard(for: now - self.heardAt)
        case .resumed: return .resumed
        case nil: return nil
        }
    }

    /// Since when the receiver owes an acknowledgement.
    private func owingSince(_ isInFlight: Bool) -> MonotonicTime? {
        guard isInFlight, let inFlightSince else { return nil }
        return max(self.acknowledgedAt, inFlightSince)
    }
}

/// Decides when to log that a receiver takes what is sent and acknowledges nothing: after a minute, then once a minute, and
/// once that it acknowledges again.
package struct SilenceWatch: Sendable {
    package enum Report: Equatable, Sendable {
        case silent(for: Duration)
        case resumed
    }

    /// How long a receiver may leave what was sent unanswered, and how long a report stands.
    package static let patience = Duration.seconds(60)

    private var toldAt: MonotonicTime?

    package init() {}

    /// - Parameter since: since when the receiver owes an acknowledgement; `nil` while it owes none.
    package mutating func look(_ since: MonotonicTime?, at now: MonotonicTime) -> Report? {
        guard let since, Self.isSilent(since, now) else {
            defer { self.toldAt = nil }
            return self.toldAt == nil ? nil : .resumed
        }
        guard self.toldAt.map({ now - $0 >= Self.patience }) ?? true else { return nil }
        self.toldAt = now
        return .silent(for: now - since)
    }

    /// The connection has ended: what comes next is another matter.
    package mutating func reset() {
        self.toldAt = nil
    }

    package static func isSilent(_ since: MonotonicTime, _ now: MonotonicTime) -> Bool {
        now - since > Self.patience
    }
}
