internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillReceiver
internal import WaybillSystem

/// Planted bugs that change what the committer is asked.
extension SimulatedReceiver {
    /// The planted bug: a stream that was sealed before this start is a new one.
    func forgetting(_ request: CommitRequest) -> CommitRequest {
        if case .seal(_, _, let description, _) = request { self.sealedNow.insert(description.id) }
        guard self.site.has(.forgetSealedStreams) else { return request }
        func forgotten(_ description: StreamDescription) -> StreamDescription {
            guard self.sealedBefore.contains(description.id) else { return description }
            var description = description
            description.owner.principal = "forgotten"
            return description
        }
        switch request {
        case .open(let connection, let number, let description, let tenancy):
            return .open(connection, number, forgotten(description), tenancy)
        case .batch(let connection, let number, let description, let header, let wire, let raw):
            return .batch(connection, number, forgotten(description), header, wire: wire, raw: raw)
        case .skip(let connection, let number, let description, let range):
            return .skip(connection, number, forgotten(description), range)
        case .seal(let connection, let number, let description, let length):
            return .seal(connection, number, forgotten(description), length: length)
        case .closed: return request
        }
    }

    /// The planted bug: what comes is appended, wherever its agent says that it begins.
    func blindly(_ header: BatchHeader, _ id: StreamID, _ wire: SharedBytes) -> BatchHeader {
        var header = header
        let end = self.blindEnds[id] ?? header.offset.rawValue
        header.offset = StreamOffset(max(end, header.offset.rawValue))
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), wire.bytes)
        self.blindEnds[id] = header.end.rawValue
        return header
    }
}
