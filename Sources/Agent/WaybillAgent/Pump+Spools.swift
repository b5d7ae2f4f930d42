internal import WaybillProtocol
internal import WaybillSystem
internal import WaybillTail

/// The spools that take turns, because they share too few descriptors.
extension Pump where Hints: ~Copyable {
    /// Lets the tail follow the spools that are claimed, and says once when they are not all.
    mutating func followClaimed() {
        self.leave(self.tail.follow(spools: self.claims.allowed))
        guard self.claims.isShort, self.schedule.turns.takeNews() else { return }
        self.telemetry.spoolsTakeTurns(claimed: self.claims.count, waiting: self.claims.waiting.count)
    }

    /// Ends the turns of spools for those that wait.
    mutating func passClaims(_ now: TailTime) {
        let time = now.monotonic
        guard !self.claims.waiting.isEmpty, self.schedule.turns.takeLook(time) else { return }
        if !self.claims.hasUnserved {
            // A run that ends on its own ends after one round.
            guard !self.goal.endsByItself, self.schedule.turns.isRoundOver(time) else { return }
            self.claims.beginRound()
            self.schedule.turns.beganRound(time)
        }
        let atWork = self.tail.spoolsAtWork
        if self.claims.pass(where: { !atWork.contains($0) }) {
            self.schedule.turns.turned(time)
            return self.schedule.hurry(time)
        }
        var isResting = self.leftover == .nothing && self.connection.session.isSettled && self.streams.nextRetry == nil
        // A segment whose writer is gone is sealed and deleted first.
        if isResting, self.schedule.turns.takeCheck(time) { isResting = !self.tail.completesSegments(now) }
        guard self.connection.isReady, isResting || !self.goal.endsByItself,
            self.schedule.turns.isOver(isResting: isResting, time)
        else { return }
        self.part()
        self.choice.stay()
        _ = self.claims.pass { _ in true }
        self.schedule.turns.turned(time)
        self.schedule.hurry(time)
    }
}
