package import WaybillProtocol
internal import WaybillSystem

/// Continues at another receiver of a fleet from what the fleet has stored.
///
/// - SeeAlso: `Protocol/protocol.md`, section 20.
extension Tail {
    /// The id of the fleet that is remembered; `nil` before the first `READY` of one.
    package var fleet: String? { self.rememberedFleet.id }

    /// Whether the present receiver belongs to a fleet.
    package var isInFleet: Bool { self.rememberedFleet.receiver != nil }

    /// Whether the receiver holds something of which it has not said that it is stored; never without a fleet.
    package var isAwaitingStorage: Bool { !self.rememberedFleet.awaited.isEmpty }

    /// What the fleet has stored of a stream, for tests.
    func storedOffset(of stream: StreamKey) -> StoredOffset? { self.rememberedFleet.offsets[stream] }

    /// Takes what an entry of the registry has: the content's number, and what is stored if it is of the remembered fleet.
    mutating func restoreInFleet(_ key: StreamKey, _ entry: RegistryEntry) {
        if let number = entry.number { self.rememberedFleet.numbers[key] = number }
        if let stored = entry.stored, stored.fleet == self.rememberedFleet.ordinal {
            self.rememberedFleet.offsets[key] = stored
        }
        if let before = entry.before, before.fleet == self.rememberedFleet.ordinal {
            self.rememberedFleet.before[key] = before
        }
        self.number(key)
        if !self.restInFleet(key) { self.askBeforeFleet(key) }
    }

    /// Prepares a file of which the present receiver is not known to hold anything: one that is stored to its end, and
    /// that may still grow, is not asked for.
    ///
    /// - Returns: whether it rests until there is more of it.
    mutating func restInFleet(_ key: StreamKey) -> Bool {
        guard self.isInFleet, let stored = self.rememberedFleet.offsets[key], self.table[key].receiver == 0,
            self.table[key].reach != .gone, self.table[key].isIdentified
        else { return false }
        guard self.isAsked(key, as: stored), self.table[key].mayGrow, stored.offset == self.table[key].byteCount else {
            return false
        }
        self.table[key].acked = stored.offset
        self.table[key].cursor = stored.offset
        self.table[key].replaceAnchors([Anchor(end: stored.offset, digest: stored.digest)])
        self.enqueueProbe(key)
        return true
    }

    /// Ends the rest of a file that no receiver is known to hold: the present one has answered.
    mutating func endRest(_ key: StreamKey) {
        guard self.table[key].receiver == 0, self.table[key].acked > 0 else { return }
        self.table[key].acked = 0
        self.table[key].cursor = 0
        self.table[key].replaceAnchors([])
    }

    private func isAsked(_ key: StreamKey, as stored: StoredOffset) -> Bool {
        let file = self.table[key]
        return (file.walk?.asked ?? file.streamIncarnation) == stored.incarnation
    }

    /// Where a receiver was met that comes first, whatever the order: one that holds something from before there was a
    /// fleet and has not said what that has of it, for at another one all of that would be shipped again; or one that has
    /// to seal segments that wait.
    package var addressToAskFirst: String? { self.unsaidAddress ?? self.awaitedAddress }

    private var unsaidAddress: String? {
        let receivers = self.receivers.aloneBefore.map { (ordinal: $0.ordinal, address: $0.address) }
        guard self.fleet != nil, !receivers.isEmpty else { return nil }
        var holders: Set<Int> = []
        for key in self.table.keys where self.rememberedFleet.offsets[key] == nil {
            let file = self.table[key]
            if let held = file.held { holders.insert(held.receiver) }
            for other in file.others { holders.insert(other.receiver) }
        }
        for entry in self.unfoundBeforeFleet { holders.formUnion(entry.held.map(\.receiver)) }
        return receivers.first { holders.contains($0.ordinal) }?.address
    }

    /// Asks a receiver that joined the fleet about a file of which it holds something, even if there is no more to send.
    mutating func askBeforeFleet(_ key: StreamKey) {
        guard self.isInFleet, let ordinal = self.receivers.current, self.receivers[ordinal]?.isOfFleet == false,
            self.rememberedFleet.offsets[key] == nil, self.table[key].receiver == ordinal, self.table[key].acked > 0,
            self.table[key].reach != .gone
        else { return }
        self.rememberedFleet.unsaid.insert(key)
        self.table[key].isAsking = true
        self.enqueue(key)
    }

