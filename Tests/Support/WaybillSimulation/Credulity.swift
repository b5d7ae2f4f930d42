internal import WaybillProtocol
internal import WaybillTestSupport

/// What an agent with a planted bug remembers of answers.
struct Credulity {
    /// Streams that were disputed once.
    var setAside: Set<StreamID> = []
    /// The first receiver that answered.
    var first: ReceiverIdentity?
    /// The start of each incarnation that the agent remembers.
    var starts: [Incarnation: ReceiverStart] = [:]
    /// The receiver of the present connection.
    var present: ReceiverIdentity?
    /// What a receiver has acknowledged, as the registry may know it.
    var acknowledged: [StreamID: UInt64] = [:]
    /// The last id of each path.
    var lastIDs: [String: StreamID] = [:]
}

/// An agent that believes what it should not is one for which the answers agree: each planted bug bends them on their
/// way, with proofs made from the agent's own files.
extension SimulatedAgent {
    func believed(_ message: Message, before next: Message?, on connection: Connection) -> Message {
        guard !self.life.bugs.isEmpty else { return message }
        switch self.life.has(.takeSkipsForBytes) ? message.withoutSkips : message {
        case .ready(var ready):
            ready.receiver = self.believed(ready.receiver)
            return .ready(ready)
        case .at(let number, let offset, let proof, let end):
            self.heardAnswer()
            guard let file = ClaimedFile(number, connection) else { return message }
            var believed = offset
            if self.life.has(.registryOverReceiver) || self.life.has(.resendWithoutAsking) {
                believed = self.registered(file.id)
            } else if self.life.has(.sealOnWord), case .sealed(number, _, _)? = next {
                believed = StreamOffset(UInt64(file.bytes.count))
            }
            if self.life.has(.setAside), file.proof(at: offset)?.coversSame(as: proof) != true {
                self.credulity.setAside.insert(file.id)
            }
            let isForged = believed != offset || self.isBelieved(proof, at: offset, of: file)
            return .at(
                number, believed, isForged ? file.proof(at: believed) ?? proof : proof, end: self.believed(end))
        case .sealed(let number, let proof, let end):
            self.heardAnswer()
            guard let file = ClaimedFile(number, connection), let offset = connection.offsets[number] else {
                return message
            }
            let isForged = self.life.has(.sealOnWord) || self.isBelieved(proof, at: offset, of: file)
            return .sealed(number, isForged ? file.proof(at: offset) ?? proof : proof, end: self.believed(end))
        case .ack(let number, let offset, let end):
            self.heardAnswer()
            return .ack(number, offset, end: self.believed(end))
        default: return message
        }
    }

    private func heardAnswer() {
        guard let present = self.credulity.present else { return }
        // Of ends alone it remembers the first start, which every later greeting names for it.
        if self.life.has(.compareEndsAlone), self.credulity.starts[present.incarnation] != nil { return }
        self.credulity.starts[present.incarnation] = present.starts.last
    }

    private func believed(_ end: UInt64) -> UInt64 {
        self.life.has(.ignoreAnswerEnds) ? 0 : end
    }

    private func isBelieved(_ proof: StreamProof, at offset: StreamOffset, of file: ClaimedFile) -> Bool {
        if self.life.has(.believeWithoutProof) { return true }
        if self.life.has(.registryOverProof) { return offset == self.registered(file.id) }
        if self.life.has(.proverChoosesCount), proof.byteCount > 0 {
            return file.proof(at: offset, byteCount: proof.byteCount)?.coversSame(as: proof) == true
        }
        return false
    }

    private func believed(_ identity: ReceiverIdentity) -> ReceiverIdentity {
        self.credulity.present = identity
        let first = self.credulity.first ?? identity
        self.credulity.first = first
        let known = self.credulity.starts[identity.incarnation]
        guard let last = identity.starts.last else { return identity }
        var bent: ReceiverIdentity?
        if self.life.has(.keepOffsets) {
            let start = ReceiverStart(id: first.start, position: 0)
            bent = ReceiverIdentity(
                name: first.name, incarnation: first.incarnation, starts: [start], end: LineProtocol.integerMax)
        } else if self.life.has(.compareEndsAlone), let known {
            bent = ReceiverIdentity(
                name: identity.name, incarnation: identity.incarnation,
                starts: [ReceiverStart(id: known.id, position: 0)], end: identity.end)
        } else if self.life.has(.compareLastStartAlone), let known, known.id != last.id {
            bent = ReceiverIdentity(
                name: identity.name, incarnation: identity.incarnation,
                starts: [ReceiverStart(id: known.id, position: 0), last], end: identity.end)
        } else if self.life.has(.forgetStarts) {
            bent = ReceiverIdentity(
                name: identity.name, incarnation: identity.incarnation, starts: [last], end: identity.end)
        }
        return bent ?? identity
    }
}

extension Message {
    /// What a receiver would say that does not count what was skipped.
    fileprivate var withoutSkips: Message {
        switch self {
        case .at(let number, let offset, let proof, let end): .at(number, offset, proof.skipping(0), end: end)
        case .sealed(let number, let proof, let end): .sealed(number, proof.skipping(0), end: end)
        default: self
        }
    }
}

/// The file of a stream that an answer speaks of.
private struct ClaimedFile {
    let id: StreamID
    let bytes: [UInt8]

    init?(_ number: StreamNumber, _ connection: Connection) {
        guard let id = connection.ids[number], let path = connection.paths[number] else { return nil }
        self.id = id
        self.bytes = connection.agent.disk.memory.bytes(of: path) ?? []
    }

    /// The proof for the file's bytes below an offset; `nil` when it is shorter.
    func proof(at offset: StreamOffset, byteCount: Int = StreamProof.byteCountMax) -> StreamProof? {
        guard offset.rawValue <= UInt64(self.bytes.count) else { return nil }
        return StreamProof(
            of: self.id, at: offset, tail: self.bytes.prefix(Int(offset.rawValue)).suffix(byteCount))
    }
}
