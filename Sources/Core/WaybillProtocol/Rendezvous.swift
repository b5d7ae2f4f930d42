internal import WaybillSystem

/// The order in which an agent tries the receivers of a fleet: highest random weight.
///
/// Agents are spread evenly, each comes back to the same receiver, and without one receiver only its own agents move.
///
/// - SeeAlso: `Protocol/protocol.md`, section 20.3.
package enum Rendezvous {
    /// The first 8 bytes of SHA-256 over the agent's name, LF, and the receiver as configured.
    package static func weight(of receiver: String, for agent: String) -> UInt64 {
        var hash = SHA256()
        hash.update("\(agent)\n\(receiver)".utf8)
        return hash.finish().prefix(8).reduce(0) { $0 << 8 | UInt64($1) }
    }

    /// The receivers, greatest weight first; equal ones in the given order.
    package static func order<Receiver>(
        _ receivers: [Receiver], of agent: String, by name: (Receiver) -> String
    ) -> [Receiver] {
        let weighed = receivers.enumerated().map { index, receiver in
            (weight: self.weight(of: name(receiver), for: agent), index: index, receiver: receiver)
        }
        return weighed.sorted { ($0.weight, $1.index) > ($1.weight, $0.index) }.map(\.receiver)
    }
}
