import Testing
import WaybillProtocol

@testable import WaybillAgent
@testable import WaybillTail

struct AgentNamingTests {
    private let former: AgentName
    private let name: AgentName

    init() throws {
        self.former = try #require(AgentName("web-1"))
        self.name = try #require(AgentName("web-2"))
    }

    /// What comes of a state that was begun under the former name, and the name then.
    private func settled(
        logCount: Int, _ change: (inout AgentNaming) -> Void = { _ in }
    ) -> (AgentNaming.Settlement, AgentName) {
        var naming = AgentNaming(self.name)
        change(&naming)
        let settlement = naming.settle(AgentNameChange(former: self.former, name: self.name, logCount: logCount))
        return (settlement, naming.name)
    }

    @Test func `a configured name replaces the state's, unless there are logs under that`() {
        #expect(self.settled(logCount: 0) == (.renamed, self.name))
        #expect(self.settled(logCount: 1) == (.refused, self.name))
        #expect(self.settled(logCount: 1) { $0.acceptedFormerName = self.former } == (.renamed, self.name))
        #expect(self.settled(logCount: 1) { $0.acceptedFormerName = self.name } == (.refused, self.name))
    }

    @Test func `a name that is not configured gives way to the state's`() {
        for logCount in [0, 1] {
            #expect(self.settled(logCount: logCount) { $0.isNameDerived = true } == (.keepsFormer, self.former))
        }
        let accepted = self.settled(logCount: 1) { naming in
            naming.isNameDerived = true
            naming.acceptedFormerName = self.former
        }
        #expect(accepted == (.renamed, self.name))
        // A name that is set is a configured one.
        let set = self.settled(logCount: 1) { naming in
            naming.isNameDerived = true
            naming.name = self.name
        }
        #expect(set == (.refused, self.name))
    }

    @Test func `a key has the name that it proves`() throws {
        var naming = AgentNaming(self.name)
        naming.isNameDerived = true
        let key = try #require(DeviceKey([UInt8](repeating: 7, count: DeviceKey.byteCount)))
        naming.prove(with: key)
        #expect(naming.name.description == key.agentName && naming.deviceKey?.text == key.text)
        #expect(!naming.isNameDerived)
    }
}
