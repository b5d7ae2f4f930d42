internal import WaybillCompression
internal import WaybillProtocol
internal import WaybillSystem

/// The stream table at the end of a segment.
struct StreamTable {
    var streams: [StreamName: StreamStanding] = [:]
    /// Sealed streams in the order of sealing.
    var sealedOrder: [StreamName] = []
    /// Streams for which no line covered by a valid mark has more than the id.
    var unverified: Set<StreamName> = []
    var history = StartHistory()
    var resting = RestingExtent()
    /// When each unsealed stream was written last in the segment, counted in entries; nothing for one that was not.
    var changes: [StreamName: Int] = [:]

    /// Merges in the previous segment's table, in place of the one in the damaged head.
    mutating func fill(from previous: StreamTable) {
        for (name, standing) in previous.streams {
            guard let own = self.streams[name] else {
                self.streams[name] = standing
                if previous.unverified.contains(name) { self.unverified.insert(name) }
                continue
            }
            if own.durable < standing.durable || own.durable == standing.durable && standing.isSealed {
                self.streams[name] = standing
                self.streams[name]?.describe(own.description)
                if own.isSealed { self.streams[name]?.seal() }
            } else if standing.isSealed {
                self.streams[name]?.seal()
            }
            self.streams[name]?.countSkips(atLeast: max(own.skippedByteCount, standing.skippedByteCount))
            guard self.unverified.contains(name), !previous.unverified.contains(name) else { continue }
            self.streams[name]?.describe(standing.description)
            self.unverified.remove(name)
        }
        self.sealedOrder = previous.sealedOrder + self.sealedOrder
        if self.history.starts.isEmpty { self.history = previous.history }
        if self.resting.byteCount == 0 { self.resting = previous.resting }
    }
}

/// Builds the stream table from a segment's messages.
///
/// The tails of streams come from their last batches: at the end of the scan, only those that hold a stream's last
/// ``StreamProof/byteCountMax`` bytes are read again and inflated, usually one for each stream.
struct TableBuilder {
    /// Where a batch's payload is in the segment's file.
    private struct Payload {
        let offset: Int
        let header: BatchHeader
    }

    private struct Record {
        var description: StreamDescription
        /// The tail before ``payloads``.
        var tail: StreamTail
        /// The last batches; those before them do not reach into the tail.
        var payloads: [Payload] = []
        var end: StreamOffset
        var isSealed = false
        /// The proof for ``tail``, if the head has only the proof.
        var proof: StreamProof?

        init(_ description: StreamDescription) {
            self.description = description
            self.tail = StreamTail()
            self.end = self.tail.end
        }

        /// Where its first payload is in the file; 0 without one.
        var start: Int { self.payloads.first?.offset ?? 0 }

        mutating func move(to tail: StreamTail) {
            self.tail = tail
            self.end = tail.end
            self.payloads = []
            self.proof = nil
        }

        mutating func add(_ payload: Payload) {
            // Records between them are damaged: what precedes the batch is unknown.
            if payload.header.offset != self.end { self.move(toUnknownBelow: payload.header.offset) }
            self.payloads.append(payload)
            self.end = payload.header.end
            while let second = self.payloads.dropFirst().first,
                self.end.rawValue - second.header.offset.rawValue >= UInt64(StreamProof.byteCountMax)
            {
                self.payloads.removeFirst()
                self.tail = self.tail(unknownBelow: second.header.offset)
            }
        }

        /// What was skipped is known, also without the bytes.
        private func tail(unknownBelow offset: StreamOffset) -> StreamTail {
            StreamTail(unknownBelow: offset, skippedByteCount: self.tail.skippedByteCount)
        }

        mutating func move(toUnknownBelow offset: StreamOffset) {
            self.move(to: self.tail(unknownBelow: offset))
        }

        mutating func skip(_ range: SkippedRange) {
            var tail = self.tail(unknownBelow: range.offset)
            tail.skip(range)
            self.move(to: tail)
        }
    }

    private var records: [StreamName: Record] = [:]
    private var sealedOrder: [StreamName] = []
    private var unverified: Set<StreamName> = []
    private var history = StartHistory()
    private var resting = RestingExtent()
    private var changes: [StreamName: Int] = [:]
    private var entryCount = 0
    private var names: [StreamNumber: StreamName] = [:]
    /// Lines not covered by a mark yet.
    private var unconfirmed: [Message] = []

    mutating func add(_ message: Message) {
        self.unconfirmed.append(message)
    }

    mutating func forgetUnconfirmed() {
        self.unconfirmed.removeAll()
    }

    /// Adds a batch whose payload is at `offset` in the segment's file.
    mutating func add(_ header: BatchHeader, of description: StreamDescription, at offset: Int, isVerified: Bool) {
        let name = description.name
        self.names[header.stream] = name
        if !isVerified, self.records[name] == nil { self.unverified.insert(name) }
        self.records[name, default: Record(description)].add(Payload(offset: offset, header: header))
        self.noteChange(name)
    }

