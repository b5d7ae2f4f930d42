internal import WaybillCompression
internal import WaybillData
internal import WaybillProtocol
internal import WaybillSystem

/// What a round's pieces add to the merged journal.
extension Merger {
    /// Appends what is new in a round's pieces, and makes journal and state durable.
    mutating func apply(_ round: MergeRound, _ objects: [HeldPiece]) throws(MergeFailure) {
        var work = RoundWork()
        var lines = StateLines()
        for (piece, object) in zip(round.pieces, objects) {
            var chain = self.chains[piece.chain] ?? MergedChain(position: piece.position)
            // What the log says twice is there once.
            guard piece.position == chain.position, let extent = object.extent else { continue }
            self.teller = Teller(
                receiver: piece.chain.receiver,
                isJoining: self.chains[piece.chain] == nil && piece.position.rawValue > 0)
            try MergeFailure.onDisk(self.apply(object.bytes, extent, startingAt: piece.position, &work))
            chain.position = extent.end
            if let mark = extent.lastMark { chain.lastMark = mark }
            self.chains[piece.chain] = chain
            self.look.found[piece.chain] = nil
            MergeState.set(piece.chain, chain, &lines)
        }
        let positions = try MergeFailure.onDisk(self.journal.commit())
        for (staged, position) in zip(work.staged, positions) {
            self.places.add(staged.name, staged.range, at: position)
        }
        self.round = round.number
        if let barrier = self.barrier(behind: round) {
            self.barriers.append(barrier)
            MergeState.set(barrier, &lines)
        }
        self.through = max(self.through, round.through)
        self.erasures.name(upTo: round.erasures, behind: round, at: self.journal.end, &lines)
        self.setAsides.name(round.setAsides, &lines)
        try self.commit(lines)
    }

    /// Where the receivers' time passes a multiple of the fleet's interval, days may be sealed.
    private func barrier(behind round: MergeRound) -> SealBarrier? {
        guard self.passesBarrier(to: round.through) else { return nil }
        return SealBarrier(
            round: round.number, position: self.journal.end, through: round.through, now: round.time)
    }

    func passesBarrier(to end: WallTime) -> Bool {
        let step = self.setup.sealInterval.nanoseconds / 1_000_000
        return end.milliseconds / step > max(0, self.through.milliseconds) / step
    }

    private mutating func apply(
        _ object: [UInt8], _ extent: PieceExtent, startingAt start: JournalPosition, _ work: inout RoundWork
    ) throws(FileSystemError) {
        var scanner = SegmentScanner(bytes: object, base: extent.base, files: self.files)
        var descriptions: [StreamNumber: StreamDescription] = [:]
        // A segment's head restates what the chain's earlier pieces have.
        var isInHead = extent.base == start && !self.teller.isJoining
        while true {
            let position = scanner.position
            switch try scanner.next() {
            case .message(.open(let number, let description, _)): descriptions[number] = description
            case .message(.mark):
                isInHead = false
                self.journal.beginGroup(at: scanner.receivedAt)
            case .message(.at(let number, let offset, _, _)):
                guard !isInHead, let description = descriptions[number] else { continue }
                self.restate(description.name, at: offset.rawValue)
            case .message(.skip(let number, let range)):
                guard position >= start, let description = descriptions[number] else { continue }
                self.skip(range, of: description)
            case .message(.seal(let number, let length)):
                guard position >= start, let description = descriptions[number] else { continue }
                if self.streams.seal(description.name, at: length.rawValue) {
                    self.journal.add(.seal(length: length), of: description)
                }
            case .message: break
            case .batch(let header, let description, let payload):
                try self.take(header, of: description, payload, &work)
            case .end: return
            case .damaged:
                let isFound = try scanner.stepOverDamage()
                let end = isFound ? scanner.position : extent.end
                self.tally.damagedByteCount += end.rawValue - position.rawValue
                self.journal.beginGroup(at: scanner.receivedAt)
                guard isFound else { return }
            }
        }
    }