    /// Remembers that the present receiver has said what its fleet has, once it has of everything.
    mutating func settleIfSaid() {
        guard self.isInFleet, self.rememberedFleet.unsaid.isEmpty, let current = self.receivers.current,
            self.receivers[current]?.isOfFleet == false
        else { return }
        let isUnfound = self.unfoundBeforeFleet.contains { $0.held.contains { $0.receiver == current } }
        if !isUnfound { self.receivers.settle(ofFleet: true) }
    }

    /// Entries of the registry whose files were not found again since the start, and of which no fleet has said anything.
    private var unfoundBeforeFleet: [RegistryEntry] {
        let entries = self.former.foreign + Array(self.former.segments.values)
        return entries.filter { entry in
            entry.state == .open && entry.stored == nil && !self.former.isFrozen(entry)
                && self.sources.contains { $0.name == entry.source }
        }
    }

    /// What `OPEN` says about bytes that the fleet has, and that the present receiver is not known to hold.
    ///
    /// The file's bytes are compared first: if they are others, the file was rewritten, and its stream may be gone after
    /// this call. The number of a foreign file's content is durable when this returns.
    ///
    /// - Returns: `nil` if the stream is not to be opened now.
    package mutating func storedClaim(_ stream: StreamKey, _ now: TailTime) -> OpenClaim? {
        guard self.isInFleet, self.table.contains(stream), self.table[stream].isIdentified,
            self.table[stream].reach != .gone
        else { return OpenClaim.none }
        guard self.confirmNumber(stream, now) else { return nil }
        return self.storedClaim(stream)
    }

    private mutating func storedClaim(_ stream: StreamKey) -> OpenClaim {
        guard let stored = self.rememberedFleet.offsets[stream] else { return .none }
        self.rememberedFleet.claims[stream] = nil
        let known = self.table[stream].receiver > 0 ? self.table[stream].acked : 0
        guard stored.offset > known, self.isAsked(stream, as: stored),
            case .opened(let descriptor) = self.open(stream)
        else { return .none }
        do throws(FileSystemError) {
            let anchor = Anchor(end: stored.offset, digest: stored.digest)
            guard try self.holds(descriptor, anchor, of: self.id(of: stream)) else {
                self.dropStored(stream)
                return .none
            }
        } catch {
            self.readFailed(stream, error)
            return .none
        }
        self.rememberedFleet.claims[stream] = stored.offset
        return OpenClaim(from: StreamOffset(UInt64(stored.offset)), by: stored.by, proof: stored.digest)
    }

    /// The file has other bytes than the fleet: a foreign one was rewritten.
    private mutating func dropStored(_ stream: StreamKey) {
        self.changes.insert(stream)
        if !self.table[stream].isSegment { self.truncated(stream) }
        self.rememberedFleet.offsets[stream] = nil
        self.rememberedFleet.claims[stream] = nil
    }

    /// Skips what the fleet has and the receiver has not, if the last `OPEN` spoke of it; first what is before the fleet.
    ///
    /// - Returns: `nil` if there is nothing to skip.
    mutating func skipElsewhere(
        _ stream: StreamKey, _ descriptor: FileID, _ now: TailTime
    ) throws(FileSystemError) -> TailRead? {
        guard let from = self.rememberedFleet.claims[stream] else { return nil }
        let before = self.bytesBefore(stream)
        // A holder that has forgotten its bytes gets them again.
        guard self.table[stream].heldBelow == 0, let stored = self.rememberedFleet.offsets[stream],
            stored.offset == from, from > self.table[stream].cursor,
            before.map({ $0.holder != self.receivers.current }) ?? true
        else {
            self.rememberedFleet.claims[stream] = nil
            return nil
        }
        if before != nil { try self.rememberSkip(stream, now) }
        let end = min(before?.offset ?? from, from)
        let range = try self.skippedRange(
            descriptor, from: self.table[stream].cursor, to: end, before == nil ? .elsewhere : .before,
            holder: before?.name)
        if end == from {
            self.rememberedFleet.claims[stream] = nil
            let proof = StreamProof(of: self.id(of: stream), at: range.end, tail: range.tail ?? [])
            guard proof.digest == stored.digest else {
                self.dropStored(stream)
                return .nothing
            }
        }
        self.passed(stream, range)
        return .skip(range)
    }

