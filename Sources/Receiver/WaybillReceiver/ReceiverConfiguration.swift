internal import WaybillProjection
package import WaybillProtocol
package import WaybillSystem
package import WaybillHost

/// A receiver's configuration.
@dynamicMemberLookup
package struct ReceiverConfiguration: ReloadableConfiguration {
    /// What it has in common with a merger.
    package var host: HostConfiguration
    package var listen = NetworkAddress(host: "127.0.0.1", port: 4390)
    /// Where proxies bring agents, besides.
    package var proxied = ProxiedListener()
    /// With a bucket: a piece of the journal goes there when it has so many bytes.
    package var pieceByteCount = 8 << 20
    /// Or when its first byte has waited so long.
    package var pieceInterval = Duration.seconds(2)
    /// Which of archive and exports it writes itself.
    package var projections = ReceiverProjections.all
    /// The fleet that it belongs to; `nil` when it stands alone.
    package var membership: FleetMembership?
    /// The token that agents must send; `nil` admits every agent.
    package var token: Secret?
    /// The agents that are let in, and as whom; `nil`: all are one principal.
    package var agents: [Principal]?
    /// The files that ``agents`` was read from, besides the configuration file.
    package var agentsFiles: [String] = []
    /// Where to write the audit log; `nil` for none.
    package var audit: String?
    /// Whether tokens may cross a network without TLS.
    package var isInsecure = false
    /// The TLS settings for agents; `nil` without TLS.
    package var tls: TLSServerConfiguration?
    package var limits = ProtocolLimits()
    /// Bytes of payloads, compressed and inflated, that may wait for the disk.
    package var admissionByteCount = 16 << 20
    /// Bytes of the descriptions of open streams.
    package var descriptionByteCount = 112 << 20
    /// What one account may take.
    package var quotas = AccountQuotas()
    /// How long a stop waits for archive and exports to read what was received.
    package var stopPatience = Duration.seconds(3)
    /// Bytes of inflated batches kept for projections that keep up.
    package var feedByteCount = 8 << 20
    package var connectionCountMax = 10_000

    package init(dataDirectory: String) {
        self.host = HostConfiguration(dataDirectory: dataDirectory)
    }

    package subscript<Value>(dynamicMember path: WritableKeyPath<HostConfiguration, Value>) -> Value {
        get { self.host[keyPath: path] }
        set { self.host[keyPath: path] = newValue }
    }

    package var status: StatusPlaces {
        get { self.host.status }
        set { self.host.status = newValue }
    }

    /// ``host`` with the quotas of single principals, which also hold for batches whose agent is not known.
    var hosting: HostConfiguration {
        var host = self.host
        for principal in self.agents ?? [] {
            host.partitionQuotas.dayCountMaxOfPrincipals[principal.name] = principal.quotas.ofAgent.dayCountMax
        }
        return host
    }

    /// Which agents are let in.
    func register(revocations: RevocationList) -> AgentRegister {
        self.agents.map { AgentRegister($0, revocations: revocations) }
            ?? AgentRegister(token: self.token, revocations: revocations)
    }

    /// What the fleet knows about ``agents``.
    package var agentsRecord: AgentsRecord {
        AgentsRecord(receiver: self.name, agents: self.agents, time: POSIXClock().wallTime())
    }

    /// The files whose change a running receiver takes up: certificates, keys, authorities, revocation lists, agents
    /// and their tokens.
    package var trustFiles: [String] {
        let tls = self.tls.map {
            [$0.identity.chain, $0.identity.key, $0.clientAuthorities, $0.revocations].compactMap(\.self)
        }
        return (tls ?? []) + self.agentsFiles
    }

    /// Why tokens would cross a network in clear text; `nil` if they do not.
    package var insecurity: String? {
        let hasTokens = self.token != nil || self.agents?.contains { !$0.tokens.isEmpty } == true
        let plain = [self.tls == nil ? self.listen.host : nil, self.proxied.usesTLS ? nil : self.proxied.address?.host]
        let isLoopback = { (host: String) in host == "localhost" || host == "::1" || host.hasPrefix("127.") }
        guard hasTokens, !self.isInsecure, let host = plain.compactMap(\.self).first(where: { !isLoopback($0) }) else {
            return nil
        }
        return
            "agents would send their tokens to \(host) in clear text; use TLS (tls.certificate and tls.key, and "
            + "proxied.tls), listen on a loopback address, or say insecure: true"
    }
}

/// Whether a receiver with a bucket writes archive and exports itself, or leaves them to mergers.
package enum ReceiverProjections: String, CaseIterable, Hashable, Sendable {
    case all
    case none
}
