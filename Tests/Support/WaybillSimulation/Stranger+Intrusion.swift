internal import WaybillProtocol

/// What an agent of another principal tries with the stream of one.
enum Intrusion: CaseIterable {
    /// Opens the id, often before its owner does, and ships, skips or seals there: it is a stream of its own.
    case squat
    /// Skips where the owner's stream ends.
    case skip
    /// Seals the owner's stream.
    case seal
    /// Opens the id within its patterns, and writes events of the owner's app.
    case forge
    /// Opens the id with the owner's app, and continues although it is refused.
    case trespass
}

extension Stranger {
    /// The description that it opens with.
    func claimed(_ description: StreamDescription, _ intrusion: Intrusion) -> StreamDescription {
        var description = description
        if intrusion != .trespass { description.bundle = Ownership.othersBundle }
        // Other NDJSON has the stream's bundle, whatever it says.
        if intrusion == .forge { description.format = .waybill }
        return description
    }

    /// The receiver has opened a stream: it must be the strangers' own.
    func intrude(_ description: StreamDescription, _ intrusion: Intrusion, from offset: StreamOffset) {
        let own = self.receiver.squatted[description.id] ?? StreamOffset(0)
        if offset > own {
            self.site.violate("\(self.receiver.label) lets a stranger into \(description.id) at \(offset.rawValue)")
        }
        let end = self.receiver.promised[StreamName(principal: Ownership.agent, id: description.id)] ?? offset
        self.site.note("a stranger tries \(intrusion) with \(description.id)")
        switch intrusion {
        case .squat:
            var end = self.ship(from: offset)
            if self.site.dice.chance(300) { end = self.skip(from: end, .tooLong) }
            if self.site.dice.chance(500) { self.seal(end) }
            self.moved(description.id, to: end)
        case .skip: self.moved(description.id, to: self.skip(from: end, self.site.dice.pick([.truncated, .tooLong])))
        case .seal: self.seal(end)
        case .forge, .trespass: self.moved(description.id, to: self.forge(from: offset))
        }
        self.leaveSoon()
    }

    /// Its `OPEN` was refused: it says what it likes all the same.
    func insist(_ description: StreamDescription, _ intrusion: Intrusion, at offset: StreamOffset, _ code: ErrorCode) {
        guard code != .prove else {
            guard !self.hasClaimed else { return self.leave() }
            self.hasClaimed = true
            let proof = StreamProof(of: description.id, at: offset, tail: [0x0A]).digest
            let claim =
                self.site.dice.chance(500) ? OpenClaim(from: offset, proof: proof) : OpenClaim(from: StreamOffset(0))
            return self.open(self.claimed(description, intrusion), claim)
        }
        switch self.site.dice.int(0..<3) {
        case 0: _ = self.forge(from: offset)
        case 1: _ = self.skip(from: offset, .truncated)
        default: self.seal(offset)
        }
        self.leaveSoon()
    }

    private func moved(_ id: StreamID, to end: StreamOffset) {
        self.receiver.squatted[id] = max(self.receiver.squatted[id] ?? StreamOffset(0), end)
    }

    /// Ships an event that is not its own to write.
    private func forge(from offset: StreamOffset) -> StreamOffset {
        let head = "{\"v\":1,\"ts\":\"2026-11-20T09:00:00.000Z\",\"env\":\"prod\",\"bundle\":\"com.example.shop\""
        let line = Array("\(head),\"name\":\"x\",\"n\":\"\(self.site.nextToken())\"}".utf8)
        self.site.ownership.forged.insert(line[...])
        return self.ship(line, from: offset)
    }
}
