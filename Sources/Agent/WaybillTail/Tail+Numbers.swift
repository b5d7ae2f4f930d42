internal import WaybillProtocol
internal import WaybillSystem

/// Numbers the contents of foreign files once for a whole fleet.
///
/// A receiver that stands alone is asked which of its streams has a file's bytes. Receivers of a fleet are not: one of them
/// may have nothing yet of what another one took, and their journals are read together. So here the agent decides:
///
///     identified ─▶ numbered ─▶ checkpoint ─▶ OPEN … AT ─▶ end and proof written to the registry ─▶ BATCH
///
/// 1. A number is durable before the first `OPEN` that has it.
/// 2. The registry has the end and the proof of what is sent before it is sent. This survives the end of the agent at once,
///    and a power failure after the next checkpoint. So the file's bytes show whether it still has the numbered content.
/// 3. The entry of a content that was cut stays until the next content of the file has an entry: a file that is empty now
///    may begin with the same line again.
///
/// - SeeAlso: `Protocol/protocol.md`, section 20.2.
extension Tail {
    /// The number of a file's content at the present receiver; `nil` outside a fleet, and for segments.
    func presentNumber(of key: StreamKey) -> ContentNumber? {
        self.isInFleet ? self.rememberedFleet.numbers[key] : nil
    }

    /// Gives a content a number if it has none, and makes its file be asked for under it.
    mutating func number(_ key: StreamKey) {
        guard self.isInFleet else { return }
        let file = self.table[key]
        guard !file.isSegment, file.isIdentified, file.reach != .gone else { return }
        let number: Int
        if let known = self.rememberedFleet.numbers[key] {
            number = known.number
        } else {
            number = self.firstNumber(of: key)
            let stored = file.earlier?.stored?.byteCount(in: self.rememberedFleet.ordinal)
            let sent = stored.flatMap { self.anchor(of: key, below: $0, inStream: number) }
            self.setNumber(of: key, to: number, heldBelow: sent)
        }
        self.table[key].walk = nil
        guard file.streamIncarnation != number else { return }
        // What this receiver holds under another number is in another stream.
        if file.receiver > 0 {
            self.table[key].resume(nil)
            self.changes.insert(key)
        }
        self.table[key].streamIncarnation = number
    }

    /// A content that was sent before it had a number keeps the one that receivers know it by.
    private func firstNumber(of key: StreamKey) -> Int {
        let file = self.table[key]
        if file.receiver > 0 { return file.streamIncarnation }
        return self.rememberedFleet.offsets[key]?.incarnation ?? file.incarnation
    }

    /// - Parameter held: the end of what the fleet holds in sealed streams of lower numbers.
    private mutating func setNumber(of key: StreamKey, to number: Int, heldBelow held: Anchor?) {
        self.rememberedFleet.numbers[key] = ContentNumber(
            number: number, sent: held,
            held: held.map { FleetBytes(fleet: self.rememberedFleet.ordinal, byteCount: $0.end) })
        self.rememberedFleet.undurable.insert(key)
        self.changes.insert(key)
    }

    /// Lets a receiver outside the fleet be asked for a file's streams from 0 on.
    mutating func leaveNumber(_ key: StreamKey) {
        guard !self.isInFleet, self.rememberedFleet.numbers[key] != nil, self.table[key].receiver == 0,
            self.table[key].walk == nil
        else { return }
        self.table[key].streamIncarnation = 0
    }

    /// Makes sure, before `OPEN`, that a file still has the content that was numbered, and that the number is durable.
    ///
    /// - Returns: whether to open it. If not, it becomes ready again later, or its stream is gone.
    mutating func confirmNumber(_ stream: StreamKey, _ now: TailTime) -> Bool {
        self.number(stream)
        guard let number = self.presentNumber(of: stream) else { return true }
        if number.sent != nil, case .opened(let descriptor) = self.open(stream) {
            do throws(FileSystemError) {
                guard try self.hasNumberedContent(stream, descriptor) else {
                    self.truncated(stream)
                    return false
                }
            } catch {
                self.readFailed(stream, error)
                return false
            }
        }
        guard self.table.contains(stream) else { return false }
        guard self.rememberedFleet.undurable.contains(stream) else { return true }
        do throws(FileSystemError) {
            try self.checkpoint(now)
            return true
        } catch {
            // The next checkpoint reports it, if it fails as well.
            self.retryAfterScan(stream)
            return false
        }
    }

    /// Whether a file has the bytes that were sent under its number; read only where they lie after the cursor, below
    /// which they were compared.
    func hasNumberedContent(_ stream: StreamKey, _ descriptor: FileID) throws(FileSystemError) -> Bool {
        guard let number = self.presentNumber(of: stream), let sent = number.sent,
            sent.end > self.table[stream].cursor,
            let id = self.streamID(of: self.table[stream], incarnation: number.number)
        else { return true }
        return try self.holds(descriptor, sent, of: id)
    }

