internal import WaybillProtocol
package import WaybillTail

/// Another name than the one that the state's logs have.
package struct AgentNameChange: Hashable, Sendable {
    package let former: AgentName
    package let name: AgentName
    /// How many logs the state has under the former name.
    package let logCount: Int
}

/// Who an agent is, and which name holds when its state was begun under another one.
///
///     configured      the state's name           other logs in the state    the agent
///     no              any                        any                        continues under the state's name
///     yes             none, or the same          any                        continues
///     yes             another                    none                       continues, and the state gets the name
///     yes             another                    some                       refuses to start, unless that is accepted
///
/// A host may get another name or another machine id, and its logs keep their streams.
package struct AgentNaming: Sendable {
    enum Settlement: Equatable {
        /// The state's name holds, though this machine has another one.
        case keepsFormer
        /// The state gets the name.
        case renamed
        /// The agent must not start.
        case refused
    }

    /// Identifies this agent; it must not change, because foreign streams are named after it.
    package var name: AgentName { didSet { self.isNameDerived = false } }
    /// Whether the name is not a configured one: then the name in the state directory holds.
    package var isNameDerived = false
    /// The name in the state directory that may be replaced by another one.
    package var acceptedFormerName: AgentName?
    /// Whether the name is that of a key in the state directory, which the first run makes.
    package var usesDeviceKey = false
    /// Proves the name of an app's install; `nil` for other agents, and until ``usesDeviceKey`` has found it.
    private(set) var deviceKey: DeviceKey?

    init(_ name: AgentName) {
        self.name = name
    }

    /// Takes the name that a key proves.
    mutating func prove(with key: DeviceKey) {
        guard let name = AgentName(key.agentName) else { preconditionFailure("32 hexadecimal digits are a name") }
        self.name = name
        self.deviceKey = key
    }

    /// Decides between a state's name and this one, which are not the same.
    mutating func settle(_ change: AgentNameChange) -> Settlement {
        if self.acceptedFormerName == change.former { return .renamed }
        guard self.isNameDerived else { return change.logCount > 0 ? .refused : .renamed }
        self.name = change.former
        return .keepsFormer
    }
}
