internal import WaybillProtocol
internal import WaybillSystem

/// An entry of the next group.
struct StagedEntry {
    let name: StreamName
    let entry: JournalEntry
    /// The stream's new description, if the journal does not have it yet.
    let description: StreamDescription?
}

/// The entries of a journal's next group, and how their streams stand with them.
struct StagedEntries {
    /// In the order of staging.
    private(set) var entries: [StagedEntry] = []
    private var tails: [StreamName: StreamTail] = [:]
    private var descriptions: [StreamName: StreamDescription] = [:]
    private var seals: [StreamName: StreamProof] = [:]

    /// Where a stream ends with its entries; `nil` if nothing of it has bytes.
    func end(of name: StreamName) -> StreamOffset? { self.tails[name]?.end }

    /// The proof of a stream's end; `nil` if nothing changes it.
    func proof(of name: StreamName) -> StreamProof? {
        self.seals[name] ?? self.tails[name]?.proof(of: name.id)
    }

    /// Whether a seal of the stream is among the entries.
    func isSealed(_ name: StreamName) -> Bool { self.seals[name] != nil }

    /// Whether an entry gives the stream a description.
    func introduces(_ name: StreamName) -> Bool { self.descriptions[name] != nil }

    /// Adds the standing with which a stream begins where another owner's ended.
    mutating func adopt(_ standing: StreamStanding) {
        let name = standing.description.name
        self.tails[name] = standing.tail ?? StreamTail(unknownBelow: standing.durable)
        if standing.isSealed { self.seals[name] = standing.proof }
        self.descriptions[name] = standing.description
        self.entries.append(
            StagedEntry(name: name, entry: .standing(standing), description: standing.description))
    }

    /// Adds an entry that continues its stream.
    ///
    /// - Parameter standing: the stream's durable standing; `nil` for a new one.
    mutating func add(_ entry: JournalEntry, of description: StreamDescription, after standing: StreamStanding?) {
        let name = description.name
        var tail = self.tails[name] ?? standing?.tail ?? StreamTail()
        switch entry {
        case .batch(let header, _, let raw):
            precondition(raw.count == header.rawByteCount, "\(raw.count) bytes of \(header.rawByteCount)")
            tail.append(raw.bytes)
            self.tails[name] = tail
        case .skip(let range):
            tail.skip(range)
            self.tails[name] = tail
        case .seal: self.seals[name] = tail.proof(of: name.id)
        case .standing: preconditionFailure("a standing comes from adopt(_:)")
        }
        let known = self.descriptions[name] ?? standing?.description
        if known != description { self.descriptions[name] = description }
        self.entries.append(
            StagedEntry(name: name, entry: entry, description: known == description ? nil : description))
    }

    /// Moves the streams to where they stand with the entries, which are durable, and removes the entries.
    mutating func apply(to streams: inout [StreamName: StreamStanding], _ order: inout RestOrder) {
        for (name, description) in self.descriptions {
            streams[name, default: StreamStanding(description: description)].describe(description)
        }
        for (name, tail) in self.tails { streams[name]?.move(to: tail) }
        for staged in self.entries {
            order.wrote(staged.name)
            if case .standing(let standing) = staged.entry, standing.isSealed {
                streams[staged.name] = standing
                order.sealed(staged.name)
            }
            guard case .seal(let length) = staged.entry, let proof = self.seals[staged.name],
                let description = streams[staged.name]?.description
            else { continue }
            streams[staged.name] = StreamStanding(description: description, length: length, proof: proof)
            order.sealed(staged.name)
        }
        self.entries.removeAll(keepingCapacity: true)
        self.tails.removeAll(keepingCapacity: true)
        self.descriptions.removeAll(keepingCapacity: true)
        self.seals.removeAll(keepingCapacity: true)
    }
}