    /// Writes the end and the proof of what was read since `start` to the registry, before it is sent.
    ///
    /// - Returns: whether it may be sent. If not, it is read again after the next scan.
    mutating func rememberSent(_ stream: StreamKey, since start: Int, _ now: TailTime) -> Bool {
        guard self.table.contains(stream), let number = self.presentNumber(of: stream) else { return true }
        let cursor = self.table[stream].cursor
        guard cursor > start, cursor > number.sent?.end ?? 0,
            let anchor = self.table[stream].anchors.last(where: { $0.end == cursor })
        else { return true }
        self.rememberedFleet.numbers[stream]?.sent = anchor
        self.changes.insert(stream)
        do throws(FileSystemError) {
            try self.writeAhead(now)
            return true
        } catch {
            self.rememberedFleet.numbers[stream] = number
            self.table[stream].cursor = start
            self.table[stream].replaceAnchors(self.table[stream].anchors.filter { $0.end <= start })
            self.retryAfterScan(stream)
            return false
        }
    }

    private mutating func retryAfterScan(_ stream: StreamKey) {
        self.table[stream].isFaulty = true
        self.queues.faulty.append(stream)
    }

    /// Handles a fleet's receiver's position.
    ///
    /// Where it holds other bytes under the content's number, the content gets the next number, at all receivers.
    mutating func positionedInFleet(
        _ stream: StreamKey, _ number: ContentNumber, at offset: Int, _ proof: StreamProof, _ doesAgree: Bool
    ) -> AnswerOutcome {
        self.endRest(stream)
        guard doesAgree else {
            if self.table[stream].walkCount == 0 { self.tellDifference(stream, at: offset) }
            return self.renumber(stream, heldBelow: self.rememberedFleet.heldByteCount(of: number))
        }
        self.begin(stream, incarnation: number.number, offset: offset, proof)
        if offset > number.sent?.end ?? 0, let digest = proof.digest {
            self.rememberedFleet.numbers[stream]?.sent = Anchor(end: offset, digest: digest)
        }
        // Bytes that the fleet has stored in this stream are skipped in any case.
        let isClaimed = self.rememberedFleet.claims[stream] != nil
        let held = self.rememberedFleet.heldByteCount(of: number)
        let isEmpty = offset == 0 && !isClaimed
        self.table[stream].heldBelow = isEmpty ? max(held, self.earlierByteCount(of: stream)) : 0
        return .goOn
    }

    /// Gives a content the next number, because the stream that has its number cannot take its bytes.
    ///
    /// - Parameter heldBelow: how many of the first bytes the fleet holds in sealed streams of lower numbers.
    mutating func renumber(_ stream: StreamKey, heldBelow: Int) -> AnswerOutcome {
        let number = (self.rememberedFleet.numbers[stream]?.number ?? self.table[stream].streamIncarnation) + 1
        var sent: Anchor?
        if heldBelow > 0 {
            guard let anchor = self.anchor(of: stream, below: heldBelow, inStream: number) else {
                guard self.table.contains(stream) else { return .done }
                // Another number without these bytes would bring them twice.
                self.table[stream].isPositioned = false
                self.table[stream].isAsking = true
                return .postponed
            }
            sent = anchor
        }
        self.dropOffset(stream)
        self.rememberedFleet.before[stream] = nil
        self.table[stream].walk = nil
        self.table[stream].streamIncarnation = number
        self.setNumber(of: stream, to: number, heldBelow: sent)
        return self.walkOn(stream)
    }

    /// What proves a file's bytes below an offset in its stream of a number; `nil` if they cannot be read now.
    private mutating func anchor(of stream: StreamKey, below offset: Int, inStream number: Int) -> Anchor? {
        guard let id = self.streamID(of: self.table[stream], incarnation: number),
            case .opened(let descriptor) = self.open(stream)
        else { return nil }
        do throws(FileSystemError) {
            let end = StreamOffset(UInt64(offset))
            let tail = try self.lastBytes(descriptor, below: offset)
            guard tail.count == StreamProof.byteCount(at: end) else { return nil }
            return StreamProof(of: id, at: end, tail: tail).digest.map { Anchor(end: offset, digest: $0) }
        } catch {
            self.readFailed(stream, error)
            return nil
        }
    }

    // MARK: Contents that were cut

    /// Keeps the entry of a numbered content that is gone, until the file's next content has one.
    mutating func awaitSuccessor(_ key: StreamKey) {
        let identity = self.table[key].identity
        guard self.rememberedFleet.numbers[key] != nil, self.table[key].reach == .gone,
            let present = self.table.key(of: identity), !self.table[present].isIdentified
        else { return }
        self.table[key].isAwaitingSuccessor = true
        self.rememberedFleet.predecessors[identity, default: []].append(key)
    }

    /// Lets a file's former contents end, once the present one has an id or the file is gone.
    mutating func releasePredecessors(of identity: FileIdentity) {
        guard !self.rememberedFleet.predecessors.isEmpty else { return }
        if let present = self.table.key(of: identity), !self.table[present].isIdentified { return }
        for key in self.rememberedFleet.predecessors.removeValue(forKey: identity) ?? [] {
            guard self.table.contains(key), self.table[key].isAwaitingSuccessor else { continue }
            self.table[key].isAwaitingSuccessor = false
            self.rememberedFleet.released.append(key)
            self.enqueue(key)
        }
    }

    /// Forgets former contents of which no receiver holds anything.
    mutating func settleReleased() {
        guard !self.rememberedFleet.released.isEmpty else { return }
        let keys = self.rememberedFleet.released
        self.rememberedFleet.released = []
        for key in keys where self.table.contains(key) { self.forgetUnheld(key) }
    }
}