    private mutating func noteChange(_ name: StreamName) {
        self.entryCount += 1
        self.changes[name] = self.entryCount
    }

    mutating func confirm() {
        for message in self.unconfirmed { self.apply(message) }
        self.unconfirmed.removeAll(keepingCapacity: true)
    }

    private mutating func apply(_ message: Message) {
        switch message {
        case .start(let start, let incarnation):
            self.history.add(start, of: incarnation)
        case .resting(let count, let byteCount, let checksum):
            self.resting = RestingExtent(count: Int(count), byteCount: Int(byteCount), checksum: checksum)
        case .open(let number, let description, _):
            self.names[number] = description.name
            self.records[description.name, default: Record(description)].description = description
            self.unverified.remove(description.name)
        case .at(let number, let offset, let proof, _):
            self.change(number) { record in
                record.move(to: StreamTail(unknownBelow: offset, skippedByteCount: proof.skippedByteCount))
                record.proof = proof
            }
        case .tail(let number, let bytes):
            self.change(number) { record in
                let skipped = record.tail.skippedByteCount
                guard let tail = StreamTail(end: record.end, bytes: bytes, skippedByteCount: skipped) else { return }
                record.move(to: tail)
            }
        case .skip(let number, let range):
            self.change(number) { $0.skip(range) }
            if let name = self.names[number] { self.noteChange(name) }
        case .sealed(let number, _, _), .seal(let number, _):
            self.change(number) { $0.isSealed = true }
            if let name = self.names[number] { self.sealedOrder.append(name) }
        case .hello, .ready, .batch, .ack, .nak, .stored, .note, .ping, .pong, .wait, .move, .err, .bye, .mark:
            return
        }
    }

    private mutating func change(_ number: StreamNumber, _ change: (inout Record) -> Void) {
        guard let name = self.names[number], var record = self.records.removeValue(forKey: name) else { return }
        change(&record)
        self.records[name] = record
    }

    /// Reads the tails from the segment's file and returns the table.
    ///
    /// - Parameter previous: the table that the segment's damaged head had.
    func table(of path: String, on previous: StreamTable?, files: some FileSystem) throws(FileSystemError)
        -> StreamTable
    {
        var table = StreamTable()
        table.sealedOrder = self.sealedOrder
        table.unverified = self.unverified
        table.history = self.history
        table.resting = self.resting
        table.changes = self.changes
        var reader = try TailReader(path: path, files: files)
        // In the order of the file: the same segment is read in the same way each time.
        for (name, record) in self.records.sorted(by: { $0.value.start < $1.value.start }) {
            var tail = record.tail
            if let before = previous?.streams[name]?.tail, before.end == tail.end, tail.bytes.isEmpty { tail = before }
            for payload in record.payloads {
                try reader.append(payload.header, at: payload.offset, to: &tail)
            }
            table.streams[name] = Self.standing(record, tail)
        }
        if let previous { table.fill(from: previous) }
        return table
    }

    private static func standing(_ record: Record, _ tail: StreamTail) -> StreamStanding {
        if record.isSealed, record.payloads.isEmpty, let proof = record.proof {
            return StreamStanding(description: record.description, length: record.end, proof: proof)
        }
        var standing = StreamStanding(description: record.description, tail: tail)
        if record.isSealed { standing.seal() }
        return standing
    }
}

/// Inflates batches of a segment for the last bytes of their streams.
private struct TailReader<Files: FileSystem>: ~Copyable {
    private let file: FileID
    private let files: Files
    private var inflater = Inflater()
    private var wire: [UInt8] = []
    private var raw: [UInt8] = []

    init(path: String, files: Files) throws(FileSystemError) {
        self.file = try files.open(path, .read)
        self.files = files
    }

    deinit {
        self.files.close(self.file)
    }

    /// Appends the bytes of a batch; a payload that does not inflate leaves the tail unknown.
    mutating func append(_ header: BatchHeader, at offset: Int, to tail: inout StreamTail) throws(FileSystemError) {
        self.wire.resize(to: header.wireByteCount)
        self.raw.resize(to: header.rawByteCount)
        let count = try self.files.readFully(self.file, at: offset, into: &self.wire)
        let isWhole = count == header.wireByteCount && self.inflate()
        if isWhole {
            self.raw.withUnsafeBytes { tail.append($0) }
        } else {
            tail = StreamTail(unknownBelow: header.end, skippedByteCount: tail.skippedByteCount)
        }
    }

    private mutating func inflate() -> Bool {
        do throws(InflateError) {
            try self.wire.withBytes { (wire) throws(InflateError) in
                try self.raw.withMutableBytes { (raw) throws(InflateError) in
                    try self.inflater.inflate(wire, into: raw)
                }
            }
            return true
        } catch {
            // The batch was inflated before it was acknowledged: only a defect leads here.
            return false
        }
    }
}

extension [UInt8] {
    fileprivate mutating func resize(to count: Int) {
        if count < self.count { self.removeLast(self.count - count) }
        if count > self.count { self.append(contentsOf: repeatElement(0, count: count - self.count)) }
    }
}
