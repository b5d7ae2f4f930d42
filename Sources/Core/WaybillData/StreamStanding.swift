package import WaybillProtocol

/// What the journal knows about a stream.
package struct StreamStanding: Hashable, Sendable {
    private enum Extent: Hashable {
        case open(StreamTail)
        /// Nothing can follow, so the proof is enough; it takes less memory than the tail.
        case sealed(StreamOffset, StreamProof)
    }

    package internal(set) var description: StreamDescription
    private var extent: Extent

    /// The standing of a stream that is not sealed.
    package init(description: StreamDescription, tail: StreamTail = StreamTail()) {
        self.description = description
        self.extent = .open(tail)
    }

    /// The standing of a sealed stream.
    init(description: StreamDescription, length: StreamOffset, proof: StreamProof) {
        self.description = description
        self.extent = .sealed(length, proof)
    }

    package var durable: StreamOffset {
        switch self.extent {
        case .open(let tail): tail.end
        case .sealed(let length, _): length
        }
    }

    package var isSealed: Bool {
        if case .sealed = self.extent { true } else { false }
    }

    /// The last bytes below ``durable``; `nil` once the stream is sealed.
    package var tail: StreamTail? {
        if case .open(let tail) = self.extent { tail } else { nil }
    }

    /// The proof for ``durable``; computed unless the stream is sealed.
    package var proof: StreamProof {
        switch self.extent {
        case .open(let tail): tail.proof(of: self.description.id)
        case .sealed(_, let proof): proof
        }
    }

    /// How many bytes below ``durable`` were skipped, as far as that is known.
    package var skippedByteCount: UInt64 {
        switch self.extent {
        case .open(let tail): tail.skippedByteCount
        case .sealed(_, let proof): proof.skippedByteCount
        }
    }

    /// Takes over what else is known to have been skipped.
    mutating func countSkips(atLeast byteCount: UInt64) {
        guard byteCount > self.skippedByteCount else { return }
        switch self.extent {
        case .open(var tail):
            tail.countSkips(atLeast: byteCount)
            self.extent = .open(tail)
        case .sealed(let length, let proof): self.extent = .sealed(length, proof.skipping(byteCount))
        }
    }

    /// Moves the stream to another end; a sealed stream stays sealed, and what was skipped stays skipped.
    mutating func move(to tail: StreamTail) {
        var tail = tail
        tail.countSkips(atLeast: self.skippedByteCount)
        switch self.extent {
        case .open: self.extent = .open(tail)
        case .sealed: self.extent = .sealed(tail.end, tail.proof(of: self.description.id))
        }
    }

    mutating func seal() {
        self.extent = .sealed(self.durable, self.proof)
    }

    /// The same standing of another owner's stream; the proof, which names the id alone, stays.
    func renamed(_ description: StreamDescription) -> StreamStanding {
        switch self.extent {
        case .open(let tail): StreamStanding(description: description, tail: tail)
        case .sealed(let length, let proof): StreamStanding(description: description, length: length, proof: proof)
        }
    }

    /// Replaces the description of the stream.
    mutating func describe(_ description: StreamDescription) {
        precondition(description.name == self.description.name, "\(description.name) is not \(self.description.name)")
        self.description = description
    }
}
