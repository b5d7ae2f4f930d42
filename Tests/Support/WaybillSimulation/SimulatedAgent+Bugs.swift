internal import WaybillProtocol
internal import WaybillTestSupport

/// Planted bugs of agents that take one file for another: what a connection makes of the messages that pass it.
extension Connection {
    /// What an agent with a bug would say.
    func said(_ message: Message) -> Message {
        guard case .open(let number, var description, var claim) = message, description.format == .ndjson,
            let id = self.mistaken(description)
        else { return self.renumbered(message) }
        if let from = claim.from, let digest = claim.proof {
            let mine = self.proof(of: description.id, description.source, at: from)
            let theirs = self.proof(of: id, description.source, at: from)
            claim.proof = mine?.digest == digest ? theirs?.digest ?? digest : digest
        }
        description.id = id
        self.renamed[number] = id
        return .open(number, description, claim)
    }

    /// The id that a bug gives to a file.
    private func mistaken(_ description: StreamDescription) -> StreamID? {
        if self.life.has(.twoSuccessors), let original = self.agent.fileRecord.copies[description.source] {
            return self.agent.credulity.lastIDs[original]
        }
        if self.life.has(.keepNumbers), self.agent.fileRecord.followers.contains(description.source) {
            return description.id.before
        }
        self.agent.credulity.lastIDs[description.source] = description.id
        return nil
    }

    /// An answer about a stream that a bug has renamed, as if it were of the agent's own.
    func translated(_ message: Message) -> Message {
        switch message {
        case .at(let number, let offset, let proof, let end):
            guard let own = self.ownProof(number, at: offset) else { return message }
            return .at(number, offset, own.skipping(proof.skippedByteCount), end: end)
        case .sealed(let number, let proof, let end):
            guard let offset = self.offsets[number], let own = self.ownProof(number, at: offset) else { return message }
            return .sealed(number, own.skipping(proof.skippedByteCount), end: end)
        default: return message
        }
    }

    private func ownProof(_ number: StreamNumber, at offset: StreamOffset) -> StreamProof? {
        guard self.renamed[number] != nil, !self.isRenumbered(number), let id = self.ids[number],
            let path = self.paths[number]
        else { return nil }
        return self.proof(of: id, path, at: offset)
    }

    private func proof(of id: StreamID, _ path: String, at offset: StreamOffset) -> StreamProof? {
        guard let bytes = self.agent.disk.memory.bytes(of: path), offset.rawValue <= UInt64(bytes.count) else {
            return nil
        }
        return StreamProof(
            of: id, at: offset, tail: bytes.prefix(Int(offset.rawValue)).suffix(StreamProof.byteCountMax))
    }
}

extension StreamID {
    /// The id with the number before; `nil` for the first number.
    fileprivate var before: StreamID? {
        guard let dash = self.text.lastIndex(of: "-"),
            let number = Int(self.text[self.text.index(after: dash)...]), number > 0
        else { return nil }
        return StreamID("\(self.text[...dash])\(number - 1)")
    }
}
