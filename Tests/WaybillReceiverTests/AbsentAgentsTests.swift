import Testing
import WaybillSystem

@testable import WaybillReceiver

@Suite struct AbsentAgentsTests {
    private func time(_ seconds: Int64) -> MonotonicTime { MonotonicTime(nanoseconds: seconds * 1_000_000_000) }

    @Test func `an agent counts ten minutes after it left, until it returns`() {
        var agents = AbsentAgents()
        agents.came("shop/a")
        agents.left("shop/a", at: self.time(100))
        agents.left("shop/b", at: self.time(400))
        #expect(agents.silentCount(at: self.time(699)) == 0)
        #expect(agents.silentCount(at: self.time(700)) == 1)
        #expect(agents.silentCount(at: self.time(1000)) == 2)
        agents.came("shop/a")
        #expect(agents.silentCount(at: self.time(1000)) == 1)
        agents.left("shop/a", at: self.time(1000))
        #expect(agents.silentCount(at: self.time(1599)) == 1)
        #expect(agents.silentCount(at: self.time(1600)) == 2)
    }

    @Test func `the names of absent agents are bounded`() {
        var agents = AbsentAgents()
        for number in 0..<AbsentAgents.countMax + 10 { agents.left("\(number)", at: self.time(0)) }
        #expect(agents.silentCount(at: self.time(600)) == AbsentAgents.countMax)
        agents.came("0")
        agents.left("new", at: self.time(0))
        #expect(agents.silentCount(at: self.time(600)) == AbsentAgents.countMax)
    }
}
