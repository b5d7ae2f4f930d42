internal import WaybillProtocol
package import WaybillSystem
package import WaybillTLS

/// How the door takes streams of Waybill's own clients: it forwards each request to one receiver, and keeps nothing.
package struct StreamsConfiguration: Sendable {
    package var receiver: NetworkAddress
    /// The door's own name at the receiver; each connection adds its number.
    package var agent: String
    /// The door's own token; its principal `may_forward`.
    package var tokenFile: String?
    /// The TLS settings for the receiver; `nil` without TLS.
    package var tls: TLSClientConfiguration?
    /// The clients that are let in, as at the receiver.
    package var agents: [Principal] = []
    /// The files that ``agents`` was read from.
    package var agentsFiles: [String] = []
    /// Reads ``agents`` again, when one of the files has changed; `nil`: they do not change.
    package var readAgents: (@Sendable () -> AgentsReading)?
    /// Connections to the receiver.
    package var connectionCountMax = 8
    /// From a request's last byte to its answer; beyond it the client is asked to repeat.
    package var answerDuration = Duration.seconds(20)

    /// The most bytes of a request's body: a frame, or a line.
    package static let bodyByteCountMax = ProtocolLimits().wireByteCountMax + ProtocolLimits.messageByteCountMax

    /// What reading ``agents`` again gave.
    package enum AgentsReading: Sendable {
        case read([Principal], files: [String])
        /// What is wrong; the old ones stay in force.
        case unusable([String])
    }

    package init(receiver: NetworkAddress, agent: String) {
        self.receiver = receiver
        self.agent = agent
    }
}
