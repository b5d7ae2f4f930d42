internal import NIOCore
internal import WaybillProtocol

/// When a connection must have said something.
extension ConnectionHandler {
    /// Moves the deadline; the single running timer checks it when it fires.
    func setDeadline(after amount: TimeAmount, _ context: ChannelHandlerContext) {
        self.deadline.set(to: context.eventLoop.now + amount)
        self.scheduleDeadline(context)
    }

    private func scheduleDeadline(_ context: ChannelHandlerContext) {
        guard let wake = self.deadline.schedule(context.eventLoop.now) else { return }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(deadline: wake) { bound.value.deadlineTimerFired() }
    }

    /// What a connection may ask for in one turn: at 10 µs each, an event loop is back after some milliseconds.
    static var stepCountMax: Int { 512 }
    private static var turnPause: TimeAmount { .milliseconds(1) }

    /// Leaves the rest of what came for later, so that many short messages of one peer do not keep the others waiting.
    ///
    /// A task that is due at once would run before anything else is read.
    func endTurn(_ context: ChannelHandlerContext) {
        self.isTurnOver = true
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        context.eventLoop.scheduleTask(in: Self.turnPause) {
            let handler = bound.value
            handler.isTurnOver = false
            guard let context = handler.context else { return }
            handler.process(context)
            context.flush()
            handler.readIfAllowed(context)
        }
    }

    /// How many counts fit into one line, whatever the ids are.
    private static var toldCountMax: Int { 16 }

    /// Sends what of the agent's lines was put into the quarantine, the greatest counts.
    func tell(_ counts: [QuarantineCount]) {
        guard let context, self.session.isReady else { return }
        self.write(.note(Array(counts.prefix(Self.toldCountMax))), context)
        context.flush()
    }

    /// How long a leaving agent waits at most for what is said about its last lines.
    static var farewellPatience: TimeAmount { .seconds(5) }

    /// Answers `BYE`, once everything that the agent brought was looked at, so that a `NOTE` can say what was set aside.
    func sayFarewell(until deadline: NIODeadline, _ context: ChannelHandlerContext) {
        guard self.shared.telemetry.host.hasCounted(upTo: self.durableEnd) || deadline <= context.eventLoop.now else {
            let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
            context.eventLoop.scheduleTask(in: .milliseconds(5)) {
                guard let context = bound.value.context else { return }
                bound.value.sayFarewell(until: deadline, context)
            }
            return
        }
        if let connection {
            let counts = self.shared.telemetry.host.takeQuarantined(of: connection.account)
            if !counts.isEmpty { self.write(.note(Array(counts.prefix(Self.toldCountMax))), context) }
        }
        self.write(.bye, context)
        self.linger(context)
    }

    private func deadlineTimerFired() {
        guard let context else { return }
        let due = self.deadline.fired(context.eventLoop.now)
        if due == .timeout {
            let text = "nothing whole arrived in time; send PING when there is nothing to send"
            return self.perform(self.session.refuse(.timeout, text: text), context)
        }
        if let text = self.shared.conditions.withheld { return self.refuse(text) }
        if due == .ping, self.session.isReady {
            self.write(.ping(0), context)
            context.flush()
        }
        self.scheduleDeadline(context)
    }
}

/// When a peer must have said something whole, and when it was last told something.
///
/// One timer runs at a time: it fires at the time set or one keepalive later, whichever comes first, and then runs again.
struct ConnectionDeadline {
    /// What the time has come for.
    enum Due {
        case timeout
        /// Nothing was sent for a keepalive.
        case ping
        case nothing
    }

    private let keepalive: TimeAmount
    private var time = NIODeadline.distantFuture
    private var isScheduled = false
    private var lastSent = NIODeadline.uptimeNanoseconds(0)

    init(keepalive: TimeAmount) {
        self.keepalive = keepalive
    }

    mutating func set(to time: NIODeadline) {
        self.time = time
    }

    /// The peer waits for us.
    mutating func suspend() {
        self.time = .distantFuture
    }

    mutating func sent(_ now: NIODeadline) {
        self.lastSent = now
    }

    /// - Returns: when a timer must fire; `nil` while one runs.
    mutating func schedule(_ now: NIODeadline) -> NIODeadline? {
        guard !self.isScheduled else { return nil }
        self.isScheduled = true
        return min(self.time, now + self.keepalive)
    }

    /// The timer has fired.
    mutating func fired(_ now: NIODeadline) -> Due {
        self.isScheduled = false
        if now >= self.time { return .timeout }
        return now - self.lastSent >= self.keepalive ? .ping : .nothing
    }
}
