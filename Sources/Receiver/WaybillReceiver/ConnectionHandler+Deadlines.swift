internal import NIOCore
internal import WaybillProtocol

/// When a connection must have said something.
extension ConnectionHandler {
    /// Moves the deadline; the single running timer checks it when it fires.
    func setDeadline(after amount: TimeAmount, _ context: ChannelHandlerContext) {
        self.deadline = context.eventLoop.now + amount
        self.scheduleDeadline(context)
    }

    func scheduleDeadline(_ context: ChannelHandlerContext) {
        guard !self.isDeadlineScheduled else { return }
        self.isDeadlineScheduled = true
        let wake = min(self.deadline, context.eventLoop.now + self.shared.timeouts.keepalive)
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

    func deadlineTimerFired() {
        self.isDeadlineScheduled = false
        guard let context else { return }
        let now = context.eventLoop.now
        if now >= self.deadline {
            let text = "nothing whole arrived in time; send PING when there is nothing to send"
            return self.perform(self.session.refuse(.timeout, text: text), context)
        }
        if let text = self.shared.conditions.withheld { return self.refuse(text) }
        if self.session.isReady, now - self.lastSent >= self.shared.timeouts.keepalive {
            self.write(.ping(0), context)
            context.flush()
        }
        self.scheduleDeadline(context)
    }
}
