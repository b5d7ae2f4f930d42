internal import WaybillProtocol
internal import WaybillTestSupport

/// Planted bugs of agents of a fleet: what a connection makes of the messages that pass it.
extension Connection {
    /// What an agent would say that numbers the contents of a log for each receiver.
    func renumbered(_ message: Message) -> Message {
        guard case .open(let number, var description, var claim) = message, self.life.has(.numberForEachReceiver),
            description.format == .ndjson, let receiver
        else { return message }
        description.id = receiver.renumbered(description.id)
        self.renamed[number] = description.id
        if let from = claim.from, let digest = claim.proof {
            claim.proof = self.proof(number, at: from) { $0.digest == digest }?.digest ?? digest
        }
        return .open(number, description, claim)
    }

    /// What the agent takes an answer for: what it is, unless a bug is planted.
    func bentInFleet(_ message: Message) -> [Message] {
        guard !self.life.bugs.isEmpty else { return [message] }
        switch message {
        case .ready(var ready) where self.life.has(.ignoreFleet):
            ready.fleet = FleetBucket.firstFleet.text
            return [.ready(ready)]
        case .at(let number, let offset, let proof, let end) where self.life.has(.ignoreProofsOfFleet):
            return [.at(number, offset, self.proof(number, at: offset) ?? proof, end: end)]
        case .at(let number, let offset, let proof, let end) where self.isRenumbered(number):
            return [.at(number, offset, self.translated(proof, number, at: offset), end: end)]
        case .sealed(let number, let proof, let end) where self.isRenumbered(number):
            guard let offset = self.sealing[number] ?? self.offsets[number] else { return [message] }
            return [.sealed(number, self.translated(proof, number, at: offset), end: end)]
        case .ack(let number, let offset, _) where self.life.has(.sayAcknowledged):
            return [message, .stored(number, offset)]
        case .ack(let number, let offset, let end) where self.life.has(.sealBeforeStored):
            guard let length = self.sealing[number], length == offset, let proof = self.proof(number, at: offset) else {
                return [message]
            }
            self.calledSealed.insert(number)
            return [message, .sealed(number, proof, end: end)]
        case .sealed(let number, _, _) where self.calledSealed.contains(number),
            .stored(let number, _) where self.calledSealed.contains(number):
            return []
        default: return [message]
        }
    }

    func isRenumbered(_ number: StreamNumber) -> Bool {
        self.life.has(.numberForEachReceiver) && self.renamed[number] != nil
    }

    /// The proof that the agent's file demands.
    func proof(_ number: StreamNumber, at offset: StreamOffset) -> StreamProof? {
        guard let id = self.ids[number], let path = self.paths[number],
            let bytes = self.agent.disk.memory.bytes(of: path), offset.rawValue <= UInt64(bytes.count)
        else { return nil }
        let tail = bytes.prefix(Int(offset.rawValue)).suffix(StreamProof.byteCountMax)
        return StreamProof(of: id, at: offset, tail: tail)
    }

    /// The proof under the receiver's id of the log of which the agent's own is as demanded.
    private func proof(
        _ number: StreamNumber, at offset: StreamOffset, where isDemanded: (StreamProof) -> Bool
    ) -> StreamProof? {
        guard let id = self.ids[number], let name = self.renamed[number] else { return nil }
        return self.tails(at: offset).first { isDemanded(StreamProof(of: id, at: offset, tail: $0)) }.map {
            StreamProof(of: name, at: offset, tail: $0)
        }
    }

    /// What the agent would be told under its own id, if one of its logs has the bytes that are proved.
    private func translated(_ proof: StreamProof, _ number: StreamNumber, at offset: StreamOffset) -> StreamProof {
        guard let id = self.ids[number], let name = self.renamed[number] else { return proof }
        let tail = self.tails(at: offset).first { StreamProof(of: name, at: offset, tail: $0).coversSame(as: proof) }
        return tail.map { StreamProof(of: id, at: offset, tail: $0) } ?? proof
    }

    /// The bytes below an offset of each log that is as long.
    private func tails(at offset: StreamOffset) -> [ArraySlice<UInt8>] {
        self.agent.disk.memory.files(below: SimulatedAgent.logs).map(\.bytes).filter {
            UInt64($0.count) >= offset.rawValue
        }
        .map { $0.prefix(Int(offset.rawValue)).suffix(StreamProof.byteCountMax) }
    }
}
