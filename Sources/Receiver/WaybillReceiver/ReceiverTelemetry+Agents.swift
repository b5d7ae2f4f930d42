internal import Logging
internal import WaybillData
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillSystem

/// Who is let in and what they do, for the log, the metrics and the audit log.
extension ReceiverTelemetry {
    func connected(_ connection: ConnectionHandle, address: String) {
        self.log(
            .info, nil, "agent connected", .connected, of: address,
            [
                "agent": "\(connection.admitted.fullName)", "peer": "\(connection.peer)",
                "software": "\(connection.software ?? "unknown")",
            ])
        self.audit?.add(.connected, connection.auditMembers)
    }

    /// - Parameter connection: `nil` when the peer was not let in.
    func disconnected(_ connection: ConnectionHandle?, peer: String, address: String, reason: String) {
        // The code, without its text.
        let code = String(reason.prefix { $0 != ":" }.prefix(64))
        self.log(
            .info, nil, "connection closed", .disconnected(code), of: address,
            ["agent": "\(connection?.admitted.fullName ?? "none")", "peer": "\(peer)", "reason": "\(reason)"])
        if let connection { self.audit?.add(.disconnected, connection.auditMembers + [("reason", reason)]) }
    }

    /// - Parameters:
    ///   - agent: the name that the peer claims.
    ///   - other: who is connected under this name.
    func refused(
        _ refusal: AgentRefusal, agent: String, from origin: ConnectionOrigin, instead other: ConnectionHandle? = nil
    ) {
        self.refusals.withLock { $0.ofAgents[refusal, default: 0] += 1 }
        self.audit?.add(
            .refused, [("agent", agent), ("peer", origin.text), ("reason", refusal.rawValue)] + origin.auditMembers)
        var metadata: Logger.Metadata = [
            "claims": "\(agent)", "peer": "\(origin.text)", "address": "\(origin.host)",
            "reason": "\(refusal.text)",
        ]
        if let other {
            metadata["connected_from"] = "\(other.peer)"
            metadata["connected_since"] = "\(other.since.text)"
        }
        self.logger.warning(.agentRefused, "an agent is refused", metadata: metadata)
    }

    func opened(_ description: StreamDescription, at offset: StreamOffset, by connection: ConnectionHandle) {
        self.audit?.add(
            .opened, connection.auditMembers(of: description) + [("at", "\(offset.rawValue)")])
    }

    /// A stream from before the principal existed, or of its former name, is its own from now on.
    func adopted(_ former: StreamStanding, as description: StreamDescription, by connection: ConnectionHandle) {
        self.logger.notice(
            "a stream has got its owner",
            metadata: [
                "stream": "\(description.name)", "former": "\(former.description.name)",
                "offset": .number(former.durable.rawValue),
            ])
        self.audit?.add(
            .adopted,
            connection.auditMembers(of: description) + [
                ("from", former.description.owner.principal), ("at", "\(former.durable.rawValue)"),
            ])
    }

    func sealed(_ description: StreamDescription, length: StreamOffset, by connection: ConnectionHandle) {
        self.audit?.add(
            .sealed, connection.auditMembers(of: description) + [("length", "\(length.rawValue)")])
    }

    /// A stream's message was refused because of who sent it, or because of the bound of skipped bytes.
    func denied(
        _ what: String, of description: StreamDescription, _ code: ErrorCode, by connection: ConnectionHandle,
        untoldCount: Int?
    ) {
        self.denials.add(1, ordering: .relaxed)
        self.audit?.add(
            .denied, connection.auditMembers(of: description) + [("what", what), ("code", code.rawValue)])
        guard let untoldCount else { return }
        self.logger.warning(
            .agentDenied, "an agent asked for what it may not do",
            metadata: [
                "agent": "\(connection.admitted.fullName)", "stream": "\(description.name)", "what": "\(what)",
                "code": "\(code.rawValue)", "more_unlogged": .number(untoldCount),
            ])
    }

    /// The agents in the configuration are in force.
    func agentsInForce(_ principals: [Principal]?) {
        guard let principals else {
            return self.logger.notice(
                """
                there is no agents: in the configuration: all agents are one principal, and each may write any env and \
                bundle and continue any stream
                """)
        }
        self.logger.info(
            "agents are told apart", metadata: ["principals": "\(principals.map(\.name).joined(separator: ", "))"])
    }

    /// Certificates, revocation lists, agents or tokens were read again, because a file has changed.
    func trustReloaded(_ changes: [ConfigurationChange]) {
        self.logger.notice(
            "certificates and agents are read again",
            metadata: [
                "changes":
                    "\(changes.isEmpty ? "none in the certificate" : changes.map(\.description).joined(separator: "; "))"
            ])
    }

    func auditFailed(_ error: FileSystemError) {
        self.logger.error(
            .auditFailed, "the audit log cannot be written; its entries are lost until it can",
            metadata: ["cause": "\(error)", "code": "\(error.code)"])
    }
}

extension ConnectionOrigin {
    /// Through whom it came, if through a proxy.
    fileprivate var auditMembers: [(String, String)] { self.proxy.map { [("via", $0)] } ?? [] }
}

extension ConnectionHandle {
    fileprivate var auditMembers: [(String, String)] {
        [
            ("principal", self.admitted.principal.name), ("agent", self.admitted.agent), ("peer", self.peer),
            ("by", self.credentials.kind),
        ] + self.origin.auditMembers
    }

    func auditMembers(of description: StreamDescription) -> [(String, String)] {
        self.auditMembers + [
            ("stream", description.id.text), ("owner", description.owner.principal), ("source", description.source),
            ("env", description.environment), ("bundle", description.bundle), ("format", description.format.rawValue),
        ]
    }
}
