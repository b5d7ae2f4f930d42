import Testing
import WaybillSystem

@testable import WaybillAgent
@testable import WaybillTail

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

struct RunGoalTests {
    private static let patience = Duration.seconds(30)
    private let stream = StreamKey(slot: 1, generation: 0)
    private let once = AgentMode.once(patience: Self.patience)
    private let round = AgentMode.round(.whatWasThere, patience: Self.patience)

    /// What is left while a receiver is there, which acknowledged something at second 0.
    private func rest(_ change: (inout RunGoal.Rest) -> Void = { _ in }) -> RunGoal.Rest {
        var rest = RunGoal.Rest(acknowledgedAt: time(0))
        rest.isReady = true
        change(&rest)
        return rest
    }

    @Test func `a run that continues ends only after it was asked to`() {
        var goal = RunGoal(.continuous)
        #expect(!goal.mayEnd)
        #expect(goal.end(rest { $0.isSettled = true }, at: time(1000)) == nil)
        #expect(goal.nextLook(unreadySince: time(0)) == nil)
        goal.stop(by: time(10))
        #expect(goal.mayEnd && goal.isStopping && !goal.endsByItself)
        #expect(goal.nextLook(unreadySince: time(0)) == time(10))
        #expect(goal.end(rest(), at: time(9)) == nil)
        #expect(goal.end(rest { $0.isSettled = true }, at: time(9)) == .drained)
        #expect(goal.end(rest { $0.isReady = false }, at: time(9)) == .stopped)
        #expect(goal.end(rest(), at: time(10)) == .stopped)
        #expect(goal.beginFarewell(at: time(10)) == false)
    }

    @Test func `a run that ends on its own looks once more before it is settled`() {
        var goal = RunGoal(once)
        // The look that has found it all.
        goal.lookedAtEverything()
        #expect(goal.settle(awaitsStorage: false, at: time(0)) == .lookAgain)
        #expect(goal.settle(awaitsStorage: false, at: time(0)) == .wait)
        goal.lookedAtEverything()
        goal.foundMore()
        #expect(goal.settle(awaitsStorage: false, at: time(1)) == .lookAgain)
        goal.lookedAtEverything()
        #expect(goal.settle(awaitsStorage: false, at: time(1)) == .settled)
        #expect(goal.end(rest { $0.isSettled = true }, at: time(1)) == .drained)
    }

    @Test func `a round waits a few seconds for the fleet's store, and a run longer than its patience`() {
        var goals = [RunGoal(round), RunGoal(once)]
        for index in goals.indices {
            _ = goals[index].settle(awaitsStorage: true, at: time(0))
            goals[index].lookedAtEverything()
            #expect(goals[index].settle(awaitsStorage: true, at: time(0)) == .wait)
            #expect(goals[index].settle(awaitsStorage: true, at: time(4)) == .wait)
        }
        #expect(goals[0].nextLook(unreadySince: nil) == time(5))
        #expect(goals[0].settle(awaitsStorage: true, at: time(5)) == .settled)
        #expect(goals[1].settle(awaitsStorage: true, at: time(5)) == .wait)
        // Something was sent in between: the time begins again.
        goals[0].isBusy()
        #expect(goals[0].settle(awaitsStorage: true, at: time(6)) == .wait)
        #expect(goals[0].settle(awaitsStorage: false, at: time(7)) == .settled)
        #expect(goals[0].nextLook(unreadySince: nil) == nil)
        #expect(goals[1].end(rest { $0.awaitsStorage = true }, at: time(30)) == nil)
        #expect(goals[1].end(rest { $0.awaitsStorage = true }, at: time(31)) == .unstored)
    }

    @Test func `a run gives up when no receiver accepts it for its patience`() {
        let goal = RunGoal(once)
        #expect(goal.nextLook(unreadySince: time(5)) == time(35))
        #expect(goal.end(rest { $0.unreadySince = time(5) }, at: time(35)) == nil)
        #expect(goal.end(rest { $0.unreadySince = time(5) }, at: time(36)) == .unreachable)
    }

    @Test func `a run gives up when only refused files are left that it would not see accepted`() {
        let goal = RunGoal(once)
        let soon = rest { ($0.isAnswered, $0.nextRetry) = (true, time(20)) }
        #expect(goal.end(soon, at: time(30)) == nil)
        #expect(goal.end(soon, at: time(31)) == .unreachable)
        var late = rest { ($0.isAnswered, $0.nextRetry) = (true, time(60)) }
        #expect(goal.end(late, at: time(1)) == nil)
        late.hasShippedAll = true
        #expect(goal.end(late, at: time(1)) == .unreachable)
        late.isAnswered = false
        #expect(goal.end(late, at: time(31)) == nil)
    }

    @Test func `a round ships what was there when it began`() {
        var goal = RunGoal(round)
        #expect(goal.needsNoReceiver && !goal.isBounded)
        #expect(!goal.isForNextRound(stream, from: 5, to: 9))
        goal.begin { [self.stream: 5] }
        #expect(goal.isBounded)
        #expect(!goal.isForNextRound(stream, from: 4, to: 9))
        #expect(goal.isForNextRound(stream, from: 5, to: 9))
        #expect(!goal.isForNextRound(stream, from: 9, to: 9))
        #expect(goal.isForNextRound(StreamKey(slot: 2, generation: 0), from: 0, to: 1))
        var whole = RunGoal(.round(.untilNothingIsLeft, patience: Self.patience))
        whole.begin { [self.stream: 5] }
        #expect(!whole.isBounded)
    }

    @Test func `the answer to BYE is awaited while there is a connection, and not for long`() {
        var goal = RunGoal(once)
        #expect(!goal.isParting)
        #expect(goal.beginFarewell(at: time(3)) == true)
        #expect(goal.isParting)
        #expect(goal.nextLook(unreadySince: time(0)) == time(9))
        #expect(!goal.isParted(isConnected: true, at: time(8)))
        #expect(goal.isParted(isConnected: false, at: time(8)))
        #expect(goal.isParted(isConnected: true, at: time(9)))
    }

    @Test func `an error ends the run`() {
        var goal = RunGoal(.continuous)
        goal.fail(FileSystemError("lock", path: "/spool", errno: 1))
        #expect(goal.failure?.path == "/spool")
    }
}
