internal import WaybillAgent
internal import WaybillHost
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem
internal import WaybillTestSupport

/// What the agents and receivers of a fleet ask of it.
extension FleetLife {
    var receiverPause: ClosedRange<Int> {
        self.isCalm ? 50...500 : self.dice.pick([50...5_000, 5_000...30_000])
    }

    var awakeCount: Int { self.dice.pick([0, 2, 10_000]) }

    private static func address(of receiver: SimulatedReceiver) -> NetworkAddress {
        NetworkAddress(host: "host-\(receiver.number)", port: 4390)
    }

    var addresses: [NetworkAddress] { self.receivers.map(Self.address) }

    func configure(_ configuration: inout AgentConfiguration) {
        configuration.connectionAgeMax = self.connectionAge
        // Receivers of a fleet are believed where they have proven their names; the links here need no proof.
        configuration.tls = TLSClientConfiguration()
    }

    func configure(_ configuration: inout ReceiverConfiguration, of receiver: SimulatedReceiver) {
        configuration.limits.windowByteCount = 16 << 10
        configuration.limits.idleMilliseconds = 20_000
        configuration.admissionByteCount = 1 << 20
        configuration.journalRetention = .zero
        configuration.membership = receiver.bucket.map { FleetMembership(fleet: $0.fleet.text) }
    }

    func connect(_ connection: Connection, to address: NetworkAddress) {
        self.keep(connection)
        guard let receiver = self.receivers.first(where: { Self.address(of: $0) == address }) else {
            preconditionFailure("an agent asks for \(address)")
        }
        guard !self.partitions.contains([connection.agent.number, receiver.number]) else {
            // The agent's own time-out.
            return self.schedule.after(.seconds(10)) { connection.refused() }
        }
        self.lead(connection, to: receiver)
    }

    func recount(_ held: Set<ArraySlice<UInt8>>, by receiver: SimulatedReceiver) {}

    func opens(_ description: StreamDescription, _ claim: OpenClaim) {}

    func sends(_ batch: RawBatch, on connection: Connection) {
        let raw = UnsafeRawBufferPointer(batch.buffer.bytes)[..<batch.header.rawByteCount]
        self.streams.sent(batch.id, at: batch.header.offset, raw)
        connection.note(
            "sends \(batch.id) \(batch.header.offset.rawValue)-\(batch.header.end.rawValue): "
                + "\(self.ledger.numbers(in: raw))")
    }

    func delivered(_ message: Message) -> (number: StreamNumber, end: StreamOffset)? {
        guard case .stored(let number, let offset) = message else { return nil }
        return (number, offset)
    }

    /// `STORED` and `SEALED` are said only when the bucket has what they speak of.
    func judge(_ message: Message, on connection: any CallingSide, of process: ReceiverProcess) {
        guard let connection = connection as? Connection else { return }
        switch message {
        case .stored(let number, let offset): self.demand(number, below: offset, "STORED", on: connection)
        case .sealed(let number, let proof, _):
            guard let length = self.sealedLength(number, proof, on: connection) else { return }
            self.demand(number, below: length, "SEALED", on: connection)
        default: break
        }
    }

    /// Up to where `SEALED` speaks: what the agent sealed, or, if an earlier `SEAL` is answered, the length of its file.
    ///
    /// It says nothing of a file of which it does not prove the end, nor of what someone else sent behind it.
    private func sealedLength(
        _ number: StreamNumber, _ proof: StreamProof, on connection: Connection
    ) -> StreamOffset? {
        if let length = connection.sealing[number] { return length }
        guard let path = connection.paths[number], let bytes = connection.agent.disk.memory.bytes(of: path) else {
            return nil
        }
        let length = StreamOffset(UInt64(bytes.count))
        return connection.proof(number, at: length)?.coversSame(as: proof) == true ? length : nil
    }

    private func demand(_ number: StreamNumber, below offset: StreamOffset, _ word: String, on connection: Connection) {
        guard let id = connection.ids[number], let lines = self.streams.sent(id, below: offset) else { return }
        if let line = self.bucket.firstMissing(of: lines) {
            self.violate(
                "\(connection.receiver?.label ?? "") says \(word) of \(id), and the bucket lacks line \(line)")
        }
    }

    /// A segment may go when the bucket has its lines.
    func willDelete(_ path: String, _ id: StreamID, _ bytes: [UInt8], by agent: SimulatedAgent) {
        if let line = self.bucket.firstMissing(of: self.ledger.numbers(in: bytes)) {
            self.violate("\(agent.label) deletes \(path), and the bucket lacks line \(line)")
        }
    }
}

/// How a fleet's ledger judges trouble with files.
extension FleetLife {
    /// Kinds of trouble after which an agent does not know what it was told, or its receiver lacks what it said.
    static let forgetful: Set<FleetTrouble> = [
        .lostRegistries, .clones, .otherFleet, .lostReceivers, .restoredReceivers, .silence,
    ]

    func promise(_ line: ArraySlice<UInt8>, on agent: SimulatedAgent) {
        self.ledger.promise(line)
        self.streams.wrote(line, on: agent.number)
    }

    func allowOnceMore(_ lines: [ArraySlice<UInt8>]) {
        self.ledger.allowCopy(of: lines)
        self.streams.noteRewritten(lines)
    }

    func allowRepeats(of lines: [ArraySlice<UInt8>]) {
        self.ledger.allowRepeats(of: lines)
        self.streams.noteRewritten(lines)
    }

    func cutAway(_ lines: [ArraySlice<UInt8>], isKnown: Bool) {
        self.bucket.readPieces()
        for line in lines { self.ledger.cutAway(line, isKnown: false) }
        self.streams.noteRewritten(lines)
    }

    func takenAway(_ bytes: ArraySlice<UInt8>, seen: Int) {}
    func mayBeTold(lost byteCount: Int) {}
}