    /// Takes what a receiver says of a stream when it joins, and later of one that was at rest or has got another owner.
    private mutating func restate(_ name: StreamName, at offset: UInt64) {
        guard offset > 0 else { return }
        guard self.teller.isJoining || !self.streams.isHeard(0..<offset, of: name, from: self.teller.receiver)
        else { return }
        self.streams.join(name, at: offset)
    }

    private mutating func skip(_ range: SkippedRange, of description: StreamDescription) {
        // Others have these bytes: another piece, or an archive from before the fleet; or they are missing.
        let bytes = range.offset.rawValue..<range.end.rawValue
        guard !range.reason.isOfFleet else {
            return self.streams.tell(bytes, of: description.name, to: self.teller.receiver, holder: range.holder)
        }
        if self.streams.skip(bytes, of: description.name) {
            self.journal.add(.skip(range), of: description)
        }
    }

    private mutating func take(
        _ header: BatchHeader, of description: StreamDescription, _ payload: UnsafeRawBufferPointer,
        _ work: inout RoundWork
    ) throws(FileSystemError) {
        let range = header.offset.rawValue..<header.end.rawValue
        if self.streams.lacks(range, of: description.name) {
            self.add(header, of: description, SharedBytes(payload), &work)
            self.tally.copiedFrameCount += 1
            return
        }
        let versions = try self.versions(of: range, in: description.name, work)
        if versions.contains(where: { $0.isFrame(header, payload) }) {
            self.dropped(lineCount: header.lineCount, byteCount: header.rawByteCount)
            self.tally.droppedFrameCount += 1
            return
        }
        self.resolve(header, of: description, payload, versions, &work)
    }

    /// Keeps the lines of a batch that the merged journal does not have.
    private mutating func resolve(
        _ header: BatchHeader, of description: StreamDescription, _ payload: UnsafeRawBufferPointer,
        _ versions: [BatchVersion], _ work: inout RoundWork
    ) {
        guard let raw = work.inflate(payload, byteCount: header.rawByteCount) else {
            // It was inflated before it was acknowledged: the receiver's memory or program was at fault.
            self.tally.damagedByteCount += header.wireByteCount
            return
        }
        let known = versions.compactMap { version in
            work.inflate(version.payload.bytes, byteCount: version.header.rawByteCount).map { (version.range, $0) }
        }
        let name = description.name
        var kept: [Range<Int>] = []
        raw.withUnsafeBytes { bytes in
            bytes.forEachLineWithEnd { line in
                let start = header.offset.rawValue + UInt64(line.lowerBound)
                let place = start..<(start + UInt64(line.count))
                if !self.streams.lacks(place, of: name) {
                    let holders = known.filter {
                        $0.0.lowerBound <= place.lowerBound && $0.0.upperBound >= place.upperBound
                    }
                    let isEqual = holders.contains { range, other in
                        other[Int(place.lowerBound - range.lowerBound)...].prefix(line.count).elementsEqual(raw[line])
                    }
                    // A known batch that begins or ends within the line has a line's end there, so its bytes are others.
                    let isUnproven =
                        self.streams.standing(of: place, in: name) == .present
                        && !known.contains { $0.0.overlaps(place) }
                    if isEqual || isUnproven {
                        self.dropped(lineCount: 1, byteCount: line.count)
                        if isUnproven { self.tally.unprovenLineCount += 1 }
                        return
                    }
                    self.tally.conflictLineCount += 1
                }
                if let last = kept.last, last.upperBound == line.lowerBound {
                    kept[kept.count - 1] = last.lowerBound..<line.upperBound
                } else {
                    kept.append(line)
                }
            }
        }
        if kept.isEmpty { self.tally.droppedFrameCount += 1 } else { self.tally.trimmedFrameCount += 1 }
        for part in kept {
            let (partHeader, bytes) = work.frame(
                Array(raw[part]), of: description.id, at: header.offset.advanced(by: part.lowerBound))
            self.add(partHeader, of: description, bytes, &work)
        }
    }

    private mutating func dropped(lineCount: Int, byteCount: Int) {
        self.tally.droppedLineCount += lineCount
        self.tally.droppedByteCount += byteCount
    }

