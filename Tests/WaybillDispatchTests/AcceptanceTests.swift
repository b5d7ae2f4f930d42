import Testing
import WaybillProtocol
import WaybillSystem
import WaybillTail

@testable import WaybillAgent

private func time(_ seconds: Int) -> MonotonicTime {
    MonotonicTime(nanoseconds: 0) + .seconds(seconds)
}

struct AcceptanceTests {
    private let address = "receiver.example:9820"
    private let fleet = "00112233445566778899aabbccddeeff"

    private func ready(fleet: String? = nil, milliseconds: Int64 = 0) throws -> Ready {
        let receiver = try #require(
            ReceiverIdentity(
                name: "r1", incarnation: Incarnation(1, 2), starts: [ReceiverStart(id: 3, position: 0)], end: 0))
        return Ready(
            version: 1, receiver: receiver, fleet: fleet, limits: ProtocolLimits(), milliseconds: milliseconds)
    }

    private func configuration() throws -> AgentConfiguration {
        let name = try #require(AgentName("a1"))
        return AgentConfiguration(name: name, stateDirectory: "/state", receivers: [], sources: [])
    }

    @Test func `a receiver that accepts ends the time alone, and the failure before it`() throws {
        var acceptance = Acceptance(at: time(0))
        #expect(acceptance.unreadySince == time(0) && acceptance.receiver == nil)
        #expect(acceptance.failure == "no receiver answered" && acceptance.reason == "no receiver answered")
        acceptance.failed("refused")
        #expect(acceptance.ended(at: time(4)) == .seconds(4))
        #expect(acceptance.failure == "refused")
        acceptance.accepted(try self.ready(), at: self.address, WallTime(milliseconds: 5000))
        #expect(acceptance.unreadySince == nil && acceptance.failure == nil)
        #expect(
            acceptance.receiver == ReceiverTag(address: self.address, incarnation: Incarnation(1, 2), start: 3))
        var report = AgentReport()
        acceptance.describe(&report)
        #expect(report.receiver == "r1" && report.address == self.address && report.lastFailure == nil)
        #expect(report.connectedSince == WallTime(milliseconds: 5000))
        // A file may fail while the receiver is there.
        acceptance.failed(String(repeating: "x", count: 500))
        acceptance.describe(&report)
        #expect(report.lastFailure?.count == AgentReport.errorCharacterCountMax)
        #expect(acceptance.ended(at: time(9)) == .zero && acceptance.unreadySince == time(9))
        #expect(acceptance.ended(at: time(11)) == .seconds(2))
        acceptance.describe(&report)
        #expect(report.receiver == nil && report.address == nil && report.connectedSince == nil)
    }

    @Test func `the clock's lead is kept after the connection, and a clock may claim anything`() throws {
        var acceptance = Acceptance(at: time(0))
        var standing = AgentStanding()
        acceptance.accepted(try self.ready(milliseconds: 4000), at: self.address, WallTime(milliseconds: 5000))
        acceptance.describe(&standing)
        #expect(standing.isConnected && standing.clockSkew == .seconds(1))
        _ = acceptance.ended(at: time(1))
        acceptance.describe(&standing)
        #expect(!standing.isConnected && standing.clockSkew == .seconds(1))
        acceptance.accepted(try self.ready(milliseconds: .min), at: self.address, WallTime(milliseconds: 5000))
        acceptance.describe(&standing)
        #expect(standing.clockSkew == nil)
    }

    @Test func `a fleet is believed that the configuration names, and doubted until the connection ends`() throws {
        var acceptance = Acceptance(at: time(0))
        var configuration = try self.configuration()
        let ready = try self.ready(fleet: self.fleet)
        #expect(acceptance.believedFleet(of: try self.ready(), at: self.address, configuration) == nil)
        #expect(!acceptance.isFleetDoubted)
        #expect(acceptance.believedFleet(of: ready, at: self.address, configuration) == nil)
        acceptance.accepted(ready, at: self.address, WallTime(milliseconds: 0))
        #expect(acceptance.isFleetDoubted)
        _ = acceptance.ended(at: time(1))
        #expect(!acceptance.isFleetDoubted)
        configuration.fleet = self.fleet
        #expect(acceptance.believedFleet(of: ready, at: self.address, configuration) == self.fleet)
        #expect(!acceptance.isFleetDoubted)
    }

    @Test func `a pause has an end, ten minutes at most, and ends with the connection`() {
        var acceptance = Acceptance(at: time(0))
        #expect(acceptance.isPaused(at: time(0)) == false)
        acceptance.pause(milliseconds: 2000, at: time(0))
        #expect(acceptance.isPaused(at: time(1)) && acceptance.pausedUntil == time(2))
        #expect(acceptance.isPaused(at: time(2)) == false && acceptance.pausedUntil == nil)
        acceptance.pause(milliseconds: .max, at: time(2))
        #expect(acceptance.pausedUntil == time(602))
        _ = acceptance.ended(at: time(3))
        #expect(acceptance.isPaused(at: time(3)) == false)
    }
}
