internal import WaybillAgent
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTail
internal import WaybillTestSupport

/// What the agent and the receivers of a site ask of it.
extension SiteLife {
    var receiverPause: ClosedRange<Int> { 50...5_000 }

    static let falseAddress = NetworkAddress(host: "false", port: 4390)

    var addresses: [NetworkAddress] {
        let honest = NetworkAddress(host: "receiver", port: 4390)
        guard self.knows(.falseReceiver) else { return [honest] }
        return [honest, self.has(.ignoreAddress) ? honest : Self.falseAddress]
    }

    func configure(_ configuration: inout AgentConfiguration) {
        configuration.token = Secret(Ownership.token(of: Ownership.agent))
        configuration.tailLimits.openFileCountMax = self.openFileCountMax
    }

    func configure(_ configuration: inout ReceiverConfiguration, of receiver: SimulatedReceiver) {
        configuration.agents = self.principals
        configuration.limits.windowByteCount = self.knows(.smallWindow) ? 4096 : 256 << 10
        configuration.limits.idleMilliseconds = self.idleMilliseconds
        configuration.admissionByteCount = self.knows(.smallWindow) ? 16 << 10 : 1 << 20
        configuration.feedByteCount = self.knows(.smallFeed) ? 2 << 10 : 1 << 20
        configuration.journalRetention = self.knows(.shortRetention) ? .zero : .seconds(400 * 86_400)
        configuration.sealPatience = self.knows(.passingDays) ? .milliseconds(500) : .seconds(600)
        configuration.checkpointByteCount = self.knows(.smallFeed) ? 4 << 10 : 1 << 20
        configuration.checkpointInterval = .milliseconds(self.checkpointMilliseconds)
    }

    func opens(_ description: StreamDescription, _ claim: OpenClaim) {
        if claim.from == StreamOffset(0) { self.beginsOwnStream(description.id, of: description.source) }
    }

    func sends(_ batch: RawBatch, on connection: Connection) {}

    func delivered(_ message: Message) -> (number: StreamNumber, end: StreamOffset)? {
        guard case .ack(let number, let offset, _) = message else { return nil }
        return (number, offset)
    }

    func judge(_ message: Message, on connection: any CallingSide, of process: ReceiverProcess) {
        let receiver = process.receiver
        switch message {
        case .ready(let ready): receiver.identity = ready.receiver
        case .at(let number, let offset, _, _):
            guard let id = connection.ids[number] else { return }
            receiver.stands(process.name(id, of: connection), at: offset, isAnswer: true)
            // A stranger may have sealed it at 0 while no principals were told apart: its owner begins at 0, and an
            // agent that has lost its offsets does not learn that the next incarnation has the lines.
            if offset == StreamOffset(0), self.ownership.isKept, let own = connection as? Connection,
                let path = own.paths[number]
            {
                self.beginsOwnStream(id, of: path)
            }
        case .ack(let number, let offset, _):
            guard let id = connection.ids[number] else { return }
            receiver.stands(process.name(id, of: connection), at: offset, isAnswer: false)
        case .nak(let number, let offset, .prove, _):
            if let id = connection.ids[number] { receiver.confusion.unproven[id] = offset }
        case .sealed(let number, _, _):
            guard let id = connection.ids[number], let own = connection as? Connection, self.agent.holds(own) else {
                return
            }
            let segment = Path.join(SimulatedAgent.spool, "\(id).ndjson")
            if self.holds(receiver, self.agent.disk.memory.bytes(of: segment) ?? []) { self.agent.sealed(id) }
        default: break
        }
    }

    /// A segment may go when an honest receiver has its lines, or when a false one was sent every byte of it.
    func willDelete(_ path: String, _ id: StreamID, _ bytes: [UInt8], by agent: SimulatedAgent) {
        let isRight =
            agent.isSealed(id) || self.isHeldAnywhere(bytes) || self.falseReceiver.wasSent(id, bytes)
        guard isRight else { return self.violate("\(path) is deleted, and no honest receiver has its lines") }
        self.schedule.after(1) {
            guard agent.disk.memory.node(at: path) == nil else { return }
            self.ledger.excuse(bytes.split(separator: 0x0A))
        }
    }
}