    private mutating func add(
        _ header: BatchHeader, of description: StreamDescription, _ payload: SharedBytes, _ work: inout RoundWork
    ) {
        let range = header.offset.rawValue..<header.end.rawValue
        self.journal.add(.batch(header, payload: payload, raw: payload), of: description)
        self.streams.add(range, to: description.name)
        self.tally.lineCount += header.lineCount
        work.stage(BatchVersion(name: description.name, range: range, header: header, payload: payload))
    }

    /// The batches of the merged journal, and of this round, that have bytes of a range.
    private func versions(
        of range: Range<UInt64>, in name: StreamName, _ work: borrowing RoundWork
    ) throws(FileSystemError) -> [BatchVersion] {
        var versions = work.versions(of: range, in: name)
        for place in self.places.places(of: name, in: range) {
            guard let (header, payload) = try self.journal.batch(at: place.position) else { continue }
            versions.append(
                BatchVersion(
                    name: name, range: place.start..<place.end, header: header,
                    payload: payload.withUnsafeBytes { SharedBytes($0) }))
        }
        return versions
    }
}

/// A batch as the merged journal has it.
struct BatchVersion {
    let name: StreamName
    let range: Range<UInt64>
    let header: BatchHeader
    let payload: SharedBytes

    /// Whether it is the same frame, but for the stream's number.
    func isFrame(_ other: BatchHeader, _ bytes: UnsafeRawBufferPointer) -> Bool {
        var other = other
        other.stream = self.header.stream
        return other == self.header && self.payload.bytes.elementsEqual(bytes)
    }
}

/// What is staged of a round.
struct RoundWork: ~Copyable {
    /// The batches, in the order of staging.
    private(set) var staged: [BatchVersion] = []
    private var indexes: [StreamName: [Int]] = [:]
    private var inflater = Inflater()
    private var deflater = Deflater(level: 6)

    init() {}

    mutating func stage(_ version: BatchVersion) {
        self.indexes[version.name, default: []].append(self.staged.count)
        self.staged.append(version)
    }

    func versions(of range: Range<UInt64>, in name: StreamName) -> [BatchVersion] {
        (self.indexes[name] ?? []).map { self.staged[$0] }.filter { $0.range.overlaps(range) }
    }

    mutating func inflate(_ payload: UnsafeRawBufferPointer, byteCount: Int) -> [UInt8]? {
        var isWhole = true
        let raw = [UInt8](unsafeUninitializedCapacity: byteCount) { buffer, count in
            do throws(InflateError) {
                let output = UnsafeMutableRawBufferPointer(buffer)
                try self.inflater.inflate(payload, into: UnsafeMutableRawBufferPointer(rebasing: output[..<byteCount]))
                count = byteCount
            } catch {
                isWhole = false
                count = 0
            }
        }
        return isWhole ? raw : nil
    }

    /// A new frame of whole lines.
    mutating func frame(
        _ raw: [UInt8], of id: StreamID, at offset: StreamOffset
    ) -> (header: BatchHeader, payload: SharedBytes) {
        let payload = raw.withUnsafeBytes { bytes in
            SharedBytes(capacity: self.deflater.byteCountMax(of: bytes.count)) {
                self.deflater.deflate(bytes, into: $0)
            }
        }
        let lineCount = raw.count { $0 == 0x0A } + (raw.last == 0x0A ? 0 : 1)
        var header = BatchHeader(
            stream: StreamNumber(1), offset: offset, rawByteCount: raw.count, lineCount: lineCount,
            wireByteCount: payload.count, checksum: 0)
        header.checksum = FrameChecksum.checksum(of: header.checksummedText(id: id), payload.bytes)
        return (header, payload)
    }
}

extension UnsafeRawBufferPointer {
    /// Calls `body` for each line with its LF; the last may lack one.
    fileprivate func forEachLineWithEnd(_ body: (Range<Int>) -> Void) {
        var start = 0
        while start < self.count {
            let end = self[start...].firstIndex(of: 0x0A).map { $0 + 1 } ?? self.count
            body(start..<end)
            start = end
        }
    }
}
