internal import WaybillProtocol
package import WaybillSystem

/// The agent's name as the first part of the ids of its logs' streams.
extension AgentName {
    /// How many parts follow the name: device, inode, birth, head and number.
    private static var laterPartCount: Int { 5 }

    /// `nil` for the key of anything else than a log.
    init?(ofStream key: String) {
        let parts = key.split(separator: "-", omittingEmptySubsequences: false)
        let later = parts.suffix(Self.laterPartCount)
        guard parts.count > Self.laterPartCount, let number = later.last, number.asCount != nil,
            later.dropLast().allSatisfy({ $0.asHexadecimal != nil }), later.dropLast().last?.utf8.count == 16
        else { return nil }
        self.init(parts.dropLast(Self.laterPartCount).joined(separator: "-"))
    }

    /// How many logs a registry has under which names.
    package static func counts(in registry: borrowing StateLog<some FileSystem>) -> [AgentName: Int] {
        var counts: [AgentName: Int] = [:]
        for key in registry.keys {
            if let name = AgentName(ofStream: key) { counts[name, default: 0] += 1 }
        }
        return counts
    }
}

extension TailRecovery {
    /// Notes the key of a log's entry under another agent's name, which is dropped: its stream is none of this agent's.
    ///
    /// - Returns: whether the key is another one.
    mutating func takes(_ key: String, of agent: AgentName) -> Bool {
        guard let name = AgentName(ofStream: key), name != agent else { return true }
        self.formerKeys.append(key)
        return false
    }
}
