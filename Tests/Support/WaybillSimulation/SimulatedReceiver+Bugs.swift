internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// What a receiver with a planted bug has seen.
struct ReceiverConfusion {
    /// Streams that were sealed since the last start, and before it.
    var sealedNow: Set<StreamID> = []
    var sealedBefore: Set<StreamID> = []
    /// What it takes for the end of each stream.
    var blindEnds: [StreamID: UInt64] = [:]
    /// The numbers of each log's contents, in the order in which they were asked for here.
    var numbers: [String: [String]] = [:]
    /// The last connection of the agent's principal that opened each stream.
    var openers: [StreamID: (connection: ConnectionHandle, number: StreamNumber, description: StreamDescription)] = [:]
    /// What was shipped while streams had no owners.
    var ownerless: [StreamID: [UInt8]] = [:]
    /// The offset for which a proof was demanded.
    var unproven: [StreamID: StreamOffset] = [:]
}

/// Planted bugs that change what the committer is asked.
extension SimulatedReceiver {
    /// The planted bug: a stream that was sealed before this start is a new one.
    func forgetting(_ request: CommitRequest) -> CommitRequest {
        if case .seal(_, _, let description, _) = request { self.confusion.sealedNow.insert(description.id) }
        guard self.life.has(.forgetSealedStreams) else { return request }
        return request.describing { description in
            if self.confusion.sealedBefore.contains(description.id) { description.owner.principal = "forgotten" }
        }
    }

    /// The planted bug: the id of a log's content, numbered at this receiver alone.
    func renumbered(_ id: StreamID) -> StreamID {
        guard let dash = id.text.lastIndex(of: "-") else { return id }
        let name = String(id.text[...dash])
        let number = String(id.text[id.text.index(after: dash)...])
        let known = self.confusion.numbers[name] ?? []
        let index = known.firstIndex(of: number) ?? known.count
        if index == known.count { self.confusion.numbers[name] = known + [number] }
        return StreamID(name + String(index)) ?? id
    }

    /// The planted bug: what comes is appended, wherever its agent says that it begins.
    func blindly(_ request: CommitRequest) -> CommitRequest {
        guard self.life.has(.resendWithoutAsking),
            case .batch(let connection, let number, let description, var header, let wire, let raw) = request
        else { return request }
        let end = self.confusion.blindEnds[description.id] ?? header.offset.rawValue
        header.offset = StreamOffset(max(end, header.offset.rawValue))
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: description.id), wire.bytes)
        self.confusion.blindEnds[description.id] = header.end.rawValue
        return .batch(connection, number, description, header, wire: wire, raw: raw)
    }

    /// The planted bugs about owners.
    func confusing(_ request: CommitRequest) -> CommitRequest {
        if self.life.has(.nameStreamsByID) {
            return request.describing { $0.owner.principal = "" }
        }
        if self.life.has(.checkPatternsAtOpenAlone) {
            return request.describing { description in
                description.owner.environments = []
                description.owner.bundles = []
            }
        }
        if self.life.has(.adoptWithoutProof) { return self.proving(request) }
        if self.life.has(.skipByAnybody) { return self.redirecting(request) }
        return request
    }

    /// The planted bug: each claim comes with the proof of the stream from before.
    private func proving(_ request: CommitRequest) -> CommitRequest {
        switch request {
        case .batch(_, _, let description, let header, _, let raw):
            self.tookOwnerless(description, at: header.offset, Array(raw.bytes))
        case .skip(_, _, let description, let range):
            let tail = range.tail ?? []
            let hole = [UInt8](repeating: 0, count: max(0, Int(range.byteCount) - tail.count))
            self.tookOwnerless(description, at: range.offset, (hole + tail).suffix(Int(range.byteCount)))
        case .open(let connection, let number, let description, var tenancy):
            let id = description.id
            guard !description.owner.principal.isEmpty, let end = self.confusion.unproven[id],
                let bytes = self.confusion.ownerless[id], bytes.count >= Int(end.rawValue)
            else { return request }
            let tail = bytes.prefix(Int(end.rawValue)).suffix(StreamProof.byteCountMax)
            tenancy.claim = OpenClaim(from: end, proof: StreamProof(of: id, at: end, tail: tail).digest)
            return .open(connection, number, description, tenancy)
        case .seal, .closed: break
        }
        return request
    }

    private func tookOwnerless(_ description: StreamDescription, at offset: StreamOffset, _ bytes: [UInt8]) {
        let known = self.confusion.ownerless[description.id] ?? []
        guard description.owner.principal.isEmpty, Int(offset.rawValue) <= known.count else { return }
        self.confusion.ownerless[description.id] = known.prefix(Int(offset.rawValue)) + bytes
    }

    /// The planted bug: what another principal skips or seals under the agent's id is done to the agent's stream.
    private func redirecting(_ request: CommitRequest) -> CommitRequest {
        switch request {
        case .open(let connection, let number, let description, _) where description.owner.principal == Ownership.agent:
            self.confusion.openers[description.id] = (connection, number, description)
        case .skip(_, _, let description, let range) where description.owner.principal == Ownership.others:
            guard let opener = self.confusion.openers[description.id] else { break }
            return .skip(opener.connection, opener.number, opener.description, range)
        case .seal(_, _, let description, let length) where description.owner.principal == Ownership.others:
            guard let opener = self.confusion.openers[description.id] else { break }
            return .seal(opener.connection, opener.number, opener.description, length: length)
        default: break
        }
        return request
    }
}

extension CommitRequest {
    /// The same request with another description of its stream.
    fileprivate func describing(_ change: (inout StreamDescription) -> Void) -> CommitRequest {
        func changed(_ description: StreamDescription) -> StreamDescription {
            var description = description
            change(&description)
            return description
        }
        switch self {
        case .open(let connection, let number, let description, let tenancy):
            return .open(connection, number, changed(description), tenancy)
        case .batch(let connection, let number, let description, let header, let wire, let raw):
            return .batch(connection, number, changed(description), header, wire: wire, raw: raw)
        case .skip(let connection, let number, let description, let range):
            return .skip(connection, number, changed(description), range)
        case .seal(let connection, let number, let description, let length):
            return .seal(connection, number, changed(description), length: length)
        case .closed: return self
        }
    }
}
