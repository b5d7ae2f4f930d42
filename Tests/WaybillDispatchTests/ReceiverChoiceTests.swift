import Testing
import WaybillSystem

@testable import WaybillAgent

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

struct ReceiverChoiceTests {
    private let receivers = ["a", "b", "c"].map { NetworkAddress(host: $0, port: 1) }

    private func host(_ choice: inout ReceiverChoice, _ seconds: Int = 0) -> String? {
        guard case .connect(let address) = choice.next(of: self.receivers, time(seconds)) else { return nil }
        #expect(choice.address == address.description)
        return address.host
    }

    @Test func `receivers are tried in turn`() {
        var choice = ReceiverChoice(seed: 1)
        #expect((0..<4).map { _ in self.host(&choice) } == ["a", "b", "c", "a"])
        choice.stay()
        #expect(self.host(&choice) == "a")
        choice.beginWithFirst()
        choice.stay()
        #expect(self.host(&choice) == "a")
    }

    @Test func `after one that turns this agent away comes the next, wherever the turn was`() {
        var choice = ReceiverChoice(seed: 1)
        #expect((0..<2).map { _ in self.host(&choice) } == ["a", "b"])
        choice.beginWithFirst()
        choice.turnAway(in: self.receivers)
        #expect(self.host(&choice) == "c")
        // It is not among them any more.
        choice.turnAway(in: Array(self.receivers.prefix(2)))
        #expect(self.host(&choice) == "a")
    }

    @Test func `a second unknown receiver within a minute bars its address, and no other one`() {
        var choice = ReceiverChoice(seed: 1)
        #expect(self.host(&choice) == "a")
        #expect(choice.admitsUnfamiliar(at: time(0)) == true)
        #expect(choice.admitsUnfamiliar(at: time(59)) == false)
        #expect((0..<3).map { _ in self.host(&choice, 59) } == ["b", "c", "b"])
        #expect(choice.admitsUnfamiliar(at: time(59)) == true)
        choice.beginWithFirst()
        #expect(self.host(&choice, 60) == "a")
        #expect(choice.admitsUnfamiliar(at: time(60)) == true)
    }

    @Test func `while every address is barred the first one that is free again is waited for`() {
        var choice = ReceiverChoice(seed: 1)
        for second in 0..<3 {
            #expect(self.host(&choice, second) != nil)
            #expect(choice.admitsUnfamiliar(at: time(second)) == true)
            #expect(choice.admitsUnfamiliar(at: time(second)) == false)
        }
        #expect(choice.next(of: self.receivers, time(3)) == .wait(until: time(60)))
        var none = ReceiverChoice(seed: 1)
        #expect(none.next(of: [], time(3)) == .wait(until: time(4)))
    }

    @Test(arguments: 0..<UInt64(100))
    func `a connection to a fleet is renewed after its age, more or less a fifth`(seed: UInt64) throws {
        var choice = ReceiverChoice(seed: seed)
        #expect(self.host(&choice) == "a")
        choice.settle(among: self.receivers, age: .seconds(1000), isNew: true, at: time(0))
        let renewal = try #require(choice.nextRenewal(time(0)))
        #expect(renewal >= time(800) && renewal <= time(1200))
        #expect(!choice.isRenewing(time(799)))
        #expect(!choice.isRenewalDue(isInFlight: false, time(799)))
        #expect(choice.isRenewing(renewal))
        #expect(choice.isRenewalDue(isInFlight: false, renewal))
        // What is in flight is waited for, but not for long.
        #expect(!choice.isRenewalDue(isInFlight: true, renewal))
        #expect(choice.nextRenewal(renewal) == renewal + .seconds(10))
        #expect(choice.isRenewalDue(isInFlight: true, renewal + .seconds(10)))
        choice.ended()
        #expect(!choice.isRenewing(time(2000)))
        #expect(choice.nextRenewal(time(2000)) == nil)
    }

    @Test func `an agent that learns of the fleet at another one's receiver leaves at once for its own`() {
        var choice = ReceiverChoice(seed: 1)
        #expect((0..<2).map { _ in self.host(&choice) } == ["a", "b"])
        choice.settle(among: self.receivers, age: .seconds(1000), isNew: true, at: time(5))
        #expect(choice.isRenewalDue(isInFlight: false, time(5)))
        #expect(self.host(&choice) == "a")
        // One that knew the fleet stays where it is.
        #expect(self.host(&choice) == "b")
        choice.settle(among: self.receivers, age: .seconds(1000), isNew: false, at: time(5))
        #expect(!choice.isRenewing(time(5)))
    }

    @Test func `waits grow with failures until something is acknowledged`() {
        var choice = ReceiverChoice(seed: 1)
        let waits = (0..<12).map { _ in choice.failed(.refused, at: time(0)) }
        #expect(waits.contains { $0 > .seconds(2) })
        choice.accepted(at: time(1))
        choice.succeeded()
        #expect(choice.failed(.refused, at: time(1)) <= .milliseconds(500))
    }
}