    /// Records that the fleet has stored the stream up to `offset` (`STORED`), with the digest of the file's own bytes.
    ///
    /// - Returns: how many bytes the fleet was not known to have.
    @discardableResult
    package mutating func stored(_ stream: StreamKey, upTo offset: Int) -> Int {
        let isFirst = self.rememberedFleet.unsaid.remove(stream) != nil
        if isFirst { self.settleIfSaid() }
        guard let by = self.rememberedFleet.receiver, self.table.contains(stream) else { return 0 }
        let file = self.table[stream]
        if offset >= file.acked { self.rememberedFleet.awaited.remove(stream) }
        guard file.isIdentified, file.reach != .gone, file.walk == nil, file.isPositioned, offset > 0,
            offset <= file.acked
        else { return 0 }
        let former = self.storedByteCount(of: stream)
        guard former < offset, let digest = self.digest(of: stream, below: offset),
            self.noteBefore(stream, upTo: offset, isFirst: isFirst)
        else { return 0 }
        self.rememberedFleet.offsets[stream] = StoredOffset(
            fleet: self.rememberedFleet.ordinal, incarnation: file.streamIncarnation, offset: offset, digest: digest,
            by: by)
        self.changes.insert(stream)
        return offset - former
    }

    /// How many bytes of a file the fleet holds of which it has not said that they are stored; none without a fleet.
    package func unstoredByteCount(of stream: StreamKey) -> Int {
        guard self.isInFleet, self.table.contains(stream) else { return 0 }
        return max(0, self.table[stream].acked - self.storedByteCount(of: stream))
    }

    /// How many bytes of a file's present stream the fleet is known to have stored.
    private func storedByteCount(of stream: StreamKey) -> Int {
        guard let known = self.rememberedFleet.offsets[stream],
            known.incarnation == self.table[stream].streamIncarnation
        else { return 0 }
        return known.offset
    }

    /// What of a log's first bytes the fleet has stored; `nil` if nothing, and without a fleet.
    func storedBytes(of stream: StreamKey, upTo offset: Int) -> FleetBytes? {
        guard self.isInFleet else { return nil }
        let held = self.rememberedFleet.heldByteCount(of: self.rememberedFleet.numbers[stream])
        let byteCount = min(offset, max(held, self.storedByteCount(of: stream)))
        return byteCount > 0 ? FleetBytes(fleet: self.rememberedFleet.ordinal, byteCount: byteCount) : nil
    }

    /// The digest of what was sent below an offset; `nil` when the file may have other bytes by now.
    private mutating func digest(of stream: StreamKey, below offset: Int) -> ProofDigest? {
        if let sent = self.table[stream].anchors.first(where: { $0.end == offset }) { return sent.digest }
        guard offset <= self.table[stream].byteCount, case .opened(let descriptor) = self.open(stream) else {
            return nil
        }
        do throws(FileSystemError) {
            // Bytes after the offset are those that were sent, so the ones before it are, too.
            guard try self.isUnchanged(stream, descriptor) else { return nil }
            let tail = try self.lastBytes(descriptor, below: offset)
            guard tail.count == StreamProof.byteCount(at: StreamOffset(UInt64(offset))) else { return nil }
            return StreamProof(of: self.id(of: stream), at: StreamOffset(UInt64(offset)), tail: tail).digest
        } catch {
            self.readFailed(stream, error)
            return nil
        }
    }

    /// Notes that the receiver holds a stream further than it has said to be stored.
    mutating func awaitStorage(_ stream: StreamKey) {
        guard self.isInFleet, self.table[stream].acked > 0 else { return }
        self.rememberedFleet.awaited.insert(stream)
    }
}
